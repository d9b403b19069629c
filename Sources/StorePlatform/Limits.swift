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
    /// Length of a line typed at a terminal.
    package static let typedLineBytes = 4096
}
