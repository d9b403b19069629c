import CipherDatabase
import CipherSchema
import Foundation
import TestKit
import Testing

/// Programs that replace functions and collations of SQLite. The library's own SQL depends on none of them.
@Suite struct ReplacedFunctionTests {
    /// Functions of SQLite, each with a result that SQLite's own never has.
    private static let functions: [DatabaseFunction] = [
        ("lower", 1), ("upper", 1), ("like", 2), ("like", 3), ("glob", 2),
        ("replace", 3), ("trim", 1), ("quote", 1), ("hex", 1), ("abs", 1),
    ].map { name, count in
        DatabaseFunction(name, argumentCount: count, pure: true) { _ in "replaced" }
    }

    /// Collations by which each text differs from all others, itself included.
    private static let collations = ["NOCASE", "RTRIM"].map { name in
        DatabaseCollation(name) { _, _ in .orderedAscending }
    }

    private static var configuration: Configuration {
        Databases.configuration { config in
            config.prepareDatabase { db in
                for function in functions { db.add(function: function) }
                for collation in collations { db.add(collation: collation) }
            }
        }
    }

    private static var migrator: DatabaseMigrator {
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(
                sql: """
                    CREATE TABLE Doc (Id INTEGER PRIMARY KEY, a TEXT, b AS (a || 'x'));
                    CREATE VIEW View1 AS SELECT a FROM Doc;
                    CREATE TRIGGER noted AFTER INSERT ON Doc WHEN new.a = 'r' BEGIN
                        REPLACE INTO Doc (Id, a) VALUES (1, 'z'); END;
                    """)
        }
        return migrator
    }

    // Story: a program's own `lower` hid the table of migrations, and they ran again at the next opening.
    @Test("migrations run once, and are listed")
    func migrations() throws {
        let folder = TemporaryFolder()
        for _ in 0..<2 {
            let queue = try DatabaseQueue(path: folder.path("app.db"), configuration: Self.configuration)
            try Self.migrator.migrate(queue)
            #expect(try queue.read { try Self.migrator.appliedIdentifiers($0) } == ["v1"])
            #expect(try queue.read { try Self.migrator.hasCompletedMigrations($0) })
            #expect(try queue.read { try Self.migrator.hasSchemaChanges($0) } == false)
            try queue.close()
        }
    }

    @Test("tables are found by names in any case")
    func names() throws {
        let folder = TemporaryFolder()
        let queue = try DatabaseQueue(path: folder.path("app.db"), configuration: Self.configuration)
        try Self.migrator.migrate(queue)
        try queue.write { (db: Database) throws -> Void in
            #expect(try db.tableExists("DOC"))
            #expect(try db.viewExists("VIEW1"))
            #expect(try db.triggerExists("NOTED"))
            #expect(try db.primaryKey("dOC").columns == ["Id"])
            #expect(try db.primaryKey("dOC").rowIDColumn == "Id")
            #expect(try db.nameOfTable("dOc") == "Doc")
            try db.execute(sql: "CREATE TABLE Plain (k TEXT PRIMARY KEY, v) WITHOUT ROWID")
            #expect(try !db.primaryKey("pLAIN").tableHasRowID)
            #expect(db.unseenChanges(of: "dOC").replaces)
            #expect(!db.unseenChanges(of: "pLAIN").replaces)
            #expect(!db.unseenChanges(of: "pLAIN").reportsRows)
            #expect(try MissingParts(of: db).collations == [])
            #expect(try ProgramTables(db).names == ["Doc", "Plain"])
        }
    }

    @Test("a generated column is observed by the columns that it is made of")
    func generatedColumns() throws {
        let folder = TemporaryFolder()
        let queue = try DatabaseQueue(path: folder.path("app.db"), configuration: Self.configuration)
        try Self.migrator.migrate(queue)
        try queue.read { (db: Database) throws -> Void in
            let region = try SQLRequest<String>(sql: "SELECT b FROM DOC").databaseRegion(db)
            #expect("\(region)" == "Doc(*)")
        }
    }

    @Test("a synchronized full-text table finds the rows of its table")
    func fullText() throws {
        let folder = TemporaryFolder()
        let queue = try DatabaseQueue(path: folder.path("app.db"), configuration: Self.configuration)
        try queue.write { (db: Database) throws -> Void in
            try db.execute(
                sql: """
                    CREATE TABLE Doc (id INTEGER PRIMARY KEY, a TEXT CHECK (a <> 'never') NOT NULL);
                    INSERT INTO Doc (a) VALUES ('sea'), ('ice')
                    """)
            try db.execute(sql: "DROP TABLE IF EXISTS other")
            #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM dOC") == 2)
        }
    }
}
