import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// A reader, or a former member, wrote rows that everybody refused. The status advised it to join again. All rows that
/// the store had became commits of the present time: older copies won over newer updates, and deleted rows returned, on all
/// devices.
@Suite("Stores that join their repository again")
struct JoiningAgainTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private let a: Device

    init() throws { a = try Device(folder.path("a.db")) }

    private func device(_ name: String, as role: Role = .writer) throws -> Device {
        try Device(folder.path("\(name).db"), invitedBy: a, at: remote, as: role)
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    /// Devices have the same commits and rows, and wait for nothing.
    private func expectEqual(_ devices: Device...) throws {
        for device in devices {
            #expect(try device.rows() == devices[0].rows(), "\(device.path)")
            #expect(try device.vector() == devices[0].vector(), "\(device.path)")
            let status = try device.repository.status()
            #expect(status.head == (try devices[0].repository.status().head))
            let open = status.obstacles.filter { if case .conflict = $0 { false } else { $0.needsAttention } }
            #expect(open.isEmpty && status.remotes.allSatisfy(\.isUpToDate), "\(device.path): \(status)")
            let verified = try device.repository.verify()
            #expect(verified.differences.isEmpty, "\(device.path): \(verified.differences)")
            #expect(verified.digest == (try devices[0].repository.verify().digest), "\(device.path)")
        }
    }

    private func remove(_ device: Device) throws { try a.repository.remove(device.repository.store().keys.id) }

    @Test("a reader that joins again as a writer sends its own changes, and undoes none of others")
    func reader() throws {
        let (b, reader) = (try device("b"), try device("r", as: .reader))
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cat', 3), (4, 'Dan', 4)")
        try settle(a, b, reader)
        try reader.write("INSERT INTO player VALUES (10, 'Rob', 10); UPDATE player SET name = 'Anna' WHERE id = 1")
        try reader.write("UPDATE player SET score = 11 WHERE id = 10; INSERT INTO player VALUES (11, 'Roy', 11)")
        try reader.write("DELETE FROM player WHERE id = 11; DELETE FROM player WHERE id = 4")
        // It receives, and everybody refuses what it sends.
        try a.write("UPDATE player SET score = 100 WHERE id = 1; DELETE FROM player WHERE id = 2")
        try b.write("UPDATE player SET name = 'Cathy' WHERE id = 3; INSERT INTO player VALUES (5, 'Eve', 5)")
        let joined = try Device(reader, joiningAgainBy: a, at: remote)
        // Another device is offline meanwhile.
        #expect(try joined.rows().contains("player 10 Rob 11"))
        try settle(joined, a, b)
        let expected = ["player 1 Anna 100", "player 3 Cathy 3", "player 5 Eve 5", "player 10 Rob 11"]
        #expect(try a.rows() == expected)
        try expectEqual(a, b, joined)
        try joined.write("UPDATE player SET score = 12 WHERE id = 10")
        try a.write("UPDATE player SET name = 'Robert' WHERE id = 10")
        try settle(joined, a, b)
        #expect(try b.rows().contains("player 10 Robert 12"))
        try expectEqual(a, b, joined)
        let c = try device("c")
        try settle(c, a)
        try expectEqual(a, c)
    }

    @Test("a former member that joins again sends what was refused, and its older rows win over nothing")
    func formerMember() throws {
        let (b, c) = (try device("b"), try device("c"))
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cat', 3)")
        try b.write("INSERT INTO player VALUES (4, 'Dan', 4)")
        try settle(a, b, c)
        try remove(b)
        try a.sync(remote)
        try b.write("INSERT INTO player VALUES (20, 'Ben', 20); UPDATE player SET name = 'Danny' WHERE id = 4")
        try a.write("UPDATE player SET score = 100 WHERE id < 3; DELETE FROM player WHERE id = 3")
        try c.write("UPDATE player SET score = 44 WHERE id = 4")
        try settle(a, c)
        try b.sync(remote)
        try b.write("UPDATE player SET score = 21 WHERE id = 20")
        let joined = try Device(b, joiningAgainBy: a, at: remote)
        try settle(joined, a, c)
        #expect(
            try a.rows() == ["player 1 Ann 100", "player 2 Ben 100", "player 4 Danny 44", "player 20 Ben 21"])
        try expectEqual(a, c, joined)
        // The names of its commits are equal everywhere.
        #expect(try joined.repository.log().map(\.uuid).sorted() == a.repository.log().map(\.uuid).sorted())
    }

    @Test("steps of a counter count once, whether others had the commit or not", arguments: [false, true])
    func counters(isVouched: Bool) throws {
        let (b, c) = (try device("b"), try device("c"))
        try a.repository.setRules(of: "player", counters: ["score"])
        try a.write("INSERT INTO player VALUES (1, 'Ann', 0), (2, 'Ben', 0)")
        try settle(a, b, c)
        try b.write("UPDATE player SET score = score + 5 WHERE id = 1")
        try settle(b, a, c)
        // The removal knows the first step. The others are at the remote, where one device may have found them in time.
        try remove(b)
        try b.write("UPDATE player SET score = score + 10 WHERE id < 3; INSERT INTO player VALUES (3, 'Cat', 7)")
        try b.write("UPDATE player SET score = score + 1")
        try b.sync(remote)
        if isVouched { try c.sync(remote) }
        try settle(a, c)
        try b.sync(remote)
        try b.write("UPDATE player SET score = score + 200")
        try c.write("UPDATE player SET score = score + 1000 WHERE id = 1")
        let joined = try Device(b, joiningAgainBy: a, at: remote)
        try settle(joined, a, c)
        #expect(try a.rows() == ["player 1 Ann 1216", "player 2 Ben 211", "player 3 Cat 208"])
        try expectEqual(a, c, joined)
        try joined.write("UPDATE player SET score = score + 1")
        try a.write("UPDATE player SET score = score + 1")
        try settle(joined, a, c)
        #expect(try c.rows() == ["player 1 Ann 1218", "player 2 Ben 213", "player 3 Cat 210"])
        try expectEqual(a, c, joined)
        // A snapshot has the same sums.
        #expect(try joined.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let d = try device("d")
        try settle(d, a)
        try expectEqual(a, d)
    }

    @Test("rows that were deleted and revived have the same sums after their store joins again")
    func revivedCounters() throws {
        let (b, c) = (try device("b"), try device("c"))
        try a.repository.setRules(of: "player", counters: ["score"])
        try a.write("INSERT INTO player VALUES (1, 'Ann', 0)")
        try settle(a, b, c)
        try b.write("UPDATE player SET score = score + 5")
        try settle(b, a, c)
        try remove(b)
        try c.write("DELETE FROM player WHERE id = 1")
        try c.sync(remote)
        try b.write("UPDATE player SET score = score + 10")
        // It receives the deletion, revives the row with its sums, and does not send that.
        _ = try b.repository.run(Exchange(b.repository.store(), with: remote, named: "remote"), .fetching)
        try b.repository.pull()
        #expect(try b.rows() == ["player 1 Ann 15"])
        try a.sync(remote)
        try b.sync(remote)
        try b.write("UPDATE player SET score = score + 20")
        let joined = try Device(b, joiningAgainBy: a, at: remote)
        try settle(joined, a, c)
        let count = try joined.rows()
        try expectEqual(a, c, joined)
        #expect(try a.rows() == ["player 1 Ann 35"] && count == a.rows())
    }

    @Test("unique values, parents and children are the same on all devices")
    func constraints() throws {
        let sql = """
            CREATE TABLE IF NOT EXISTS player (id INTEGER PRIMARY KEY, name TEXT, score INTEGER);
            CREATE TABLE IF NOT EXISTS team (code TEXT PRIMARY KEY, city TEXT UNIQUE, player INTEGER REFERENCES player (id));
            """
        let other = MemoryRemote()
        let a = try Device(folder.path("p.db"), sql: sql)
        let b = try Device(folder.path("q.db"), invitedBy: a, at: other, sql: sql)
        let reader = try Device(folder.path("s.db"), invitedBy: a, at: other, sql: sql, as: .reader)
        func settle(_ devices: Device...) throws {
            for _ in 0..<3 { for device in devices { try device.sync(other) } }
        }
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        try a.write("INSERT INTO team VALUES ('x', 'Rome', 1)")
        try settle(a, b, reader)
        try reader.write("INSERT INTO team VALUES ('y', 'Oslo', 2); UPDATE team SET city = 'Bonn' WHERE code = 'x'")
        try b.write("INSERT INTO team VALUES ('z', 'Oslo', NULL)")
        try a.write("DELETE FROM player WHERE id = 2")
        try settle(a, b)
        let joined = try Device(reader, joiningAgainBy: a, at: other)
        try settle(joined, a, b)
        // The child keeps its parent, and the older row its city.
        #expect(
            try a.rows() == ["player 1 Ann 1", "player 2 Ben 2", "team x Bonn 1", "team y Oslo 2"])
        try expectEqual(a, b, joined)
        #expect(try joined.repository.conflicts().map(\.key) == a.repository.conflicts().map(\.key))
        for device in [a, b, joined] { #expect(try device.texts("PRAGMA foreign_key_check").isEmpty) }
    }

    @Test("a writer that joins again sends the commits that it had not sent, once")
    func writer() throws {
        let b = try device("b")
        try a.repository.setRules(of: "player", counters: ["score"])
        try a.write("INSERT INTO player VALUES (1, 'Ann', 0)")
        try settle(a, b)
        try b.write("UPDATE player SET score = score + 1")
        try b.sync(remote)
        try b.write("UPDATE player SET score = score + 10; INSERT INTO team VALUES ('b', 'Bonn')")
        try a.write("UPDATE player SET score = score + 100")
        let joined = try Device(b, joiningAgainBy: a, at: remote)
        try joined.write("UPDATE player SET score = score + 1000")
        try settle(joined, a)
        #expect(try a.rows() == ["player 1 Ann 1111", "team b Bonn"])
        try expectEqual(a, joined)
        #expect(try joined.repository.members().filter(\.isThisStore).map(\.role) == [.writer])
    }

    @Test("a store joins again twice, and its rows stay as others left them")
    func twice() throws {
        var b = try device("b")
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        try settle(a, b)
        for number in 2...4 {
            try remove(b)
            try a.sync(remote)
            try b.write("INSERT INTO player VALUES (\(number), 'Ben', \(number)); UPDATE player SET score = \(number)")
            try a.write("UPDATE player SET name = 'Ann \(number)'")
            try b.sync(remote)
            b = try Device(b, joiningAgainBy: a, at: remote)
            try settle(b, a)
            #expect(try a.rows().count == number)
            try expectEqual(a, b)
        }
        #expect(try a.repository.members().filter { !$0.isRemoved }.count == 2)
    }

    /// Without their contents commits cannot be named anew.
    @Test("if the contents of refused commits are forgotten, the rows of the store lose against those of others")
    func forgotten() throws {
        let reader = try device("r", as: .reader)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        try settle(a, reader)
        try reader.write("UPDATE player SET name = 'Anna', score = 0; INSERT INTO player VALUES (10, 'Rob', 10)")
        try reader.repository.forgetHistory(tombstones: false)
        try a.write("UPDATE player SET score = 100 WHERE id = 1")
        let joined = try Device(reader, joiningAgainBy: a, at: remote, tracking: .all)
        try settle(joined, a)
        let rows = try a.rows()
        #expect(rows == ["player 1 Ann 100", "player 2 Ben 2", "player 10 Rob 10"], "\(rows)")
        try expectEqual(a, joined)
        try joined.write("UPDATE player SET score = 101 WHERE id = 1")
        try settle(joined, a)
        #expect(try a.rows().first == "player 1 Ann 101")
        try expectEqual(a, joined)
    }

    @Test("a store that joins with rows of its own: the later write of a cell wins, and a deleted key returns")
    func otherRepository() throws {
        let b = try Device(folder.path("b.db"))
        try b.write("INSERT INTO player VALUES (1, 'Bob', 1), (2, 'Bea', 2)")
        try a.write("INSERT INTO player VALUES (1, 'Ann', 9), (2, 'Amy', 9)")
        try a.write("DELETE FROM player WHERE id = 2")
        let joined = try Device(b, joiningAgainBy: a, at: remote, tracking: .all)
        try a.write("UPDATE player SET score = 10 WHERE id = 1")
        try settle(joined, a)
        #expect(try a.rows() == ["player 1 Bob 10", "player 2 Bea 2"])
        try expectEqual(a, joined)
    }
}
