import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

// Story: after an insertion that SQLite ignored, the record took the rowid of the row that was inserted last, and an
// update of the record changed that row.

@Suite("An insertion that is ignored gives the record no rowid")
struct IgnoredInsertionTests {
    private struct Player: Codable, MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "player"
        var id: Int64?
        var name: String
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private struct Former: Codable, MutablePersistableRecord {
        static let databaseTableName = "player"
        var id: Int64?
        var name: String
        mutating func didInsert(with rowID: Int64, for column: String?) { id = rowID }
    }

    private struct Lenient: Codable, MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "player"
        static let persistenceConflictPolicy = PersistenceConflictPolicy(insert: .ignore, update: .ignore)
        var id: Int64?
        var name: String
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private final class Logged: PersistableRecord {
        static let databaseTableName = "player"
        var id: Int64?
        var calls: [String] = []
        var container: [String: DatabaseValue] = [:]
        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = "Ann"
        }
        func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
            let success = try insert()
            container = Dictionary(
                uniqueKeysWithValues: ["id", "name"].map {
                    ($0, success.persistenceContainer[$0]?.databaseValue ?? .null)
                })
        }
        func didInsert(_ inserted: InsertionSuccess) {
            calls.append("didInsert")
            id = inserted.rowID
        }
        func didSave(_ saved: PersistenceSuccess) { calls.append("didSave") }
    }

    private final class Changing: Record {
        var id: Int64?
        override class var databaseTableName: String { "player" }
        override func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["name"] = "Ann"
        }
        override func didInsert(_ inserted: InsertionSuccess) {
            super.didInsert(inserted)
            id = inserted.rowID
        }
    }

    /// A table with a row of this name, and another row that was inserted later.
    private func queue(
        _ constraint: String = "UNIQUE", _ more: String = "", _ configuration: Configuration = Configuration()
    ) throws -> DatabaseQueue {
        let queue = DatabaseQueue(configuration: configuration)
        try queue.write {
            try $0.execute(
                sql: """
                    CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT \(constraint));
                    INSERT INTO player (name) VALUES ('Ann'), ('Zoe');
                    \(more)
                    """)
        }
        return queue
    }

    private func expectIgnored(_ db: Database) throws {
        try #expect(String.fetchAll(db, sql: "SELECT name FROM player ORDER BY id") == ["Ann", "Zoe"])
    }

    @Test("by the argument, the policy of the record, and in every method")
    func argument() throws {
        try queue().write { db in
            var player = Player(id: nil, name: "Ann")
            try player.insert(db, onConflict: .ignore)
            #expect(player.id == nil)
            try player.save(db, onConflict: .ignore)
            #expect(player.id == nil)
            try #expect(player.inserted(db, onConflict: .ignore).id == nil)
            try #expect(player.saved(db, onConflict: .ignore).id == nil)
            #expect(throws: RecordError.self) { try player.insertAndFetch(db, onConflict: .ignore) }
            #expect(throws: RecordError.self) {
                try player.insertAndFetch(db, onConflict: .ignore, as: Player.self)
            }
            #expect(player.id == nil)
            let count = try player.insertAndFetch(
                db, onConflict: .ignore, selection: [Column("name")], fetch: { try Row.fetchAll($0).count })
            #expect(count == 0 && player.id == nil)
            var former = Former(id: nil, name: "Ann")
            try former.insert(db, onConflict: .ignore)
            #expect(former.id == nil)
            var lenient = Lenient(id: nil, name: "Ann")
            try lenient.insert(db)
            #expect(lenient.id == nil)
            try lenient.save(db)
            #expect(lenient.id == nil)
            try expectIgnored(db)
            lenient.name = "Bob"
            try lenient.insert(db)
            #expect(lenient.id == 3)
        }
    }

    @Test("insertOrIgnore says whether there is a new row; errors of foreign keys are thrown")
    func insertOrIgnore() throws {
        struct Score: Codable, PersistableRecord {
            var id: Int64
            var playerId: Int64?
        }
        let table = "CREATE TABLE score (id INTEGER PRIMARY KEY, playerId INTEGER NOT NULL REFERENCES player)"
        try queue("UNIQUE", table).write { db throws in
            var player = Player(id: nil, name: "Ann")
            #expect(try !player.insertOrIgnore(db) && player.id == nil)
            player.name = "Bob"
            #expect(try player.insertOrIgnore(db) && player.id == 3)
            let logged = Logged()
            #expect(try !logged.insertOrIgnore(db) && logged.calls.isEmpty)
            #expect(try Score(id: 1, playerId: 3).insertOrIgnore(db) && !Score(id: 1, playerId: 3).insertOrIgnore(db))
            #expect(try !Score(id: 2, playerId: nil).insertOrIgnore(db))
            let error = #expect(throws: DatabaseError.self) {
                _ = try Score(id: 3, playerId: 99).insertOrIgnore(db)
            }
            #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        }
    }

    @Test("by ON CONFLICT IGNORE in the schema")
    func schema() throws {
        try queue("UNIQUE ON CONFLICT IGNORE").write { db in
            var player = Player(id: nil, name: "Ann")
            try player.insert(db)
            #expect(player.id == nil)
            try player.save(db)
            #expect(player.id == nil)
            try expectIgnored(db)
        }
        try queue("NOT NULL ON CONFLICT IGNORE").write { db in
            var player = Player(id: nil, name: "Dan")
            try player.insert(db)
            #expect(player.id == 3)
        }
    }

    @Test("by a trigger that raises IGNORE, and by one that inserts elsewhere first")
    func triggers() throws {
        let trigger = """
            CREATE TABLE log (id INTEGER PRIMARY KEY, name TEXT);
            INSERT INTO log VALUES (100, 'x');
            CREATE TRIGGER refuse BEFORE INSERT ON player BEGIN
                INSERT INTO log (name) VALUES (new.name);
                SELECT RAISE(IGNORE);
            END;
            """
        try queue("", trigger).write { db in
            var player = Player(id: nil, name: "Ann")
            try player.insert(db)
            #expect(player.id == nil)
            #expect(throws: RecordError.self) { try player.insertAndFetch(db) }
            #expect(throws: RecordError.self) { try player.upsert(db) }
            #expect(player.id == nil)
            try expectIgnored(db)
        }
    }

    @Test("no callback reports it, and a class knows that it is not stored")
    func callbacks() throws {
        try queue().write { db in
            let logged = Logged()
            try logged.insert(db, onConflict: .ignore)
            try logged.save(db, onConflict: .ignore)
            #expect(logged.id == nil && logged.calls.isEmpty)
            #expect(logged.container == ["id": .null, "name": "Ann"])
            let changing = Changing()
            try changing.insert(db, onConflict: .ignore)
            #expect(changing.id == nil && changing.hasDatabaseChanges)
            try db.execute(sql: "DELETE FROM player")
            try changing.insert(db, onConflict: .ignore)
            #expect(changing.id != nil && !changing.hasDatabaseChanges)
        }
    }

    @Test("an insertion that a reader of its rows left midway, or that inserted more, has its own rowid")
    func returningMidway() throws {
        try queue().write { db in
            var player = Player(id: nil, name: "Bob")
            let name = try player.insertAndFetch(db, selection: [Column("name")]) { statement in
                let name = try Row.fetchCursor(statement).next()?["name"] as String?
                try db.execute(sql: "INSERT INTO player VALUES (50, 'Eve')")
                return name
            }
            #expect(name == "Bob")
            #expect(player.id == 3)
        }
    }

    @Test("an insertion through a view is none that was ignored")
    func view() throws {
        let view = """
            CREATE VIEW names AS SELECT name FROM player;
            CREATE TRIGGER add_name INSTEAD OF INSERT ON names BEGIN INSERT INTO player (name) VALUES (new.name); END;
            """
        struct Name: Codable, PersistableRecord {
            static let databaseTableName = "names"
            static let reports = Reports()
            var name: String
            func didInsert(_ inserted: InsertionSuccess) { Self.reports.add() }
        }
        struct Source: DatabaseSchemaSource {
            func columnsForPrimaryKey(_ db: Database, inView view: DatabaseObjectID) throws -> [String]? { ["name"] }
        }
        var configuration = Configuration()
        configuration.schemaSource = Source()
        try queue("", view, configuration).write { db in
            try Name(name: "Bob").insert(db)
            #expect(Name.reports.count == 1)
        }
    }
}

// Safe because: one test uses it on one thread.
private final class Reports: @unchecked Sendable {
    private(set) var count = 0
    func add() { count += 1 }
}
