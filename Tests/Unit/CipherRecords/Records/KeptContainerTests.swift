import CipherDatabase
import Foundation
import Testing

@testable import CipherRecords

// One context shows the rows to one record after another. A program may keep what it gets to decode a record, and use it
// later.

@Suite("A record may keep what it is decoded from")
struct KeptContainerTests {
    private enum Keys: String, CodingKey, CaseIterable { case id, name, extra }

    private static func text(_ container: KeyedDecodingContainer<Keys>) throws -> String {
        "\(try container.decode(Int.self, forKey: .id)) \(try container.decode(String.self, forKey: .name))"
    }

    /// Keeps the container of its columns.
    private struct ContainerKeeper: Decodable, FetchableRecord {
        let container: KeyedDecodingContainer<Keys>
        let id: Int
        init(from decoder: any Decoder) throws {
            container = try decoder.container(keyedBy: Keys.self)
            id = try container.decode(Int.self, forKey: .id)
        }
        var later: String {
            get throws { try KeptContainerTests.text(container) }
        }
    }

    /// Keeps its decoder, and decodes by it later.
    private struct DecoderKeeper: Decodable, FetchableRecord {
        let decoder: any Decoder
        let id: Int
        init(from decoder: any Decoder) throws {
            self.decoder = decoder
            id = try decoder.container(keyedBy: Keys.self).decode(Int.self, forKey: .id)
        }
        var later: String {
            get throws { try KeptContainerTests.text(decoder.container(keyedBy: Keys.self)) }
        }
    }

    /// A column that keeps its decoder.
    private struct LateColumn: Decodable {
        let decoder: any Decoder
        init(from decoder: any Decoder) throws { self.decoder = decoder }
        var later: String { get throws { try decoder.singleValueContainer().decode(String.self) } }
    }

    private struct ColumnKeeper: Decodable, FetchableRecord {
        let id: Int
        let name: LateColumn
    }

    private struct Item: Codable, FetchableRecord, TableRecord, Hashable {
        let id: Int
        let name: String
    }

    private static let all = (1...50).map { "\($0) name \($0)" }

    private func table<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
            for id in 1...50 { try db.execute(sql: "INSERT INTO item VALUES (?, ?)", arguments: [id, "name \(id)"]) }
            return try body(db)
        }
    }

    private let sql = "SELECT id, name FROM item ORDER BY id"

    @Test("a container that is kept of one row has its values after the statement is gone")
    func keptOfOneRow() throws {
        let (first, second) = try table { db in
            let first = try ContainerKeeper.fetchOne(db, sql: sql)
            let second = try ContainerKeeper.fetchOne(db, sql: "SELECT name, id FROM item WHERE id = 7")
            let read = (try first?.later, try second?.later)
            try db.execute(sql: "DELETE FROM item")
            try #expect(ContainerKeeper.fetchOne(db, sql: sql) == nil)
            #expect(try first?.later == read.0 && second?.later == read.1)
            return read
        }
        #expect(first == "1 name 1" && second == "7 name 7")
    }

    @Test("a container that is kept of a kept row has the values of that row")
    func keptOfKeptRows() throws {
        let texts = try table { db in
            try Row.fetchAll(db, sql: sql).map { try ContainerKeeper(row: $0) }.map { try $0.later }
        }
        #expect(texts == Self.all)
    }

    @Test("a decoder that is kept has the values of its row")
    func keptDecoders() throws {
        let (kept, one) = try table { db in
            let kept = try Row.fetchAll(db, sql: sql).map { try DecoderKeeper(row: $0) }
            let one = try DecoderKeeper.fetchOne(db, sql: "SELECT * FROM item WHERE id = 9")
            // Other records of the same layout are read in between.
            _ = try DecoderKeeper.fetchAll(db, sql: sql)
            return (try kept.map { try $0.later }, try one?.later)
        }
        #expect(kept == Self.all && one == "9 name 9")
    }

    @Test("the decoder of a column that is kept has the value of its row")
    func keptColumns() throws {
        let texts = try table { db in
            let kept = try Row.fetchAll(db, sql: sql).map { try ColumnKeeper(row: $0) }
            return try kept.map { "\($0.id) \(try $0.name.later)" }
        }
        #expect(texts == Self.all)
        let one = try table { db in
            let keeper = try ColumnKeeper.fetchOne(db, sql: "SELECT * FROM item WHERE id = 3")
            _ = try Item.fetchAll(db, sql: sql)
            return try keeper?.name.later
        }
        #expect(one == "name 3")
    }

    /// Keeps its container where the row says so.
    private struct SometimesKeeper: Decodable, FetchableRecord {
        let id: Int
        let container: KeyedDecodingContainer<Keys>?
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Keys.self)
            id = try container.decode(Int.self, forKey: .id)
            self.container = id == 20 || id == 30 ? container : nil
        }
    }

    @Test("records after one that has kept its container have their own values")
    func recordsAfterKeeper() throws {
        try table { db in
            let kept = try Row.fetchAll(db, sql: sql).map { try SometimesKeeper(row: $0) }
            #expect(kept.map(\.id) == Array(1...50))
            let names = try kept.compactMap { try $0.container?.decode(String.self, forKey: .name) }
            #expect(names == ["name 20", "name 30"])
            #expect(try SometimesKeeper.fetchAll(db, sql: sql).map(\.id) == Array(1...50))
            try #expect(kept.compactMap { try $0.container?.decode(Int.self, forKey: .id) } == [20, 30])
        }
    }

    /// Asks for containers several times, of keys of two types, and for those of a record within it.
    private struct Twice: Decodable, FetchableRecord {
        enum Other: String, CodingKey { case name }
        let sum: Int
        let text: String
        init(from decoder: any Decoder) throws {
            let first = try decoder.container(keyedBy: Keys.self)
            let second = try decoder.container(keyedBy: Keys.self)
            let other = try decoder.container(keyedBy: Other.self)
            let inner = try Item(from: first.superDecoder())
            sum = try first.decode(Int.self, forKey: .id) + second.decode(Int.self, forKey: .id) + inner.id
            text = try other.decode(String.self, forKey: .name) + inner.name
        }
    }

    @Test("several containers of one record have the same row")
    func severalContainers() throws {
        let records = try table { try Twice.fetchAll($0, sql: sql) }
        #expect(records.map(\.sum) == (1...50).map { $0 * 3 })
        #expect(records.map(\.text) == (1...50).map { "name \($0)name \($0)" })
    }

    private struct Picky: Decodable, FetchableRecord {
        let id: Int
        let name: String
        init(from decoder: any Decoder) throws {
            let container = try decoder.container(keyedBy: Keys.self)
            id = try container.decode(Int.self, forKey: .id)
            if id == 5 { throw CancellationError() }
            name = try container.decode(String.self, forKey: .name)
        }
    }

    @Test("a record that throws leaves the container to the next one")
    func throwing() throws {
        try table { db in
            let rows = try Row.fetchAll(db, sql: sql)
            let read = rows.map { row in try? Picky(row: row) }
            #expect(read.map { $0?.id } == (1...50).map { $0 == 5 ? nil : $0 })
            let cursor = try Row.fetchCursor(db, sql: sql)
            var ids: [Int?] = []
            while let row = try cursor.next() { ids.append((try? Picky(row: row))?.id) }
            #expect(ids == (1...50).map { $0 == 5 ? nil : $0 })
        }
    }

    /// A whole that takes the row for its first part, which no column stands for.
    private struct Whole: Decodable, FetchableRecord {
        let item: Item
        let other: Item?
    }

    @Test("the key that the whole row stands for is forgotten with the record")
    func keyOfRow() throws {
        let items = try table { try Whole.fetchAll($0, sql: sql) }
        #expect(items.map(\.item.id) == Array(1...50) && items.allSatisfy { $0.other == nil })
    }

    // MARK: Prefetched rows

    private struct Shelf: Codable, FetchableRecord, TableRecord {
        static let items = hasMany(Item.self, key: "items").orderByPrimaryKey()
        let id: Int
    }

    private struct RowKeeper: FetchableRecord {
        let row: Row
        init(row: Row) { self.row = row.copy() }
    }

    private struct ShelfOfRows: FetchableRecord {
        let id: Int
        let items: [RowKeeper]
        init(row: Row) {
            id = row["id"]
            items = row["items"]
        }
    }

    private struct ShelfOf<Items: Decodable>: Decodable, FetchableRecord {
        let id: Int
        let items: Items
    }

    /// Ten shelves of items whose names are of all lengths; the second has no item.
    private func shelves<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE shelf (id INTEGER PRIMARY KEY);
                    CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, shelfId INTEGER REFERENCES shelf(id));
                    """)
            for id in 1...10 { try db.execute(sql: "INSERT INTO shelf VALUES (?)", arguments: [id]) }
            for id in 1...500 where id % 10 != 1 {
                try db.execute(
                    sql: "INSERT INTO item VALUES (?, ?, ?)", arguments: [id, Self.name(id), id % 10 + 1])
            }
            return try body(db)
        }
    }

    private static func name(_ id: Int) -> String {
        String(repeating: "name \(id) ", count: id % 100 == 7 ? 2000 : id % 9)
    }

    private static func expected(_ shelf: Int) -> [Int] { (1...500).filter { $0 % 10 != 1 && $0 % 10 + 1 == shelf } }

    @Test("records of prefetched rows that keep their row have its values")
    func keptPrefetchedRows() throws {
        let shelves = try shelves {
            try ShelfOfRows.fetchAll($0, Shelf.including(all: Shelf.items).orderByPrimaryKey())
        }
        #expect(shelves.map(\.id) == Array(1...10))
        for shelf in shelves {
            #expect(shelf.items.map { $0.row["id"] as Int } == Self.expected(shelf.id))
            let names = shelf.items.map { $0.row["NAME"] as String }
            #expect(names == Self.expected(shelf.id).map(Self.name))
            #expect(shelf.items.allSatisfy { $0.row["shelfId"] == shelf.id })
        }
    }

    @Test("prefetched rows are read as records, sets, and by decoders and containers that are kept")
    func keptOfPrefetchedRows() throws {
        try shelves { db in
            let request = Shelf.including(all: Shelf.items).orderByPrimaryKey()
            func ids<Items: Decodable>(_ type: Items.Type, _ ids: (Items) throws -> [Int]) throws -> [[Int]] {
                try ShelfOf<Items>.fetchAll(db, request).map { try ids($0.items) }
            }
            let expected = (1...10).map(Self.expected)
            try #expect(ids([Item].self) { $0.map(\.id) } == expected)
            try #expect(ids(Set<Item>.self) { $0.map(\.id).sorted() } == expected)
            let containers = try ids([ContainerKeeper].self) {
                try $0.map { try $0.container.decode(Int.self, forKey: .id) }
            }
            #expect(containers == expected)
            let decoders = try ids([DecoderKeeper].self) {
                try $0.map { try Item(from: $0.decoder) }.map { $0.name == Self.name($0.id) ? $0.id : -1 }
            }
            #expect(decoders == expected)
            let columns = try ids([ColumnKeeper].self) {
                try $0.map { try $0.name.later == Self.name($0.id) ? $0.id : -1 }
            }
            #expect(columns == expected)
            let sometimes = try ids([SometimesKeeper].self) { $0.map(\.id) }
            #expect(sometimes == expected)
        }
    }

    /// Keeps its own row, or the row as the statement returned it, on some shelves.
    private struct ShelfOfKeptRow: FetchableRecord {
        let row: Row?
        let items: [Item]
        init(row: Row) {
            let id: Int = row["id"]
            self.row = id % 3 == 0 ? row : id % 3 == 1 ? row.unadapted : nil
            items = row["items"]
        }
    }

    @Test("records with prefetched rows that keep their own row have its values, and the rows that were fetched for it")
    func keptRowsWithPrefetchedRows() throws {
        let shelves = try shelves {
            try ShelfOfKeptRow.fetchAll($0, Shelf.including(all: Shelf.items).orderByPrimaryKey())
        }
        #expect(shelves.map { $0.row.map { $0["ID"] as Int } } == (1...10).map { $0 % 3 == 2 ? nil : $0 })
        #expect(shelves.map { $0.items.map(\.id) } == (1...10).map(Self.expected))
        for shelf in shelves {
            guard let row = shelf.row, let id = row["id"] as Int? else { continue }
            let items = try? row.decode([Item].self, forKey: "items")
            #expect(items?.map(\.name) == (id % 3 == 0 ? Self.expected(id).map(Self.name) : nil))
            #expect(row.prefetchedRows["items"]?.map { $0["id"] as Int } == (id % 3 == 0 ? Self.expected(id) : nil))
        }
    }

    /// Reads its items once more for each of them.
    private struct ShelfOfShelves: FetchableRecord {
        struct Inner: FetchableRecord {
            let id: Int
            init(row: Row) { id = row["id"] }
        }
        let ids: [[Int]]
        init(row: Row) throws {
            ids = try row.decode([Inner].self, forKey: "items").prefix(3).map { inner in
                let again: [Inner] = row["items"]
                return [inner.id] + again.map(\.id)
            }
        }
    }

    @Test("prefetched rows can be read while they are read, and after a record that throws")
    func nestedReading() throws {
        struct Fussy: FetchableRecord {
            let ids: [Int]
            init(row: Row) throws {
                struct Item: FetchableRecord {
                    let id: Int
                    init(row: Row) throws {
                        id = row["id"]
                        if id % 100 == 7 { throw CancellationError() }
                    }
                }
                let items = try? row.decode([Item].self, forKey: "items").map(\.id)
                ids = items ?? (row["items"] as [RowKeeper]).map { $0.row["id"] }
            }
        }
        try shelves { db in
            let request = Shelf.including(all: Shelf.items).orderByPrimaryKey()
            let expected = (1...10).map { shelf in
                Self.expected(shelf).prefix(3).map { [$0] + Self.expected(shelf) }
            }
            try #expect(ShelfOfShelves.fetchAll(db, request).map(\.ids) == expected)
            try #expect(Fussy.fetchAll(db, request).map(\.ids) == (1...10).map(Self.expected))
        }
    }

    /// A tree: rows of a table below those of the same one.
    private struct Node: Codable, FetchableRecord, TableRecord {
        static let children = hasMany(Node.self, key: "children", using: ForeignKey(["parentId"])).orderByPrimaryKey()
        let id: Int
        let parentId: Int?
    }

    private struct Tree: Decodable, FetchableRecord {
        let id: Int
        let children: [Branch]
        struct Branch: Decodable, FetchableRecord {
            let id: Int
            let children: [Node]
        }
        var text: String {
            "\(id)" + children.map { "(\($0.id)" + $0.children.map { "[\($0.id)]" }.joined() + ")" }.joined()
        }
    }

    @Test("rows below prefetched rows of the same table")
    func tree() throws {
        let texts = try DatabaseQueue().write { db in
            try db.execute(sql: "CREATE TABLE node (id INTEGER PRIMARY KEY, parentId INTEGER REFERENCES node(id))")
            for id in 1...13 {
                let parent = id == 1 || id == 2 ? nil : id < 7 ? 1 + id % 2 : 3 + id % 3
                try db.execute(sql: "INSERT INTO node VALUES (?, ?)", arguments: [id, parent])
            }
            let children = Node.children.including(all: Node.children)
            let request = Node.filter(Column("parentId") == nil).including(all: children).orderByPrimaryKey()
            return try Tree.fetchAll(db, request).map(\.text)
        }
        #expect(texts == ["1(4[7][10][13])(6)", "2(3[9][12])(5[8][11])"])
    }

    @Test("prefetched rows become rows of their own when the program asks for them")
    func prefetchedObjects() throws {
        let rows = try shelves { try Row.fetchAll($0, Shelf.including(all: Shelf.items).orderByPrimaryKey()) }
        #expect(rows.map { ($0.prefetchedRows["items"] ?? []).map { $0["id"] as Int } } == (1...10).map(Self.expected))
        #expect(rows.map { $0.prefetchedRows["items"]?.count } == (1...10).map { Self.expected($0).count })
        #expect(rows[2] == rows[2] && rows[2] != rows[3])
    }
}
