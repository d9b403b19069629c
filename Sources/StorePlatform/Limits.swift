/// Every bound of this module.
package enum Limits {
    /// Mount points that are searched for the name of a filesystem, as bytes of the system's table.
    static let mountTableBytes = 4 * 1024 * 1024
    /// The system's table of locks, in bytes; one lock takes about 100.
    static let lockTableBytes = 16 * 1024 * 1024
    /// What the system says about one user, in bytes.
    static let userEntryBytes = 64 * 1024
    /// Groups of one user that are looked at.
    static let groupsOfUser = 4096
    /// What the system says about one descriptor and its locks, in bytes.
    static let descriptorInfoBytes = 1024 * 1024
    /// Length of a line typed at a terminal with its end: the room that Linux has for one
    /// (<https://man7.org/linux/man-pages/man3/termios.3.html>, "canonical mode").
    package static let typedLineBytes = 4096
    /// How often a prompt looks, each millisecond, whether the stop that was asked for is over.
    static let stopLooks = 10_000
    /// The first and the longest pause between two looks whether a program has ended.
    static let firstExitPause = Duration.microseconds(200)
    static let longestExitPause = Duration.milliseconds(20)
    /// After this time a temporary file is abandoned, whatever its process does: writing takes milliseconds.
    static let abandonedFileAge = Duration.seconds(600)
    /// After this time a temporary file is abandoned if its process is gone. It is not zero because the process may live
    /// where this one cannot see it, in another container that shares the folder.
    static let orphanedFileAge = Duration.seconds(60)
    /// How much of a large file's room is given back to the filesystem at a time, and the pause after it, in which others
    /// get to its journal.
    static let bytesFreedAtOnce = 8 * 1024 * 1024
    static let pauseOfFreeing: UInt32 = 2000
}
