import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("A store forgets old history by itself")
struct HistoryLimitTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private let clock = TestClock()

    /// The clock of all devices.
    private final class TestClock: Sendable {
        private let milliseconds = Mutex<Int64>(1_800_000_000_000)
        func advance(days: Int64) { milliseconds.withLock { $0 += days * 86_400_000 } }
        var now: HybridTime {
            HybridTime(
                wallClock: milliseconds.withLock {
                    $0 += 1
                    return $0
                })
        }
    }

    private final class Store {
        let pool: DatabasePool
        let repository: ChangesetRepository

        init(_ pool: DatabasePool, _ repository: ChangesetRepository) {
            (self.pool, self.repository) = (pool, repository)
            var limits = SyncHistoryLimits()
            limits.commits = 5
            limits.commitsBetweenSnapshots = 20
            repository.historyLimits = limits
        }

        func write(_ sql: String) throws { try repository.commit { try $0.execute(sql: sql) } }
        func sync(_ remote: any ObjectStore, _ name: String = "remote") throws {
            try repository.sync(remote, named: name)
        }
        func texts(_ sql: String) throws -> [String] { try pool.read { try String.fetchAll($0, sql: sql) } }
        func count(_ rows: String) throws -> Int {
            try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_repository_\(rows)") ?? -1 }
        }
        var bodies: Int { get throws { try count("commit WHERE body IS NOT NULL") } }
    }

    private func founder() throws -> Store {
        let pool = try Device.open(folder.path("a.db"))
        let clock = clock
        return Store(
            pool, try ChangesetRepository(pool, named: "a", settings: Replica.Settings(), clock: { clock.now }))
    }

    private func member(_ name: String, of other: Store) throws -> Store {
        let pool = try Device.open(folder.path(name))
        let clock = clock
        let invitation = try other.repository.invite(until: .max)
        try other.sync(remote)
        return Store(
            pool,
            try ChangesetRepository.join(
                pool, invitation, at: remote, remoteName: "remote", named: name, settings: Replica.Settings(),
                clock: { clock.now }))
    }

    @Test("a remote with many commits gets a snapshot, and a member that was away has every row of it")
    func snapshotByItself() throws {
        let a = try founder()
        let away = try member("away.db", of: a)
        try away.sync(remote)
        try away.write("INSERT INTO player VALUES (1000, 'of the member that is away', 1)")
        var most = 0
        for number in 1...50 {
            try a.write("INSERT INTO player VALUES (\(number), 'p', 1)")
            if number % 10 == 0 { try a.write("DELETE FROM player WHERE id = \(number - 1)") }
            try a.sync(remote)
            most = max(most, remote.names("c/").count)
        }
        #expect(!remote.names("s/").isEmpty && most <= 22)
        clock.advance(days: 200)
        try a.sync(remote)
        try away.sync(remote)
        try a.sync(remote)
        #expect(try a.texts("SELECT id FROM player ORDER BY id").count == 46)
        #expect(try away.texts("SELECT id FROM player ORDER BY id") == a.texts("SELECT id FROM player ORDER BY id"))
    }

    @Test("changes of old commits go when every remote has a snapshot of them, and the latest stay")
    func changes() throws {
        let a = try founder()
        let other = MemoryRemote()
        for number in 1...30 {
            try a.write("INSERT INTO player VALUES (\(number), 'p', 1)")
            try a.sync(remote)
        }
        #expect(try a.bodies == 30)
        clock.advance(days: 91)
        a.repository.historyLimits.commitsBetweenSnapshots = nil
        try a.sync(other, "other")
        // The other remote has no snapshot.
        #expect(try a.bodies == 30 && other.names("s/").isEmpty)
        #expect(try a.repository.compact(other, named: "other").sentSnapshots == 1)
        clock.advance(days: 2)
        for (remote, name) in [(other, "other"), (remote, "remote")] { try a.sync(remote, name) }
        clock.advance(days: 2)
        try a.sync(remote)
        let kept = try a.bodies
        #expect((5...10).contains(kept))
        // Not again on the same day, and never commits that are young.
        for number in 31...40 { try a.write("INSERT INTO player VALUES (\(number), 'p', 1)") }
        try a.sync(remote)
        #expect(try a.bodies == kept + 10)
        let b = try member("b.db", of: a)
        try b.sync(remote)
        #expect(try b.texts("SELECT id FROM player").count == 40)
        // A remote that is emptied then has everything again.
        remote.objects = [:]
        try a.sync(remote)
        let c = try member("c.db", of: a)
        try c.sync(remote)
        #expect(try c.texts("SELECT id FROM player").count == 40)
    }

    @Test("a deletion is known for 30 days, and an update that arrives later brings the row back")
    func deletions() throws {
        let a = try founder()
        let b = try member("b.db", of: a)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cat', 3)")
        for store in [a, b] { try store.sync(remote) }
        try a.write("DELETE FROM player WHERE id < 3")
        try b.write("UPDATE player SET name = 'Bea' WHERE id = 2")
        clock.advance(days: 29)
        try a.sync(remote)
        #expect(try a.count("dead") == 2)
        clock.advance(days: 2)
        try a.sync(remote)
        // One wrong clock, once, forgets nothing: the age is that at the last exchange a day or more ago.
        #expect(try a.count("dead") == 2)
        clock.advance(days: 1)
        try a.sync(remote)
        #expect(try a.count("dead") == 0)
        for _ in 0..<3 { for store in [b, a] { try store.sync(remote) } }
        for store in [a, b] { #expect(try store.texts("SELECT name FROM player ORDER BY id") == ["Bea", "Cat"]) }
    }
}
