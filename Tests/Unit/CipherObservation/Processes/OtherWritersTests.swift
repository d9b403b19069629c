import CipherDatabase
import CipherObservation
import Dispatch
import Foundation
import Testing

/// The writes of a connection without this library, in the same process and the same file, count as another writer's.
@Suite struct OtherWritersTests {
    private let file = TemporaryFile()

    private func open() throws -> DatabasePool {
        var config = Configuration()
        config.allowsUnencrypted = true
        let pool = try DatabasePool(path: file.path, configuration: config)
        try pool.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a); CREATE TABLE u (a)")
        }
        return pool
    }

    @Test("a connection of plain SQLite in the same process is seen by observations", arguments: [false, true])
    func plainConnection(isRecorded: Bool) throws {
        let pool = try open()
        if isRecorded { try pool.write { try $0.recordHistory(of: .allTables) } }
        let values = Collected<Int>()
        let fetch: @Sendable (Database) throws -> Int = { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") ?? -1 }
        // Values may be equal where a commit of another connection is noticed more than once.
        let first = ValueObservation.tracking(fetch).removeDuplicates().start(
            in: pool, scheduling: .async(onQueue: DispatchQueue(label: "delivery")),
            onError: { Issue.record($0) }, onChange: { values.add($0) })
        let regions = Collected<Int>()
        let second = try DatabaseRegionObservation(tracking: DatabaseRegion(table: "t")).start(in: pool) { db in
            regions.add((try? fetch(db)) ?? -1)
        }
        values.wait { $0 == [0] }
        let stock = StockConnection(file.path)
        #expect(stock.execute("INSERT INTO t VALUES (1, 1)") == 0)
        values.wait { $0.last == 1 }
        regions.wait { $0.last == 1 }
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (2, 2)") }
        // Commits that follow each other at once may be one value.
        values.wait { $0.last == 2 }
        regions.wait { $0.last == 2 }
        #expect(stock.execute("BEGIN; INSERT INTO t VALUES (3, 3); UPDATE t SET a = 4; COMMIT") == 0)
        values.wait { $0.last == 3 }
        regions.wait { $0.last == 3 }
        #expect(values.all == [0, 1, 2, 3])
        #expect(regions.all == [1, 2, 3])
        for observation in [first, second] { observation.cancel() }
        try pool.close()
    }

    @Test("the sets of changes of others have what it wrote, without an author, and nothing of one's own")
    func plainChanges() async throws {
        let pool = try open()
        try await pool.write { try $0.recordHistory(of: .allTables) }
        var iterator = pool.externalChanges.makeAsyncIterator()
        try await pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1, 1)") }
        let stock = StockConnection(file.path)
        #expect(stock.execute("INSERT INTO t VALUES (2, 2)") == 0)
        let changes = try #require(try await iterator.next())
        #expect(changes.author == nil && changes.tables.keys.sorted() == ["t"])
        #expect(changes.tables["t"]?.inserted == [["id": 2.databaseValue]])
        try pool.close()
    }

    @Test(
        "with the history of all tables, an observation of the database sees what others write in tables without one",
        arguments: [
            ("CREATE VIRTUAL TABLE x USING fts5(a)", "INSERT INTO x VALUES ('word')"),
            ("CREATE VIRTUAL TABLE x USING fts5(a, content='')", "INSERT INTO x (rowid, a) VALUES (1, 'word')"),
            ("CREATE VIRTUAL TABLE x USING fts5(a, content='t')", "INSERT INTO x (x) VALUES ('rebuild')"),
            ("CREATE VIRTUAL TABLE x USING fts4(a)", "INSERT INTO x VALUES ('word')"),
            ("CREATE VIRTUAL TABLE x USING rtree(id, low, high)", "INSERT INTO x VALUES (1, 2, 3)"),
            ("CREATE TABLE pragma_x (a)", "INSERT INTO pragma_x VALUES (1)"),
        ], [false, true])
    func unrecordedTables(schemaAndWrite: (String, String), usesLibrary: Bool) throws {
        let pool = try open()
        try pool.write { db in
            try db.execute(sql: schemaAndWrite.0)
            try db.recordHistory(of: .allTables)
        }
        var config = Configuration()
        config.allowsUnencrypted = true
        let other = usesLibrary ? try DatabasePool(path: file.path, configuration: config) : nil
        let regions = Collected<Int>()
        let observation = try DatabaseRegionObservation(tracking: .fullDatabase).start(in: pool) { _ in regions.add(1) }
        func write(_ sql: String) throws {
            if let other { return try other.write { try $0.execute(sql: sql) } }
            #expect(StockConnection(file.path).execute(sql) == 0)
        }
        try write("INSERT INTO t VALUES (1, 'one')")
        regions.wait { $0.count >= 1 }
        let before = regions.all.count
        try write(schemaAndWrite.1)
        regions.wait { $0.count > before }
        withExtendedLifetime(observation) {}
        try other?.close()
        try pool.close()
    }
}
