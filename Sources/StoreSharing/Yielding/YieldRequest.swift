import StorePlatform
import Synchronization

/// Asks all users of a store to yield its file for a moment, for a switch to a new key.
///
/// Each open shared store that notices it admits no new access, waits for the running accesses, closes its connections,
/// releases its lease and waits until the request has ended. Then it opens the file that is at the path and resumes.
/// The request is a locked byte, so it ends with the process that made it.
package final class YieldRequest: Sendable {
    private let lockFile: LockFile
    private let intent: HeldLock
    private let notifier: YieldNotifier

    private init(_ lockFile: LockFile, _ intent: HeldLock, _ notifier: YieldNotifier) {
        self.lockFile = lockFile
        self.intent = intent
        self.notifier = notifier
    }

    deinit { end() }

    /// Locks the byte `intent` and wakes the users of the store.
    ///
    /// - Parameters:
    ///   - paths: The files of the store.
    ///   - insists: Whether the users of the store end long reads and snapshots with `keyRotated`, and roll back open
    ///     transactions.
    /// - Returns: nil when another process has already requested it.
    /// - Throws: `SystemError` when the lock file cannot be opened for writing.
    package static func ask(_ paths: StorePaths, insists: Bool = false) throws -> YieldRequest? {
        let lockFile = try LockFile(path: paths.lock, likeFile: paths.database)
        guard let intent = try lockFile.tryLock(.intent, .exclusive) else { return nil }
        let notifier = try YieldNotifier(path: paths.lock)
        notifier.setInsists(insists)
        notifier.notify()
        return YieldRequest(lockFile, intent, notifier)
    }

    /// Waits until no process has a lease, and acquires the exclusive lease.
    ///
    /// It proves only that all users of leases have closed their connections: a connection of another program shows by
    /// SQLite's own lock bytes.
    ///
    /// - Parameters:
    ///   - deadline: When to give up.
    ///   - isCancelled: Called between two attempts.
    /// - Returns: nil at the deadline.
    /// - Throws: `CancellationError` when the wait was cancelled, `SystemError` when the lock file cannot be locked.
    package func exclusiveLease(
        until deadline: ContinuousClock.Instant, isCancelled: (() -> Bool)? = nil
    ) throws -> HeldLock? {
        var polling = Polling(
            first: SharingLimits.firstLeasePause, longest: SharingLimits.longestExclusivePause, until: deadline,
            isCancelled: isCancelled)
        while true {
            if let lease = try lockFile.tryLock(.lease, .exclusive) { return lease }
            guard try polling.next() else { return nil }
        }
    }

    /// Lets all users resume, whether the store was switched or not. A second call does nothing.
    ///
    /// Release the exclusive lease first: the woken processes try to acquire theirs at once.
    package func end() {
        intent.release()
        notifier.notify()
    }
}
