import CipherStore
import Foundation

// Opening in turns, accesses, and the errors that programs catch.

/// Reports an error by every form of catch that programs use.
func nameOfError(_ access: () throws -> Void) -> String {
    do {
        try access()
        return "none"
    } catch DatabaseError.SQLITE_BUSY {
        return "busy"
    } catch DatabaseError.SQLITE_INTERRUPT, DatabaseError.SQLITE_ABORT {
        return "interrupted"
    } catch let error as DatabaseError where error.resultCode == .SQLITE_CONSTRAINT {
        check(error.extendedResultCode == .SQLITE_CONSTRAINT_UNIQUE, "the extended code tells which constraint")
        check(error.message == "UNIQUE constraint failed: t.a" && error.sql != nil, "message and SQL are there")
        return "constraint"
    } catch let error as DatabaseError where error.isInterruptionError {
        return "never reached"
    } catch let error as DatabaseError {
        return "\(error.resultCode.rawValue) \(error.message ?? "")"
    } catch {
        return "\(type(of: error))"
    }
}

/// Errors that a program makes and catches.
func catchErrors() {
    check(nameOfError { throw DatabaseError(resultCode: .SQLITE_BUSY) } == "busy", "busy")
    check(nameOfError { throw DatabaseError(resultCode: .SQLITE_ABORT_ROLLBACK) } == "interrupted", "aborted")
    check(nameOfError { throw DatabaseError(message: "mine") } == "1 mine", "a message alone")
    check(nameOfError { throw DatabaseError(resultCode: ResultCode(rawValue: SQLITE_FULL)) }.hasPrefix("13 "), "a code")
    let error = DatabaseError(resultCode: .SQLITE_INTERRUPT, message: "interrupted", sql: "SELECT 1")
    check(error.isInterruptionError && error.sql == "SELECT 1", "an interruption")
    check(nameOfError { throw CancellationError() } == "CancellationError", "no database error")
}

/// A store opened in turns with other processes, in every spelling of the coordinator.
final class CoordinatedStore: Sendable {
    let url: URL
    var configuration: Configuration {
        var config = Configuration()
        config.busyMode = .timeout(5.0)
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 3, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
            guard !db.configuration.readonly else { return }
            // Persistent WAL, set by hand as GRDB's guide tells.
            var flag: CInt = 1
            let code = withUnsafeMutablePointer(to: &flag) { flagP in
                sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, flagP)
            }
            guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
        }
        return config
    }

    var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("createT") { db in
            try db.create(table: "t") { t in t.column("a").unique() }
        }
        return migrator
    }

    /// The migrations of a later version of the program.
    var laterMigrator: DatabaseMigrator {
        var migrator = migrator
        migrator.registerMigration("addB") { db in
            try db.alter(table: "t") { t in t.add(column: "b", .text) }
        }
        return migrator
    }

    init(url: URL) { self.url = url }

    /// Opens and migrates; the trailing closure, with the error taken by a variable.
    func openSharedDatabase(migrator: DatabaseMigrator) throws -> DatabasePool {
        let coordinator = FileCoordinator(filePresenter: nil)
        var coordinatorError: NSError?
        var result: Result<DatabasePool, any Error>?
        coordinator.coordinate(writingItemAt: url, options: .forMerging, error: &coordinatorError) { url in
            result = Result {
                let pool = try DatabasePool(path: url.path, configuration: configuration)
                if try pool.read(migrator.hasBeenSuperseded) {
                    throw DatabaseError(message: "the database is newer than the program")
                }
                try migrator.migrate(pool)
                return pool
            }
        }
        if let error = coordinatorError { throw error }
        guard let result else { throw DatabaseError(message: "no turn") }
        return try result.get()
    }

    /// Opens for reading alone; nil where the schema is not this program's. The labelled closure, and no error.
    func openReadOnlyDatabase(migrator: DatabaseMigrator) throws -> DatabasePool? {
        let coordinator = FileCoordinator(filePresenter: nil)
        var result: Result<DatabasePool?, any Error> = .success(nil)
        coordinator.coordinate(
            readingItemAt: url, options: .withoutChanges, error: nil,
            byAccessor: { url in
                result = Result {
                    var config = configuration
                    config.readonly = true
                    guard FileManager.default.fileExists(atPath: url.path) else { return nil }
                    let pool = try DatabasePool(path: url.path, configuration: config)
                    return try pool.read { db -> DatabasePool? in
                        if try migrator.hasBeenSuperseded(db) { return nil }
                        return try migrator.hasCompletedMigrations(db) ? pool : nil
                    }
                }
            })
        return try result.get()
    }
}

/// Opens in turns, migrates, refuses what a newer program has migrated, and reads beside.
func openCoordinated(in folder: URL) throws {
    let store = CoordinatedStore(url: folder.appendingPathComponent("turns.db"))
    check(try store.openReadOnlyDatabase(migrator: store.migrator) == nil, "nothing is there yet")
    let pool = try store.openSharedDatabase(migrator: store.migrator)
    check(try pool.read(store.migrator.hasCompletedMigrations), "it is migrated")
    let reader = try store.openReadOnlyDatabase(migrator: store.migrator)
    check(reader != nil, "it can be read")
    check(try store.openReadOnlyDatabase(migrator: store.laterMigrator) == nil, "the later reader waits for migration")
    try store.openSharedDatabase(migrator: store.laterMigrator).close()
    check(try store.openReadOnlyDatabase(migrator: store.migrator) == nil, "the older reader gets nil")
    let refusal = nameOfError { _ = try store.openSharedDatabase(migrator: store.migrator) }
    check(refusal == "1 the database is newer than the program", "the older writer is refused")
    try accessDatabase(pool)
    try reader?.close()
    try pool.close()
    check(FileManager.default.fileExists(atPath: store.url.path + "-wal"), "persistent WAL keeps the log")
}

/// Every form of access.
func accessDatabase(_ pool: DatabasePool) throws {
    try pool.write { db in
        try db.execute(sql: "INSERT INTO t (a) VALUES (?)", arguments: [1])
        try db.execute(sql: "INSERT INTO t (a) VALUES (:a)", arguments: ["a": 2])
        try db.execute(literal: "INSERT INTO t (a) VALUES (\(3))")
    }
    check(
        nameOfError { try pool.write { try $0.execute(sql: "INSERT INTO t (a) VALUES (1)") } } == "constraint", "twice")
    try pool.writeInTransaction { db in
        try db.execute(sql: "DELETE FROM t")
        return .rollback
    }
    try pool.writeWithoutTransaction { db in
        try db.beginTransaction()
        try db.execute(sql: "DELETE FROM t WHERE a = 3")
        try db.commit()
        try db.inSavepoint {
            try db.execute(sql: "DELETE FROM t")
            return .rollback
        }
    }
    let rows = try pool.read { db in try Row.fetchAll(db, sql: "SELECT a FROM t ORDER BY a") }
    check(rows.map { $0["a"] as Int } == [1, 2], "two rows are left")
    check(
        try pool.read { try String.fetchOne($0, sql: "SELECT a FROM t WHERE a = ?", arguments: [2]) } == "2", "a text")
    let none: DatabasePool? = try pool.read { _ in nil }
    check(none == nil, "a read returns anything")
    check(
        nameOfError { try pool.read { try $0.execute(sql: "DELETE FROM t") } }.hasPrefix("8 "), "a read does not write")
}

/// A database in memory, by its queue.
func accessQueue() throws {
    let queue = DatabaseQueue()
    try queue.inDatabase { db in try db.execute(sql: "CREATE TABLE t (a UNIQUE)") }
    try queue.inTransaction { db in
        try db.execute(sql: "INSERT INTO t VALUES (1)")
        return .commit
    }
    try queue.inTransaction(.deferred) { db in
        try db.execute(sql: "INSERT INTO t VALUES (2)")
        return .rollback
    }
    let traced = Journal()
    let count = try queue.inDatabase { db -> Int? in
        db.trace { traced.add("\($0)") }
        defer { db.trace(nil) }
        return try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t WHERE a > ?", arguments: [0])
    }
    check(count == 1 && traced.text.contains("a > ?"), "one row is left, and the trace hides the value")
    check(DatabaseQueue(named: "shared").inDatabase { !$0.isInsideTransaction }, "a name makes it shared")
}

/// All of it.
func showEverything() throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("consumer-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    catchErrors()
    try setEveryProperty(in: folder)
    try nameConnections(in: folder)
    try giveKeys(in: folder)
    try openCoordinated(in: folder)
    try accessQueue()
    try useRecords(in: folder)
    try observeCookbook(in: folder)
}
