import CBaseline
import CipherStore

/// Reading, by the library and by plain C.
enum ReadingWork {
    private static let pointReadCount = 10_000

    static func fetchByPosition(_ name: String, _ fixture: Fixture) throws -> Measurement {
        let sql = "SELECT c0, c1, c2, c3, c4, c5, c6, c7, c8, c9 FROM t"
        let pool = try fixture.pool()
        let baseline = try fixture.baseline()
        defer { baseline_close(baseline) }
        let expected = baseline_sum_ten_columns(baseline, sql)
        return try Measurement.compare(
            name, goal: 1.15,
            library: {
                let sum = try pool.read { db in
                    var sum: Int64 = 0
                    let rows = try Row.fetchCursor(db, sql: sql)
                    while let row = try rows.next() {
                        for column in 0..<10 { sum += row[column] as Int64 }
                    }
                    return sum
                }
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_sum_ten_columns(baseline, sql)
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    static func pointReads(_ name: String, _ fixture: Fixture) throws -> Measurement {
        let sql = "SELECT c0 FROM t WHERE id = ?"
        let pool = try fixture.pool()
        let baseline = try fixture.baseline()
        defer { baseline_close(baseline) }
        let expected = baseline_point_reads(baseline, sql, Int64(pointReadCount))
        return try Measurement.compare(
            name, goal: 1.5,
            library: {
                var sum: Int64 = 0
                for index in 0..<pointReadCount {
                    sum += try pool.read { db in
                        let statement = try db.cachedStatement(sql: sql)
                        return try Int64.fetchOne(statement, arguments: [1 + index * 7 % pointReadCount]) ?? 0
                    }
                }
                try BenchmarkError.require(sum == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_point_reads(baseline, sql, Int64(pointReadCount))
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }
}
