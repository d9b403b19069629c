import CBaseline
import CipherStore
import Foundation

/// Rows of a text, a blob, a double and a date, by the library and by plain C.
///
/// C is spared the dates: it writes and reads their texts as they are, and copies no bytes.
enum MixedWork {
    static let count = 50_000
    private static let createTable = "CREATE TABLE t (id INTEGER PRIMARY KEY, text, blob, number, date)"
    private static let insert = "INSERT INTO t (text, blob, number, date) VALUES (?, ?, ?, ?)"

    static func inserting(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let values = MixedValues()
        return try inserting(work, comparison, fixture, values) { try insertRows($0, values) }
    }

    /// Rows in one transaction, beside the same rows by C.
    static func inserting(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, _ values: MixedValues,
        _ insertRows: (Database) throws -> Void
    ) throws -> Measurement {
        let stores = try WritingStores(fixture, createTable: createTable) { try fixture.pool(at: $0) }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: { try stores.writer.write(insertRows) },
            baseline: {
                let code = baseline_insert_mixed(
                    stores.baseline.connection, insert, values.rows, Int32(values.rows.count), Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }

    static func fetching(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let sql = "SELECT text, blob, number, date FROM t"
        let (pool, baseline) = try store(fixture)
        let expected = baseline_sum_mixed(baseline.connection, sql)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                let sum = try pool.read { try sumRows($0, sql) }
                try BenchmarkError.require(sum == expected, "the library read other values than C")
            },
            baseline: {
                let sum = baseline_sum_mixed(baseline.connection, sql)
                try BenchmarkError.require(sum == expected, "C read other values than before")
            })
    }

    /// A store of such rows.
    static func store(_ fixture: Fixture, cachePages: Int? = nil) throws -> (DatabasePool, Baseline) {
        let path = fixture.path(of: "mixed.db")
        if !FileManager.default.fileExists(atPath: path) {
            let pool = try fixture.pool(at: path)
            try pool.write { db in
                try db.execute(sql: createTable)
                try insertRows(db, MixedValues())
            }
            try pool.close()
        }
        return (
            try fixture.pool(at: path, cachePages: cachePages), try fixture.baseline(at: path, cachePages: cachePages)
        )
    }

    private static func insertRows(_ db: Database, _ values: MixedValues) throws {
        let statement = try db.makeStatement(sql: insert)
        for row in 0..<count {
            let index = row % MixedValues.count
            try statement.execute(arguments: [
                values.texts[index], values.blobs[index], values.numbers[index], values.dates[index],
            ])
        }
    }

    /// The sum that C makes: lengths of text, blob and date, and the doubles without fraction.
    private static func sumRows(_ db: Database, _ sql: String) throws -> Int64 {
        var sum = 0
        let rows = try Row.fetchCursor(db, sql: sql)
        while let row = try rows.next() {
            let text: String = row[0]
            let blob: Data = row[1]
            let number: Double = row[2]
            let date: Date = row[3]
            try BenchmarkError.require(date > MixedValues.start, "a date was misread")
            sum += text.utf8.count + blob.count + Int(number) + MixedValues.dateBytes
        }
        return Int64(sum)
    }
}

/// Some values of each kind, in Swift's types and as C takes them.
final class MixedValues {
    static let count = 100
    static let start = Date(timeIntervalSince1970: 1_700_000_000)
    /// The length of `2023-11-14 22:13:20.125`.
    static let dateBytes = 23
    let texts = (0..<count).map { "a text of some length, as names and titles are, number \($0)" }
    let blobs = (0..<count).map { number in Data((0..<64).map { UInt8(($0 * 7 + number) & 255) }) }
    let numbers = (0..<count).map { Double($0) * 1.25 }
    let dates = (0..<count).map { start.addingTimeInterval(Double($0 + 1) * 1000.125) }
    /// The same for C. Their bytes are freed with the object.
    let rows: [mixed_row]
    private let owned: [UnsafeMutableRawPointer]

    init() {
        var owned: [UnsafeMutableRawPointer] = []
        func copy(_ bytes: some Collection<UInt8>) -> UnsafeMutableRawPointer {
            let block = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, bytes.count), alignment: 1)
            block.copyBytes(from: bytes)
            owned.append(block.baseAddress ?? UnsafeMutableRawPointer.allocate(byteCount: 1, alignment: 1))
            return owned[owned.count - 1]
        }
        rows = (0..<Self.count).map { [texts, blobs, numbers, dates] index in
            let date: String = String.fromDatabaseValue(dates[index].databaseValue) ?? ""
            let text = copy(texts[index].utf8)
            let blob = copy(blobs[index])
            let dateText = copy(date.utf8)
            return mixed_row(
                text: text.assumingMemoryBound(to: CChar.self), text_bytes: Int32(texts[index].utf8.count),
                blob: UnsafeRawPointer(blob), blob_bytes: Int32(blobs[index].count), number: numbers[index],
                date: dateText.assumingMemoryBound(to: CChar.self), date_bytes: Int32(date.utf8.count))
        }
        self.owned = owned
    }

    deinit { for block in owned { block.deallocate() } }
}
