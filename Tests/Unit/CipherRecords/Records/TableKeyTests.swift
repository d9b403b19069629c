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
            try #expect(fans.fetchSet(db, ids: [2]).map(\.name) == ["Bob"])
            try #expect(Array(fans.fetchCursor(db, ids: [1, 2]).map(\.id)) == [1, 2])
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

    // A key that was unique among some rows only was taken for the key of one row, and deleteOne deleted all of them.
    @Test("a unique index of some of the rows is no key")
    func partialIndex() throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE berth (id INTEGER PRIMARY KEY, number INTEGER, free BOOLEAN);
                    CREATE UNIQUE INDEX taken ON berth (number) WHERE NOT free;
                    INSERT INTO berth VALUES (1, 7, TRUE), (2, 7, TRUE), (3, 7, FALSE);
                    """)
            let berths = Table("berth")
            #expect(try !db.table("berth", hasUniqueKey: ["number"]) && db.indexes(on: "berth")[0].isUnique)
            let deleting = #expect(throws: DatabaseError.self) { try berths.deleteOne(db, key: ["number": 7]) }
            let fetching = #expect(throws: DatabaseError.self) { try berths.fetchOne(db, key: ["number": 7]) }
            #expect(deleting?.resultCode == .SQLITE_MISUSE && fetching?.resultCode == .SQLITE_MISUSE)
            #expect(try berths.fetchCount(db) == 3)
            try db.execute(sql: "DELETE FROM berth WHERE id < 3; CREATE UNIQUE INDEX every ON berth (number)")
            #expect(try berths.fetchOne(db, key: ["number": 7])?["id"] == 3)
        }
    }
}
