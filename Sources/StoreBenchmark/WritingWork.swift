import CBaseline
import CipherStore

/// Inserting integers, by the library and by plain C, each into a store of its own.
enum WritingWork {
    private static let createTable = "CREATE TABLE t (id INTEGER PRIMARY KEY, \(Fixture.tenColumns))"

    /// Many rows in one transaction.
    static func integers(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 100_000
        let stores = try WritingStores(fixture, createTable: createTable)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: {
                try stores.pool.write { db in
                    let insert = try db.makeStatement(sql: Fixture.insertTen)
                    for row in 0..<count {
                        try insert.execute(arguments: [
                            row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6, row + 7, row + 8, row + 9,
                        ])
                    }
                }
            },
            baseline: {
                let code = baseline_insert_integers(stores.baseline.connection, Fixture.insertTen, Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }

    /// One row in each transaction.
    static func singleRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 2000
        let stores = try WritingStores(fixture, createTable: createTable)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: {
                for row in 0..<count {
                    try stores.pool.write { db in
                        let insert = try db.cachedStatement(sql: Fixture.insertTen)
                        try insert.execute(arguments: [
                            row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6, row + 7, row + 8, row + 9,
                        ])
                    }
                }
            },
            baseline: {
                let code = baseline_single_row_writes(stores.baseline.connection, Fixture.insertTen, Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }
}

/// Two stores of the same empty table: one for the library, one for plain C.
final class WritingStores {
    let pool: DatabasePool
    let baseline: Baseline

    init(_ fixture: Fixture, createTable: String) throws {
        let name = createTable.hashValue.magnitude
        pool = try fixture.pool(at: fixture.path(of: "library-\(name).db"))
        baseline = try fixture.baseline(at: fixture.path(of: "c-\(name).db"))
        try pool.write { try $0.execute(sql: "DROP TABLE IF EXISTS t; " + createTable) }
        try baseline.execute("DROP TABLE IF EXISTS t; " + createTable)
        // The library checkpoints by itself after as many pages as SQLite does.
        try baseline.execute("PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 4194304")
    }

    /// Takes the rows out again, and leaves both logs empty.
    func empty() throws {
        try pool.write { try $0.execute(sql: "DELETE FROM t") }
        try pool.checkpoint()
        try baseline.execute("DELETE FROM t; PRAGMA wal_checkpoint(PASSIVE)")
    }
}
