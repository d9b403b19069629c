import CipherDatabase
import CipherRecords
import Testing

@Suite("Records of the base class know what has changed")
struct RecordClassTests {
    private class Boat: Record {
        var id: Int64?
        var name: String?
        var length: Int?
        var journal: [String] = []

        init(id: Int64? = nil, name: String?, length: Int? = nil) {
            (self.id, self.name, self.length) = (id, name, length)
            super.init()
        }

        required init(row: Row) throws {
            id = row["id"]
            name = row["name"]
            length = row["length"]
            try super.init(row: row)
        }

        override class var databaseTableName: String { "boat" }

        override func encode(to container: inout PersistenceContainer) {
            container["ID"] = id
            container["NAME"] = name
            container["LENGTH"] = length
        }

        override func willSave(_ db: Database) throws { journal.append("willSave") }
        override func didInsert(_ inserted: InsertionSuccess) {
            super.didInsert(inserted)
            id = inserted.rowID
            journal.append("didInsert")
        }
        override func didUpdate(_ updated: PersistenceSuccess) { journal.append("didUpdate") }
        override func didDelete(deleted: Bool) { journal.append("didDelete \(deleted)") }
    }

    private final class Tug: Boat {
        static let horsepower = Column("length")
        override class var persistenceConflictPolicy: PersistenceConflictPolicy {
            PersistenceConflictPolicy(insert: .replace)
        }
        override class var databaseSelection: [any SQLSelectable] { [.allColumns, .rowID] }
    }

    private final class Unnamed: Record {}

    private func write(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE boat (id INTEGER PRIMARY KEY, name TEXT NOT NULL, length REAL)")
            try body(db)
        }
    }

    @Test("until it is read or stored, every value is a change")
    func new() throws {
        let boat = Boat(name: "Ann", length: 4)
        #expect(boat.hasDatabaseChanges)
        try #expect(boat.databaseChanges == ["ID": nil, "NAME": nil, "LENGTH": nil])
        let made = try Boat(row: ["id": 1, "name": "Ann"])
        try #expect(made.hasDatabaseChanges && made.databaseChanges.count == 3)
    }

    @Test("insertion, update and deletion")
    func storing() throws {
        try write { db in
            let boat = Boat(name: "Ann", length: 4)
            try boat.insert(db)
            #expect(boat.id == 1 && !boat.hasDatabaseChanges)
            boat.name = "Bob"
            try #expect(boat.databaseChanges == ["NAME": "Ann".databaseValue])
            try #expect(boat.updateChanges(db) && !boat.updateChanges(db))
            #expect(!boat.hasDatabaseChanges)
            boat.length = nil
            try #expect(boat.databaseChanges == ["LENGTH": 4.databaseValue])
            try boat.save(db)
            #expect(!boat.hasDatabaseChanges)
            boat.id = 5
            #expect(throws: RecordError.self) { try boat.update(db) }
            #expect(boat.hasDatabaseChanges)
            boat.id = 1
            try #expect(boat.delete(db) && boat.hasDatabaseChanges)
            try boat.save(db)
            #expect(!boat.hasDatabaseChanges)
            #expect(
                boat.journal == [
                    "willSave", "didInsert", "willSave", "didUpdate", "willSave", "didUpdate", "willSave",
                    "didDelete true", "willSave", "didInsert",
                ])
        }
    }

    @Test("a record that was read has no changes, unless the row lacked columns")
    func reading() throws {
        try write { db in
            for name in ["Ann", "Bob"] { try Boat(name: name, length: 3).insert(db) }
            // The column holds a floating-point number, the property an integer.
            let boats = try Boat.fetchAll(db)
            #expect(boats.map(\.name) == ["Ann", "Bob"] && !boats.contains(where: \.hasDatabaseChanges))
            let cursor = try Boat.fetchCursor(db, sql: "SELECT *, 1 AS more FROM boat ORDER BY id")
            let first = try #require(try cursor.next())
            let second = try #require(try cursor.next())
            #expect(!first.hasDatabaseChanges && !second.hasDatabaseChanges)
            let partial = try #require(try Boat.fetchOne(db, sql: "SELECT id, name FROM boat"))
            try #expect(partial.databaseChanges == ["LENGTH": nil])
            let found = try Boat.find(db, key: 2)
            try found.updateChanges(db) { $0.name = "Cid" }
            try #expect(Boat.filter(Column("name") == "Cid").fetchCount(db) == 1 && !found.hasDatabaseChanges)
        }
    }

    @Test("subclasses have their own selection and policy")
    func subclasses() throws {
        try write { db in
            try Tug(id: 1, name: "Ann").insert(db)
            try Tug(id: 1, name: "Bob").insert(db)
            try #expect(Tug.fetchAll(db).map(\.name) == ["Bob"] && Tug.numberOfSelectedColumns(db) == 4)
            try #expect(Tug.filter(Tug.horsepower == nil).fetchOne(db)?.hasDatabaseChanges == false)
            #expect(throws: DatabaseError.self) { try Boat(id: 1, name: "Cid").insert(db) }
            // The class of the object counts.
            let boat: Boat = Tug(id: 1, name: "Dan")
            try boat.insert(db)
            try #expect(Tug.fetchAll(db).map(\.name) == ["Dan"])
            #expect(Unnamed.databaseTableName == "unnamed" && Tug.databaseTableName == "boat")
            #expect(throws: DatabaseError.self) { try Unnamed().insert(db) }
        }
    }
}
