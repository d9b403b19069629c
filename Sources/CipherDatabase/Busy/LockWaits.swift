/// How a connection waits for locks: for the write slot and for those of SQLite.
final class LockWaits {
    /// The busy mode in force: that of the configuration, unless a `PRAGMA busy_timeout` has changed it.
    var busyMode: Database.BusyMode
    /// How the connection waits for locks at the moment.
    var lockWait = LockWait.never
    /// Until when the statement under way may wait for SQLite's locks, after it has waited for the write slot.
    @exclusivity(unchecked) var lockDeadline: ContinuousClock.Instant? {
        didSet { hasLockDeadline = lockDeadline != nil }
    }
    /// Whether there is one. Comparing the time itself with nil takes 200 instructions: its size is known at run time.
    @exclusivity(unchecked) private(set) var hasLockDeadline = false
    /// Whether the transaction that begins must not wait for locks; a thread of tasks runs it.
    @exclusivity(unchecked) var refusesToWait = false
    /// The events that end a wait for the write lock early, and the report of a long wait.
    @exclusivity(unchecked) var watchedWait: WatchedLockWait?

    init(busyMode: Database.BusyMode) { self.busyMode = busyMode }
}
