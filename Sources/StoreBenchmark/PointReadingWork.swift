import CBaseline
import CipherStore

/// Reading one row at a time by its id, by the library and by plain C.
enum PointReadingWork {
    private static let count = 10_000
    private static let sql = "SELECT c0 FROM t WHERE id = ?"

    /// BEGIN, the row and COMMIT each time.
    static func oneReadEach(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, by reader: some DatabaseReader
    ) throws -> Measurement {
        try measure(work, comparison, fixture, inOneTransaction: false) {
            var sum: Int64 = 0
            for index in 0..<count { sum += try reader.read { try number(at: index, $0) } }
            return sum
        }
    }

    /// All of them in one transaction.
    static func oneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try measure(work, comparison, fixture, inOneTransaction: true) {
            try pool.read { db in
                var sum: Int64 = 0
                for index in 0..<count { sum += try number(at: index, db) }
                return sum
            }
        }
    }

    /// All of them in one transaction, as rows of their own.
    static func rowsInOneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try measure(work, comparison, fixture, inOneTransaction: true) {
            try pool.read { db in
                let statement = try db.makeStatement(sql: sql)
                var sum: Int64 = 0
                for index in 0..<count {
                    if let row = try Row.fetchOne(statement, arguments: [id(at: index)]) { sum += row[0] }
                }
                return sum
            }
        }
    }

    @inline(__always)
    private static func number(at index: Int, _ db: Database) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: sql), arguments: [id(at: index)]) ?? 0
    }

    @inline(__always)
    private static func id(at index: Int) -> Int { 1 + index * 7 % count }

    /// Compares reads by the library, which return the sum of what they read, with those by C.
    private static func measure(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, inOneTransaction: Bool,
        _ read: () throws -> Int64
    ) throws -> Measurement {
        let baseline = try fixture.baseline(at: fixture.path)
        let expected = baseline_point_reads(baseline.connection, sql, Int64(count))
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: { try BenchmarkError.require(read() == expected, "the library read other numbers than C") },
            baseline: {
                let sum =
                    inOneTransaction
                    ? baseline_point_reads_in_transaction(baseline.connection, sql, Int64(count))
                    : baseline_point_reads(baseline.connection, sql, Int64(count))
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    /// The cost of an access before it reads anything.
    static func empty(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, by reader: some DatabaseReader
    ) throws -> Measurement {
        let baseline = try fixture.baseline(at: fixture.path)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: { for _ in 0..<count { try reader.read { _ in } } },
            baseline: {
                let code = baseline_empty_transactions(baseline.connection, Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }
}
