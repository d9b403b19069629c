import CipherDatabase
import CipherRecords
import Testing

@Suite("Callbacks run around what a record does")
struct CallbackTests {
    private final class Journal {
        var lines: [String] = []
        var fails: String?

        func add(_ line: String) throws {
            lines.append(line)
            if fails == line { throw Failure() }
        }
    }

    private struct Failure: Error {}

    private struct Item: MutablePersistableRecord, FetchableRecord {
        static let databaseTableName = "item"
        var id: Int64?
        var journal: Journal
        var skips: String?

        init(id: Int64? = nil, journal: Journal, skips: String? = nil) {
            (self.id, self.journal, self.skips) = (id, journal, skips)
        }

        init(row: Row) { self.init(id: row["id"], journal: Journal()) }

        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["a"] = 1
        }

        mutating func willInsert(_ db: Database) throws { try journal.add("willInsert") }
        func aroundInsert(_ db: Database, insert: () throws -> InsertionSuccess) throws {
            try journal.add("aroundInsert {")
            if skips != "aroundInsert" { _ = try insert() }
            try journal.add("} aroundInsert")
        }
        mutating func didInsert(_ inserted: InsertionSuccess) {
            journal.lines.append("didInsert \(inserted.rowID) \(inserted.rowIDColumn ?? "-")")
            id = inserted.rowID
        }
        func willUpdate(_ db: Database, columns: Set<String>) throws {
            try journal.add("willUpdate \(columns.sorted())")
        }
        func aroundUpdate(_ db: Database, columns: Set<String>, update: () throws -> PersistenceSuccess) throws {
            try journal.add("aroundUpdate {")
            if skips == "swallow" { _ = try? update() } else if skips != "aroundUpdate" { _ = try update() }
            try journal.add("} aroundUpdate")
        }
        func didUpdate(_ updated: PersistenceSuccess) { journal.lines.append("didUpdate") }
        func willSave(_ db: Database) throws { try journal.add("willSave") }
        func aroundSave(_ db: Database, save: () throws -> PersistenceSuccess) throws {
            try journal.add("aroundSave {")
            if skips != "aroundSave" { _ = try save() }
            try journal.add("} aroundSave")
        }
        func didSave(_ saved: PersistenceSuccess) {
            journal.lines.append("didSave \(saved.persistenceContainer["a"] as? Int64 ?? 0)")
        }
        func willDelete(_ db: Database) throws { try journal.add("willDelete") }
        func aroundDelete(_ db: Database, delete: () throws -> Bool) throws {
            try journal.add("aroundDelete {")
            if skips != "aroundDelete" { _ = try delete() }
            try journal.add("} aroundDelete")
        }
        func didDelete(deleted: Bool) { journal.lines.append("didDelete \(deleted)") }
    }

    private func write(_ body: (Database, Journal) throws -> Void) throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER)")
            try body(db, Journal())
        }
    }

    private let insertion = [
        "willSave", "aroundSave {", "willInsert", "aroundInsert {", "} aroundInsert", "didInsert 1 id", "} aroundSave",
        "didSave 1",
    ]
    private let update = [
        "willSave", "aroundSave {", #"willUpdate ["a", "id"]"#, "aroundUpdate {", "} aroundUpdate", "didUpdate",
        "} aroundSave", "didSave 1",
    ]

    @Test("insertion, update and deletion, in order")
    func order() throws {
        try write { db, journal in
            var item = Item(journal: journal)
            try item.insert(db)
            #expect(journal.lines == insertion)
            #expect(item.id == 1)
            journal.lines = []
            try item.update(db)
            #expect(journal.lines == update)
            journal.lines = []
            try item.save(db)
            #expect(journal.lines == update)
            journal.lines = []
            _ = try item.delete(db)
            #expect(journal.lines == ["willDelete", "aroundDelete {", "} aroundDelete", "didDelete true"])
            journal.lines = []
            var new = Item(journal: journal)
            try new.upsert(db)
            #expect(journal.lines == insertion)
            journal.lines = []
            _ = try Item(journal: journal).insertAndFetch(db)
            #expect(journal.lines.map { $0.replacing("2", with: "1") } == insertion)
        }
    }

    @Test("an update that matches no row goes on as an insertion within one save")
    func savingNew() throws {
        try write { db, journal in
            var item = Item(id: 5, journal: journal)
            try item.save(db)
            #expect(
                journal.lines == [
                    "willSave", "aroundSave {", #"willUpdate ["a", "id"]"#, "aroundUpdate {", "willInsert",
                    "aroundInsert {",
                    "} aroundInsert", "didInsert 5 id", "} aroundSave", "didSave 1",
                ])
        }
    }

    @Test("requests and SQL call nothing")
    func batches() throws {
        try write { db, journal in
            var item = Item(journal: journal)
            try item.insert(db)
            journal.lines = []
            try Item.updateAll(db, Column("a").set(to: 2))
            try Item.deleteAll(db)
            #expect(journal.lines == [])
        }
    }

    @Test(
        "an error of a callback ends it all", arguments: ["willSave", "aroundSave {", "willInsert", "aroundInsert {"])
    func errors(_ place: String) throws {
        try write { db, journal in
            journal.fails = place
            var item = Item(journal: journal)
            #expect(throws: Failure.self) { try item.insert(db) }
            #expect(journal.lines.last == place)
            try #expect(Item.fetchCount(db) == 0)
        }
    }

    @Test(
        "a callback that skips its statement, or swallows its error, is told so",
        arguments: ["aroundSave", "aroundInsert", "aroundUpdate", "aroundDelete", "swallow"])
    func skipped(_ callback: String) throws {
        try write { db, journal in
            var item = Item(id: 1, journal: journal)
            if callback != "swallow" { try item.insert(db) }
            item.skips = callback
            let error = #expect(throws: DatabaseError.self) {
                switch callback {
                case "aroundUpdate", "swallow": try item.update(db)
                case "aroundDelete": try item.delete(db)
                default:
                    item.id = nil
                    try item.insert(db)
                }
            }
            let name = callback == "swallow" ? "aroundUpdate" : callback
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(error?.message?.hasPrefix("\(name) of Item has to call its closure once") == true)
        }
    }
}
