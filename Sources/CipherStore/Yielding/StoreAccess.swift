import CipherDatabase
import StoreSharing

/// An admitted access of a shared store, with the pool that it uses, which stays open until the access ends.
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
