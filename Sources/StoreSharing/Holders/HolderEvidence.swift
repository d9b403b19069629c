import StorePlatform

/// The processes that use a store, as the system shows them. Each process that may write the lock file can write any number
/// into its row of the table of holders, so the numbers there are compared with these.
///
/// | shown | to | proves |
/// |---|---|---|
/// | the lock of a row, in `/proc/PID/fdinfo` | root, and the same user | which process holds the row |
/// | SQLite's locks, in `/proc/locks` | all users | that a process has the database open |
/// | the open files, in `/proc/PID/fd` | root, and the same user | that a process has the lock file open |
struct HolderEvidence {
    private let locked: [(process: Int32, ranges: [ClosedRange<Int64>])]
    private let users: Set<Int32>

    init(lockFile path: String) {
        let openings = ProcessInspector.openings(of: path)
        locked = openings.map { ($0.process, $0.lockedRanges) }
        let database = String(path.dropLast("-lock".count))
        let lists = [database, database + "-shm"].map { (try? SystemLocks.posixLocks(on: $0)) ?? nil }
        users = Set(openings.map(\.process)).union(lists.flatMap { $0 ?? [] }.map(\.process))
    }

    /// The process that holds a row.
    ///
    /// - Parameters:
    ///   - number: The number in the row.
    ///   - isOfNamespace: Whether the row names the pid namespace of this process.
    /// - Returns: The process, and whether the system shows it; else the number in the row.
    func process(
        ofRow row: Int, saying number: Int32, isOfNamespace: Bool
    ) -> (process: Int32, isIdentified: Bool) {
        let byte = LockByte.row(row).lowerBound
        // A child made by `fork` has the same open file.
        let owners = locked.filter { $0.ranges.contains { $0.contains(byte) } }.map(\.process)
        if let owner = owners.min(), !(isOfNamespace && owners.contains(number)) { return (owner, true) }
        return (number, isOfNamespace && users.contains(number))
    }
}
