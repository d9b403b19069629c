import CBaseline
import CipherStore
import Foundation

/// One record at a time by its key or by a request, by the library and by plain C.
enum PlayerWork {
    static let count = 10_000
    static let byKey = "SELECT * FROM player WHERE id = ?"
    static let byRequest = "SELECT * FROM player WHERE id >= ? AND score >= ? ORDER BY id LIMIT 1"

    /// A store of 10,000 players.
    static func store(_ fixture: Fixture, cachePages: Int? = nil) throws -> (DatabasePool, Baseline) {
        let path = fixture.path(of: "players.db")
        if !FileManager.default.fileExists(atPath: path) {
            let pool = try fixture.pool(at: path)
            try pool.write { db in
                try db.execute(
                    sql: "CREATE TABLE player (id INTEGER PRIMARY KEY, name TEXT NOT NULL, score INTEGER NOT NULL)")
                for id in 1...count { try Player(id: Int64(id), name: "player number \(id)", score: id).insert(db) }
            }
            try pool.close()
        }
        return (
            try fixture.pool(at: path, cachePages: cachePages), try fixture.baseline(at: path, cachePages: cachePages)
        )
    }

    /// Keys in the order in which C takes them.
    static func key(_ index: Int) -> Int { 1 + index * 7 % count }

    static func inOneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try compare(work, comparison, fixture, sql: byKey) { pool in
            try pool.read { db in
                var sum: Int64 = 0
                for index in 0..<count { sum += try Player.fetchOne(db, key: key(index))?.sum ?? 0 }
                return sum
            }
        }
    }

    static func codableInOneAccess(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try compare(work, comparison, fixture, sql: byKey) { pool in
            try pool.read { db in
                var sum: Int64 = 0
                for index in 0..<count { sum += try CodablePlayer.fetchOne(db, key: key(index))?.sum ?? 0 }
                return sum
            }
        }
    }

    static func oneAccessEach(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        try compare(work, comparison, fixture, sql: byKey, eachInTransaction: true) { pool in
            var sum: Int64 = 0
            for index in 0..<count { sum += try pool.read { try Player.fetchOne($0, key: key(index)) }?.sum ?? 0 }
            return sum
        }
    }

    /// A request of a literal value.
    static func request(_ number: Int) -> QueryInterfaceRequest<Player> {
        Player.filter(Player.Columns.id >= number && Player.Columns.score >= number)
            .order(Player.Columns.id).limit(1)
    }

    /// Requests that are built with other literal values each time.
    static func requests(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        var former: RequestStatistics?
        var latest: RequestStatistics?
        var measurement = try compare(work, comparison, fixture, sql: byRequest) { pool in
            try pool.read { db in
                var sum: Int64 = 0
                former = try db.requestStatistics()
                for index in 0..<count {
                    sum += try request(key(index)).fetchOne(db)?.sum ?? 0
                }
                latest = try db.requestStatistics()
                return sum
            }
        }
        guard let former, let latest else { return measurement }
        let found = latest.found - former.found
        measurement.note =
            "\(found) of \(count) requests of the last run found their statement compiled; over all runs SQL was "
            + "generated \(times(latest.generated)) and compiled \(times(latest.compiled))"
        return measurement
    }

    private static func times(_ count: Int) -> String { count == 1 ? "once" : "\(count) times" }

    private static func compare(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, sql: String, eachInTransaction: Bool = false,
        _ read: (DatabasePool) throws -> Int64
    ) throws -> Measurement {
        let (pool, baseline) = try store(fixture)
        let each: Int32 = eachInTransaction ? 1 : 0
        let expected = baseline_fetch_players(baseline.connection, sql, Int64(count), each)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                let sum = try read(pool)
                try BenchmarkError.require(sum == expected, "the library read other players than C")
            },
            baseline: {
                let sum = baseline_fetch_players(baseline.connection, sql, Int64(count), each)
                try BenchmarkError.require(sum == expected, "C read other players than before")
            })
    }
}

/// Authors with their books, by the library and by two queries of plain C.
enum AssociationWork {
    static let (authors, books) = (1000, 10_000)

    static func store(_ fixture: Fixture, cachePages: Int? = nil) throws -> (DatabasePool, Baseline) {
        let path = fixture.path(of: "library.db")
        if !FileManager.default.fileExists(atPath: path) {
            let pool = try fixture.pool(at: path)
            try pool.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
                        CREATE TABLE book (
                            id INTEGER PRIMARY KEY, authorId INTEGER NOT NULL REFERENCES author(id), title TEXT NOT NULL);
                        CREATE INDEX bookOfAuthor ON book (authorId)
                        """)
                for id in 1...authors { try Author(id: Int64(id), name: "author number \(id)").insert(db) }
                for id in 1...books {
                    let author = Int64(1 + id * 7 % authors)
                    try Book(id: Int64(id), authorId: author, title: "the title of book \(id)").insert(db)
                }
            }
            try pool.close()
        }
        return (
            try fixture.pool(at: path, cachePages: cachePages), try fixture.baseline(at: path, cachePages: cachePages)
        )
    }

    /// The sum that C makes of the authors and their books.
    static func sum(_ baseline: Baseline) -> Int64 {
        baseline_fetch_authors(
            baseline.connection, "SELECT id, name FROM author ORDER BY id", "SELECT id, authorId, title FROM book")
    }

    /// - Parameters:
    ///   - fetch: Fetches the authors with their books.
    ///   - authorSum: What C sums of one of them.
    static func includingAll<Record>(
        _ work: Work, _ comparison: Comparison, _ fixture: Fixture, _ authorSum: (Record) -> Int64,
        _ fetch: (Database) throws -> [Record]
    ) throws -> Measurement {
        let (pool, baseline) = try store(fixture)
        let expected = sum(baseline)
        return try comparison.measure(
            work.name, goal: work.goal,
            library: {
                let sum = try pool.read(fetch).reduce(0) { $0 + authorSum($1) }
                try BenchmarkError.require(sum == expected, "the library read other books than C")
            },
            baseline: { try BenchmarkError.require(sum(baseline) == expected, "C read other books than before") })
    }
}
