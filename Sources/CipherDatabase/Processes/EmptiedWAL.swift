import Foundation
import PageFormat
import StorePlatform

/// A WAL that the last close has emptied, while its index lists the frames that were in it.
///
/// The last close of a store copies all frames into the database, empties the WAL, and leaves the index as it is. The next
/// opening makes the index anew, unless a process has it open. A process that was killed has: the kernel closes its files one
/// by one, so for a moment it holds the index and no longer the database.
///
/// | the process that was killed still holds | the close of another process | the next opening |
/// |---|---|---|
/// | the database | is not the last one | uses WAL and index |
/// | the index alone | is the last one, and empties the WAL | finds the index with all frames, each copied |
/// | nothing | is the last one, and empties the WAL | makes the index anew |
///
/// No commit is lost in the second row. The next commit begins a new run of the WAL if no read mark is locked; otherwise
/// SQLite would append its frames behind a gap. So an opening for writing makes that commit itself.
/// - SeeAlso: `sqlite3WalClose` and `walRestartLog` in <https://www.sqlite.org/src/file/src/wal.c>; `unixLockSharedMemory` in
///   <https://www.sqlite.org/src/file/src/os_unix.c>
extension Database {
    /// Begins a new run if the WAL is an emptied one. If that is impossible, writes are refused (``LiveWAL``).
    func restartEmptiedWAL() {
        guard hasEmptiedWAL, !connectionKey.suspension.isSuspended else { return }
        let deadline = ContinuousClock.now + DatabaseLimits.emptiedWALWait
        while (try? restartWAL()) != true, ContinuousClock.now < deadline {
            Pause.sleep(for: DatabaseLimits.emptiedWALPause)
        }
    }

    /// Whether every frame that the index lists is in the database, and the WAL is empty.
    private var hasEmptiedWAL: Bool {
        guard let index = handle.walIndex, index.frames > 0, index.checkpointedFrames >= index.frames,
            let log = (try? Files.ownStatus(of: path + "-wal")) ?? nil
        else { return false }
        return log.byteCount == 0
    }

    /// - Returns: Whether the WAL is no longer an emptied one.
    private func restartWAL() throws -> Bool {
        try run(.beginImmediate)
        defer { rollbackIfNeeded() }
        guard hasEmptiedWAL else { return true }
        // Nobody else commits now, so no reader begins with a read mark: each reads the database alone.
        guard handle.isWALUnread, isWALOfAllConnections else { return false }
        let version = try Int.fetchOne(self, sql: "PRAGMA main.user_version") ?? 0
        try runInternally("PRAGMA main.user_version = \(version)")
        try run(.commit)
        return true
    }

    /// Whether every process with a connection has the file open that has the WAL's name now. If a WAL was removed, its
    /// processes have another one.
    private var isWALOfAllConnections: Bool {
        guard let locks = (try? SystemLocks.posixLocks(on: path)) ?? nil else { return false }
        let openings = ProcessInspector.openings(of: path + "-wal").map(\.process)
        return Set(locks.map(\.process)).isSubset(of: openings) && !hasRemovedWAL
    }

    /// Whether this process has a WAL of the path open that was removed.
    private var hasRemovedWAL: Bool {
        let (files, folder) = (FileManager.default, "/proc/self/fd")
        let descriptors = (try? files.contentsOfDirectory(atPath: folder)) ?? []
        return descriptors.contains {
            (try? files.destinationOfSymbolicLink(atPath: "\(folder)/\($0)")) == path + "-wal (deleted)"
        }
    }
}
