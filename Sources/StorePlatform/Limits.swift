/// Bounds of the platform layer, in one place.
package enum Limits {
    /// The first pause of a thread that waits for a lock; it doubles up to ``longestLockPause``.
    package static let firstLockPause = Duration.microseconds(500)
    /// The longest pause between two attempts, and so how late a freed lock or a cancellation may be noticed.
    package static let longestLockPause = Duration.milliseconds(10)
    /// Mount points that are searched for the name of a filesystem, as bytes of the system's table.
    package static let mountTableBytes = 4 * 1024 * 1024
    /// The system's table of locks, in bytes; 100 bytes tell of one lock.
    package static let lockTableBytes = 16 * 1024 * 1024
    /// What the system tells of one user, in bytes.
    static let userEntryBytes = 64 * 1024
    /// Groups of one user that are looked at.
    static let groupsOfUser = 4096
    /// What the system tells of one descriptor and its locks, in bytes.
    static let descriptorInfoBytes = 1024 * 1024
    /// Length of a line typed at a terminal with its end: the room that Linux has for one
    /// (<https://man7.org/linux/man-pages/man3/termios.3.html>, "canonical mode").
    package static let typedLineBytes = 4096
    /// How often a prompt looks, each millisecond, whether the stop that was asked for is over.
    static let stopLooks = 10_000
    /// How long a process waits for another that makes the table of holders; then it does without.
    package static let tableWait = Duration.seconds(1)
    /// How long those who wait to write may be overtaken by newcomers.
    package static let overtakingTime = Duration.milliseconds(2)
    /// How long one to whom the turn to write was handed keeps it while others wait: a process that comes anew reads again
    /// what others wrote, and that takes a part of each turn.
    package static let turnLength = Duration.milliseconds(4)
    /// How often the first of those who wait to write looks whether the one who writes is alive.
    package static let turnLookTime = Duration.milliseconds(20)
    /// How often those behind it do.
    package static let seldomTurnLookTime = Duration.milliseconds(250)
    /// How long one who was woken and came too late is not woken again, unless it is its turn.
    package static let turnQuietTime = Duration.microseconds(500)

    /// How much of a large file's room is given back to the filesystem at a time, and the pause behind it, in which others
    /// come to its journal.
    static let bytesFreedAtOnce = 8 * 1024 * 1024
    static let pauseOfFreeing: UInt32 = 2000
    /// How much of a database that was replaced is written over: the largest page there is.
    static let invalidatedBytes = 65_536

    static let turnLookNanoseconds = turnLookTime.wholeNanoseconds
    static let seldomTurnLookNanoseconds = seldomTurnLookTime.wholeNanoseconds
    static let turnQuietNanoseconds = turnQuietTime.wholeNanoseconds
}

extension Duration {
    /// Nanoseconds from 0 to what a UInt64 takes.
    package var wholeNanoseconds: UInt64 {
        let (seconds, attoseconds) = components
        guard seconds >= 0, attoseconds >= 0 else { return 0 }
        let (product, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
        return overflow ? .max : product.addingReportingOverflow(UInt64(attoseconds / 1_000_000_000)).partialValue
    }
}
