import CipherDatabase
import CipherObservation
import Dispatch
import Foundation
import Testing

/// What a connection without this library writes, in the same process and the same file, counts as another writer's.
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
        withExtendedLifetime([first, second]) {}
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
}
