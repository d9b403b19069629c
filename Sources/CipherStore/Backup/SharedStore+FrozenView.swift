import CipherDatabase

extension SharedStore {
    /// Keeps the present moment of the store, page by page, while everybody goes on.
    ///
    /// The view is no access: a switch to a new key does not wait for its end, but is refused as long as it is open.
    package func makeFrozenView(_ watch: LockWaitWatch? = nil) throws -> FrozenView {
        try access { try $0.makeFrozenView(watch) }
    }
}
