/// Every bound of this module.
enum Limits {
    /// How long an opening waits for a switch to a new key to end: for its lease, or for who completes the switch.
    static let switchWait = Duration.seconds(30)
    /// How long a process that is to stop waits for its stores to give their locks back.
    static let stopWait = Duration.seconds(2)
    /// How long a shared store waits for SQLite's locks unless its configuration says otherwise, in seconds.
    static let busyWait = 5.0
    /// How often those who gave the store up look whether the one who asked still lives.
    static let requestLookTime = Duration.milliseconds(5)
    /// How often a process looks for requests that cannot be woken for them.
    static let requestPollTime = Duration.milliseconds(50)
    /// How often one that is woken looks whether the lock file is still the one at its path.
    static let lockFileLookTime = Duration.seconds(5)
    /// The longest manifest or sidecar of a backup, in bytes.
    static let manifestBytes = 64 * 1024
    /// How long a restoration waits for changes of keys, openings and rotations under way.
    static let restorationWait = Duration.seconds(10)
}
