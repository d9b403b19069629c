import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct SchemaChangeTests {
    let queue = DatabaseQueue()

    private func migrator(_ steps: KeyValuePairs<String, String>) -> DatabaseMigrator {
        var migrator = DatabaseMigrator()
        for (identifier, sql) in steps { migrator.registerMigration(identifier) { try $0.execute(sql: sql) } }
        return migrator
    }

    private func hasChanges(_ steps: KeyValuePairs<String, String>) throws -> Bool {
        try queue.read(migrator(steps).hasSchemaChanges)
    }

    private static let first = "CREATE TABLE note (id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT UNIQUE)"

    @Test("a migration that is defined otherwise than it ran is a change")
    func changed() throws {
        try migrator(["v1": Self.first]).migrate(queue)
        #expect(try !hasChanges(["v1": Self.first]))
        #expect(try hasChanges(["v1": "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)"]))
        #expect(try hasChanges(["v1": Self.first + "; CREATE INDEX byText ON note (text)"]))
    }

    @Test("a migration that is removed or has another name is a change")
    func renamed() throws {
        try migrator(["v1": Self.first]).migrate(queue)
        #expect(try hasChanges(["first": Self.first]))
        #expect(try hasChanges([:]))
    }

    // The comparison ran with this setting of shared stores in memory too, where there is no log, and was refused.
    @Test("a database that keeps its log is compared as any other")
    func keptLog() throws {
        var configuration = Configuration()
        configuration.persistentWAL = true
        let queue = DatabaseQueue(configuration: configuration)
        try migrator(["v1": Self.first]).migrate(queue)
        #expect(try !queue.read(migrator(["v1": Self.first]).hasSchemaChanges))
    }

    @Test("migrations that wait are no change")
    func waiting() throws {
        #expect(try !hasChanges(["v1": Self.first]))
        try migrator(["v1": Self.first]).migrate(queue)
        #expect(try !hasChanges(["v1": Self.first, "v2": "CREATE TABLE tag (name)"]))
    }

    @Test("objects made outside of migrations are a change, SQLite's and the library's own are not")
    func foreignObjects() throws {
        try migrator(["v1": Self.first]).migrate(queue)
        try queue.write { db in
            try db.execute(sql: "INSERT INTO note (text) VALUES ('a'); ANALYZE; CREATE TABLE cipherstore_state (a)")
        }
        #expect(try !hasChanges(["v1": Self.first]))
        try queue.write { try $0.execute(sql: "CREATE VIEW texts AS SELECT text FROM note") }
        #expect(try hasChanges(["v1": Self.first]))
    }

    @Test("full-text tables are compared by their definition, whatever their shadow tables are")
    func virtualTables() throws {
        let steps: KeyValuePairs = ["v1": "CREATE VIRTUAL TABLE document USING fts5 (body)"]
        try migrator(steps).migrate(queue)
        #expect(try !hasChanges(steps))
        // As another version of SQLite would have made it.
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE INDEX document_version ON document_content (c0)")
            try db.execute(sql: "DROP INDEX document_version; ALTER TABLE document_config ADD COLUMN extra")
        }
        #expect(try !hasChanges(steps))
        #expect(try hasChanges(["v1": "CREATE VIRTUAL TABLE document USING fts5 (body, title)"]))
    }

    @Test("where a merged migration waits, the schema is not compared")
    func waitingMerge() throws {
        try migrator(["v0": Self.first, "v1": "CREATE TABLE tag (name)"]).migrate(queue)
        var merging = migrator(["v0": Self.first])
        merging.registerMigration("v2", merging: ["v1"]) { db, applied in
            if applied.isEmpty { try db.execute(sql: "CREATE TABLE tag (name)") }
            try db.execute(sql: "CREATE TABLE place (name)")
        }
        #expect(try !queue.read(merging.hasSchemaChanges))
        try merging.migrate(queue)
        #expect(try !queue.read(merging.hasSchemaChanges))
    }

    @Test("with eraseDatabaseOnSchemaChange, a change starts over and anything else keeps all rows")
    func erasing() throws {
        var old = migrator(["v1": Self.first])
        old.eraseDatabaseOnSchemaChange = true
        try old.migrate(queue)
        try queue.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('kept')") }
        try old.migrate(queue)
        #expect(try queue.read { try String.fetchAll($0, sql: "SELECT text FROM note") } == ["kept"])

        var new = migrator(["v1": "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)"])
        new.eraseDatabaseOnSchemaChange = true
        try new.migrate(queue)
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(body) FROM note") } == 0)
        #expect(try !queue.read(new.hasSchemaChanges))
    }

    @Test("without eraseDatabaseOnSchemaChange, a change keeps all rows")
    func notErasing() throws {
        try migrator(["v1": Self.first]).migrate(queue)
        try queue.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('kept')") }
        try migrator(["v1": "CREATE TABLE other (id)"]).migrate(queue)
        #expect(try queue.read { try String.fetchAll($0, sql: "SELECT text FROM note") } == ["kept"])
    }
}
