import CipherDatabase
import CipherRecords
import Testing

/// A record whose table or selection is not always the same: one table for each tenant, a task-local value.
@Suite("Records with a computed table or selection")
struct ComputedTableTests {
    private enum Tenant {
        @TaskLocal static var name = "a"
        @TaskLocal static var isShort = false
    }

    private struct Note: Codable, Equatable, FetchableRecord, MutablePersistableRecord, Identifiable {
        static var databaseTableName: String { "note_" + Tenant.name }
        static var databaseSelection: [any SQLSelectable] {
            Tenant.isShort ? [Column("id"), Column("short").forKey("text")] : [Column("id"), Column("text")]
        }
        var id: Int64
        var text: String
        func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["text"] = text
        }
    }

    private func write(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue().write { db in
            for name in ["a", "b"] {
                try db.execute(
                    sql: "CREATE TABLE note_\(name) (id INTEGER PRIMARY KEY, text TEXT, short TEXT DEFAULT 's')")
            }
            try body(db)
        }
    }

    private func texts(_ db: Database, _ tenant: String) throws -> [String] {
        try String.fetchAll(db, sql: "SELECT text FROM note_\(tenant) ORDER BY id")
    }

    @Test("each call uses the table of the moment")
    func tables() throws {
        try write { db in
            for (tenant, other) in [("a", "b"), ("b", "a"), ("a", "b")] {
                try Tenant.$name.withValue(tenant) {
                    let before = try texts(db, other)
                    var note = Note(id: 1, text: tenant)
                    if try note.exists(db) { try note.delete(db) }
                    try note.insert(db)
                    try #expect(Note.fetchOne(db, key: 1) == note && Note.fetchOne(db, id: 1) == note)
                    note.text += "!"
                    try note.update(db)
                    note.text += "!"
                    try note.save(db)
                    try note.upsert(db)
                    try #expect(Note.find(db, key: 1).text == tenant + "!!" && note.exists(db))
                    try #expect(Note.fetchAll(db, keys: [1]).count == 1 && Note.fetchCount(db) == 1)
                    try #expect(texts(db, tenant) == [tenant + "!!"] && texts(db, other) == before)
                }
            }
            try Tenant.$name.withValue("b") { _ = try Note(id: 1, text: "").delete(db) }
            try #expect(texts(db, "a").count == 1 && texts(db, "b").isEmpty)
        }
    }

    @Test("each fetch uses the selection of the moment")
    func selections() throws {
        try write { db in
            var note = Note(id: 1, text: "long")
            try note.insert(db)
            for isShort in [false, true, false, true] {
                try Tenant.$isShort.withValue(isShort) {
                    try #expect(Note.fetchOne(db, key: 1)?.text == (isShort ? "s" : "long"))
                    try #expect(Note.find(db, id: 1).text == (isShort ? "s" : "long"))
                    try #expect(Note.fetchAll(db).map(\.text) == [isShort ? "s" : "long"])
                    try #expect(note.updateAndFetch(db).text == (isShort ? "s" : "long"))
                }
            }
        }
    }
}
