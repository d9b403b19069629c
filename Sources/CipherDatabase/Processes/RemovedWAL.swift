import StorePlatform
import StoreSharing

/// A WAL and its index that were both removed while a process has the database open.
///
/// That process goes on reading its files without names. SQLite would make new ones for an opener, which then misses the
/// commits of the removed WAL, and whose own writes keep them from being saved when the other process closes.
package struct RemovedWAL {
    private let paths: StorePaths

    package init(_ paths: StorePaths) { self.paths = paths }

    /// Refuses an opening that finds neither file, and another connection of any process.
    ///
    /// A connection that is being opened has a lock without the files while its key is derived.
    /// - Throws: ``StoreError`` `storeInUse`.
    func refuse() throws {
        var polling = Polling(first: DatabaseLimits.removedWALPause, until: .now + DatabaseLimits.removedWALWait)
        var found = try fault()
        while found != nil, try polling.next() { found = try fault() }
        if let found { throw found }
    }

    /// The error that says who has the database open; nil where one of the files is there, or nobody has it open.
    package func fault() throws(SystemError) -> StoreError? {
        guard try !Files.entryExists(paths.wal), try !Files.entryExists(paths.sharedMemory),
            // Under a second name there never was one: the opening is refused for that.
            try Files.status(of: paths.database)?.linkCount == 1
        else { return nil }
        let users = try connected()
        return users.isEmpty ? nil : error(users)
    }

    /// The processes that have the database open in WAL mode: each has a shared lock on it.
    private func connected() throws(SystemError) -> Set<Int32> {
        let locks = try SystemLocks.posixLocks(on: paths.database) ?? []
        return Set(locks.filter { $0.kind == .shared && $0.bytes.overlaps(SQLiteLockByte.all) }.map(\.process))
    }

    private func error(_ users: Set<Int32>) -> StoreError {
        let names = users.sorted().map { "process \($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }
        return StoreError(
            .storeInUse, what: "\"\(paths.wal)\" and \"\(paths.sharedMemory)\" are gone, and the store is open.",
            why: "Somebody removed them. Commits that only the removed WAL has are in \(CountText.list(names)) alone.",
            remedy: "Close the store there: the close copies these commits into the database. Then open it again.")
    }
}
