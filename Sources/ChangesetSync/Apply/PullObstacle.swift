import CipherDatabase
import Foundation
import StorePlatform

/// Why the last pull has stopped, where the next one will stop as well. It is kept for ``ChangesetRepository/summary()``:
/// whoever shows it is often another process than the one that pulls. Inside a transaction.
struct PullObstacle {
    let db: Database

    private static let table = SyncTables.obstacle

    /// The errors that are not kept: a summary finds them by itself, or the repository cannot be read at all.
    private static let foundBySummary: Set<SyncError.Code> = [
        .needsMerge, .schemaAhead, .columnRemoved, .olderSchema, .foreignWrites, .tableMissing, .notEnabled,
        .insideTransaction, .checkpointPending, .unknownCommit,
    ]

    /// The error to keep; nil for one that ends by itself, as a lock, a suspension or a cancellation, and for an error of
    /// the store as a whole, which each command reports.
    static func lasting(_ error: any Error) -> SyncError? {
        switch error {
        case let error as SyncError: return foundBySummary.contains(error.code) ? nil : error
        case let error as DatabaseError:
            let passes = [ResultCode.SQLITE_BUSY, .SQLITE_LOCKED, .SQLITE_MISUSE].contains(error.resultCode)
            return passes || error.isInterruptionError ? nil : SyncError(stoppedBy: error)
        case is CancellationError, is StoreError: return nil
        // Its text may have values of rows.
        default: return SyncError(.programError, "Its type is \(type(of: error)).")
        }
    }

    /// A store that an earlier version has set up has no such table until a pull has stopped.
    private var exists: Bool { get throws { try db.tableExists(Self.table, in: "main") } }

    func note(_ error: SyncError) throws {
        if try current() == error { return }
        try SyncTables.create(db)
        try db.execute(
            sql: """
                INSERT OR REPLACE INTO main.\(Self.table) (id, code, name, commit_id, detail, result_code)
                VALUES (1, ?, ?, ?, ?, ?)
                """,
            arguments: [
                error.code.rawValue, error.table, error.commit.map { Data($0.bytes) }, error.detail,
                error.resultCode?.rawValue,
            ])
    }

    func current() throws -> SyncError? {
        guard try exists,
            // The last column is missing in a store that an earlier version has set up.
            let row = try Row.fetchOne(db, sql: "SELECT * FROM main.\(Self.table)"),
            let code = SyncError.Code(rawValue: try row.stored(1))
        else { return nil }
        let commit = try row.storedOrNil(3, as: Data.self).flatMap { CommitID(bytes: $0) }
        let number = row.count > 5 ? try row.storedOrNil(5, as: Int32.self) : nil
        return SyncError(
            code, table: try row.storedOrNil(2), commit: commit, try row.storedOrNil(4),
            resultCode: number.map(ResultCode.init(rawValue:)))
    }

    func remove() throws {
        if try exists { try db.execute(sql: "DELETE FROM main.\(Self.table)") }
    }
}

extension ChangesetRepository {
    /// Runs a pull or a merge, and keeps the error with which it stops.
    func notingObstacle<T>(_ pull: () throws -> T) throws -> T {
        do {
            return try pull()
        } catch {
            // The error of the pull is reported, also where it cannot be kept, as on a full disk.
            if let lasting = PullObstacle.lasting(error) {
                try? writer.unsafeReentrantWrite { db in
                    try Self.inTransaction(db) { try PullObstacle(db: db).note(lasting) }
                }
            }
            throw error
        }
    }
}

extension SyncError {
    /// An error of SQLite that has stopped a pull or a merge.
    init(stoppedBy error: DatabaseError) {
        let code = error.extendedResultCode
        // The text of RAISE is an expression, which may have values of a row.
        let message = code == .SQLITE_CONSTRAINT_TRIGGER ? "a trigger has refused it with RAISE" : error.message
        self.init(
            .databaseError, "SQLite error \(code.rawValue)\(message.map { ": \($0)" } ?? "").", resultCode: code)
    }
}
