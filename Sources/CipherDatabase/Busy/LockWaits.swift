import Foundation
import StorePlatform
import StoreSharing

/// How a connection waits for locks at the moment, according to its busy mode.
enum LockWait {
    case never
    case upTo(Duration)
    case asking(Database.BusyCallback)
}

/// The callbacks of a wait for the write lock: one may end it, one is called when it is long.
package struct LockWaitWatch: Sendable {
    /// Called repeatedly during the wait; true ends it with `CancellationError`.
    let isCancelled: @Sendable () -> Bool
    /// Called once, on the waiting thread, when the wait has lasted two seconds: with the process that holds the lock,
    /// or nil where the system does not show it.
    let onLongWait: (@Sendable (StoreHolder?) -> Void)?

    package init(isCancelled: @escaping @Sendable () -> Bool, onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil) {
        self.isCancelled = isCancelled
        self.onLongWait = onLongWait
    }
}

/// One wait for the write lock under a ``LockWaitWatch``: first for the write turn, then for SQLite's lock.
final class WatchedLockWait {
    private let watch: LockWaitWatch
    private let path: String
    private let reportTime = ContinuousClock.now + Limits.waitBeforeReport
    private var hasReported = false

    init(_ watch: LockWaitWatch, path: String) {
        self.watch = watch
        self.path = path
    }

    /// Whether the wait must end; reports the wait once it is long.
    func isOver() -> Bool {
        if watch.isCancelled() { return true }
        if !hasReported, ContinuousClock.now >= reportTime {
            hasReported = true
            watch.onLongWait?(blocker)
        }
        return false
    }

    /// Another process that holds the lock. This process may hold the write turn and wait for SQLite's lock.
    private var blocker: StoreHolder? {
        guard let holders = try? StoreHolders(of: path) else { return nil }
        let others = holders.filter { $0.process != ProcessInspector.currentProcess }
        return others.first { $0.uses.contains(.writeLock) } ?? others.first { $0.uses.contains(.writeTurn) }
            ?? holders.writer
    }
}

/// How a connection waits for locks: for the write turn and for those of SQLite.
final class LockWaits {
    /// The busy mode in force: that of the configuration, unless a `PRAGMA busy_timeout` has changed it.
    var busyMode: Database.BusyMode
    /// How the connection waits for locks at the moment.
    var lockWait = LockWait.never
    /// Until when the statement under way may wait for SQLite's locks, after it has waited for the write turn.
    @exclusivity(unchecked) var lockDeadline: ContinuousClock.Instant? {
        didSet { hasLockDeadline = lockDeadline != nil }
    }
    /// Whether there is one. Comparing the time itself with nil takes 200 instructions: its size is known at run time.
    @exclusivity(unchecked) private(set) var hasLockDeadline = false
    /// Whether BEGIN fails at once if a lock is taken: a thread of the cooperative pool runs it.
    @exclusivity(unchecked) var refusesToWait = false
    /// The events that end a wait for the write lock early, and the report of a long wait.
    @exclusivity(unchecked) var watchedWait: WatchedLockWait?

    init(busyMode: Database.BusyMode) { self.busyMode = busyMode }
}
