import CipherDatabase
import CipherSchema
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct ErasingTests {
    let folder = TemporaryFolder()

    @Test("erasing drops every kind of object, whatever its name and whoever refers to it")
    func everything() throws {
        let queue = DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE "a ""quoted"" name" (id INTEGER PRIMARY KEY AUTOINCREMENT, b REFERENCES b);
                    CREATE TABLE b (id INTEGER PRIMARY KEY, a REFERENCES "a ""quoted"" name") WITHOUT ROWID;
                    INSERT INTO "a ""quoted"" name" VALUES (1, NULL);
                    INSERT INTO b VALUES (1, 1);
                    UPDATE "a ""quoted"" name" SET b = 1;
                    CREATE INDEX i ON b (a);
                    CREATE VIEW v AS SELECT * FROM b;
                    CREATE VIEW "of v" AS SELECT * FROM v;
                    CREATE TRIGGER t INSTEAD OF DELETE ON v BEGIN DELETE FROM b; END;
                    CREATE TRIGGER u AFTER DELETE ON b BEGIN SELECT RAISE(ABORT, 'kept'); END;
                    CREATE VIRTUAL TABLE f USING fts5 (body);
                    INSERT INTO f VALUES ('word');
                    PRAGMA user_version = 7;
                    ANALYZE;
                    """)
        }
        try MigrationScratch.logging("v1").migrate(queue)
        try queue.erase()
        try queue.read { db throws in
            let names = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
            #expect(names == [])
            #expect(try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_sequence") == 0)
            #expect(try Int.fetchOne(db, sql: "PRAGMA user_version") == 0)
            #expect(try Bool.fetchOne(db, sql: "PRAGMA foreign_keys") == true)
        }
        try MigrationScratch.logging("v1").migrate(queue)
    }

    @Test("erasing leaves what the library keeps for itself")
    func internals() throws {
        let queue = DatabaseQueue()
        try queue.write { try $0.execute(sql: "CREATE TABLE cipherstore_state (a); CREATE TABLE t (a)") }
        try queue.erase()
        let names = try queue.read { try String.fetchAll($0, sql: "SELECT name FROM sqlite_schema") }
        #expect(names == ["cipherstore_state"])
    }

    @Test("starting over works beside open connections, and the file keeps key and salt")
    func encryptedFile() throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
        let other = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
        try MigrationScratch.logging("v1").migrate(pool)
        try pool.write { db in
            for _ in 0..<200 {
                try db.execute(sql: "INSERT INTO log (name) VALUES (?)", arguments: ["marker in plain"])
            }
        }
        try pool.checkpoint()
        let sidecar = try Data(contentsOf: URL(fileURLWithPath: path + "-sidecar"))

        var new = DatabaseMigrator()
        new.eraseDatabaseOnSchemaChange = true
        new.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT NOT NULL)")
            try db.execute(sql: "INSERT INTO log (name) VALUES ('anew')")
        }
        try other.read { db throws in
            #expect(try MigrationScratch.log(db).count == 201)
            try new.migrate(pool)
            #expect(try MigrationScratch.log(db).count == 201)
        }
        #expect(try other.read(MigrationScratch.log) == ["anew"])
        try pool.checkpoint()
        try pool.close()
        try other.close()

        #expect(try Data(contentsOf: URL(fileURLWithPath: path + "-sidecar")) == sidecar)
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        #expect(bytes.count > 8192 && bytes.prefix(16) == Data("SQLite format 3\0".utf8))
        for text in ["CREATE TABLE", "grdb_migrations", "marker in plain"] {
            #expect(bytes.range(of: Data(text.utf8)) == nil)
        }
        let again = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
        #expect(try again.read(MigrationScratch.log) == ["anew"])
        #expect(try again.read { try String.fetchOne($0, sql: "PRAGMA integrity_check") } == "ok")
    }

    @Test("a database that another process has started over with meanwhile is not erased again")
    func startedOverMeanwhile() throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.plain)
        let other = try DatabasePool(path: path, configuration: MigrationScratch.plain)
        try MigrationScratch.logging("v1").migrate(pool)

        let sql = "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"
        var peers = DatabaseMigrator()
        peers.registerMigration("v1") { try $0.execute(sql: sql) }
        peers.eraseDatabaseOnSchemaChange = true
        var migrator = DatabaseMigrator()
        let isFirst = Atomic(true)
        migrator.registerMigration("v1") { [peers] db in
            // The first run is the one in memory, on behalf of the comparison.
            if isFirst.exchange(false, ordering: .relaxed) {
                try peers.migrate(other)
                try other.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('of the peer')") }
            }
            try db.execute(sql: sql)
        }
        migrator.eraseDatabaseOnSchemaChange = true
        try migrator.migrate(pool)
        #expect(try pool.read { try String.fetchAll($0, sql: "SELECT text FROM note") } == ["of the peer"])
    }
}
