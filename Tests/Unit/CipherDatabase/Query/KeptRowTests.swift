import CipherDatabase
import Foundation
import Testing

/// Rows of `fetchAll`, which share the memory of their values.
@Suite struct KeptRowTests {
    let queue = DatabaseQueue()

    /// Values at every edge of how a kept row stores them.
    private static let integers: [Int64] = [
        0, -1, Int64(Int32.max), Int64(Int32.max) + 1, Int64(Int32.min), Int64(Int32.min) - 1, .max, .min,
    ]
    private static let doubles = [0, -0.5, Double.infinity, Double.greatestFiniteMagnitude]
    private static let texts = [0, 2, 14, 16, 1024, 1026, 20_000].map { String(repeating: "é", count: $0 / 2) }
    private static let blobs = [0, 1, 14, 15, 1024, 1025, 20_000].map { Data(repeating: UInt8($0 & 255), count: $0) }
    private static let values: [DatabaseValue] =
        integers.map(\.databaseValue) + doubles.map(\.databaseValue) + texts.map(\.databaseValue)
        + blobs.map(\.databaseValue) + [.null]

    private func fill(_ db: Database, count: Int) throws {
        try db.execute(sql: "CREATE TABLE t(a, b, c)")
        for index in 0..<count {
            let values = (0..<3).map { Self.values[(index + $0 * 7) % Self.values.count] }
            try db.execute(sql: "INSERT INTO t VALUES (?, ?, ?)", arguments: StatementArguments(values))
        }
    }

    @Test("rows of a large result hold what a cursor shows, whatever the kind and the length of the values")
    func sameAsCursor() throws {
        try queue.write { db in
            try fill(db, count: 1000)
            let rows = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY rowid")
            let cursor = try Row.fetchCursor(db, sql: "SELECT * FROM t ORDER BY rowid")
            var index = 0
            while let shown = try cursor.next() {
                let kept = rows[index]
                #expect(kept.databaseValues.map(\.storage) == shown.databaseValues.map(\.storage))
                #expect(kept.columnNames == ["a", "b", "c"] && kept.hasNull(atIndex: 0) == shown.hasNull(atIndex: 0))
                index += 1
            }
            #expect(index == 1000 && rows.count == 1000)
        }
    }

    @Test("a row that is kept alone outlives its result, its statement and its database")
    func alone() throws {
        var kept: [Row] = []
        do {
            let other = DatabaseQueue()
            try other.write { db in
                try fill(db, count: 500)
                kept = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY rowid").enumerated()
                    .filter { $0.offset.isMultiple(of: 97) }.map(\.element)
            }
            try other.close()
        }
        for (position, row) in kept.enumerated() {
            for column in 0..<3 {
                let expected = Self.values[(position * 97 + column * 7) % Self.values.count]
                #expect(row.databaseValue(at: column).storage == expected.storage)
            }
        }
    }

    @Test("numbers of kept rows are read as every type that holds them")
    func numbers() throws {
        try queue.read { db in
            let row = try #require(try Row.fetchOne(db, sql: "SELECT 5 AS a, 5000000000 AS b, 2.5 AS c, NULL AS d"))
            #expect(row[0] as Int == 5 && row[0] as Int64 == 5 && row[0] as UInt8 == 5 && row[0] as Double == 5)
            #expect(row["a"] as Bool && row["A"] as Int? == 5)
            #expect(row[1] as Int == 5_000_000_000 && row[1] as Int64? == 5_000_000_000)
            #expect(row[2] as Double == 2.5 && row[2] as Int == 2 && row[3] as Int? == nil && row[3] as String? == nil)
            #expect(throws: RowDecodingError.self) { try row.decode(Int32.self, atIndex: 1) }
        }
    }

    @Test("adapters show kept rows, columns side by side and in other orders")
    func adapters() throws {
        try queue.write { db in
            try fill(db, count: 200)
            let neighbors = RangeRowAdapter(1..<3)
            let scattered = ColumnMapping(["z": "c", "x": "a"])
            let rows = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY rowid")
            let shifted = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY rowid", adapter: neighbors)
            let mapped = try Row.fetchAll(db, sql: "SELECT * FROM t ORDER BY rowid", adapter: scattered)
            for (index, row) in rows.enumerated() {
                #expect(shifted[index].databaseValues == Array(row.databaseValues[1...]))
                #expect(mapped[index].databaseValues == [row.databaseValue(at: 0), row.databaseValue(at: 2)])
                #expect(mapped[index].unadapted == row && shifted[index].copy() === shifted[index])
            }
        }
    }

    @Test("texts that are not UTF-8, and texts with a NUL, read from kept rows as from a cursor")
    func strangeTexts() throws {
        try queue.read { db in
            let sql = "SELECT CAST(x'61ff62' AS TEXT) AS a, CAST(x'610062' AS TEXT) AS b"
            let row = try #require(try Row.fetchAll(db, sql: sql).first)
            #expect(row[0] as String == "a\u{FFFD}b" && row[1] as String == "a\0b")
        }
    }
}
