import StorePlatform

/// The sign of a process that has the store open: a shared lock on one byte of the lock file, for as long as it lives.
final class Lease: Sendable {
    private let lock: HeldLock
    /// The place of a reader in the table of holders; a writing connection has its own.
    private let slot: HolderSlot?

    private init(_ lock: HeldLock, _ slot: HolderSlot?) {
        self.lock = lock
        self.slot = slot
    }

    /// Takes a lease; nil where the process may not even read the lock file. SQLite's own locks still tell of it then.
    ///
    /// - Parameters:
    ///   - label: What others are told of a reader, where it may write the lock file; nil tells nothing.
    ///   - deadline: When to give up; nil waits as long as a switch to a new key may take.
    ///   - isCancelled: Asked while it waits; true ends the wait with `CancellationError`.
    static func take(
        for paths: StorePaths, label: String?, readonly: Bool, deadline: ContinuousClock.Instant? = nil,
        isCancelled: (() -> Bool)? = nil
    ) throws -> Lease? {
        do {
            let file = try LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: readonly)
            let lock = try file.lock(
                .lease, .shared, deadline: deadline ?? .now + Limits.leaseWait, isCancelled: isCancelled)
            guard readonly, let label else { return Lease(lock, nil) }
            // Only for others to see: a reader that may not write the file, or finds no room, goes without.
            let slot = try? HolderSlot.take(path: paths.lock, label: label, roles: [.lease, .readOnly])
            return Lease(lock, slot)
        } catch let error as SystemError where readonly && (error.isPermission || error.isNotFound) {
            return nil
        }
    }

    func release() {
        lock.release()
        slot?.release()
    }
}

/// Every bound of this module.
enum Limits {
    /// How long an opening waits for a switch to a new key to end.
    static let leaseWait = Duration.seconds(30)
    /// How long a process that is to stop waits for its stores to give their locks back.
    static let stopWait = Duration.seconds(2)
    /// How long a shared store waits for SQLite's locks unless its configuration says otherwise, in seconds.
    static let busyWait = 5.0
    /// The longest manifest or sidecar of a backup, in bytes.
    static let manifestBytes = 64 * 1024
    /// How long a restoration waits for changes of keys, openings and rotations under way.
    static let restorationWait = Duration.seconds(10)
}
