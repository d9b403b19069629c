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
        let baseline = try fixture.baseline(at: fixture.path)
        let expected = baseline_point_reads(baseline.connection, sql, Int64(count))
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                var sum: Int64 = 0
                for index in 0..<count {
                    sum += try reader.read { db in
                        let statement = try db.cachedStatement(sql: sql)
                        return try Int64.fetchOne(statement, arguments: [1 + index * 7 % count]) ?? 0
                    }
                }
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_point_reads(baseline.connection, sql, Int64(count))
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    /// All of them in one transaction.
    static func oneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        let baseline = try fixture.baseline(at: fixture.path)
        let expected = baseline_point_reads(baseline.connection, sql, Int64(count))
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                let sum = try pool.read { db in
                    var sum: Int64 = 0
                    for index in 0..<count {
                        let statement = try db.cachedStatement(sql: sql)
                        sum += try Int64.fetchOne(statement, arguments: [1 + index * 7 % count]) ?? 0
                    }
                    return sum
                }
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_point_reads_in_transaction(baseline.connection, sql, Int64(count))
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    /// All of them in one transaction, as rows of their own.
    static func rowsInOneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        let baseline = try fixture.baseline(at: fixture.path)
        let expected = baseline_point_reads(baseline.connection, sql, Int64(count))
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                let sum = try pool.read { db in
                    let statement = try db.makeStatement(sql: sql)
                    var sum: Int64 = 0
                    for index in 0..<count {
                        guard let row = try Row.fetchOne(statement, arguments: [1 + index * 7 % count]) else {
                            continue
                        }
                        sum += row[0]
                    }
                    return sum
                }
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_point_reads_in_transaction(baseline.connection, sql, Int64(count))
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    /// What an access costs before anything is read.
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
