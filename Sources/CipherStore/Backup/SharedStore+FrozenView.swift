import CipherDatabase

extension SharedStore {
    /// Keeps the present moment of the store, page by page, while everybody goes on. The lease is the store's own.
    package func makeFrozenView() throws -> FrozenView { try pool.makeFrozenView() }
}
