import Foundation
import StorePlatform
import StoreSharing

extension Database {
    /// The behaviour of a statement while another connection holds the lock it needs.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/busy_handler.html>
    public enum BusyMode: Sendable {
        /// It fails at once with `SQLITE_BUSY`.
        case immediateError
        /// It waits for at most this many seconds, then fails with `SQLITE_BUSY`.
        case timeout(TimeInterval)
        /// It calls a function, which returns whether to try again. The number counts the earlier tries.
        case callback(BusyCallback)
    }

    /// Decides whether to try for a lock again; the number counts the earlier tries.
    public typealias BusyCallback = @Sendable (_ numberOfTries: Int) -> Bool

    /// Installs the waits of the configuration: for the write turn (``acquireWriteTurn(_:sql:)``) and for SQLite's
    /// locks (the busy handler). An interruption, and so a cancellation, ends every wait.
    func installBusyMode() {
        switch waits.busyMode {
        case .immediateError: failWhenBusy()
        case .timeout(let seconds): waitForLocks(seconds: seconds)
        case .callback(let callback):
            waits.lockWait = .asking(callback)
            hooks.isBusy = { [unowned self, handle, gate = gating.gate] tries in
                !waits.refusesToWait && !handle.isInterrupted && !gate.isWanted && callback(tries) && !gate.isWanted
            }
            handle.installBusyHandler(hooks)
        }
    }

    /// Follows `PRAGMA busy_timeout = N`: SQLite has put a wait of its own in the place of the busy handler. That one
    /// knows neither suspensions nor the writer queue, and an interruption does not end it.
    func noteBusyTimeout() {
        // An access that was cancelled or suspended cannot ask: the former mode is installed again.
        if let milliseconds = try? Int.fetchOne(self, sql: "PRAGMA busy_timeout") {
            waits.busyMode = milliseconds > 0 ? .timeout(Double(milliseconds) / 1000) : .immediateError
        }
        installBusyMode()
    }

    /// Makes the connection wait while it is set up. The setup holds locks only for a moment, so it waits for others
    /// even where the configuration would not.
    func installSetUpBusyMode() {
        if case .immediateError = waits.busyMode {
            waitForLocks(seconds: DatabaseLimits.setUpWait)
        } else {
            installBusyMode()
        }
    }

    /// Runs a block in which the connection does not wait for locks.
    func withoutWaiting<T>(_ body: () throws -> T) rethrows -> T {
        failWhenBusy()
        defer { installBusyMode() }
        return try body()
    }

    /// Runs a block in which the connection waits for locks up to a limit, whatever its configuration says.
    func waiting<T>(upTo limit: Duration, _ body: () throws -> T) rethrows -> T {
        waitForLocks(seconds: limit / .seconds(1))
        defer { installBusyMode() }
        return try body()
    }

    private func failWhenBusy() {
        waits.lockWait = .never
        handle.installBusyHandler(nil)
    }

    // SQLite's own timed wait continues when the statement is interrupted.
    private func waitForLocks(seconds: TimeInterval) {
        let limit = Duration.seconds(seconds.isNaN ? 0 : min(max(0, seconds), 1e9))
        waits.lockWait = .upTo(limit)
        var deadline = ContinuousClock.now
        hooks.isBusy = { [unowned self, handle, gate = gating.gate] tries in
            if waits.refusesToWait { return false }
            let now = ContinuousClock.now
            // The wait for the write turn and the one for SQLite's lock are one wait.
            if tries == 0 { deadline = (writing.writeTurn?.isHeld == true ? waits.lockDeadline : nil) ?? now + limit }
            if now >= deadline || handle.isInterrupted || gate.isWanted { return false }
            if let watchedWait = waits.watchedWait, watchedWait.isOver() { return false }
            gate.pause(for: min(BusyPauses.pause(beforeTry: tries), deadline - now) + .microseconds(1))
            return !handle.isInterrupted && !gate.isWanted
        }
        handle.installBusyHandler(hooks)
    }
}

/// How long a wait for a lock pauses between its tries: first briefly, since most locks are held for a moment.
private enum BusyPauses {
    private static let milliseconds: [Int] = [1, 2, 5, 10, 15, 20, 25, 25, 25, 50, 50, 100]

    static func pause(beforeTry tries: Int) -> Duration {
        .milliseconds(milliseconds[min(max(0, tries), milliseconds.count - 1)])
    }
}

extension Database {
    /// Runs a block with a ``LockWaitWatch`` over its waits for the write lock.
    ///
    /// - Throws: `CancellationError` when the watch ended a wait; what `body` throws.
    func watchingLockWaits<T>(_ watch: LockWaitWatch?, _ body: () throws -> T) throws -> T {
        guard let watch else { return try body() }
        waits.watchedWait = WatchedLockWait(watch, path: path)
        defer { waits.watchedWait = nil }
        do {
            return try body()
        } catch let error as DatabaseError {
            let isEndedWait = [.SQLITE_BUSY, .SQLITE_INTERRUPT].contains(error.resultCode)
            throw isEndedWait && watch.isCancelled() ? CancellationError() : error
        }
    }
}

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
    private let reportTime = ContinuousClock.now + DatabaseLimits.waitBeforeReport
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
