import CipherDatabase

extension SharedStore {
    /// Keeps the present state of the store, page by page, while all processes continue.
    ///
    /// The view is not an access: a switch to a new key does not wait for its end, but is refused while it is open.
    package func makePageSnapshot(_ watch: LockWaitWatch? = nil) throws -> PageSnapshot {
        try access { try $0.makePageSnapshot(watch) }
    }
}
