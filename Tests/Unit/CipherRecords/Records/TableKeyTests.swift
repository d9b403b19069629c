import CipherDatabase
import Testing

@testable import CipherRecords

@Suite("Rows of a table by their keys")
struct TableKeyTests {
    private struct Fan: Codable, Hashable, Identifiable, FetchableRecord, TableRecord {
        static let databaseTableName = "player"
        var id: Int64
        var name: String
    }

    @Test("as rows and as records")
    func keys() throws {
        try Schema.queue().write { db in
            try db.execute(sql: "INSERT INTO player (name, email) VALUES ('Ann', 'a'), ('Bob', 'b')")
            let (rows, fans) = (Table("player"), Table<Fan>("player"))
            try #expect(rows.fetchOne(db, key: 1)?["name"] == "Ann" && rows.fetchOne(db, key: 9) == nil)
            try #expect(rows.fetchOne(db, key: ["email": "b"])?["name"] == "Bob")
            try #expect(rows.fetchOne(db, key: nil as Int?) == nil)
            try #expect(rows.find(db, key: 2)["name"] == "Bob" && rows.find(db, key: ["email": "a"])["id"] == 1)
            try #expect(rows.fetchAll(db, keys: [1, 2]).count == 2 && rows.fetchAll(db, keys: [Int]()).isEmpty)
            try #expect(Array(rows.fetchCursor(db, keys: [1]).map { $0["id"] as Int }) == [1])
            try #expect(fans.fetchOne(db, key: 1)?.name == "Ann" && fans.find(db, key: 2).name == "Bob")
            try #expect(fans.fetchOne(db, id: 1)?.name == "Ann" && fans.find(db, id: 2).name == "Bob")
            try #expect(fans.fetchAll(db, ids: [1, 2]).count == 2 && fans.fetchSet(db, keys: [1]).count == 1)
            try #expect(fans.filter(id: 2).fetchAll(db).map(\.name) == ["Bob"] && fans.exists(db, id: 1))
            #expect(throws: RecordError.recordNotFound(databaseTableName: "player", key: ["id": 9.databaseValue])) {
                try fans.find(db, key: 9)
            }
            #expect(throws: RecordError.recordNotFound(databaseTableName: "player", key: ["email": "x".databaseValue]))
            {
                try rows.find(db, key: ["email": "x"])
            }
            try #expect(fans.deleteOne(db, id: 1) && fans.deleteAll(db, ids: [2]) == 1)
            try #expect(rows.deleteAll(db, keys: [["email": "b"]]) == 0)
        }
    }
}
