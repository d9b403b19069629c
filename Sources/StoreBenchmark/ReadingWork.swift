import CBaseline
import CipherStore

/// Reading many rows, by the library and by plain C.
enum ReadingWork {
    /// More than the store has.
    static let allPages = 20_000
    private static let sql = "SELECT \(Fixture.tenColumns) FROM t"

    static func byPosition(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, cachePages: Int?
    ) throws -> Measurement {
        try compare(work, comparison, fixture, cachePages: cachePages) { db in
            var sum: Int64 = 0
            let rows = try Row.fetchCursor(db, sql: sql)
            while let row = try rows.next() {
                for column in 0..<10 { sum += row[column] as Int64 }
            }
            return sum
        }
    }

    static func byName(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try compare(work, comparison, fixture) { db in
            var sum: Int64 = 0
            let rows = try Row.fetchCursor(db, sql: sql)
            while let row = try rows.next() {
                sum += (row["c0"] as Int64) + (row["c1"] as Int64) + (row["c2"] as Int64) + (row["c3"] as Int64)
                sum += (row["c4"] as Int64) + (row["c5"] as Int64) + (row["c6"] as Int64) + (row["c7"] as Int64)
                sum += (row["c8"] as Int64) + (row["c9"] as Int64)
            }
            return sum
        }
    }

    static func allRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try compare(work, comparison, fixture) { db in
            var sum: Int64 = 0
            for row in try Row.fetchAll(db, sql: sql) {
                for column in 0..<10 { sum += row[column] as Int64 }
            }
            return sum
        }
    }

    private static func compare(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, cachePages: Int? = nil,
        _ fetch: (Database) throws -> Int64
    ) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path, cachePages: cachePages)
        let baseline = try fixture.baseline(at: fixture.path, cachePages: cachePages)
        let expected = baseline_sum_ten_columns(baseline.connection, sql)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: Fixture.rowCount,
            library: {
                let sum = try pool.read(fetch)
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_sum_ten_columns(baseline.connection, sql)
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }
}
