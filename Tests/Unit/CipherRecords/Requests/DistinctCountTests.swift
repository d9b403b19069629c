import CipherDatabase
import CipherRecords
import Testing

/// A request counts the rows that it fetches, whatever is selected.
@Suite struct DistinctCountTests {
    private struct Item: Codable, FetchableRecord, PersistableRecord {
        static let parts = hasMany(Part.self, using: ForeignKey(["itemId"]))
        var id: Int
        var a: Int?
        var b: String?
    }

    private struct Part: Codable, FetchableRecord, PersistableRecord {
        var id: Int
        var itemId: Int?
    }

    private static let (a, b) = (Column("a"), Column("b"))

    // Story: COUNT(DISTINCT a) leaves NULL out, and the different rows have it.
    private static let requests: [QueryInterfaceRequest<Row>] = {
        let plain = Table("item").all()
        var requests: [QueryInterfaceRequest<Row>] = [
            plain.select(a), plain.select(b), plain.select(a, b), plain.select(a + 1),
            plain.select((a + 1).forKey("x")),
            plain.select(a).filter(a == nil), plain.select(a).filter(a != nil), plain.select(Column("id")),
            plain.select(SQL("a")), plain.select(SQL("a, b")), plain.select(b.collating(.nocase)), plain,
            plain.select(a ?? 0), plain.select(max(a)), plain.select(count(distinct: a)), plain.select(a.asJSON),
            plain.select(a).group(a), plain.select(a).group(a).having(count(b) > 0), plain.annotated(with: a + 1),
            plain.select(a).order(b), plain.select(a).filter(sql: "0"),
        ]
        requests.append(Item.annotated(with: Item.parts.count).asRequest(of: Row.self))
        requests.append(Item.joining(optional: Item.parts).select(a).asRequest(of: Row.self))
        requests.append(Item.including(optional: Item.parts).asRequest(of: Row.self))
        let all = requests
        requests += all.map { $0.distinct() }
        requests += all.map { $0.limit(2) }
        requests += all.map { $0.distinct().limit(2) }
        requests += all.map { $0.distinct().limit(3, offset: 1) }
        return requests
    }()

    @Test("the count of a request is that of the rows that it fetches", arguments: requests.indices)
    func counts(_ index: Int) throws {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: """
                    CREATE TABLE item (id INTEGER PRIMARY KEY, a INTEGER, b TEXT COLLATE NOCASE);
                    CREATE TABLE part (id INTEGER PRIMARY KEY, itemId INTEGER);
                    INSERT INTO item VALUES (1, 1, 'x'), (2, NULL, 'X'), (3, NULL, NULL), (4, 1, 'y'), (5, 2, NULL);
                    INSERT INTO part VALUES (1, 1), (2, 1), (3, NULL), (4, 9);
                    """)
            let request = Self.requests[index]
            let rows = try request.fetchAll(db)
            let sql = try request.makePreparedRequest(db, forSingleResult: false).statement.sql
            #expect(try request.fetchCount(db) == rows.count, "\(sql)")
            #expect(try request.isEmpty(db) == rows.isEmpty, "\(sql)")
            let exists = try Bool.fetchOne(db, Table("item").select(request.exists()).limit(1))
            #expect(exists == !rows.isEmpty, "\(sql)")
        }
    }
}
