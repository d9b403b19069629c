import CipherStore
import Foundation

/// The cost of the history of changes for writes, beside the same writes without it.
enum HistoryWork {
    /// One transaction of many rows by one prepared statement.
    ///
    /// - Parameter columns: How many integers a row has beside its key.
    static func inserting(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, columns: Int
    ) throws -> Measurement {
        let count = 100_000
        let stores = try RecordedStores(fixture, columns: columns)
        var measurement = try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: { try stores.recorded.insert(count) }, baseline: { try stores.plain.insert(count) })
        measurement.note = try stores.note(insertions: count)
        return measurement
    }

    /// Transactions of one row.
    static func singleRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 2_000
        let stores = try RecordedStores(fixture, columns: 10)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: { for _ in 0..<count { try stores.recorded.insert(1) } },
            baseline: { for _ in 0..<count { try stores.plain.insert(1) } })
    }

    /// One statement that changes many rows.
    static func updating(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 50_000
        let stores = try RecordedStores(fixture, columns: 10)
        for store in [stores.recorded, stores.plain] { try store.insert(count) }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            prepare: { for store in [stores.recorded, stores.plain] { try store.store.checkpoint() } },
            library: { try stores.recorded.update() }, baseline: { try stores.plain.update() })
    }
}

/// Two stores of the same table, of which one records its changes.
private final class RecordedStores {
    let recorded: RecordedStore
    let plain: RecordedStore

    init(_ fixture: Fixture, columns: Int) throws {
        recorded = try RecordedStore(fixture, columns: columns, isRecorded: true)
        plain = try RecordedStore(fixture, columns: columns, isRecorded: false)
    }

    func empty() throws {
        try recorded.empty()
        try plain.empty()
    }

    /// The bytes of the file for each change in the history.
    func note(insertions count: Int) throws -> String {
        try empty()
        for store in [recorded, plain] { try store.insert(count) }
        let changes = try recorded.changeCount()
        let bytes = try recorded.bytes() - plain.bytes()
        try BenchmarkError.require(changes >= count, "changes were not recorded")
        return String(format: "%.1f bytes for each of %d changes (goal 60)", Double(bytes) / Double(changes), changes)
    }
}

private struct RecordedStore {
    let store: SharedStore
    private let insertion: String
    private let columns: Int

    init(_ fixture: Fixture, columns: Int, isRecorded: Bool) throws {
        let store = try SharedStore.open(
            at: fixture.path(of: "history-\(UUID().uuidString).db"), unlockedBy: Fixture.keySource)
        let names = (0..<columns).map { "c\($0)" }.joined(separator: ", ")
        try store.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, \(names))")
            if isRecorded { try db.recordHistory(of: .allTables) }
        }
        insertion = "INSERT INTO t (\(names)) VALUES (?\(String(repeating: ", ?", count: columns - 1)))"
        self.store = store
        self.columns = columns
    }

    func insert(_ count: Int) throws {
        try store.write { db in
            let insert = try db.cachedStatement(sql: insertion)
            for row in 0..<count {
                try insert.execute(arguments: StatementArguments((0..<columns).map { row + $0 }))
            }
        }
    }

    func update() throws { try store.write { try $0.execute(sql: "UPDATE t SET c0 = c0 + 1") } }

    func empty() throws {
        try store.write { try $0.execute(sql: "DELETE FROM t") }
        try store.checkpoint()
    }

    /// Rows of the history that are still there.
    func changeCount() throws -> Int {
        try store.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM cipherstore_history") ?? 0 }
    }

    /// The bytes of the rows, without pages that are free.
    func bytes() throws -> Int {
        try store.read { db in
            let pages = try ["page_count", "freelist_count", "page_size"].map { name in
                try Int.fetchOne(db, sql: "PRAGMA \(name)") ?? 0
            }
            return (pages[0] - pages[1]) * pages[2]
        }
    }
}
