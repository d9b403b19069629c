import CipherDatabase
import Testing

@Suite struct SQLRequestTests {
    let queue = DatabaseQueue()
    private let numbers = "SELECT column1 AS n, -column1 AS m FROM (VALUES (1), (2), (2))"

    @Test("a request fetches what it is for: rows or values, one, all, a set, a cursor, a count")
    func fetching() throws {
        try queue.read { db throws in
            let values = SQLRequest<Int>(sql: numbers + " WHERE n >= ?", arguments: [1])
            #expect(try values.fetchAll(db) == [1, 2, 2])
            #expect(try values.fetchOne(db) == 1)
            #expect(try values.fetchSet(db) == [1, 2])
            #expect(try Array(values.fetchCursor(db)) == [1, 2, 2])
            #expect(try values.fetchCount(db) == 3)
            let rows = SQLRequest(sql: numbers)
            #expect(try rows.fetchAll(db).count == 3)
            #expect(try rows.fetchOne(db) == ["n": 1, "m": -1])
            #expect(try rows.fetchSet(db) == [["n": 1, "m": -1], ["n": 2, "m": -2]])
            #expect(try rows.fetchCursor(db).next()?["m"] as Int? == -1)
            #expect(try SQLRequest<String?>(sql: "SELECT NULL UNION ALL SELECT 'x'").fetchAll(db) == [nil, "x"])
        }
    }

    @Test("a type fetches any request, as itself")
    func fetchingByType() throws {
        try queue.read { db throws in
            let rows = SQLRequest(sql: numbers)
            #expect(try Int.fetchAll(db, rows) == [1, 2, 2])
            #expect(try String?.fetchOne(db, rows) == "1")
            #expect(try Int.fetchSet(db, rows) == [1, 2])
            #expect(try Double.fetchCursor(db, rows).next() == 1)
            #expect(try Row.fetchAll(db, SQLRequest<Int>(sql: numbers)).count == 3)
            #expect(try Row.fetchSet(db, rows).count == 2)
            #expect(try Row.fetchCursor(db, rows).next()?.count == 2)
        }
    }

    @Test("a literal with values is a request, and a request is a query within another")
    func literals() throws {
        try queue.read { db throws in
            let request: SQLRequest<Int> = "SELECT \(1) UNION SELECT \(2)"
            #expect(try request.fetchAll(db) == [1, 2])
            let sum: SQLRequest<Int> = "SELECT SUM(x) + \(10) FROM (SELECT 1 AS x UNION \(request))"
            #expect(try sum.fetchOne(db) == 13)
        }
    }

    @Test("a cached request compiles once")
    func cached() throws {
        try queue.read { db throws in
            let sql = "SELECT ?"
            let request = SQLRequest<Int>(sql: sql, arguments: [7], cached: true)
            #expect(try request.fetchOne(db) == 7)
            #expect(try request.makePreparedRequest(db).statement === db.cachedStatement(sql: sql))
            let other = SQLRequest<Int>(sql: sql, arguments: [7])
            #expect(try other.makePreparedRequest(db).statement !== db.cachedStatement(sql: sql))
        }
    }

    @Test("adapters of a request come one after another")
    func adapters() throws {
        try queue.read { db throws in
            let request = SQLRequest<Row>(sql: "SELECT 1 AS a, 2 AS b, 3 AS c", adapter: SuffixRowAdapter(fromIndex: 1))
            #expect(try request.fetchOne(db) == ["b": 2, "c": 3])
            #expect(try Int.fetchOne(db, request) == 2)
            let adapted = request.adapted { _ in RangeRowAdapter(1...1) }
            #expect(try adapted.fetchOne(db) == ["c": 3])
            #expect(try adapted.fetchCount(db) == 1)
            let hidden: any FetchRequest<Row> = AnyFetchRequest(adapted)
            #expect(try hidden.fetchAll(db) == [["c": 3]])
            #expect(try hidden.fetchCount(db) == 1)
        }
    }

    @Test("a request without the arguments that it needs is an error, not NULL")
    func missingArguments() throws {
        try queue.read { db in
            #expect(databaseError { try SQLRequest<Int>(sql: "SELECT ?").fetchAll(db) }?.resultCode == .SQLITE_MISUSE)
            #expect(databaseError { try SQLRequest<Int>(sql: "SELECT 1; SELECT 2").fetchAll(db) } != nil)
        }
    }
}
