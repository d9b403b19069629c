import CipherDatabase
import CipherRecords
import Testing

/// A deletion or an update changes the rows of the request and no others, or it is refused before anything is changed.
@Suite("Changes of the rows of random requests")
struct ChangedRowTests {
    private struct Item: Codable, FetchableRecord, PersistableRecord {
        static let parts = hasMany(Part.self, using: ForeignKey(["itemId"]))
        var id: Int
        var a: Int?
        var b: String?
        var c: String?
    }

    private struct Part: Codable, FetchableRecord, PersistableRecord {
        static let item = belongsTo(Item.self, using: ForeignKey(["itemId"]))
        var id: Int
        var itemId: Int?
        var d: Int?
    }

    private static let (id, a, b, c) = (Column("id"), Column("a"), Column("b"), Column("c"))

    /// The names of the unique keys are those of columns that may be NULL, or that hold equal texts.
    private func create(_ random: inout SeededGenerator, _ db: Database) throws {
        let isNotNull = Bool.random(using: &random)
        try db.execute(
            sql: """
                CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c TEXT COLLATE NOCASE NOT NULL);
                CREATE UNIQUE INDEX item_b ON item(b); CREATE UNIQUE INDEX item_c ON item(c COLLATE BINARY);
                CREATE TABLE part (id INTEGER PRIMARY KEY, itemId INTEGER, d INTEGER);
                """)
        for id in 1...8 {
            let number = Int.random(in: 0...2, using: &random)
            let a: Int? = number == 0 ? nil : number
            let b: String? = !isNotNull && Bool.random(using: &random) ? nil : "b\(id)"
            let c: String = id.isMultiple(of: 2) ? "c\(id)" : "C\(id + 1)"
            try Item(id: id, a: a, b: b, c: c).insert(db)
        }
        for id in 1...10 {
            let itemId: Int? = Bool.random(using: &random) ? Int.random(in: 1...8, using: &random) : nil
            try Part(id: id, itemId: itemId, d: Int.random(in: 1...3, using: &random)).insert(db)
        }
    }

    private func request(_ random: inout SeededGenerator) -> QueryInterfaceRequest<Row> {
        func once(in count: Int) -> Bool { Int.random(in: 0..<count, using: &random) == 0 }
        var request = Item.all()
        if once(in: 2) { request = request.filter(Self.a == Int.random(in: 1...2, using: &random)) }
        switch Int.random(in: 0..<8, using: &random) {
        case 0: request = request.joining(required: Item.parts)
        case 1: request = request.joining(optional: Item.parts.filter(Column("d") > 1))
        case 2: request = request.including(optional: Item.parts)
        case 3: request = request.annotated(with: Item.parts.count).having(Item.parts.count > 0)
        default: break
        }
        switch Int.random(in: 0..<12, using: &random) {
        case 0: request = request.group(Self.id)
        case 1: request = request.group(Self.a)
        case 2: request = request.group(Self.b)
        case 3: request = request.group(Self.c)
        case 4: request = request.group(-Self.b)
        case 5: request = request.groupByPrimaryKey()
        case 6: request = request.group(Self.id).having(count(Self.a) > 0)
        case 7: request = request.select(max(Self.a).forKey("m"), Self.id)
        default: break
        }
        if once(in: 4) { request = request.select(Self.id) }
        if once(in: 6) { request = request.select(Self.a, Self.id) }
        if once(in: 4) { request = request.distinct() }
        if once(in: 2) { request = request.order(Self.a.desc, Self.id) }
        if once(in: 2) {
            let offset: Int? = once(in: 2) ? Int.random(in: 0...2, using: &random) : nil
            request = request.limit(Int.random(in: 0...4, using: &random), offset: offset)
        }
        return request.asRequest(of: Row.self)
    }

    @Test("the rows that a request fetches are changed, or none", arguments: Sample.numbers(below: 40, oneIn: 3))
    func random(seed: UInt64) throws {
        var random = SeededGenerator(state: seed)
        try DatabaseQueue().write { db in
            try create(&random, db)
            for _ in 0..<60 {
                let request = request(&random)
                guard let rows = try? request.fetchAll(db) else { continue }
                let sql = try request.makePreparedRequest(db, forSingleResult: false).statement.sql
                let comment = Comment(rawValue: "seed \(seed): \(sql)")
                let expected = Set(rows.compactMap { $0["id"] as Int? })
                try db.inSavepoint {
                    do {
                        try request.updateAll(db, Column("a").set(to: 77))
                        let changed = try Set(Int.fetchAll(db, sql: "SELECT id FROM item WHERE a = 77"))
                        #expect(changed == expected, comment)
                    } catch let error as DatabaseError {
                        #expect(error.resultCode == .SQLITE_MISUSE, comment)
                        #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM item WHERE a = 77") == 0, comment)
                    }
                    return .rollback
                }
                try db.inSavepoint {
                    do {
                        try request.deleteAll(db)
                        let left = try Set(Int.fetchAll(db, sql: "SELECT id FROM item"))
                        #expect(left == Set(1...8).subtracting(expected), comment)
                    } catch let error as DatabaseError {
                        #expect(error.resultCode == .SQLITE_MISUSE, comment)
                        #expect(try Int.fetchOne(db, sql: "SELECT count(*) FROM item") == 8, comment)
                    }
                    return .rollback
                }
            }
        }
    }

    // Story: a group of a minus is one of all texts, since each is 0 as a number; that of a unique key has all NULLs.
    @Test("a group of several rows is not changed")
    func groups() throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER, b TEXT UNIQUE, c TEXT COLLATE NOCASE NOT NULL);
                    CREATE UNIQUE INDEX item_c ON item(c COLLATE BINARY);
                    INSERT INTO item VALUES (1, 1, 'x', 'k'), (2, 1, 'y', 'K'), (3, 2, NULL, 'l'), (4, 2, NULL, 'm');
                    """)
            let requests = [
                Item.all().group(-Self.b), Item.all().group(Self.b), Item.all().group(Self.c), Item.all().group(Self.a),
                Item.select(max(Self.a), Self.id), Item.select(Self.a).group(Self.id).distinct().limit(2),
            ]
            for (index, request) in requests.enumerated() {
                let error = #expect(throws: DatabaseError.self, "\(index)") { try request.deleteAll(db) }
                #expect(error?.resultCode == .SQLITE_MISUSE, "\(index)")
                #expect(throws: DatabaseError.self, "\(index)") { try request.updateAll(db, Self.a.set(to: 9)) }
                #expect(try Item.fetchCount(db) == 4, "\(index)")
            }
            #expect(try Item.all().group(-Self.id).deleteAll(db) == 4)
        }
    }

    // Story: DISTINCT made one row of two that are equal, and the rowid made them two again.
    @Test("equal rows of a table without a key are not changed as different ones")
    func equalRows() throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE log (a INTEGER, b TEXT); INSERT INTO log VALUES (1, 'x'), (1, 'x'), (2, 'y'), (3, 'z');
                    CREATE TABLE named (name TEXT PRIMARY KEY); INSERT INTO named VALUES (NULL), (NULL), ('a'), ('b');
                    """)
            for table in ["log", "named"] {
                let request = Table(table).all().distinct().limit(2)
                let error = #expect(throws: DatabaseError.self) { try request.deleteAll(db) }
                #expect(error?.resultCode == .SQLITE_MISUSE)
                #expect(try Table(table).fetchCount(db) == 4)
            }
        }
    }

    // Story: the query for the keys went by a smaller index than the request, and had other rows within the limit.
    @Test("a limit without an order changes the rows that are fetched", arguments: [false, true])
    func limits(isFiltered: Bool) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER, b TEXT, c TEXT NOT NULL);
                    CREATE UNIQUE INDEX item_c ON item(c); CREATE INDEX item_ac ON item(a, c);
                    INSERT INTO item VALUES (1, 1, 'a', 'z'), (2, 1, 'b', 'y'), (3, 1, 'c', 'x'), (4, 1, 'd', 'w');
                    CREATE TABLE pair (x TEXT, y TEXT, z TEXT, PRIMARY KEY (x, y)) WITHOUT ROWID;
                    CREATE INDEX pair_y ON pair(y); INSERT INTO pair VALUES ('a', 'z', 1), ('b', 'y', 2), ('c', 'x', 3);
                    """)
            let items = isFiltered ? Item.filter(Self.a == 1).limit(2) : Item.limit(2)
            let ids = try items.fetchAll(db).map(\.id).sorted()
            try items.updateAll(db, Self.b.set(to: "changed"))
            #expect(try Int.fetchAll(db, sql: "SELECT id FROM item WHERE b = 'changed' ORDER BY id") == ids)
            let count = try items.fetchCount(db)
            #expect(try items.deleteAll(db) == count)
            #expect(try Set(Int.fetchAll(db, sql: "SELECT id FROM item")) == Set(1...4).subtracting(ids))
            let pairs = Table("pair").all().limit(1)
            let first: String? = try pairs.fetchOne(db)?["x"]
            try pairs.deleteAll(db)
            #expect(try String.fetchAll(db, sql: "SELECT x FROM pair").contains(first ?? "") == false)
        }
    }

    // Story: deleteOne by a unique key of NULL deleted every row with NULL, and "a" deleted "A" too.
    @Test("the deletion of one row deletes no second one")
    func oneRow() throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER, b TEXT UNIQUE, c TEXT COLLATE NOCASE NOT NULL);
                    CREATE UNIQUE INDEX item_c ON item(c COLLATE BINARY);
                    INSERT INTO item VALUES (1, 1, NULL, 'k'), (2, 1, NULL, 'K'), (3, 2, 'x', 'l'), (4, 2, 'y', 'm');
                    """)
            let null: String? = nil
            for key in [["b": null], ["c": "k"]] {
                let error = #expect(throws: DatabaseError.self) { try Item.deleteOne(db, key: key) }
                #expect(error?.resultCode == .SQLITE_MISUSE)
                #expect(throws: DatabaseError.self) { try Table("item").deleteOne(db, key: key) }
                #expect(try Item.fetchCount(db) == 4)
            }
            #expect(try Item.deleteOne(db, key: ["b": "x"]) && Item.deleteOne(db, key: ["c": "M"]))
            #expect(try Item.deleteOne(db, key: ["id": 1]) && Item.deleteOne(db, key: ["b": null]))
            #expect(try Item.fetchCount(db) == 0)
        }
    }
}
