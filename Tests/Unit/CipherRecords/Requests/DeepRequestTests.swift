import CipherDatabase
import CipherRecords
import Testing

/// Requests in requests, as a loop of a program may build them.
@Suite struct DeepRequestTests {
    private struct Node: Codable, FetchableRecord, PersistableRecord {
        static let parent = belongsTo(Node.self, key: "parent", using: ForeignKey(["parentId"]))
        static let children = hasMany(Node.self, key: "children", using: ForeignKey(["parentId"]))
        var id: Int64
        var parentId: Int64?
    }

    private func withTable<T>(_ body: (Database) throws -> T) throws -> T {
        try DatabaseQueue().write { db in
            try db.execute(
                sql: "CREATE TABLE node (id INTEGER PRIMARY KEY, parentId INTEGER); INSERT INTO node VALUES (1, NULL)")
            return try body(db)
        }
    }

    /// Each puts a request into another one.
    private static let ways: [@Sendable (QueryInterfaceRequest<Node>) -> QueryInterfaceRequest<Node>] = [
        { Node.filter($0.exists()) },
        { Node.filter(!$0.exists()) },
        { Node.filter($0.select(Column("id")).contains(Column("id"))) },
        { Node.filter(SQL("EXISTS (\($0))")) },
        { Node.all().group(SQLExpression(subquery: $0)) },
        {
            let table = CommonTableExpression<Node>(named: "inner", request: $0)
            return Node.filter(table.all().with(table).exists())
        },
        { Node.order(SQLExpression(subquery: $0)) },
    ]

    @Test("a few are a statement", arguments: ways.indices)
    func shallow(_ way: Int) throws {
        try withTable { (db: Database) throws -> Void in
            var request = Node.all()
            for _ in 0..<10 { request = Self.ways[way](request.select(Column("id"))) }
            _ = try request.makePreparedRequest(db)
        }
    }

    // Story: the process ended by the overflow of its stack.
    @Test("a thousand and more are an error", arguments: ways.indices, [1_000, 20_000])
    func deep(_ way: Int, _ levels: Int) throws {
        try withTable { (db: Database) throws -> Void in
            var request = Node.all()
            for _ in 0..<levels { request = Self.ways[way](request.select(Column("id"))) }
            let error = #expect(throws: DatabaseError.self) { try request.makePreparedRequest(db) }
            #expect(error?.resultCode == .SQLITE_MISUSE)
            #expect(error?.message?.contains("in one another") == true)
        }
    }

    @Test("so are associations of associations", arguments: [1_000, 5_000])
    func associations(_ levels: Int) throws {
        try withTable { (db: Database) throws -> Void in
            var (joined, fetched, optional) = (Node.parent, Node.children, Node.parent)
            for _ in 0..<levels {
                joined = Node.parent.including(required: joined)
                optional = Node.parent.joining(optional: optional)
                fetched = Node.children.including(all: fetched)
            }
            for request in [
                Node.including(required: joined), Node.joining(optional: optional), Node.including(all: fetched),
            ] {
                let error = #expect(throws: DatabaseError.self) { try request.fetchAll(db) }
                #expect(error?.resultCode == .SQLITE_MISUSE)
                #expect(error?.message?.contains("in one another") == true)
                #expect(throws: DatabaseError.self) { try request.deleteAll(db) }
                #expect(throws: DatabaseError.self) { try request.databaseRegion(db) }
            }
        }
    }
}

extension SQLExpression {
    fileprivate init(subquery request: QueryInterfaceRequest<some Any>) {
        self = request.select(Column("id")).limit(1).sqlSubquery.sqlExpression
    }
}
