import CipherDatabase
import Foundation

/// Why the last pull has stopped, where the next one will stop as well. It is kept for ``ChangesetRepository/summary()``:
/// whoever shows it is often another process than the one that pulls. Inside a transaction.
struct PullObstacle {
    let db: Database

    private static let table = SyncTables.obstacle

    /// The errors that are kept. The others pass, or a summary finds them by itself.
    private static let lasting: Set<SyncError.Code> = [
        .foreignKeyViolation, .constraintViolation, .workingStateDiverged, .digestMismatch, .damagedCommit,
        .resolverFailed, .trackedTableWritten, .inexactText,
    ]

    static func lasts(_ error: SyncError) -> Bool { lasting.contains(error.code) }

    /// A store that an earlier version has set up has no such table until a pull has stopped.
    private var exists: Bool { get throws { try db.tableExists(Self.table, in: "main") } }

    func note(_ error: SyncError) throws {
        if try current() == error { return }
        try SyncTables.create(db)
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.\(Self.table) (id, code, name, commit_id, detail) VALUES (1, ?, ?, ?, ?)",
            arguments: [error.code.rawValue, error.table, error.commit.map { Data($0.bytes) }, error.detail])
    }

    func current() throws -> SyncError? {
        guard try exists,
            let row = try Row.fetchOne(db, sql: "SELECT code, name, commit_id, detail FROM main.\(Self.table)"),
            let code = SyncError.Code(rawValue: try row.stored(0))
        else { return nil }
        let commit = try row.storedOrNil(2, as: Data.self).flatMap { CommitID(bytes: $0) }
        return SyncError(code, table: try row.storedOrNil(1), commit: commit, try row.storedOrNil(3))
    }

    func remove() throws {
        if try exists { try db.execute(sql: "DELETE FROM main.\(Self.table)") }
    }
}

extension ChangesetRepository {
    /// Runs a pull, and keeps the error with which it stops.
    func notingObstacle<T>(_ pull: () throws -> T) throws -> T {
        do {
            return try pull()
        } catch let error as SyncError where PullObstacle.lasts(error) {
            // What is reported is the error of the pull, also where it cannot be kept, as on a full disk.
            try? writer.unsafeReentrantWrite { db in
                try Self.inTransaction(db) { try PullObstacle(db: db).note(error) }
            }
            throw error
        }
    }
}
