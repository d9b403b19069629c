import CBaseline
import CipherStore
import Foundation

/// Inserting integers, by the library and by plain C, each into a store of its own.
enum WritingWork {
    static let createTable = "CREATE TABLE t (id INTEGER PRIMARY KEY, \(Fixture.tenColumns))"

    /// Many rows in one transaction.
    static func integers(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 100_000
        let stores = try WritingStores(fixture, createTable: createTable) { try fixture.pool(at: $0) }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: {
                try stores.writer.write { db in
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
    static func singleRows(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, opening: (String) throws -> some DatabaseWriter
    ) throws -> Measurement {
        let count = 2000
        let stores = try WritingStores(fixture, createTable: createTable, opening: opening)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: { for row in 0..<count { try stores.writer.write { try insertOne($0, row) } } },
            baseline: {
                let code = baseline_single_row_writes(stores.baseline.connection, Fixture.insertTen, Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }
}

extension WritingWork {
    /// Inserts a row of ten integers by the cached statement.
    @inline(__always) @Sendable
    static func insertOne(_ db: Database, _ row: Int) throws {
        let insert = try db.cachedStatement(sql: Fixture.insertTen)
        try insert.execute(arguments: [
            row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6, row + 7, row + 8, row + 9,
        ])
    }

    /// SQL text with arguments, beside the cached statement of the same text.
    static func plainSQL(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 10_000
        let stores = try WritingStores(fixture, createTable: createTable) { try fixture.pool(at: $0) }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: {
                try stores.writer.write { db in
                    for row in 0..<count {
                        try db.execute(
                            sql: Fixture.insertTen,
                            arguments: [
                                row, row + 1, row + 2, row + 3, row + 4, row + 5, row + 6, row + 7, row + 8, row + 9,
                            ])
                    }
                }
            },
            baseline: { try stores.writer.write { db in for row in 0..<count { try insertOne(db, row) } } })
    }
}

/// Two stores of the same empty table: one for the library, one for plain C.
final class WritingStores<Writer: DatabaseWriter> {
    let writer: Writer
    let baseline: Baseline

    init(_ fixture: Fixture, createTable: String, opening: (String) throws -> Writer) throws {
        let name = UUID().uuidString
        writer = try opening(fixture.path(of: "library-\(name).db"))
        baseline = try fixture.baseline(at: fixture.path(of: "c-\(name).db"))
        try writer.write { try $0.execute(sql: createTable) }
        try baseline.execute(createTable)
        // The library checkpoints by itself after as many pages as SQLite does.
        try baseline.execute("PRAGMA wal_autocheckpoint = 1000; PRAGMA journal_size_limit = 4194304")
    }

    /// Takes the rows out again, and leaves both logs empty.
    func empty() throws {
        try writer.write { try $0.execute(sql: "DELETE FROM t") }
        try writer.checkpoint()
        try baseline.execute("DELETE FROM t; PRAGMA wal_checkpoint(PASSIVE)")
    }
}
