import CPlatform

/// Tells whether this process was made by a fork behind some moment.
///
/// A child shares the parent's open files, and with them their locks, but none of its threads and none of SQLite's POSIX
/// locks: a database that was opened before the fork must not be used in it.
package enum ForkWatch {
    /// Begins to count.
    package static func begin() { cplatform_fork_watch() }

    /// The number of forks between the first process and this one: one relaxed load.
    @inline(__always)
    package static var count: UInt32 { cplatform_fork_count() }
}
