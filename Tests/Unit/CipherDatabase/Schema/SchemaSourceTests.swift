import CipherDatabase
import CipherSchema
import TestKit
import Testing

@Suite struct SchemaSourceTests {
    /// Names the key of the view `named`, none for `keyless`, and has nothing to say of others.
    private struct Source: DatabaseSchemaSource {
        var columns = ["ID"]
        func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? {
            switch view.name {
            case "named": columns
            case "keyless": []
            default: nil
            }
        }
    }
    private struct ByTable: DatabaseSchemaSource {
        func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? {
            // A source may ask the schema itself.
            try db.tableExists("t") ? try db.primaryKey("t").columns : nil
        }
    }
    private struct Silent: DatabaseSchemaSource {}

    private func queue(_ source: (any DatabaseSchemaSource)?) throws -> DatabaseQueue {
        var config = Configuration()
        config.schemaSource = source
        let queue = DatabaseQueue(configuration: config)
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a)")
            for view in ["named", "keyless", "other"] {
                try db.execute(sql: "CREATE VIEW \(view) AS SELECT * FROM t")
            }
        }
        return queue
    }

    private func key(_ view: String, in queue: DatabaseQueue) throws -> [String]? {
        try queue.read { db in try? db.primaryKey(view).columns }
    }

    private static func keyless(_ view: String) -> String {
        "view \(view) has no primary key: name its columns in a schema source, in Configuration.schemaSource"
    }

    @Test("a schema source names the primary keys of views, and of views alone")
    func views() throws {
        let queue = try queue(Source())
        #expect(try key("named", in: queue) == ["id"])
        #expect(try key("keyless", in: queue) == nil)
        #expect(try key("other", in: queue) == nil)
        #expect(try queue.read { try $0.primaryKey("t").isRowID })
        #expect(try key("named", in: self.queue(nil)) == nil)
        #expect(try key("named", in: self.queue(Silent())) == nil)
    }

    // Asked for other columns than those of the key, a view was said not to exist.
    @Test("the key that a schema source names is a unique key of the view, and the only one")
    func uniqueKeys() throws {
        try queue(Source()).read { db throws in
            #expect(try db.table("named", hasUniqueKey: ["ID"]) && db.table("NAMED", hasUniqueKey: ["a", "id"]))
            #expect(try !db.table("named", hasUniqueKey: ["a"]) && !db.table("named", hasUniqueKey: ["rowid"]))
            let message = "view keyless has no primary key: the schema source names no columns"
            #expect(databaseError { try db.primaryKey("keyless") }?.message == message)
            #expect(databaseError { try db.table("keyless", hasUniqueKey: ["a"]) }?.message == message)
            #expect(databaseError { try db.primaryKey("other") }?.message == Self.keyless("other"))
        }
    }

    @Test("a source that has nothing to say leaves it to the next one")
    func chain() throws {
        let queue = try queue(Source(columns: ["a"]).then(ByTable()))
        #expect(try key("named", in: queue) == ["a"])
        #expect(try key("keyless", in: queue) == nil)
        #expect(try key("other", in: queue) == ["id"])
    }

    @Test("a source that names a column that does not exist is an error")
    func wrongColumn() throws {
        let queue = try queue(Source(columns: ["b"]))
        let error = databaseError { try queue.read { try $0.primaryKey("named") } }
        #expect(error?.message == "no such column: b, which the schema source names for named")
    }

    @Test("another source holds for a block, and migrations have none")
    func block() throws {
        let queue = try queue(Source(columns: ["a"]))
        try queue.read { db throws in
            #expect(try db.primaryKey("named").columns == ["a"])
            #expect(try db.withSchemaSource(Source()) { try db.primaryKey("named").columns } == ["id"])
            #expect(db.withSchemaSource(nil) { try? db.primaryKey("named").columns } == nil)
            #expect(try db.primaryKey("named").columns == ["a"])
        }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("m") { db in
            #expect(db.schemaSource == nil)
            #expect(databaseError { try db.primaryKey("named") }?.message == Self.keyless("named"))
        }
        try migrator.migrate(queue)
    }
}
