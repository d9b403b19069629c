/// Every bound of this module.
enum StoreLimits {
    /// How long an opening waits for a switch to a new key to end: for its lease, or for the process that completes it.
    static let switchWait = Duration.seconds(30)
    /// How long a process that is about to be stopped waits for its stores to release their locks.
    static let stopWait = Duration.seconds(2)
    /// How long a shared store waits for SQLite's locks unless its configuration says otherwise, in seconds.
    static let busyWait = 5.0
    /// How often a process that yielded the store checks whether the requesting process is alive.
    static let requestLookTime = Duration.milliseconds(5)
    /// How often a process polls for requests where it cannot be woken for them.
    static let requestPollTime = Duration.milliseconds(50)
    /// How often a process that is woken checks whether the lock file is still the one at its path.
    static let lockFileLookTime = Duration.seconds(5)
    /// How often an observer of notifications checks whether its file is still the one at its path.
    static let notificationLookTime = Duration.seconds(5)
    /// How often it looks for notifications where it cannot be woken.
    static let notificationPollTime = Duration.milliseconds(50)
    /// The longest manifest or sidecar of a backup, in bytes.
    static let manifestBytes = 64 * 1024
    /// The most names of a staging directory: this library makes about ten.
    static let stagedFiles = 100
    /// The names of copies of a damaged WAL that are tried where others are taken.
    static let triedNames = 20
    /// The bytes of a WAL that are copied at once.
    static let copiedBytes = 1 << 20
    /// The committed frames of a WAL of which one must be authentic: else it is the WAL of another database.
    static let originFrames: UInt32 = 4096
    /// The bytes that are authenticated to find the number of a page whose frame has lost it.
    static let triedBytes = 1 << 29
    /// How long a restoration waits for changes of keys, openings and rotations in progress.
    static let restorationWait = Duration.seconds(10)
}
