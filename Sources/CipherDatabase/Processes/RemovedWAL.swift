import StorePlatform
import StoreSharing

/// A WAL and its index that were both removed while a process has the database open.
///
/// That process goes on reading its files without names. SQLite would make new ones for an opener, which then misses the
/// commits of the removed WAL, and whose own writes keep them from being saved when the other process closes.
package struct RemovedWAL {
    private let paths: StorePaths

    package init(_ paths: StorePaths) { self.paths = paths }

    /// Refuses an opening that finds neither file, and a process with the database open.
    ///
    /// - Throws: ``StoreError`` `storeInUse`.
    func refuse() throws {
        if let found = try fault() { throw found }
    }

    /// The error that says who has the database open; nil where nobody has, or one of the files is there.
    ///
    /// A connection that is being opened has a lock on the database alone while its key is derived: only a process that has
    /// it for some seconds counts.
    package func fault() throws -> StoreError? {
        var strangers = try self.strangers()
        var polling = Polling(first: DatabaseLimits.removedWALPause, until: .now + DatabaseLimits.removedWALWait)
        while !strangers.isEmpty, try polling.next() { strangers.formIntersection(try self.strangers()) }
        return strangers.isEmpty ? nil : error(strangers)
    }

    /// The processes with a shared lock on the database, as each connection in WAL mode has.
    ///
    /// A replica has a lock on the last byte of the database alone, and needs no WAL. An index that is there proves nothing: a
    /// process that may only read it has no lock on it.
    private func strangers() throws(SystemError) -> Set<Int32> {
        guard try !Files.entryExists(paths.wal), try !Files.entryExists(paths.sharedMemory),
            // Under a second name there never was one: the opening is refused for that.
            try Files.status(of: paths.database)?.linkCount == 1
        else { return [] }
        let connections = SQLiteLockByte.all.dropLast()
        let users = try (SystemLocks.posixLocks(on: paths.database) ?? [])
            .filter { $0.kind == .shared && $0.bytes.overlaps(connections) }
        return Set(users.map(\.process))
    }

    private func error(_ users: Set<Int32>) -> StoreError {
        let names = users.sorted().map { "process \($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }
        return StoreError(
            .storeInUse,
            what: "\"\(paths.wal)\" and -shm are gone, and the store is open.",
            why: "Somebody removed them. Commits that no file shows are in \(CountText.list(names)) alone.",
            remedy: "Close the store there: the close copies these commits into the database. Then open it again.")
    }
}
