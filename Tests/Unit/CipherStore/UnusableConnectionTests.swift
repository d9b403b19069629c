import CipherObservation
import CipherStore
import Foundation
import Synchronization
import TestKit
import Testing

/// From 4.9 on, SQLCipher reads no page with a connection that has met one which is not authentic.
@Suite struct UnusableConnectionTests {
    private let fixture: StoreFixture

    /// Makes a store in which one table cannot be read.
    init() throws {
        fixture = try StoreFixture()
        let page = try Opening.pool.open(fixture.path, fixture.key) { writer in
            try writer.write { db in
                try db.execute(
                    sql: """
                        CREATE TABLE hurt (a);
                        WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 100)
                        INSERT INTO hurt SELECT hex(zeroblob(300)) FROM c;
                        """)
                let root = try Int.fetchOne(db, sql: "SELECT rootpage FROM sqlite_schema WHERE name = 'hurt'")
                return try #require(root)
            }
        }
        var bytes = try fixture.bytes()
        bytes[(page - 1) * 4096 + 200] ^= 1
        try fixture.write(bytes)
    }

    /// The configuration of one reader, with a function of the program's own.
    private static var configuration: Configuration {
        var configuration = Configuration()
        configuration.maximumReaderCount = 1
        configuration.prepareDatabase { db in db.add(function: DatabaseFunction("seven", argumentCount: 0) { _ in 7 }) }
        return configuration
    }

    private func open(_ way: Opening, _ body: (any DatabaseWriter) throws -> Void) throws {
        try way.open(fixture.path, fixture.key, Self.configuration, body: body)
    }

    private static func meetDamage(_ db: Database) throws { _ = try String.fetchAll(db, sql: "SELECT a FROM hurt") }

    private static func count(_ db: Database) throws -> Int? {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM note WHERE text LIKE 'note%' AND seven() = 7")
    }

    @Test(
        "an access that meets a damaged page leaves the next ones as they were",
        arguments: [Opening.sharedStore, .pool, .queue])
    func reading(way: Opening) throws {
        try open(way) { writer in
            for round in 1...3 {
                #expect(throws: DatabaseError.self) { try writer.read { try Self.meetDamage($0) } }
                let readCount = try writer.read { try Self.count($0) }
                #expect(readCount == StoreFixture.rowCount, "\(round)")
                #expect(throws: DatabaseError.self) { try writer.unsafeRead { try Self.meetDamage($0) } }
                let unsafeReadCount = try writer.unsafeRead { try Self.count($0) }
                #expect(unsafeReadCount == StoreFixture.rowCount, "\(round)")
            }
        }
    }

    @Test(
        "so does a write, and what it had written before is rolled back",
        arguments: [Opening.sharedStore, .pool, .queue])
    func writing(way: Opening) throws {
        try open(way) { writer in
            for round in 1...3 {
                #expect(throws: DatabaseError.self) {
                    try writer.write { db in
                        try db.execute(sql: "INSERT INTO note (text) VALUES ('lost')")
                        try Self.meetDamage(db)
                    }
                }
                try writer.write { db in
                    #expect(try Self.count(db) == StoreFixture.rowCount, "\(round)")
                    try db.execute(sql: "INSERT INTO note (text) VALUES ('kept')")
                }
            }
            let keptRows = try writer.read {
                try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note WHERE text = 'kept'")
            }
            #expect(keptRows == 3)
            let lostRows = try writer.read {
                try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM note WHERE text = 'lost'")
            }
            #expect(lostRows == 0)
            try writer.writeWithoutTransaction { _ = try $0.checkpoint(.passive) }
        }
    }

    @Test("tasks find the same")
    func tasks() async throws {
        let store = try SharedStore.open(
            at: fixture.path, unlockedBy: fixture.key.source, configuration: Self.configuration)
        defer { try? store.close() }
        for round in 1...3 {
            await #expect(throws: DatabaseError.self) { try await store.read { try Self.meetDamage($0) } }
            let readCount = try await store.read { try Self.count($0) }
            #expect(readCount == StoreFixture.rowCount, "\(round)")
            await #expect(throws: DatabaseError.self) { try await store.write { try Self.meetDamage($0) } }
            let writeCount = try await store.write { try Self.count($0) }
            #expect(writeCount == StoreFixture.rowCount, "\(round)")
        }
    }

    @Test("observers of the connection that writes are told of later writes", arguments: [Opening.sharedStore, .queue])
    func observers(way: Opening) throws {
        try open(way) { writer in
            let commits = Mutex(0)
            let observation = DatabaseRegionObservation(tracking: DatabaseRegion(table: "note")).start(in: writer) {
                _ in
            } onChange: { _ in
                commits.withLock { $0 += 1 }
            }
            defer { observation.cancel() }
            for _ in 1...3 {
                #expect(throws: DatabaseError.self) { try writer.write { try Self.meetDamage($0) } }
                let before = commits.withLock { $0 }
                try writer.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('kept')") }
                #expect(commits.withLock { $0 } > before)
            }
        }
    }

    @Test("a statement that outlives its connection throws an error", arguments: [Opening.pool, .queue])
    func statement(way: Opening) throws {
        try open(way) { writer in
            var kept: Statement?
            try writer.writeWithoutTransaction { kept = try $0.makeStatement(sql: "SELECT COUNT(*) FROM note") }
            #expect(throws: DatabaseError.self) { try writer.write { try Self.meetDamage($0) } }
            try writer.writeWithoutTransaction { db in
                let statement = try #require(kept)
                // The same connection still reads with a SQLCipher before 4.9.
                do {
                    #expect(try Int.fetchOne(statement) == StoreFixture.rowCount)
                } catch let error as DatabaseError {
                    #expect(error.resultCode == .SQLITE_MISUSE)
                }
                #expect(try Self.count(db) == StoreFixture.rowCount)
            }
            kept = nil
        }
    }

    @Test("a pool is suspended and closed with a connection that took the place of another one")
    func suspension() async throws {
        let store = try SharedStore.open(
            at: fixture.path, unlockedBy: fixture.key.source, configuration: Self.configuration)
        await #expect(throws: DatabaseError.self) { try await store.write { try Self.meetDamage($0) } }
        _ = await store.suspend()
        await #expect(throws: DatabaseError.self) {
            try await store.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('refused')") }
        }
        store.resume()
        try await store.write { try $0.execute(sql: "INSERT INTO note (text) VALUES ('kept')") }
        try store.close()
        let again = try SharedStore.open(at: fixture.path, unlockedBy: fixture.key.source)
        defer { try? again.close() }
        let texts = try await again.read {
            try String.fetchAll($0, sql: "SELECT text FROM note WHERE text IN ('kept', 'refused')")
        }
        #expect(texts == ["kept"])
    }
}
