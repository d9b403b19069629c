import StorePlatform

/// Every bound of this module.
enum Limits {
    // MARK: Locks of the lock file

    /// The first pause of a thread that waits for a lock; it doubles up to ``longestLockPause``.
    static let firstLockPause = Duration.microseconds(500)
    /// The longest pause between two attempts, and so how late a freed lock or a cancellation may be noticed.
    static let longestLockPause = Duration.milliseconds(10)
    /// How long a process waits for another that makes the table of holders; then it does without.
    static let tableWait = Duration.seconds(1)

    // MARK: The lease

    /// How long a lease is waited for while the store is switched to a new key.
    static let leaseWait = Duration.seconds(30)
    /// The first pause of a process that waits for a lease; it doubles up to the longest one.
    static let firstLeasePause = Duration.microseconds(100)
    /// The longest pause of one that wants to share the lease.
    static let longestSharedPause = Duration.milliseconds(10)
    /// The longest pause of one that wants the lease alone, and so how late the last release may be noticed.
    static let longestExclusivePause = Duration.milliseconds(1)

    // MARK: The writer queue

    /// How long waiting writers may be overtaken by newcomers.
    static let overtakingTime = Duration.milliseconds(2)
    /// How long a writer that the write slot was handed to keeps it while others wait: a process that begins to write reads
    /// again what others wrote, which takes a part of each hold.
    static let holdTime = Duration.milliseconds(4)
    /// How often the first waiting writer looks whether the holder is alive, in nanoseconds.
    static let holderLookNanoseconds = Duration.milliseconds(20).wholeNanoseconds
    /// How often the last ones do.
    static let seldomHolderLookNanoseconds = Duration.milliseconds(250).wholeNanoseconds
    /// How long a writer that was woken and came too late is not woken again, unless the slot is offered to it.
    static let quietNanoseconds = Duration.microseconds(500).wholeNanoseconds

    // MARK: Replaced databases

    /// How much of a database that was replaced is overwritten: the largest page there is.
    static let invalidatedBytes = 65_536
}
