import CBaseline
import CipherStore
import Foundation

/// Many rows into records, and many records into rows, by the library and by plain C, which makes structs of rows.
enum RecordWork {
    // MARK: Integers

    /// All rows of ten integers as records of a type, in an array.
    ///
    /// - Parameter ends: The sum of the first and the last integer of a record.
    static func fetching<Record: FetchableRecord>(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, _ type: Record.Type, _ ends: (Record) -> Int
    ) throws -> Measurement {
        let sql = "SELECT \(Fixture.tenColumns) FROM t"
        let pool = try fixture.pool(at: fixture.path)
        let baseline = try fixture.baseline(at: fixture.path)
        let expected = baseline_fetch_integers(baseline.connection, sql)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: Fixture.rowCount,
            library: {
                let records = try pool.read { try Record.fetchAll($0, sql: sql) }
                let sum = records.reduce(0) { $0 + ends($1) }
                try BenchmarkError.require(Int64(sum) == expected, "the library read other numbers than C")
            },
            baseline: {
                let sum = baseline_fetch_integers(baseline.connection, sql)
                try BenchmarkError.require(sum == expected, "C read other numbers than before")
            })
    }

    /// Records of ten integers, inserted one after another in one transaction.
    static func inserting<Record: PersistableRecord>(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, _ record: (Int) -> Record
    ) throws -> Measurement {
        let count = 100_000
        let stores = try WritingStores(fixture, createTable: WritingWork.createTable) { try fixture.pool(at: $0) }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: { try stores.writer.write { db in for row in 0..<count { try record(row).insert(db) } } },
            baseline: {
                let code = baseline_insert_integers(stores.baseline.connection, Fixture.insertTen, Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }

    // MARK: Text, blob, double, date

    /// All rows as records of a type, in an array.
    ///
    /// - Parameter sum: What C sums of a record.
    static func fetchingMixed<Record: FetchableRecord>(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, _ type: Record.Type, _ sum: (Record) -> Int
    ) throws -> Measurement {
        let sql = "SELECT text, blob, number, date FROM t"
        let (pool, baseline) = try MixedWork.store(fixture)
        let expected = baseline_fetch_mixed(baseline.connection, sql)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: MixedWork.count,
            library: {
                let records = try pool.read { try Record.fetchAll($0, sql: sql) }
                let sum = records.reduce(0) { $0 + sum($1) + MixedValues.dateBytes }
                try BenchmarkError.require(Int64(sum) == expected, "the library read other values than C")
            },
            baseline: {
                let sum = baseline_fetch_mixed(baseline.connection, sql)
                try BenchmarkError.require(sum == expected, "C read other values than before")
            })
    }

    /// Records of texts, blobs, doubles and dates, inserted one after another in one transaction.
    static func insertingMixed(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let values = MixedValues()
        let records = (0..<MixedValues.count).map { Mixed(values, $0) }
        return try MixedWork.inserting(work, comparison, fixture, values) { db in
            for row in 0..<MixedWork.count { try records[row % MixedValues.count].insert(db) }
        }
    }
}

extension FetchableRecord {
    /// The text, blob and double of a record, as C sums them.
    static func sum(_ text: String, _ blob: Data, _ number: Double) -> Int {
        text.utf8.count + blob.count + Int(number)
    }
}
