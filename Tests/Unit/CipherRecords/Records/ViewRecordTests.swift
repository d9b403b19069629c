import CipherDatabase
import CipherRecords
import Testing

/// Records of a view whose rows INSTEAD OF triggers change.
@Suite("Records of a view")
struct ViewRecordTests {
    private struct Source: DatabaseSchemaSource {
        func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? { ["id"] }
    }

    private struct Chore: Codable, Equatable, FetchableRecord, Identifiable, PersistableRecord {
        static let databaseTableName = "openTask"
        var id: Int64
        var title: String
    }

    private func write(_ body: (Database) throws -> Void) throws {
        var config = Configuration()
        config.schemaSource = Source()
        try DatabaseQueue(configuration: config).write { db throws in
            try db.execute(
                sql: """
                    CREATE TABLE task (id INTEGER PRIMARY KEY, title TEXT, isDone INTEGER NOT NULL DEFAULT 0);
                    CREATE TABLE log (text TEXT);
                    CREATE VIEW openTask AS SELECT id, title FROM task WHERE NOT isDone;
                    CREATE TRIGGER i INSTEAD OF INSERT ON openTask BEGIN
                        INSERT INTO task (id, title) VALUES (NEW.id, NEW.title);
                    END;
                    CREATE TRIGGER u INSTEAD OF UPDATE ON openTask BEGIN
                        UPDATE task SET title = NEW.title WHERE id = OLD.id;
                    END;
                    CREATE TRIGGER d INSTEAD OF DELETE ON openTask BEGIN
                        UPDATE task SET isDone = 1 WHERE id = OLD.id;
                    END;
                    """)
            try body(db)
        }
    }

    // SQLite counts no row of a view as changed: such an update was taken for one of a row that does not exist.
    @Test("a record is inserted, updated, saved and deleted")
    func records() throws {
        try write { db throws in
            var task = Chore(id: 1, title: "a")
            try task.insert(db)
            task.title = "b"
            try task.update(db)
            #expect(try task.updateChanges(db) { $0.title = "c" })
            #expect(try Chore.find(db, id: 1).title == "c")
            try Chore(id: 1, title: "d").save(db)
            try Chore(id: 2, title: "e").save(db)
            #expect(try Chore.orderByPrimaryKey().fetchAll(db).map(\.title) == ["d", "e"])
            #expect(throws: RecordError.self) { try Chore(id: 3, title: "f").update(db) }
            #expect(try task.delete(db) && !task.delete(db))
            #expect(throws: RecordError.self) { try task.update(db) }
            #expect(try Chore.deleteOne(db, key: 2) && !Chore.deleteOne(db, id: 2))
            #expect(try Table("task").fetchCount(db) == 2 && Chore.fetchCount(db) == 0)
        }
    }

    @Test("rows that are changed together are counted")
    func batches() throws {
        try write { db throws in
            for id in 1...4 { try Chore(id: Int64(id), title: "a").insert(db) }
            #expect(try Chore.filter(Column("id") > 1).updateAll(db, Column("title").set(to: "b")) == 3)
            #expect(try Chore.filter(Column("id") > 9).updateAll(db, Column("title").set(to: "b")) == 0)
            #expect(try Chore.deleteAll(db, ids: [3, 4, 5]) == 2)
            #expect(try Table<Chore>("openTask").deleteAll(db) == 2)
            #expect(try Chore.deleteAll(db) == 0)
        }
    }

    @Test("what a trigger of a table changes does not count")
    func tables() throws {
        try write { db throws in
            try db.execute(
                sql: """
                    CREATE TRIGGER kept BEFORE DELETE ON task BEGIN
                        INSERT INTO log VALUES ('kept');
                        SELECT RAISE(IGNORE);
                    END;
                    CREATE TRIGGER seen AFTER UPDATE ON task BEGIN
                        INSERT INTO log VALUES ('one'), ('two');
                    END;
                    """)
            try Chore(id: 1, title: "a").insert(db)
            let table = Table("task")
            #expect(try table.deleteAll(db) == 0 && !table.deleteOne(db, key: 1))
            #expect(try table.updateAll(db, Column("title").set(to: "b")) == 1)
            #expect(try table.fetchCount(db) == 1 && Table("log").fetchCount(db) == 4)
        }
    }
}
