import CipherStore
import StorePlatform
import StoreSharing

/// A lease of a replica: the sign that it has the store open. A switch to a new key waits for its end, as for that of every
/// lease.
///
/// Unlike the lease of a store it can exclude the other ones. That succeeds after all stores have yielded: then nothing is
/// committed until this lease is released.
final class ReplicaLease: Sendable {
    private let file: FileDescriptor
    private let row: HolderRow?

    private init(_ file: consuming FileDescriptor, _ row: HolderRow?) {
        self.file = file
        self.row = row
    }

    deinit { release() }

    /// Acquires a lease.
    ///
    /// - Throws: `StoreError` `storeInUse` while the store is switched to a new key for too long; `CancellationError`;
    ///   `SystemError` where the lock file cannot be written.
    static func take(for paths: StorePaths, isCancelled: @escaping () -> Bool) throws -> ReplicaLease {
        var polling = Polling(
            first: ReplicationLimits.lockPause, longest: ReplicationLimits.yieldPause,
            until: .now + ReplicationLimits.leaseWait, isCancelled: isCancelled)
        while true {
            if let lease = try attempt(for: paths) { return lease }
            guard try polling.next() else { throw StoreError.leaseTimeout(paths) }
        }
    }

    private static func attempt(for paths: StorePaths) throws -> ReplicaLease? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        // Newcomers wait while the intent byte is locked. The lock file is made where it is missing.
        guard try !lockFile.isHeld(.intent, against: .shared) else { return nil }
        let file = try FileDescriptor(opening: paths.lock, .readWrite, followsLinks: false)
        guard try file.tryLock(LockByte.lease.range, .shared),
            try Files.identity(paths.lock) == file.status().identity
        else { return nil }
        // The row only informs others.
        let row = try? HolderRow.take(path: paths.lock, label: "replicate", roles: [.lease, .readOnly])
        return ReplicaLease(file, row)
    }

    /// Excludes all other leases.
    ///
    /// - Returns: Whether there is no other one.
    func excludeOthers() throws -> Bool { try file.tryLock(LockByte.lease.range, .exclusive) }

    /// Releases the lease. A second call does nothing.
    func release() {
        try? file.unlock(LockByte.lease.range)
        row?.release()
    }
}
