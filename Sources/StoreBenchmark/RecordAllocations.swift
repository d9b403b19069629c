import CBaseline
import CipherStore

/// How often reading and storing records asks the C allocator for memory, beside C that makes structs of rows.
enum RecordAllocations {
    static func all(_ fixture: Fixture) throws -> [AllocationCount] {
        try inserting(fixture) + fetching(fixture) + fetchingMixed(fixture) + players(fixture) + [includingAll(fixture)]
    }

    // MARK: Storing

    private static func inserting(_ fixture: Fixture) throws -> [AllocationCount] {
        let count = 5000
        let stores = try WritingStores(fixture, createTable: WritingWork.createTable) {
            try fixture.pool(at: $0, cachePages: ReadingWork.allPages)
        }
        func inserting(
            _ name: String, promise: Double, _ reason: String, _ record: (Int) -> some PersistableRecord
        ) throws -> AllocationCount {
            try AllocationCount.compare(
                "an inserted record of ten integers, \(name)", count, promise, reason,
                library: { try stores.writer.write { db in for row in 0..<count { try record(row).insert(db) } } },
                baseline: {
                    let code = baseline_insert_integers(stores.baseline.connection, Fixture.insertTen, Int64(count))
                    try BenchmarkError.require(code == 0, "C: \(code)")
                })
        }
        return [
            try inserting("hand-written", promise: 1.1, "the array of its values") { IntegersByName(from: $0) },
            try inserting("Codable", promise: 3.1, "the array of its values, and Swift's containers") {
                CodableIntegers(from: $0)
            },
            try insertingMixed(fixture),
        ]
    }

    private static func insertingMixed(_ fixture: Fixture) throws -> AllocationCount {
        let count = 5000
        let values = MixedValues()
        let records = (0..<MixedValues.count).map { Mixed(values, $0) }
        let stores = try WritingStores(
            fixture, createTable: "CREATE TABLE t (id INTEGER PRIMARY KEY, text, blob, number, date)"
        ) { try fixture.pool(at: $0, cachePages: ReadingWork.allPages) }
        return try AllocationCount.compare(
            "an inserted record of text, blob, double and date, hand-written", count, 5.1,
            "its values, the date as text, SQLite's copies; C lends its bytes",
            library: {
                try stores.writer.write { db in
                    for row in 0..<count { try records[row % MixedValues.count].insert(db) }
                }
            },
            baseline: {
                let code = baseline_insert_mixed(
                    stores.baseline.connection, "INSERT INTO t (text, blob, number, date) VALUES (?, ?, ?, ?)",
                    values.rows, Int32(values.rows.count), Int64(count))
                try BenchmarkError.require(code == 0, "C: \(code)")
            })
    }

    // MARK: Many records

    private static func fetching(_ fixture: Fixture) throws -> [AllocationCount] {
        let count = 20_000
        let sql = "SELECT \(Fixture.tenColumns) FROM t WHERE id <= \(count)"
        let pool = try fixture.pool(at: fixture.path, cachePages: ReadingWork.allPages)
        let baseline = try fixture.baseline(at: fixture.path, cachePages: ReadingWork.allPages)
        func fetching<Record: FetchableRecord>(_ name: String, _ type: Record.Type) throws -> AllocationCount {
            try AllocationCount.compare(
                "a fetched record of ten integers, \(name)", count, 0.005, "the array of the records",
                library: {
                    let records = try pool.read { try Record.fetchAll($0, sql: sql) }
                    try BenchmarkError.require(records.count == count, "the library read other rows")
                },
                baseline: {
                    try BenchmarkError.require(
                        baseline_fetch_integers(baseline.connection, sql) > 0, "C read nothing")
                })
        }
        return [
            try fetching("by position", IntegersByPosition.self), try fetching("by name", IntegersByName.self),
            try fetching("Codable", CodableIntegers.self),
        ]
    }

    private static func fetchingMixed(_ fixture: Fixture) throws -> [AllocationCount] {
        let sql = "SELECT text, blob, number, date FROM t"
        let (pool, baseline) = try MixedWork.store(fixture, cachePages: ReadingWork.allPages)
        func fetching<Record: FetchableRecord>(_ name: String, _ type: Record.Type) throws -> AllocationCount {
            try AllocationCount.compare(
                "a fetched record of text, blob, double and date, \(name)", MixedWork.count, 0.01,
                "`String` takes one, `Data` two; C copies text, blob and date",
                library: {
                    let records = try pool.read { try Record.fetchAll($0, sql: sql) }
                    try BenchmarkError.require(records.count == MixedWork.count, "the library read other rows")
                },
                baseline: {
                    try BenchmarkError.require(baseline_fetch_mixed(baseline.connection, sql) > 0, "C read nothing")
                })
        }
        return [try fetching("hand-written", Mixed.self), try fetching("Codable", CodableMixed.self)]
    }

    // MARK: One record

    private static func players(_ fixture: Fixture) throws -> [AllocationCount] {
        let (pool, baseline) = try PlayerWork.store(fixture, cachePages: ReadingWork.allPages)
        func fetching(
            _ name: String, promise: Double, _ reason: String, sql: String = PlayerWork.byKey, each: Int32 = 0,
            _ body: (DatabasePool) throws -> Void
        ) throws -> AllocationCount {
            try AllocationCount.compare(
                name, PlayerWork.count, promise, reason, library: { try body(pool) },
                baseline: {
                    let sum = baseline_fetch_players(baseline.connection, sql, Int64(PlayerWork.count), each)
                    try BenchmarkError.require(sum > 0, "C read nothing")
                })
        }
        func inOneAccess<Record: FetchableRecord & TableRecord>(
            _ name: String, _ type: Record.Type
        ) throws -> AllocationCount {
            try fetching(name, promise: 1.01, "the text of the name, as in C; one more by SQLite") {
                pool in
                try pool.read { db in
                    for index in 0..<PlayerWork.count { _ = try Record.fetchOne(db, key: PlayerWork.key(index)) }
                }
            }
        }
        return [
            try inOneAccess("`Player.fetchOne(db, key:)` in one access", Player.self),
            try fetching(
                "`Player.fetchOne(db, key:)`, one access each", promise: 1.01,
                "the text of the name, as in C; one more by SQLite", each: 1
            ) { pool in
                for index in 0..<PlayerWork.count {
                    _ = try pool.read { try Player.fetchOne($0, key: PlayerWork.key(index)) }
                }
            },
            try inOneAccess("`Player.fetchOne(db, key:)` in one access, Codable", CodablePlayer.self),
            try fetching(
                "a request with other values each, built and fetched", promise: 21.01,
                "the request's filters, orderings and arrays", sql: PlayerWork.byRequest
            ) { pool in
                try pool.read { db in
                    for index in 0..<PlayerWork.count {
                        _ = try PlayerWork.request(PlayerWork.key(index)).fetchOne(db)
                    }
                }
            },
        ]
    }

    private static func includingAll(_ fixture: Fixture) throws -> AllocationCount {
        let (pool, baseline) = try AssociationWork.store(fixture, cachePages: ReadingWork.allPages)
        return try AllocationCount.compare(
            "a book of `including(all:)`, Codable", AssociationWork.books, 1, "a tenth of what its author takes",
            library: {
                let authors = try pool.read { db in
                    try AuthorWithBooks.fetchAll(db, Author.including(all: Author.books))
                }
                try BenchmarkError.require(authors.count == AssociationWork.authors, "the library read other rows")
            },
            baseline: { try BenchmarkError.require(AssociationWork.sum(baseline) > 0, "C read nothing") })
    }
}
