import CipherStore

struct Note: Codable, FetchableRecord, PersistableRecord {
    var id: Int64?
    var text: String
}

var migrator = DatabaseMigrator()
migrator.registerMigration("note") { db in
    try db.create(table: "note") { t in
        t.autoIncrementedPrimaryKey("id")
        t.column("text", .text).notNull()
    }
}
let store = try SharedStore.open(at: "app.db", unlockedBy: .keyFile(path: "app.key"), migrator: migrator)
try store.write { db in try Note(text: "hello").insert(db) }
let notes = try store.read { db in try Note.filter(Column("text") != "").order(Column("id")).fetchAll(db) }
print(notes.map(\.text))
try store.close()
