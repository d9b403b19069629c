import CipherDatabase
import StoreSharing

/// An access of a shared store that was let in: the pool that it uses, which stays open until it has ended.
struct StoreAccess: Sendable {
    let pool: DatabasePool
    /// The lease of an access during a suspension, when the store itself has none.
    let lease: Lease?

    @inline(__always)
    init(_ pool: DatabasePool, lease: Lease? = nil) {
        self.pool = pool
        self.lease = lease
    }
}
