import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

/// Defects that other engines of synchronization have, and the first one of this library had: those that no other suite
/// shows. The table of all of them is in Tests/SyncModel/DEFECTS.md.
@Suite("Known defects of synchronization")
struct KnownDefectTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    private func devices(sql: String = Device.sql, encoding: String = "UTF-8") throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"), sql: sql)
        return (a, try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql, encoding: encoding))
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    /// The first engine joined an emptied remote anew, and deleted acknowledged rows on every device.
    @Test("remotes that are emptied, exchanged with each other and set back take no row from any device")
    func rejoiningDeletesNothing() throws {
        let (a, b) = try devices()
        let other = MemoryRemote()
        try a.write("INSERT INTO player VALUES (1, 'a', 1)")
        try b.write("INSERT INTO player VALUES (2, 'b', 2)")
        try settle(a, b)
        try a.repository.sync(other, named: "other")
        let old = remote.objects
        for number in 3...6 {
            try (number % 2 == 0 ? a : b).write("INSERT INTO player VALUES (\(number), 'x', 0)")
            switch number {
            case 3: remote.objects = [:]
            case 4: (remote.objects, other.objects) = (other.objects, remote.objects)
            case 5: remote.objects = old
            default: try a.repository.forget(remote: "remote")
            }
            try settle(a, b)
            try a.repository.sync(other, named: "other")
        }
        for device in [a, b] {
            #expect(try device.texts("SELECT id FROM player ORDER BY id") == (1...6).map(String.init))
        }
    }

    /// The remotes were parted, and both devices said that they were in sync.
    @Test("a device whose commits a remote lacks is not settled, and says so without asking it")
    func partedRemotes() throws {
        let (a, b) = try devices()
        try settle(a, b)
        #expect(try a.repository.status().isSettled)
        try a.write("INSERT INTO player VALUES (1, 'a', 1)")
        let status = try a.repository.status()
        #expect(!status.isSettled && status.remotes.map(\.isUpToDate) == [false])
        let other = MemoryRemote()
        try a.repository.sync(other, named: "other")
        #expect(try !a.repository.status().isSettled)
        try a.sync(remote)
        #expect(try a.repository.status().isSettled)
        // Fetched and not joined.
        try b.write("INSERT INTO player VALUES (2, 'b', 2)")
        try b.sync(remote)
        _ = try a.repository.perform(a.repository.makeExchange(remote, named: "remote"), .fetching)
        #expect(try a.repository.status().readyCount == 1 && !a.repository.status().isSettled)
    }

    @Test("after one wrong clock, once, a later write by a right clock is shown on all devices")
    func wrongClock() throws {
        let year: Int64 = 365 * 86_400_000
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, x)"
        func replica(_ name: String, ahead milliseconds: Int64 = 0) throws -> TestReplica {
            try TestReplica(
                name, sql, tracking: [TrackedTable("t")],
                clock: HybridTime(wallClock: 1_800_000_000_000 + milliseconds).rawValue)
        }
        let (wrong, b, c) = (try replica("a", ahead: year), try replica("b"), try replica("c"))
        try wrong.write("INSERT INTO t VALUES (1, 'wrong')")
        try TestReplica.exchange(wrong, b, c)
        try b.write("UPDATE t SET x = 'by b'")
        for _ in 0..<3 { try c.write("INSERT INTO t SELECT max(id) + 1, 0 FROM t") }
        try c.write("UPDATE t SET x = 'by c, later' WHERE id = 1")
        try TestReplica.exchange(wrong, b, c)
        for replica in [wrong, b, c] { #expect(try replica.texts("SELECT x FROM t WHERE id = 1") == ["by c, later"]) }
    }

    /// It was said to all others alone, and promised to end with the next commit of that device.
    @Test("a store whose clock was ahead once says so itself, and its removal ends the notice")
    func clockAheadOnce() throws {
        let (a, b) = try devices()
        try settle(a, b)
        let later = HybridTime(wallClock: Int64(Date().timeIntervalSince1970 * 1_000) + 183 * 86_400_000)
        let ahead = try ChangesetRepository(existing: b.pool, clock: { later })
        try ahead.commit { try $0.execute(sql: "INSERT INTO player VALUES (1, 'b', 1)") }
        // The clock is right again.
        try b.write("UPDATE player SET score = 2")
        try settle(a, b)
        let id = try b.repository.status().replica
        for device in [a, b] {
            let authors = try device.repository.status().obstacles.map { obstacle -> String? in
                if case .clockAhead(let author, _) = obstacle { author } else { nil }
            }
            #expect(authors == [id])
        }
        // The device joins with a new store.
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle(a, c)
        try a.repository.removeMember(id)
        try settle(a, c)
        try c.write("UPDATE player SET score = 3")
        try settle(a, c)
        for device in [a, c] {
            #expect(try device.repository.status().obstacles.isEmpty)
            #expect(try device.texts("SELECT * FROM player") == ["1 b 3"])
        }
    }

    @Test("commits that a removed member goes on to make leave the others in sync, as many as they are")
    func commitsAfterRemoval() throws {
        let (a, b) = try devices()
        try a.write("INSERT INTO player VALUES (1, 'a', 1)")
        try settle(a, b)
        let id = try b.repository.status().replica
        try a.repository.removeMember(id)
        for number in 2...4 { try b.write("INSERT INTO player VALUES (\(number), 'b', 1)") }
        try b.sync(remote)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle(a, c)
        for device in [a, c] {
            let status = try device.repository.status()
            #expect(status.obstacles == [.removedMember(id, commits: 3)])
            #expect(status.isSettled)
            #expect(try device.texts("SELECT id FROM player") == ["1"])
        }
    }

    @Test("a device that joins by a snapshot continues the sequence of AUTOINCREMENT after the greatest key")
    func sequence() throws {
        let sql = "CREATE TABLE note (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT)"
        let (a, b) = try devices(sql: sql)
        try a.write("INSERT INTO note VALUES (40, 'a'); INSERT INTO note (body) VALUES ('b'), ('c')")
        try settle(a, b)
        try b.write("INSERT INTO note (body) VALUES ('of b')")
        #expect(try a.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote, sql: sql)
        try c.sync(remote)
        try c.write("INSERT INTO note (body) VALUES ('of c')")
        #expect(try b.texts("SELECT max(id) FROM note") == ["43"] && c.texts("SELECT max(id) FROM note") == ["43"])
        #expect(try c.texts("SELECT seq FROM sqlite_sequence") == ["43"])
    }

    @Test("rows that refer to themselves and to each other in a circle are there, and leave together")
    func circles() throws {
        let sql = """
            CREATE TABLE person (
                id INTEGER PRIMARY KEY, boss INTEGER REFERENCES person ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED)
            """
        let (a, b) = try devices(sql: sql)
        try a.write("INSERT INTO person VALUES (1, 1), (2, 3), (3, 4), (4, 2), (5, 4)")
        try settle(a, b)
        #expect(try b.texts("SELECT * FROM person ORDER BY id") == ["1 1", "2 3", "3 4", "4 2", "5 4"])
        try b.write("DELETE FROM person WHERE id = 3")
        try a.write("INSERT INTO person VALUES (6, 5)")
        try settle(a, b)
        for device in [a, b] {
            #expect(try device.texts("SELECT * FROM person ORDER BY id") == ["1 1"])
            #expect(try device.texts("SELECT * FROM pragma_foreign_key_check").isEmpty)
        }
        #expect(try a.repository.conflicts() == b.repository.conflicts() && a.repository.conflicts().count == 1)
    }

    @Test("stores in UTF-8 and UTF-16 exchange every text", arguments: ["UTF-16le", "UTF-16be"])
    func encodings(_ encoding: String) throws {
        let (a, b) = try devices(encoding: encoding)
        #expect(try b.texts("PRAGMA encoding") == [encoding])
        try a.write("INSERT INTO player VALUES (1, 'Zoë 😀', 1), (2, '', 2); INSERT INTO team VALUES ('ß', 'Ørsta')")
        try b.write("INSERT INTO player VALUES (3, 'naïve \u{1F9E1}', 3)")
        try settle(a, b)
        #expect(try a.rows() == b.rows() && a.rows().contains("player 3 naïve \u{1F9E1} 3") && a.rows().count == 4)
        #expect(try a.repository.verify() == b.repository.verify())
    }

    @Test("a text with half of a surrogate pair is refused with its reason, and nothing is changed")
    func surrogate() throws {
        let (a, b) = try devices(encoding: "UTF-16le")
        #expect(throws: EngineError.self) {
            try b.write("INSERT INTO player VALUES (1, 'fine', 1), (2, CAST(x'3DD8' AS TEXT), 2)")
        }
        #expect(try b.rows().isEmpty)
        try b.write("INSERT INTO player VALUES (1, 'fine', 1)")
        try settle(b, a)
        #expect(try a.rows() == ["player 1 fine 1"])
    }

    /// A merge of many rows held the write lock for 91 seconds.
    @Test("while a store joins many rows, other writers write between its slices")
    func otherWriters() throws {
        let a = try Device(folder.path("a.db"))
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: 100)
        try a.write(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000)
            INSERT INTO player SELECT i, 'p', i FROM n
            """)
        try settle(a)
        _ = try b.repository.perform(b.repository.makeExchange(remote, named: "remote"), .fetching)
        var slices = 0
        let path = b.path
        let other = try Device.open(path)
        _ = try b.repository.join {
            slices += 1
            // Another connection writes before each slice: no lock is held between them.
            _ = try? other.write {
                try $0.execute(sql: "CREATE TABLE IF NOT EXISTS own (id); INSERT INTO own VALUES (1)")
            }
            return false
        }
        #expect(slices > 20)
        #expect(try other.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM own") } == slices)
        #expect(try b.texts("SELECT count(*) FROM player") == ["4000"])
    }
}
