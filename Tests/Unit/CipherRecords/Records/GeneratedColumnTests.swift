import CipherDatabase
import CipherRecords
import CipherSchema
import Testing

// Story: a record with all columns of its table could be fetched and not stored, because SQLite refuses a value for a
// column that the table computes.

@Suite("Records do not write the columns that their table computes")
struct GeneratedColumnTests {
    private struct Item: Codable, Equatable, FetchableRecord, MutablePersistableRecord {
        var id: Int64?
        var net: Int
        var gross: Int?
        var label: String?
        var amount: Int
        mutating func didInsert(_ inserted: InsertionSuccess) { id = inserted.rowID }
    }

    private final class Counted: Record {
        var id: Int64?
        var net = 1
        override class var databaseTableName: String { "item" }
        override func encode(to container: inout PersistenceContainer) {
            container["id"] = id
            container["net"] = net
            container["amount"] = 1
            container["gross"] = net + 1
        }
        override func didInsert(_ inserted: InsertionSuccess) {
            super.didInsert(inserted)
            id = inserted.rowID
        }
    }

    private static func queue() throws -> DatabaseQueue {
        let queue = DatabaseQueue()
        try queue.write {
            try $0.execute(
                sql: """
                    CREATE TABLE item (
                        id INTEGER PRIMARY KEY, net INTEGER UNIQUE, GROSS INTEGER GENERATED ALWAYS AS (net + 1) STORED,
                        label TEXT AS ('n' || net), amount INTEGER);
                    CREATE TABLE computed (id INTEGER PRIMARY KEY, double INTEGER AS (id * 2))
                    """)
        }
        return queue
    }

    @Test("insert, update, save, upsert, and the calls that fetch")
    func storing() throws {
        try Self.queue().write { db throws in
            var item = Item(id: nil, net: 10, gross: 99, label: "wrong", amount: 1)
            try item.insert(db)
            let stored = Item(id: 1, net: 10, gross: 11, label: "n10", amount: 1)
            #expect(item.id == 1)
            #expect(try Item.fetchAll(db) == [stored])
            for net in [20, 30] {
                item.net = net
                try item.update(db)
                #expect(try Item.find(db, key: 1).gross == net + 1)
            }
            item.amount = 2
            try item.save(db)
            item.amount = 3
            try item.upsert(db)
            #expect(try Item.fetchAll(db) == [Item(id: 1, net: 30, gross: 31, label: "n30", amount: 3)])
            #expect(
                try Item(id: nil, net: 40, gross: nil, label: nil, amount: 4).insertAndFetch(db)
                    == Item(id: 2, net: 40, gross: 41, label: "n40", amount: 4))
            item.net = 50
            #expect(try item.updateAndFetch(db).label == "n50")
            item.net = 60
            #expect(try item.saveAndFetch(db).label == "n60")
            item.net = 70
            #expect(try item.upsertAndFetch(db).gross == 71)
            // The conflict is that of another unique key.
            var twin = Item(id: nil, net: 70, gross: 0, label: nil, amount: 8)
            #expect(try twin.upsertAndFetch(db, onConflict: ["net"]).amount == 8)
            #expect(try Item.fetchCount(db) == 2)
        }
    }

    @Test("a change of such a column alone changes no row")
    func onlyGenerated() throws {
        try Self.queue().write { db throws in
            var item = try Item(id: nil, net: 1, gross: nil, label: nil, amount: 1).insertAndFetch(db)
            let former = item
            try item.update(db, columns: ["gross", "LABEL"])
            try item.updateChanges(db) { $0.gross = 7 }
            #expect(try Item.fetchAll(db) == [former])
        }
    }

    @Test("records of one type that give other columns in turn")
    func turns() throws {
        struct Some: PersistableRecord {
            static let databaseTableName = "item"
            var net: Int
            var gives: Bool
            func encode(to container: inout PersistenceContainer) {
                if gives { container["Gross"] = 0 }
                container["net"] = net
                container["amount"] = net * 2
            }
        }
        try Self.queue().write { db throws in
            for net in 1...6 { try Some(net: net, gives: net % 2 == 0).insert(db) }
            #expect(try Int.fetchAll(db, sql: "SELECT gross FROM item ORDER BY id") == [2, 3, 4, 5, 6, 7])
            #expect(try Int.fetchAll(db, sql: "SELECT amount FROM item ORDER BY id") == [2, 4, 6, 8, 10, 12])
        }
    }

    @Test("a class has no changes after it was stored")
    func recordClass() throws {
        try Self.queue().write { db throws in
            let counted = Counted()
            try counted.insert(db)
            #expect(!counted.hasDatabaseChanges)
            counted.net = 5
            #expect(try counted.updateChanges(db) && !counted.hasDatabaseChanges)
            #expect(try Int.fetchOne(db, sql: "SELECT gross FROM item") == 6)
        }
    }

    @Test("a table whose schema changes meanwhile, and a record without any other column")
    func edges() throws {
        struct Pair: Codable, PersistableRecord {
            static let databaseTableName = "pair"
            var a: Int
            var b: Int
        }
        struct Double: Codable, PersistableRecord {
            static let databaseTableName = "computed"
            var double: Int
        }
        try Self.queue().write { db throws in
            try db.execute(sql: "CREATE TABLE pair (a, b)")
            try Pair(a: 1, b: 1).insert(db)
            try db.execute(sql: "DROP TABLE pair; CREATE TABLE pair (a, b AS (a * 10))")
            try Pair(a: 1, b: 1).insert(db)
            #expect(try Int.fetchAll(db, sql: "SELECT b FROM pair") == [10])
            let error = #expect(throws: DatabaseError.self) { try Double(double: 1).insert(db) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
        }
    }
}
