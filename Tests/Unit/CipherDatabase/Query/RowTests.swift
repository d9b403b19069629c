import CipherDatabase
import Foundation
import Testing

@Suite struct RowTests {
    private typealias Stored = (any DatabaseValueConvertible)?
    let queue = DatabaseQueue()

    private func row(_ sql: String) throws -> Row {
        try #require(try queue.read { try Row.fetchOne($0, sql: sql) })
    }

    // MARK: Columns

    @Test("columns are found by position and by name in any case; the leftmost of a name wins")
    func columns() throws {
        let row = try row("SELECT 1 AS Id, 2 AS ID, 3 AS id, 4 AS name")
        #expect(row[0] as Int == 1 && row[3] as Int == 4)
        for name in ["Id", "ID", "id", "iD"] { #expect(row[name] as Int == 1) }
        #expect(row["NAME"] as Int == 4)
        #expect(row.hasColumn("nAmE") && !row.hasColumn("other"))
        #expect(row.columnNames == ["Id", "ID", "id", "name"])
        #expect(row.count == 4)
    }

    @Test("NULL and missing columns read as nil where the type is optional")
    func optionals() throws {
        let row = try row("SELECT NULL AS none, 5 AS five, 'text' AS text")
        #expect(row["none"] as Int? == nil)
        #expect(row["none"] as Date? == nil)
        #expect(row["missing"] as Int? == nil)
        #expect(row["missing"] as UUID? == nil)
        #expect(row["five"] as Int? == 5)
        let (nothing, text, missing): (Stored, Stored, Stored) = (row[0], row["text"], row["missing"])
        #expect(nothing == nil && missing == nil)
        #expect(text as? String == "text")
        #expect(row.hasNull(atIndex: 0) && !row.hasNull(atIndex: 1))
    }

    @Test("the row of a cursor changes with it, and a copy does not")
    func liveRow() throws {
        try queue.read { db in
            let cursor = try Row.fetchCursor(db, sql: "VALUES (1), (2)")
            let live = try #require(try cursor.next())
            let copy = live.copy()
            _ = try cursor.next()
            #expect(live[0] as Int == 2)
            #expect(copy[0] as Int == 1)
            #expect(copy.copy() === copy)
        }
    }

    @Test("a live row and its copy read the same values")
    func liveAndCopied() throws {
        try queue.read { db in
            let sql = "SELECT 7 AS i, 1.5 AS r, -2.9 AS s, 'text' AS t, x'0102' AS b, NULL AS n, '' AS e, x'' AS z"
            let live = try #require(try Row.fetchCursor(db, sql: sql).next())
            let cursor = try Row.fetchCursor(db, sql: sql)
            let row = try #require(try cursor.next())
            #expect(live.columnNames == row.columnNames)
            let copy = row.copy()
            #expect(row == copy)
            #expect(row[0] as Int == copy[0] as Int)
            #expect(row[1] as Int == 1 && copy[1] as Int == 1)
            #expect(row[2] as Int == -2 && copy[2] as Int == -2)
            #expect(row[1] as Double == copy[1] as Double)
            #expect(row[3] as String == copy[3] as String)
            #expect(row[4] as Data == copy[4] as Data)
            #expect(row[5] as String? == nil && copy[5] as String? == nil)
            #expect(row[6] as String == "" && copy[6] as String == "")
            #expect(row[7] as Data == Data() && copy[7] as Data == Data())
        }
    }

    // MARK: As a value

    @Test("rows compare and hash by their names and values, in order")
    func equality() throws {
        let row = try row("SELECT 1 AS a, 'x' AS b")
        let literal: Row = ["a": 1, "b": "x"]
        #expect(row == literal)
        #expect(row.hashValue == literal.hashValue)
        #expect(row != ["b": "x", "a": 1])
        #expect(row != ["a": 1])
        #expect(row != ["A": 1, "b": "x"])
        #expect(Row(["b": "x", "a": 1]) == literal)
        #expect(Row().isEmpty)
        let set = try queue.read { try Row.fetchSet($0, sql: "SELECT 1 AS a UNION ALL SELECT 1 UNION ALL SELECT 2") }
        #expect(set == [["a": 1], ["a": 2]])
    }

    @Test("a row is a collection of names and stored values")
    func collection() throws {
        let row: Row = ["a": 1, "b": nil, "c": "x"]
        #expect(row.map(\.0) == ["a", "b", "c"])
        #expect(row.map(\.1) == [1, nil, "x"])
        #expect(row.reversed().first?.0 == "c")
        #expect(row.databaseValues == [1, .null, "x"])
    }

    @Test("a row prints names and values")
    func description() throws {
        let row: Row = ["id": 1, "name": "Brien \"x\"", "none": nil, "half": 0.5, "bytes": Data([1, 0xab])]
        #expect(
            row.description == "[id:1 name:\"Brien \\\"x\\\"\" none:NULL half:0.5 bytes:Data(2 bytes)]")
        #expect(row.debugDescription == row.description)
        #expect(Row().debugDescription == "[]")
    }

    @Test("a row prints its scopes at every depth in a debugger, and the row that an adapter made it from")
    func debugDescription() throws {
        let adapter = SuffixRowAdapter(fromIndex: 1).addingScopes([
            "right": RangeRowAdapter(2..<3),
            "left": ScopeAdapter(
                base: RangeRowAdapter(0..<1),
                scopes: ["inner": EmptyRowAdapter().addingScopes(["none": EmptyRowAdapter()])]),
        ])
        let row = try queue.read { try Row.fetchOne($0, sql: "SELECT 1 AS a, 'x' AS b, NULL AS c", adapter: adapter) }
        let text = """
            ▿ [b:"x" c:NULL]
              unadapted: [a:1 b:"x" c:NULL]
              - left: [a:1]
                - inner: []
                  - none: []
              - right: [c:NULL]
            """
        #expect(row?.debugDescription == text)
        #expect(row?.description == "[b:\"x\" c:NULL]")
        let renamed = try queue.read { db in
            try Row.fetchOne(db, sql: "SELECT 1 AS a", adapter: RenameColumnAdapter { $0 + "2" })
        }
        #expect(renamed?.debugDescription == "▿ [a2:1]\n  unadapted: [a:1]")
    }

    @Test("rows of one statement may be read by name on several threads at once")
    func concurrentRows() throws {
        let sql = "SELECT column1 AS Number, 'x' AS Text FROM (VALUES (1), (2), (3), (4))"
        let threads = Threads()
        for round in 0..<50 {
            let rows = try queue.read { try Row.fetchAll($0, sql: sql + " LIMIT \(round % 4 + 1)") }
            for row in rows {
                nonisolated(unsafe) let row = row  // Safe because: each thread reads, and no row changes.
                threads.start { if row["NUMBER"] as Int + round < 0 { throw CancellationError() } }
            }
        }
        threads.join()
    }

    // MARK: Values that do not fit

    @Test("a decoding error names column, position, type and class, and never the value")
    func decodingErrors() throws {
        let row = try row("SELECT 'top secret' AS word, NULL AS none, 300 AS big")
        func text(_ body: () throws -> Any) -> String {
            do {
                return "no error: \(try body())"
            } catch { return "\(error)" }
        }
        #expect(
            text { try row.decode(Int.self, atIndex: 0) }
                == "could not read a value of type Int from column \"word\" (at index 0), "
                + "which holds a value of class text")
        #expect(
            text { try row.decode(String.self, atIndex: 1) }
                == "could not read a value of type String from column \"none\" (at index 1), which holds NULL")
        #expect(text { try row.decode(UInt8.self, atIndex: 2) }.contains("class integer"))
        for column in 0..<3 { #expect(!text { try row.decode(UUID.self, atIndex: column) }.contains("secret")) }
    }

    @Test("fetching values of another type throws, in every form, and the connection goes on")
    func fetchingMisfits() throws {
        try queue.read { db throws in
            let sql = "SELECT 300 AS big"
            #expect(throws: RowDecodingError.self) { try UInt8.fetchOne(db, sql: sql) }
            #expect(throws: RowDecodingError.self) { try UInt8.fetchAll(db, sql: sql) }
            #expect(throws: RowDecodingError.self) { try UInt8.fetchSet(db, sql: sql) }
            #expect(throws: RowDecodingError.self) { try UInt8.fetchCursor(db, sql: sql).next() }
            #expect(throws: RowDecodingError.self) { try Int.fetchAll(db, sql: "SELECT NULL") }
            #expect(throws: RowDecodingError.self) { try UUID.fetchAll(db, sql: sql) }
            #expect(try Int.fetchOne(db, sql: "SELECT NULL") == nil)
            #expect(try UUID.fetchOne(db, sql: "SELECT NULL") == nil)
            #expect(try Optional<Int>.fetchAll(db, sql: "VALUES (1), (NULL)") == [1, nil])
            #expect(try Int.fetchOne(db, sql: "SELECT 1 WHERE 0") == nil)
            #expect(try Int.fetchOne(db, sql: sql) == 300)
        }
    }
}
