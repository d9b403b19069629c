import StorePlatform

/// Every bound of this module.
enum SharingLimits {
    /// The distance of the places where a file is searched for holes.
    static let holeSearchBytes = 1 << 20

    // MARK: Locks of the lock file

    /// The first pause of a thread that waits for a lock; it doubles up to ``longestLockPause``.
    static let firstLockPause = Duration.microseconds(500)
    /// The longest pause between two attempts, and so the longest delay until a released lock or a cancellation is
    /// noticed.
    static let longestLockPause = Duration.milliseconds(10)
    /// How long a process waits for another that creates the table of holders; then it works without the table.
    static let tableWait = Duration.seconds(1)

    // MARK: The lease

    /// How long to wait for a lease while the store is switched to a new key.
    static let leaseWait = Duration.seconds(30)
    /// The first pause of a process that waits for a lease; it doubles up to the longest one.
    static let firstLeasePause = Duration.microseconds(100)
    /// The longest pause of a process that wants a shared lease.
    static let longestSharedPause = Duration.milliseconds(10)
    /// The longest pause of a process that wants the exclusive lease, and so the longest delay until the last release
    /// is noticed.
    static let longestExclusivePause = Duration.milliseconds(1)

    // MARK: The writer queue

    /// How long newcomers may overtake waiting writers.
    static let overtakingTime = Duration.milliseconds(2)
    /// How long a writer keeps the write turn that was handed to it while others wait. A process that begins to write
    /// first reads again what others wrote, which takes a part of each hold.
    static let holdTime = Duration.milliseconds(4)
    /// How often the first waiting writer checks whether the holder is alive, in nanoseconds.
    static let holderLookNanoseconds = Duration.milliseconds(20).wholeNanoseconds
    /// How often the last waiting writers check it.
    static let seldomHolderLookNanoseconds = Duration.milliseconds(250).wholeNanoseconds
    /// How long a writer that was woken and came too late is not woken again, unless the turn is offered to it.
    static let quietNanoseconds = Duration.microseconds(500).wholeNanoseconds

    // MARK: Replaced databases

    /// How much of a replaced database is overwritten: the largest page size.
    static let invalidatedBytes = 65_536
    /// The first pause before a replaced file that is still locked is tried again; it doubles up to the longest one.
    static let firstRemovedFilePause = Duration.milliseconds(10)
    /// The last pause. The process that replaced the file frees its disk space first, which takes seconds if it is large.
    static let longestRemovedFilePause = Duration.seconds(60)
}
