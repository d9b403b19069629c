import CipherDatabase
import CipherRecords
import Testing

/// Changes of the rows of a request with a limit, whose order names a selected expression.
@Suite struct LimitedChangeTests {
    private struct Item: Codable, FetchableRecord, PersistableRecord {
        static let parts = hasMany(Part.self, using: ForeignKey(["itemId"]))
        var id: Int
        var g: Int
    }

    private struct Part: Codable, FetchableRecord, PersistableRecord {
        var id: Int
        var itemId: Int
    }

    private static let (id, g) = (Column("id"), Column("g"))
    private static let cte = CommonTableExpression<Row>(named: "few", sql: "SELECT 1 AS id UNION SELECT 2")

    /// The requests, and the rows that each has.
    private static let requests: [(QueryInterfaceRequest<Item>, [Int])] = [
        (Item.select(id, (-g).forKey("g")).order(g).limit(1), [4]),
        (Item.select(id, (-g).forKey("G")).order(g.desc).limit(1, offset: 1), [2]),
        (Item.select(id, (-g).forKey("g")).order(g).withStableOrder().limit(2), [3, 4]),
        (Item.select(id, (-g).forKey("g")).order(g.collating(.nocase)).limit(1), [4]),
        (Item.select(id, SQL("-g AS g")).order(g).limit(1), [4]),
        (Item.select(id, (-g).forKey("g")).order(g).reversed().limit(1), [1]),
        (Item.annotated(with: (g * -2).forKey("double")).order(Column("double")).limit(1), [4]),
        (Item.annotated(with: (-g).forKey("g")).order(g).limit(1), [1]),
        (Item.select(g, id).order(SQL("2 DESC")).limit(1), [4]),
        (Item.select((g & 1).forKey("odd"), g, id).order(sql: "1, 3 DESC").limit(1), [4]),
        (Item.annotated(with: Item.parts.count.forKey("k")).order(SQL("k").sqlExpression.desc, id).limit(2), [2, 3]),
        (Item.including(required: Item.parts).select(id, g).order(SQL("3 DESC")).limit(1), [3]),
        (Item.select(id, (-g).forKey("g")).with(cte).filter(cte.contains(id)).order(g).limit(1), [2]),
        (Item.select(g, id).distinct().order(SQL("1 DESC")).limit(1), [4]),
        (Item.select(id, (-g).forKey("g")).groupByPrimaryKey().order(g).limit(1), [4]),
    ]

    private func withTables(_ body: (Database) throws -> Void) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, g INT);
                    CREATE TABLE part (id INTEGER PRIMARY KEY, itemId INTEGER);
                    INSERT INTO item VALUES (1, 1), (2, 2), (3, 3), (4, 4);
                    INSERT INTO part VALUES (1, 2), (2, 2), (3, 3);
                    """)
            try body(db)
        }
    }

    // Story: ORDER BY "g" was the selected -g where rows were fetched, and the column where they were deleted.
    @Test("a deletion and an update have the rows that the request fetches", arguments: requests.indices)
    func rows(_ index: Int) throws {
        let (request, expected) = Self.requests[index]
        try withTables { (db: Database) throws -> Void in
            let fetched = try Row.fetchAll(db, request).map { row -> Int in row["id"] }
            #expect(fetched.sorted() == expected)
            let updated = try request.updateAndFetchAll(db, [Self.g.set(to: Self.g)])
            #expect(updated.map(\.id).sorted() == expected)
            #expect(try request.deleteAll(db) == expected.count)
            let left = try Int.fetchAll(db, sql: "SELECT id FROM item ORDER BY id")
            #expect(left == [1, 2, 3, 4].filter { !expected.contains($0) })
        }
    }

    @Test("a key of several columns")
    func compositeKey() throws {
        try DatabaseQueue().write { (db: Database) throws -> Void in
            try db.execute(
                sql: """
                    CREATE TABLE pair (a INT, b INT, PRIMARY KEY (a, b)) WITHOUT ROWID;
                    INSERT INTO pair VALUES (1, 1), (1, 2), (2, 1);
                    """)
            let (a, b) = (Column("a"), Column("b"))
            let request = Table("pair").select((-a).forKey("a"), b).order(a, b).limit(1)
            #expect(try request.deleteAll(db) == 1)
            #expect(try Int.fetchAll(db, sql: "SELECT a * 10 + b FROM pair ORDER BY 1") == [11, 12])
        }
    }

    @Test("an aggregate makes one row of all, which no change can have")
    func aggregate() throws {
        try withTables { (db: Database) throws -> Void in
            let request = Item.select(max(Self.g).forKey("g")).order(Self.g).limit(1)
            let error = #expect(throws: DatabaseError.self) { try request.deleteAll(db) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(try Item.fetchCount(db) == 4)
        }
    }
}
