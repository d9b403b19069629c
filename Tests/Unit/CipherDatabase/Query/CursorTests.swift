import CSQLCipher
import CipherDatabase
import Foundation
import Testing

@Suite struct CursorTests {
    let queue = DatabaseQueue()
    private let numbers = "SELECT column1 AS n FROM (VALUES (1), (2), (3), (4)) ORDER BY n"

    // MARK: Statement cache

    @Test("the same SQL gives the same cached statement; one that is in the middle of its rows is left alone")
    func cache() throws {
        try queue.read { db in
            let statement = try db.cachedStatement(sql: numbers)
            #expect(try db.cachedStatement(sql: numbers) === statement)
            let cursor = try Int.fetchCursor(statement)
            #expect(try cursor.next() == 1)
            let other = try db.cachedStatement(sql: numbers)
            #expect(other !== statement)
            #expect(try Int.fetchAll(other) == [1, 2, 3, 4])
            #expect(try cursor.next() == 2)
        }
    }

    @Test("SQL texts that Swift holds equal, but whose letters are composed differently, are two statements")
    func cacheComparesBytes() throws {
        try queue.read { db in
            let composed = "SELECT 'caf\u{e9} au lait'"
            let decomposed = "SELECT 'cafe\u{301} au lait'"
            #expect(composed == decomposed)
            for sql in [composed, decomposed, composed, decomposed] {
                let text = try #require(try String.fetchOne(db, sql: sql))
                #expect("SELECT '\(text)'".unicodeScalars.elementsEqual(sql.unicodeScalars))
                let cached = try #require(try String.fetchOne(db.cachedStatement(sql: sql)))
                #expect(cached.unicodeScalars.elementsEqual(text.unicodeScalars))
            }
        }
    }

    @Test("the cache stays bounded, and its statements work beyond the bound")
    func cacheIsBounded() throws {
        try queue.read { db throws in
            for number in 0..<1200 { #expect(try Int.fetchOne(db, sql: "SELECT \(number)") == number) }
            #expect(try Int.fetchOne(db, sql: "SELECT 0") == 0)
        }
    }

    // MARK: Two uses of one statement

    @Test("a second use of a statement ends the first cursor, which throws instead of taking rows away")
    func secondUse() throws {
        try queue.read { db in
            let statement = try db.makeStatement(sql: numbers)
            let first = try Row.fetchCursor(statement)
            _ = try first.next()
            let second = try Row.fetchCursor(statement)
            #expect(try second.next()?[0] as Int? == 1)
            #expect(databaseError { try first.next() }?.resultCode == .SQLITE_MISUSE)
            #expect(try second.next()?[0] as Int? == 2)
        }
    }

    @Test("a cursor that goes away does not rewind the one that uses its statement now")
    func endOfFirstCursor() throws {
        try queue.read { db in
            let statement = try db.makeStatement(sql: numbers)
            var first: FastDatabaseValueCursor<Int>? = try Int.fetchCursor(statement)
            #expect(try first?.next() == 1)
            let second = try Int.fetchCursor(statement)
            #expect(try second.next() == 1)
            first = nil
            #expect(try Array(second) == [2, 3, 4])
        }
    }

    @Test("two cursors of one SQL text go side by side")
    func twoCursors() throws {
        try queue.read { db in
            let left = try Int.fetchCursor(db, sql: numbers)
            let right = try Int.fetchCursor(db, sql: numbers)
            #expect(try left.next() == 1)
            #expect(try left.next() == 2)
            #expect(try right.next() == 1)
            #expect(try left.next() == 3)
        }
    }

    @Test("a row of a cursor that is gone keeps the statement at its place")
    func rowOutlivesCursor() throws {
        try queue.read { db in
            var cursor: RowCursor? = try Row.fetchCursor(db, sql: "SELECT 'a long text that lies on the heap' AS text")
            let row = try #require(try cursor?.next())
            let copy = row.copy()
            cursor = nil
            #expect(row.columnNames == ["text"])
            #expect(row[0] == "a long text that lies on the heap")
            #expect(copy[0] == "a long text that lies on the heap")
        }
    }

    @Test("a row taken from a cursor that nobody holds can be copied, and leaves the statement when it goes")
    func rowOfTemporaryCursor() throws {
        try queue.read { db in
            let copy = try Row.fetchCursor(db, sql: "SELECT 1 AS a, 'x' AS b").next()?.copy()
            #expect(copy == ["a": 1, "b": "x"])
            let statement = try db.makeStatement(sql: numbers)
            var row = try Row.fetchCursor(statement).next()
            #expect(sqlite3_stmt_busy(statement.sqliteStatement) != 0)
            #expect(row?["n"] as Int? == 1)
            row = nil
            #expect(sqlite3_stmt_busy(statement.sqliteStatement) == 0)
        }
    }

    // MARK: Errors

    // A cursor that failed said at its next step that it had come to its end: a loop that goes on after an error took
    // part of a result for all of it.
    @Test("a cursor that has failed throws the same error each time it is asked again")
    func failedCursors() throws {
        try queue.inDatabase { db throws in
            db.add(function: DatabaseFunction("fail", argumentCount: 0) { _ in throw DatabaseError(message: "boom") })
            let sql = "VALUES (1), (fail())"
            func expectFailures(_ cursor: some Cursor) throws {
                #expect(try cursor.next() != nil)
                for _ in 0..<3 { #expect(databaseError { try cursor.next() }?.message == "boom") }
            }
            try expectFailures(Int.fetchCursor(db, sql: sql))
            try expectFailures(Int?.fetchCursor(db, sql: sql))
            try expectFailures(URL.fetchCursor(db, sql: "VALUES ('a:b'), (fail())"))
            try expectFailures(Row.fetchCursor(db, sql: sql))
            try expectFailures(Row.fetchCursor(db, sql: sql, adapter: SuffixRowAdapter(fromIndex: 0)))
            #expect(try Int.fetchOne(db, sql: "SELECT 1") == 1)
        }
    }

    @Test("a cursor that met a value it cannot read throws that error again, and has left its statement")
    func unreadableValues() throws {
        try queue.read { db throws in
            let numbers = try Int.fetchCursor(db, sql: "VALUES (NULL), (1)")
            for _ in 0..<2 { #expect(throws: RowDecodingError.self) { try numbers.next() } }
            #expect(sqlite3_stmt_busy(numbers.statement.sqliteStatement) == 0)
            let links = try URL.fetchCursor(db, sql: "VALUES (NULL), ('a:b')")
            for _ in 0..<2 { #expect(throws: RowDecodingError.self) { try links.next() } }
        }
    }

    // MARK: Sequences

    @Test("a cursor maps, filters, folds and stops as a sequence does")
    func sequenceOperations() throws {
        try queue.read { db throws in
            #expect(try Array(Int.fetchCursor(db, sql: numbers).map { $0 * 2 }) == [2, 4, 6, 8])
            #expect(try Array(Int.fetchCursor(db, sql: numbers).filter { $0 % 2 == 0 }) == [2, 4])
            #expect(try Array(Int.fetchCursor(db, sql: numbers).compactMap { $0 > 2 ? "\($0)" : nil }) == ["3", "4"])
            #expect(try Array(Int.fetchCursor(db, sql: numbers).prefix(3)) == [1, 2, 3])
            #expect(try Int.fetchCursor(db, sql: numbers).reduce(0, +) == 10)
            #expect(try Int.fetchCursor(db, sql: numbers).reduce(into: []) { $0.append($1) } == [1, 2, 3, 4])
            #expect(try Int.fetchCursor(db, sql: numbers).first { $0 > 2 } == 3)
            #expect(try !Int.fetchCursor(db, sql: numbers).contains { $0 > 4 })
            #expect(try Int.fetchCursor(db, sql: "SELECT 1 WHERE 0").isEmpty)
            #expect(try Set(Int.fetchCursor(db, sql: "VALUES (1), (1), (2)")) == [1, 2])
            var seen: [Int] = []
            try Int.fetchCursor(db, sql: numbers).forEach { seen.append($0) }
            #expect(seen == [1, 2, 3, 4])
        }
    }

    @Test("a cursor at its end stays there, and one that failed gives no more rows")
    func end() throws {
        try queue.read { db in
            let cursor = try Int.fetchCursor(db, sql: "SELECT 1")
            #expect(try cursor.next() == 1)
            #expect(try cursor.next() == nil)
            #expect(try cursor.next() == nil)
            let sql = "SELECT iif(column1 = 2, abs(-9223372036854775808), column1) FROM (VALUES (1), (2))"
            let failing = try Int.fetchCursor(db, sql: sql)
            #expect(try failing.next() == 1)
            for _ in 0..<2 { #expect(databaseError { try failing.next() }?.message == "integer overflow") }
        }
    }
}
