import CipherDatabase
import Foundation
import Testing

@Suite struct RowReadingTests {
    let queue = DatabaseQueue()

    private func decodingError(_ body: () throws -> Any) -> RowDecodingError? {
        do { _ = try body() } catch { return error as? RowDecodingError }
        return nil
    }

    @Test("decoding by position and by name throws where a subscript would trap")
    func decoding() throws {
        let row: Row = ["a": 1, "none": nil, "text": "secret"]
        #expect(try row.decode(Int.self, atIndex: 0) == 1)
        #expect(try row.decode(forColumn: "A") == 1 as Int64)
        #expect(try row.decodeIfPresent(Int.self, atIndex: 1) == nil)
        #expect(try row.decodeIfPresent(Int.self, forColumn: "none") == nil)
        #expect(try row.decodeIfPresent(Int.self, forColumn: "missing") == nil)
        #expect(try row.decode(Int?.self, forColumn: "missing") == .some(nil))
        #expect(try row.decodeIfPresent(String.self, forColumn: "text") == "secret")
        let missing = decodingError { try row.decode(Int.self, forColumn: "missing") }
        #expect(missing?.columnName == "missing" && missing?.columnIndex == nil && missing?.storageClass == nil)
        #expect(missing?.description.contains("which the row does not have") == true)
        for index in [-1, 3] {
            #expect(decodingError { try row.decode(Int.self, atIndex: index) } != nil)
            #expect(decodingError { try row.decodeIfPresent(Int.self, atIndex: index) as Any } != nil)
        }
        #expect(decodingError { try row.decode(Int.self, atIndex: 1) }?.storageClass == .null)
        #expect(decodingError { try row.decodeIfPresent(Int.self, atIndex: 2) as Any }?.storageClass == .text)
    }

    @Test("an error of decoding names the position of the row in its result")
    func rowPosition() throws {
        try queue.read { db throws in
            let sql = "SELECT column1 AS n FROM (VALUES (1), (2), ('secret'), (4))"
            let errors = [
                decodingError { try Decimal.fetchAll(db, sql: sql) },
                decodingError { try UUID.fetchAll(db, sql: "SELECT x'00112233445566778899aabbccddeeff' LIMIT 0 ") },
                decodingError { try Int8.fetchAll(db, sql: "SELECT column1 AS n FROM (VALUES (1), (2), (300))") },
                decodingError {
                    let cursor = try Row.fetchCursor(db, sql: sql)
                    while let row = try cursor.next() { _ = try row.decode(Decimal.self, forColumn: "N") }
                    return 0
                },
            ]
            #expect(errors.map { $0?.rowIndex } == [2, nil, 2, 2])
            #expect(errors.map { $0?.columnName } == ["n", nil, "n", "n"])
            #expect(errors.map { $0?.storageClass } == [.text, nil, .integer, .text])
            #expect(errors.map { $0?.typeName } == ["\(Decimal.self)", nil, "Int8", "\(Decimal.self)"])
            for error in errors.compactMap(\.self) {
                #expect(error.description.contains("of row 2") && error.description.contains("\"n\" (at index 0)"))
                #expect(!error.description.contains("secret") && !error.description.contains("300"))
            }
        }
    }

    @Test("NULL among the values of a type that is not optional is an error, wherever they are fetched")
    func nullAmongValues() throws {
        try queue.read { db in
            let sql = "SELECT 1 UNION ALL SELECT NULL UNION ALL SELECT 3"
            let errors = [
                decodingError { try Int.fetchAll(db, sql: sql) },
                decodingError { try Int.fetchSet(db, sql: sql) },
                decodingError { try Array(Int.fetchCursor(db, sql: sql)) },
                decodingError { try Decimal.fetchAll(db, sql: sql) },
                decodingError { try Array(Decimal.fetchCursor(db, sql: sql)) },
            ]
            #expect(errors.allSatisfy { $0?.storageClass == .null && $0?.rowIndex == 1 })
            #expect(errors.map { $0?.typeName } == ["Int", "Int", "Int", "\(Decimal.self)", "\(Decimal.self)"])
        }
    }

    @Test("a cursor of values ends with the value that it cannot read")
    func cursorEndsWithError() throws {
        try queue.read { db in
            let cursor = try Int8.fetchCursor(db, sql: "VALUES (1), (300), (3)")
            #expect(try cursor.next() == 1)
            for _ in 0..<2 { #expect(decodingError { try cursor.next() as Any }?.rowIndex == 1) }
        }
    }

    @Test("numbers beyond the range of an integer are an error, at the ends of the range too")
    func overflow() throws {
        try queue.read { db throws in
            for sql in ["SELECT 1e300", "SELECT -1e300", "SELECT 9223372036854775808", "SELECT '99999999999999999999'"]
            {
                #expect(decodingError { try Int.fetchOne(db, sql: sql) as Any } != nil, "\(sql)")
                #expect(decodingError { try Int?.fetchAll(db, sql: sql) } != nil, "\(sql)")
            }
            for integer in [Int64.min, Int64.min + 1, -1, 0, 1, Int64.max - 1, Int64.max] {
                #expect(try Int64.fetchOne(db, sql: "SELECT ?", arguments: [integer]) == integer)
                #expect(try Int64?.fetchAll(db, sql: "SELECT ?", arguments: [integer]) == [integer])
            }
            #expect(try Int64.fetchOne(db, sql: "SELECT -9223372036854775808.0") == .min)
            #expect(decodingError { try UInt8.fetchOne(db, sql: "SELECT 256") as Any }?.typeName == "UInt8")
        }
    }

    @Test("the first value that is not NULL is found among columns")
    func coalesce() {
        let row: Row = ["a": nil, "b": 2, "c": 3]
        #expect(row.coalesce(["a", "missing", "B", "c"]) == 2 as Int?)
        #expect(row.coalesce(["a", "missing"]) == nil as Int?)
        #expect(row.coalesce([String]()) == nil as Int?)
    }

    @Test("bytes are lent without a copy; NULL and missing columns lend none")
    func unsafeData() throws {
        try queue.read { db throws in
            let sql = "SELECT x'010203' AS b, NULL AS n, 'text' AS t, x'' AS e"
            let live = try Row.fetchCursor(db, sql: sql).next()
            for row in try [#require(live), #require(live).copy()] {
                #expect(row.withUnsafeData(atIndex: 0) { $0 == Data([1, 2, 3]) })
                #expect(row.withUnsafeData(named: "B") { $0?.count } == 3)
                #expect(row.withUnsafeData(named: "n") { $0 } == nil)
                #expect(row.withUnsafeData(named: "missing") { $0 } == nil)
                #expect(row.dataNoCopy(named: "t") == Data("text".utf8))
                #expect(row.dataNoCopy(atIndex: 3) == Data())
            }
            #expect(throws: CancellationError.self) {
                try Row().withUnsafeData(named: "x") { _ in throw CancellationError() }
            }
        }
    }

    @Test("text whose bytes are not UTF-8 reads with replacement characters; a live row gives its bytes")
    func invalidText() throws {
        try queue.write { db throws in
            try db.execute(sql: "CREATE TABLE t(a TEXT); INSERT INTO t VALUES (CAST(x'ff61eda080' AS TEXT))")
            let cursor = try Row.fetchCursor(db, sql: "SELECT a, a FROM t")
            let live = try #require(try cursor.next())
            #expect((live[0] as String).hasPrefix("\u{fffd}a\u{fffd}"))
            #expect(live[0] as Data == Data([0xff, 0x61, 0xed, 0xa0, 0x80]))
            let copy = live.copy()
            #expect(copy[0] as String == live[0] as String)
            #expect(copy[0] as Data == Data((live[0] as String).utf8))
            #expect(try Date.fetchAll(db, sql: "SELECT a FROM t WHERE 0") == [])
            #expect(decodingError { try Date.fetchAll(db, sql: "SELECT a FROM t") } != nil)
            #expect(decodingError { try UUID.fetchAll(db, sql: "SELECT a FROM t") } != nil)
            #expect(decodingError { try Decimal.fetchAll(db, sql: "SELECT a FROM t") } != nil)
        }
    }

    @Test("rows are made of dictionaries of any values that a database holds")
    func dictionaries() {
        #expect(Row(["b": 2, "a": nil] as [String: (any DatabaseValueConvertible)?]) == ["a": nil, "b": 2])
        #expect(Row(["b": 2, "a": "x"] as [AnyHashable: Any]) == ["a": "x", "b": 2])
        #expect(Row([1: 2] as [AnyHashable: Any]) == nil)
        #expect(Row(["a": [1]] as [AnyHashable: Any]) == nil)
    }
}
