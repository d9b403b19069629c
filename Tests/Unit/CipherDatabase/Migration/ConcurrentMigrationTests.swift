import CipherDatabase
import Dispatch
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct ConcurrentMigrationTests {
    let folder = TemporaryFolder()
    private static let identifiers = (1...30).map { "v\($0)" }

    @Test("a migration that another connection has run while this one waited for the lock is skipped")
    func ranMeanwhile() throws {
        let path = folder.path("app.db")
        let (waits, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        var config = MigrationScratch.plain
        // Called while `pool` waits for the write lock: what it has read of migrations before is out of date then.
        config.busyMode = .callback { tries in
            waits.signal()
            usleep(1000)
            return tries < 20_000
        }
        let other = try DatabasePool(path: path, configuration: MigrationScratch.plain)
        let pool = try DatabasePool(path: path, configuration: config)
        let migrator = MigrationScratch.logging("v1", "v2")
        let outcome = Mutex<(any Error)?>(nil)
        try other.writeWithoutTransaction { db in
            try db.inTransaction(.immediate) {
                try db.execute(sql: "CREATE TABLE grdb_migrations (identifier TEXT NOT NULL PRIMARY KEY)")
                try db.execute(
                    sql: "INSERT INTO grdb_migrations VALUES ('v1'); CREATE TABLE log (id INTEGER PRIMARY KEY, name)")
                DispatchQueue.global().async {
                    do { try migrator.migrate(pool) } catch { outcome.withLock { $0 = error } }
                    ended.signal()
                }
                #expect(waits.wait(timeout: .now() + 20) == .success)
                return .commit
            }
        }
        #expect(ended.wait(timeout: .now() + 20) == .success)
        #expect(outcome.withLock { $0 } == nil)
        #expect(try pool.read(MigrationScratch.log) == ["v2"])
    }

    @Test("two pools that migrate one encrypted file at once run each migration once")
    func pools() async throws {
        let path = folder.path("app.db")
        try await withThrowingTaskGroup { group in
            for _ in 0..<2 {
                group.addTask {
                    let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
                    try MigrationScratch.logging(Self.identifiers).migrate(pool)
                    #expect(try await pool.read(MigrationScratch.log) == Self.identifiers)
                    try pool.close()
                }
            }
            try await group.waitForAll()
        }
    }

    @Test("processes that create and migrate one encrypted file at once run each migration once")
    func processes() async throws {
        let path = folder.path("app.db")
        await withTaskGroup { group in
            for _ in 0..<4 {
                group.addTask {
                    await #expect(processExitsWith: .success) { [path = path as String] in
                        let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
                        try MigrationScratch.logging((1...30).map { "v\($0)" }).migrate(pool)
                    }
                }
            }
        }
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
        #expect(try await pool.read(MigrationScratch.log) == Self.identifiers)
    }
}
