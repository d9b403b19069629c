import CipherStore
import Foundation

/// The cost of observing for the reads and writes of one process, beside the same work without it.
enum ObservationWork {
    private static let count = 10_000
    private static let pointSQL = "SELECT c0 FROM t WHERE id = ?"

    // MARK: Reading

    /// Many point reads in one access.
    static func pointReads(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try compareReads(work, comparison, repetitions: count) { recordsRegion in
            try pool.read { db in
                try tracking(recordsRegion, db) {
                    var sum: Int64 = 0
                    for index in 0..<count { sum += try pointRead(db, index) }
                    return sum
                }
            }
        }
    }

    /// One point read in each access: what a fetch of one row costs an observation.
    static func oneReadEach(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try compareReads(work, comparison, repetitions: count) { recordsRegion in
            var sum: Int64 = 0
            for index in 0..<count {
                sum += try pool.read { db in try tracking(recordsRegion, db) { try pointRead(db, index) } }
            }
            return sum
        }
    }

    /// One list in each access: what a fetch of a screen full of rows costs an observation.
    static func lists(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let (pool, _) = try PlayerWork.store(fixture)
        let (lists, length) = (500, 100)
        return try compareReads(work, comparison, repetitions: lists) { recordsRegion in
            var sum: Int64 = 0
            for index in 0..<lists {
                sum += try pool.read { db in
                    try tracking(recordsRegion, db) {
                        let start = PlayerWork.key(index * 17)
                        let request = Player.filter(Player.Columns.id >= start).order(Player.Columns.id).limit(length)
                        return try request.fetchAll(db).reduce(0) { $0 + $1.sum }
                    }
                }
            }
            return sum
        }
    }

    /// Every row of a large table.
    static func rows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try compareReads(work, comparison, repetitions: Fixture.rowCount) { recordsRegion in
            try pool.read { db in
                try tracking(recordsRegion, db) {
                    var sum: Int64 = 0
                    let rows = try Row.fetchCursor(db, sql: "SELECT \(Fixture.tenColumns) FROM t")
                    while let row = try rows.next() { sum += row[0] as Int64 + (row[9] as Int64) }
                    return sum
                }
            }
        }
    }

    private static func pointRead(_ db: Database, _ index: Int) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: pointSQL), arguments: [1 + index * 7 % count]) ?? 0
    }

    /// Does what an observation does around each fetch, or nothing.
    private static func tracking(_ isOn: Bool, _ db: Database, _ fetch: () throws -> Int64) throws -> Int64 {
        guard isOn else { return try fetch() }
        var region = DatabaseRegion()
        let sum = try db.recordingRegion(&region, fetch)
        try BenchmarkError.require(!region.observable(db).isEmpty, "the fetch read nothing")
        return sum
    }

    private static func compareReads(
        _ work: Work, _ comparison: Comparison, repetitions: Int, _ read: (_ recordsRegion: Bool) throws -> Int64
    ) throws -> Measurement {
        let expected = try read(false)
        let check = { (sum: Int64) in try BenchmarkError.require(sum == expected, "the fetches differ") }
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: repetitions,
            library: { try check(read(true)) }, baseline: { try check(read(false)) })
    }

    // MARK: Writing

    /// Transactions of one row into a table, while other tables are observed.
    static func singleRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 2_000
        return try compareWrites(work, comparison, fixture, repetitions: count) { store in
            for row in 0..<count { try store.write { try WritingWork.insertOne($0, row) } }
        }
    }

    /// One transaction of many rows, while other tables are observed.
    static func manyRows(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 50_000
        return try compareWrites(work, comparison, fixture, repetitions: count) { store in
            try store.write { db in for row in 0..<count { try WritingWork.insertOne(db, row) } }
        }
    }

    /// The same work on a store whose table `t` and a hundred other ones are observed, and on one where only `t` is.
    private static func compareWrites(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, repetitions: Int,
        _ write: (SharedStore) throws -> Void
    ) throws -> Measurement {
        let observed = try ObservedStore(fixture, others: 100)
        let baseline = try ObservedStore(fixture, others: 0)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: repetitions,
            prepare: {
                try observed.empty()
                try baseline.empty()
            },
            library: { try write(observed.store) }, baseline: { try write(baseline.store) })
    }
}

/// A store with a table that one observation tracks, and others that one observation each tracks.
private final class ObservedStore {
    let store: SharedStore
    private let observations: [AnyDatabaseCancellable]

    init(_ fixture: Fixture, others: Int) throws {
        let store = try SharedStore.open(
            at: fixture.path(of: "observed-\(UUID().uuidString).db"), unlockedBy: Fixture.keySource)
        try store.write { db in
            try db.execute(sql: WritingWork.createTable)
            for other in 0..<100 { try db.execute(sql: "CREATE TABLE other\(other) (id INTEGER PRIMARY KEY, a)") }
        }
        // A callback that does nothing: the cost of what the program does there is the program's.
        let tables = ["t"] + (0..<others).map { "other\($0)" }
        observations = try tables.map { table in
            try DatabaseRegionObservation(tracking: DatabaseRegion(table: table)).start(in: store) { _ in }
        }
        self.store = store
    }

    func empty() throws {
        try store.write { try $0.execute(sql: "DELETE FROM t") }
        try store.checkpoint()
    }
}
