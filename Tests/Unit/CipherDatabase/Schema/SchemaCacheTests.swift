import CSQLCipher
@testable import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite struct SchemaCacheTests {
    let folder = TemporaryFolder()

    private func pool() throws -> DatabasePool {
        try DatabasePool(path: folder.path("app.db"), configuration: MigrationScratch.plain)
    }

    @Test("what is asked twice in a transaction is read once")
    func cached() throws {
        let queue = DatabaseQueue()
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a REFERENCES t)")
            func ask() throws {
                _ = try (db.primaryKey("t"), db.columns(in: "T"), db.indexes(on: "t"), db.foreignKeys(on: "t"))
                _ = try (db.tableExists("t"), db.viewExists("t"), db.tableExists("nothing"))
            }
            try ask()
            var statements: [String] = []
            db.trace { statements.append("\($0)") }
            try ask()
            db.trace(nil)
            #expect(statements == [])
        }
        // In a later transaction one comparison is enough.
        try queue.read { db throws in
            var statements: [String] = []
            db.trace { statements.append("\($0)") }
            _ = try (db.primaryKey("t"), db.columns(in: "t"))
            db.trace(nil)
            #expect(statements == ["PRAGMA main.schema_version"])
        }
    }

    @Test("the version with which a read begins is read once, and no later transaction takes it for its own")
    func versionOfView() throws {
        var configuration = MigrationScratch.plain
        configuration.maximumReaderCount = 1
        let pool = try DatabasePool(path: folder.path("app.db"), configuration: configuration)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        func columns(_ db: Database) throws -> Int { try db.columns(in: "t").count }
        #expect(try pool.unsafeRead(columns) == 1)
        let statements = try pool.read { db in
            var statements: [String] = []
            db.trace { statements.append("\($0)") }
            _ = try columns(db)
            db.trace(nil)
            return statements
        }
        #expect(statements == [])
        for (count, begin) in [(2, "BEGIN"), (3, "SAVEPOINT s"), (4, "")] {
            // A read that needs no version.
            try pool.read { _ in }
            try pool.write { try $0.execute(sql: "ALTER TABLE t ADD b\(count)") }
            let found = try pool.unsafeRead { db in
                if begin.isEmpty { try db.beginTransaction(.deferred) } else { try db.execute(sql: begin) }
                defer { try? db.execute(sql: "ROLLBACK") }
                return try columns(db)
            }
            #expect(found == count)
        }
    }

    @Test("writer and readers notice what another pool has changed, and inside a transaction they do not see it")
    func otherConnections() throws {
        let (ours, theirs) = (try pool(), try pool())
        try ours.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        func columns(_ db: Database) throws -> [String] { try db.columns(in: "t").map(\.name) }
        #expect(try theirs.read(columns) == ["a"])
        #expect(try theirs.write(columns) == ["a"])
        #expect(try ours.read(columns) == ["a"])
        try theirs.read { db throws in
            #expect(try columns(db) == ["a"])
            try ours.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN b") }
            #expect(try columns(db) == ["a"])
        }
        #expect(try theirs.read(columns) == ["a", "b"])
        #expect(try theirs.write(columns) == ["a", "b"])
        #expect(try ours.read(columns) == ["a", "b"])
        try theirs.unsafeRead { db throws in
            #expect(try columns(db) == ["a", "b"])
            try ours.write { try $0.execute(sql: "DROP TABLE t") }
            #expect(try !db.tableExists("t"))
        }
    }

    @Test("what was rolled back is forgotten, even when another connection reaches the same schema version")
    func rollback() throws {
        let (ours, theirs) = (try pool(), try pool())
        var version: Int32 = 0
        try ours.writeInTransaction { db in
            try db.execute(sql: "CREATE TABLE mine (a)")
            #expect(try db.tableExists("mine"))
            version = try db.schemaVersion()
            return .rollback
        }
        try theirs.write { try $0.execute(sql: "CREATE TABLE theirs (a)") }
        try ours.writeWithoutTransaction { db throws in
            #expect(try db.schemaVersion() == version)
            #expect(try !db.tableExists("mine") && db.tableExists("theirs"))
        }
    }

    @Test("rolling back to a savepoint forgets what came behind it")
    func savepoint() throws {
        try DatabaseQueue().write { db throws in
            try db.inSavepoint {
                try db.execute(sql: "CREATE TABLE first (a)")
                #expect(try db.tableExists("first"))
                return .rollback
            }
            #expect(try !db.tableExists("first"))
            try db.execute(sql: "CREATE TABLE second (a)")
            #expect(try !db.tableExists("first") && db.tableExists("second"))
            try db.execute(sql: "SAVEPOINT s; DROP TABLE second")
            #expect(try !db.tableExists("second"))
            try db.execute(sql: "ROLLBACK TO s; RELEASE s")
            #expect(try db.tableExists("second"))
        }
    }

    @Test("a statement that was compiled long before it changes the schema is noticed")
    func lateStatement() throws {
        try DatabaseQueue().write { db throws in
            let creation = try db.makeStatement(sql: "CREATE TEMP TABLE t (a)")
            #expect(try !db.tableExists("t"))
            try creation.execute()
            #expect(try db.tableExists("t"))
        }
    }

    @Test("changes by C code are noticed")
    func byC() throws {
        try DatabaseQueue().write { db throws in
            #expect(try !db.tableExists("t"))
            #expect(sqlite3_exec(db.sqliteConnection, "CREATE TEMP TABLE t (a)", nil, nil, nil) == SQLITE_OK)
            #expect(try db.tableExists("t"))
        }
    }

    @Test("a transaction that C code ends and another that it begins are told apart")
    func transactionsByC() throws {
        let (ours, theirs) = (try pool(), try pool())
        var config = MigrationScratch.plain
        config.allowsUnsafeTransactions = true
        try ours.unsafeRead { db throws in
            func exec(_ sql: String) { #expect(sqlite3_exec(db.sqliteConnection, sql, nil, nil, nil) == SQLITE_OK) }
            exec("BEGIN")
            #expect(try !db.tableExists("t"))
            exec("COMMIT")
            try theirs.write { try $0.execute(sql: "CREATE TABLE t (a)") }
            exec("BEGIN")
            #expect(try db.tableExists("t"))
            exec("COMMIT")
        }
    }

    @Test("the schema version grows with every change")
    func version() throws {
        try DatabaseQueue().write { db throws in
            let version = try db.schemaVersion()
            try db.execute(sql: "CREATE TABLE t (a)")
            #expect(try db.schemaVersion() > version)
            db.clearSchemaCache()
            #expect(try db.tableExists("t"))
        }
    }
}

/// Tables that are defined one after another, each used at once.
@Suite struct GrowingSchemaTests {
    // Story: after each definition the whole schema was read again: 2,400 tables took 70 times as long as 200.
    @Test("the objects of a schema are not listed after each definition")
    func listings() throws {
        let queue = DatabaseQueue()
        try queue.write { (db: Database) throws -> Void in
            for number in 0..<400 { try db.execute(sql: "CREATE TABLE before\(number) (id INTEGER PRIMARY KEY)") }
            try db.execute(sql: "CREATE VIEW seen AS SELECT * FROM before1")
            #expect(try db.tableExists("before1"))
            let listings = Listings()
            db.trace { event in
                let isListing = ["SELECT type, name", "pragma_table_list"].contains { "\(event)".contains($0) }
                if isListing { listings.count += 1 }
            }
            for number in 0..<100 {
                try db.execute(sql: "CREATE TABLE after\(number) (id INTEGER PRIMARY KEY, rowid TEXT, k TEXT UNIQUE)")
                #expect(try db.tableExists("AFTER\(number)"))
                #expect(try !db.tableExists("after\(number + 1)"))
                #expect(try db.primaryKey("after\(number)").rowIDColumn == "id")
                #expect(try db.table("after\(number)", hasUniqueKey: ["k"]))
                #expect(try db.foreignKeys(on: "after\(number)").isEmpty)
            }
            #expect(listings.count < 10, "\(listings.count)")
            try db.execute(sql: "CREATE TABLE without (k TEXT PRIMARY KEY) WITHOUT ROWID")
            #expect(try !db.primaryKey("without").tableHasRowID)
            #expect(try db.viewExists("SEEN") && !db.tableExists("seen") && !db.viewExists("before1"))
            try db.execute(
                sql: "CREATE TEMP TABLE seen (id); DROP TABLE before3; ALTER TABLE before2 RENAME TO renamed")
            #expect(try db.tableExists("seen") && db.viewExists("seen"))
            #expect(try db.tableExists("seen", in: "temp") && !db.tableExists("seen", in: "main"))
            #expect(try !db.tableExists("before3") && !db.tableExists("before2") && db.tableExists("Renamed"))
            #expect(try !db.tableExists("sqlite_schema") && !db.tableExists("json_each") && !db.viewExists("json_each"))
            #expect(try !db.tableExists("pragma_table_list") && !db.tableExists("a\0b") && !db.tableExists(""))
        }
    }

    private final class Listings { var count = 0 }
}
