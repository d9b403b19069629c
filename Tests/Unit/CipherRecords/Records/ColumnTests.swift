import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import Testing

@Suite("Columns of records: numbers, encoded keys, reserved names")
struct ColumnTests {
    private struct Reading: Codable, PersistableRecord {
        var id: Int64
        var value: Int
    }

    @Test("an integer and the same floating-point number are no change")
    func numbers() throws {
        struct Wide: Codable, PersistableRecord {
            static let databaseTableName = "reading"
            var id: Int64
            var value: Double
            var unit: String?
        }
        let (narrow, wide) = (Reading(id: 1, value: 2), Wide(id: 1, value: 2, unit: nil))
        try #expect(wide.databaseChanges(from: narrow).isEmpty && narrow.databaseChanges(from: wide).isEmpty)
        try #expect(
            Wide(id: 1, value: 2.5, unit: "m").databaseChanges(from: narrow).keys.sorted() == ["unit", "value"])
    }

    @Test("another spelling of the same letter is a change, and is stored")
    func spellings() throws {
        struct City: Codable, PersistableRecord, FetchableRecord {
            var id: Int64
            var name: String
        }
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT)")
            var city = City(id: 1, name: "Orle\u{301}ans")
            try city.insert(db)
            try #expect(city.updateChanges(db) { $0.name = "Orl\u{e9}ans" })
            #expect(try Int.fetchOne(db, sql: "SELECT LENGTH(name) FROM city") == 7)
            try #expect(!city.updateChanges(db) { $0.name = "Orl\u{e9}ans" })
        }
    }

    private struct Token: Codable, Identifiable, PersistableRecord, FetchableRecord {
        var code: UUID
        var owner: UUID
        var id: UUID { code }

        static func databaseUUIDEncodingStrategy(for column: String) -> DatabaseUUIDEncodingStrategy {
            column == "code" ? .lowercaseString : .deferredToUUID
        }
    }

    @Test("keys are looked for as the records store them in the column of the key")
    func encodedKeys() throws {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE token (code TEXT PRIMARY KEY, owner BLOB)")
            let (one, two, none) = (UUID(), UUID(), UUID())
            for code in [one, two] { try Token(code: code, owner: one).insert(db) }
            try #expect(Token.fetchOne(db, id: one)?.code == one && Token.find(db, key: two).code == two)
            try #expect(
                Token.filter(id: one).fetchCount(db) == 1 && Token.filter(ids: [one, two, none]).fetchCount(db) == 2)
            try #expect(Token.fetchAll(db, ids: [one, two]).count == 2 && Token.exists(db, id: two))
            let many = (0..<200).map { _ in UUID() } + [two]
            try #expect(Token.filter(keys: many).fetchAll(db).map(\.code) == [two])
            let key = ["code": none.uuidString.lowercased().databaseValue]
            #expect(throws: RecordError.recordNotFound(databaseTableName: "token", key: key)) {
                try Token.find(db, id: none)
            }
            try #expect(Token.deleteOne(db, id: one) && Token.deleteAll(db, ids: [one, two]) == 1)
        }
    }

    private struct Reserved: MutablePersistableRecord, FetchableRecord, Codable, Equatable {
        static let databaseTableName = "or\"der"
        var select: Int64?
        var weird: String
        enum CodingKeys: String, CodingKey {
            case select
            case weird = "we\"ird' --"
        }
        mutating func didInsert(_ inserted: InsertionSuccess) { select = inserted.rowID }
    }

    @Test("columns may have reserved words and quotes in their names")
    func reservedNames() throws {
        try DatabaseQueue().write { db in
            try db.create(table: Reserved.databaseTableName) { t in
                t.autoIncrementedPrimaryKey("select")
                t.column("we\"ird' --", .text)
            }
            var record = Reserved(select: nil, weird: "x' OR 1 --")
            try record.insert(db)
            record.weird = "\"; DROP TABLE a"
            try record.save(db)
            try #expect(Reserved.fetchOne(db, key: 1) == record)
            try #expect(Reserved.filter(Column("we\"ird' --") == record.weird).fetchAll(db) == [record])
            try #expect(record.upsertAndFetch(db) == record)
            try #expect(record.delete(db))
        }
    }
}
