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
        let (waits, committed) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let ended = DispatchSemaphore(value: 0)
        var config = MigrationScratch.plain
        // Called while `pool` waits for the write lock: what it has read of migrations before is out of date then.
        config.busyMode = .callback { _ in
            waits.signal()
            return committed.wait(timeout: .now() + 20) == .success
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
        committed.signal()
        #expect(ended.wait(timeout: .now() + 20) == .success)
        #expect(outcome.withLock { $0 } == nil)
        #expect(try pool.read(MigrationScratch.log) == ["v2"])
    }

    @Test("a migration holds the write lock before its first statement")
    func lockedFromTheStart() throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.plain)
        var config = MigrationScratch.plain
        config.busyMode = .immediateError
        let other = try DatabasePool(path: path, configuration: config)
        var migrator = MigrationScratch.logging("v1")
        migrator.registerMigration("v2") { _ in
            #expect(databaseError { try other.write { _ in } }?.resultCode == .SQLITE_BUSY)
        }
        try migrator.migrate(pool)
    }

    @Test("two pools that migrate one encrypted file at once run each migration once")
    func pools() async throws {
        let path = folder.path("app.db")
        let pools = try (1...2).map { _ in try DatabasePool(path: path, configuration: MigrationScratch.encrypted) }
        let errors = Mutex<[any Error]>([])
        DispatchQueue.concurrentPerform(iterations: pools.count) { index in
            do {
                try MigrationScratch.logging(Self.identifiers).migrate(pools[index])
            } catch {
                errors.withLock { $0.append(error) }
            }
        }
        #expect(errors.withLock { $0 }.isEmpty)
        for pool in pools { #expect(try await pool.read(MigrationScratch.log) == Self.identifiers) }
    }

    @Test("processes that create and migrate one encrypted file at once run each migration once")
    func processes() async throws {
        let path = folder.path("app.db")
        await withTaskGroup { group in
            for number in 1...Rendezvous.count {
                group.addTask {
                    await #expect(processExitsWith: .success) { [path = path as String, number = number as Int] in
                        let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
                        try Rendezvous.meet(beside: path, number: number)
                        try MigrationScratch.logging((1...30).map { "v\($0)" }).migrate(pool)
                    }
                }
            }
        }
        let pool = try DatabasePool(path: path, configuration: MigrationScratch.encrypted)
        #expect(try await pool.read(MigrationScratch.log) == Self.identifiers)
    }
}

/// Lets processes go on together.
private enum Rendezvous {
    static let count = 3

    /// Returns when all processes have called it.
    static func meet(beside path: String, number: Int) throws {
        try Data().write(to: URL(fileURLWithPath: "\(path).here-\(number)"))
        let isComplete = waitUntil {
            (1...count).allSatisfy { FileManager.default.fileExists(atPath: "\(path).here-\($0)") }
        }
        if !isComplete { throw PlannedFailure() }
    }
}
