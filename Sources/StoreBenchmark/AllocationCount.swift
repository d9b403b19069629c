import CBaseline
import CipherStore
import Foundation

/// How often a piece of work asks the C allocator for memory, on the thread that does it.
///
/// All pages are in memory while it is counted: decrypting a page allocates inside of OpenSSL, for C as for everyone.
struct AllocationCount: Codable {
    let work: String
    /// Allocations for one unit of the work, after warming up.
    let perUnit: Double
    /// Plain C's for the same.
    let baselinePerUnit: Double
    /// The most that the library may take beyond plain C for one unit.
    let promise: Double
    /// The purpose of these.
    let reason: String

    var isAsPromised: Bool { perUnit - baselinePerUnit <= promise }

    /// For the terminal.
    var line: String {
        let name = work.padding(toLength: 64, withPad: " ", startingAt: 0)
        return name + String(format: "%8.3f, in C %.3f, promised %g more", perUnit, baselinePerUnit, promise)
    }

    /// - Throws: ``BenchmarkError`` where allocations cannot be counted.
    static func all(_ fixture: Fixture) throws -> [AllocationCount] {
        try BenchmarkError.require(allocations_start() != 0, "allocations cannot be counted on this platform")
        _ = allocations_stop()
        return try fetching(fixture) + [mixedRows(fixture)] + pointReading(fixture) + RecordAllocations.all(fixture)
    }

    /// Counts the same work of both sides.
    static func compare(
        _ work: String, _ units: Int, _ promise: Double, _ reason: String, library: () throws -> Void,
        baseline: () throws -> Void
    ) throws -> AllocationCount {
        AllocationCount(
            work: work, perUnit: try count(units, library), baselinePerUnit: try count(units, baseline),
            promise: promise, reason: reason)
    }

    /// How many allocations one unit of a body makes that does several of them.
    private static func count(_ units: Int, _ body: () throws -> Void) throws -> Double {
        for _ in 0..<3 { try body() }
        _ = allocations_start()
        let result = Result { try body() }
        let count = allocations_stop()
        try result.get()
        return Double(count) / Double(units)
    }

    // MARK: Many rows

    private static func fetching(_ fixture: Fixture) throws -> [AllocationCount] {
        let count = 20_000
        let sql = "SELECT \(Fixture.tenColumns) FROM t WHERE id <= \(count)"
        let pool = try fixture.pool(at: fixture.path, cachePages: ReadingWork.allPages)
        let baseline = try fixture.baseline(at: fixture.path, cachePages: ReadingWork.allPages)
        let inC = try Self.count(count) {
            try BenchmarkError.require(baseline_sum_ten_columns(baseline.connection, sql) > 0, "C read nothing")
        }
        return try pool.read { db in
            let statement = try db.makeStatement(sql: sql)
            var sum: Int64 = 0
            let byPosition = try Self.count(count) {
                let rows = try Row.fetchCursor(statement)
                while let row = try rows.next() { for column in 0..<10 { sum &+= row[column] as Int64 } }
            }
            let byName = try Self.count(count) {
                let rows = try Row.fetchCursor(statement)
                while let row = try rows.next() { sum &+= (row["c0"] as Int64) &+ (row["c9"] as Int64) }
            }
            let all = try Self.count(count) { sum &+= Int64(try Row.fetchAll(statement).count) }
            return [
                AllocationCount(
                    work: "a row of ten integers of a cursor, by position", perUnit: byPosition, baselinePerUnit: inC,
                    promise: 0.001, reason: "cursor and row, once"),
                AllocationCount(
                    work: "a row of ten integers of a cursor, by name", perUnit: byName, baselinePerUnit: inC,
                    promise: 0.001, reason: "cursor and row, once"),
                AllocationCount(
                    work: "a row of ten integers of `Row.fetchAll`", perUnit: all, baselinePerUnit: inC,
                    promise: 1.02, reason: "the row's object"),
            ]
        }
    }

    private static func mixedRows(_ fixture: Fixture) throws -> AllocationCount {
        let count = 2000
        let path = fixture.path(of: "allocations.db")
        let pool = try fixture.pool(at: path, cachePages: ReadingWork.allPages)
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE t (text, blob, number, date)")
            for _ in 0..<count {
                try db.execute(
                    sql: "INSERT INTO t VALUES (?, ?, ?, ?)",
                    arguments: [String(repeating: "a", count: 60), Data(count: 64), 1.5, MixedValues.start])
            }
        }
        let perUnit = try pool.read { db in
            let statement = try db.makeStatement(sql: "SELECT * FROM t")
            var bytes = 0
            return try Self.count(count) {
                let rows = try Row.fetchCursor(statement)
                while let row = try rows.next() {
                    bytes += (row[0] as String).utf8.count + (row[1] as Data).count
                    bytes += Int(row[2] as Double) + ((row[3] as Date) > .distantPast ? 1 : 0)
                }
            }
        }
        let baseline = try fixture.baseline(at: path, cachePages: ReadingWork.allPages)
        let inC = try Self.count(count) {
            let sum = baseline_sum_mixed(baseline.connection, "SELECT * FROM t")
            try BenchmarkError.require(sum > 0, "C read nothing")
        }
        return AllocationCount(
            work: "a row of text, blob, double and date of a cursor", perUnit: perUnit, baselinePerUnit: inC,
            promise: 3.01, reason: "`String` takes one and `Data` two; C copies nothing")
    }

    // MARK: One row

    private static func pointReading(_ fixture: Fixture) throws -> [AllocationCount] {
        let count = 1000
        let sql = "SELECT c0 FROM t WHERE id = ?"
        let pool = try fixture.pool(at: fixture.path, cachePages: ReadingWork.allPages)
        let baseline = try fixture.baseline(at: fixture.path, cachePages: ReadingWork.allPages)
        var sum: Int64 = 0
        let each = try Self.count(count) {
            for index in 0..<count {
                sum &+= try pool.read { db in
                    try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: [1 + index]) ?? 0
                }
            }
        }
        let inOne = try pool.read { db in
            try Self.count(count) {
                for index in 0..<count {
                    sum &+= try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: [1 + index]) ?? 0
                }
            }
        }
        let eachInC = try Self.count(count) { sum &+= baseline_point_reads(baseline.connection, sql, Int64(count)) }
        let inOneInC = try Self.count(count) {
            sum &+= baseline_point_reads_in_transaction(baseline.connection, sql, Int64(count))
        }
        try BenchmarkError.require(sum != 0, "nothing was read")
        return [
            AllocationCount(
                work: "a row by a cached statement, one `read` each", perUnit: each, baselinePerUnit: eachInC,
                promise: 1.01, reason: "the array of arguments"),
            AllocationCount(
                work: "a row by a cached statement, in one access", perUnit: inOne, baselinePerUnit: inOneInC,
                promise: 1.01, reason: "the array of arguments"),
        ]
    }
}
