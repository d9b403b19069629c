import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Columns that become counters")
struct CounterTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    private func devices(sql: String = Device.sql) throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"), sql: sql)
        return (a, try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql))
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    private func scores(_ device: Device) throws -> [String] {
        try device.texts("SELECT score FROM player ORDER BY id")
    }

    /// Each of two devices added the values of the rows: 10 became 20.
    @Test("two devices that make a column a counter at once keep its values, and both go on adding")
    func atOnce() throws {
        let (a, b) = try devices()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10), (2, 'Ben', NULL), (3, 'Cat', 0), (4, 'Dan', -4)")
        try settle(a, b)
        for device in [a, b] { try device.repository.setRules(of: "player", counters: ["score"]) }
        try a.write("UPDATE player SET score = score + 1 WHERE id = 1")
        try b.write("UPDATE player SET score = score + 2 WHERE id = 1; UPDATE player SET score = 5 WHERE id = 2")
        try settle(a, b)
        for device in [a, b] { #expect(try scores(device) == ["13", "5", "0", "-4"]) }
        try a.write("UPDATE player SET score = score + 1")
        try settle(a, b)
        for device in [a, b] { #expect(try scores(device) == ["14", "6", "1", "-3"]) }
        #expect(try a.repository.verify() == b.repository.verify() && a.repository.status().isSettled)
    }

    @Test("a device that does not know the rule sets the value, and the steps of others are added to it")
    func unknowing() throws {
        let (a, b) = try devices()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try settle(a, b)
        try a.repository.setRules(of: "player", counters: ["score"])
        try a.write("UPDATE player SET score = score + 5")
        try b.write("UPDATE player SET score = 100")
        try b.write("INSERT INTO player VALUES (2, 'Ben', 7)")
        try settle(a, b)
        for device in [a, b] { #expect(try scores(device) == ["105", "7"]) }
        try b.write("UPDATE player SET score = score + 1")
        try settle(a, b)
        for device in [a, b] { #expect(try scores(device) == ["106", "8"]) }
    }

    @Test("newcomers by commits and by a snapshot, revivals, deletions and reversals count the same")
    func everyWay() throws {
        let (a, b) = try devices()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10), (2, 'Ben', 20), (3, 'Cat', 30)")
        try settle(a, b)
        try b.repository.setRules(of: "player", counters: ["score"])
        try b.write("UPDATE player SET score = score + 1")
        try a.write("DELETE FROM player WHERE id = 1; UPDATE player SET name = 'Bea' WHERE id = 2")
        try settle(a, b)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle(a, b, c)
        try c.write("UPDATE player SET score = score + 100; DELETE FROM player WHERE id = 3")
        let gone = try #require(try c.repository.log().first?.uuid)
        try settle(a, b, c)
        #expect(try a.repository.compact(remote, named: "remote").sentSnapshots == 1)
        let d = try Device(folder.path("d.db"), invitedBy: a, at: remote)
        try settle(a, b, c, d)
        for device in [a, b, c, d] { #expect(try scores(device) == ["111", "121"]) }
        try a.repository.revert(gone)
        try settle(a, b, c, d)
        for device in [a, b, c, d] { #expect(try scores(device) == ["11", "21", "31"]) }
        let digests = try [a, b, c, d].map { try $0.repository.verify() }
        #expect(Set(digests.map { "\($0)" }).count == 1)
    }

    @Test("a counter has the type of its column")
    func types() throws {
        let (a, b) = try devices(
            sql: "CREATE TABLE player (id INTEGER PRIMARY KEY, real REAL, text TEXT, any) ")
        try a.write("INSERT INTO player VALUES (1, 1.5, '7', 3)")
        try settle(a, b)
        try a.repository.setRules(of: "player", counters: ["real", "text", "any"])
        try settle(a, b)
        #expect(try b.texts("SELECT * FROM player") == ["1 1.5 7 3"])
        for device in [a, b] { try device.write("UPDATE player SET real = real + 1, any = any + 1") }
        try settle(a, b)
        for device in [a, b] {
            #expect(try device.texts("SELECT typeof(real), real, any FROM player") == ["real 4.0 5"])
            #expect(try device.repository.status().obstacles == [])
        }
    }

    @Test("what another program writes to a counter is a step")
    func foreign() throws {
        let (a, b) = try devices()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try settle(a, b)
        try a.repository.setRules(of: "player", counters: ["score"])
        try settle(a, b)
        try a.repository.forgetHistory(tombstones: false)
        try a.pool.write { try $0.execute(sql: "UPDATE player SET score = score + 3") }
        try b.write("UPDATE player SET score = score + 4")
        try settle(a, b)
        for device in [a, b] { #expect(try scores(device) == ["17"]) }
    }

    /// Both branches counted under one name, and one of the two steps was lost.
    @Test("a copy of a store that writes before it meets the original counts its own steps")
    func copy() throws {
        let a = try Device(folder.path("a.db"))
        var b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try a.repository.setRules(of: "player", counters: ["score"])
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try settle(a, b)
        try b.write("UPDATE player SET score = score + 1")
        try b.close()
        for file in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where file.hasPrefix("b.db") {
            try FileManager.default.copyItem(
                atPath: folder.path(file), toPath: folder.path("c.db" + file.dropFirst("b.db".count)))
        }
        b = try Device(folder.path("b.db"))
        let c = try Device(folder.path("c.db"))
        for _ in 0..<2 {
            try b.write("UPDATE player SET score = score + 10")
            try c.write("UPDATE player SET score = score + 100")
        }
        try settle(a, b, c)
        for device in [a, b, c] { #expect(try scores(device) == ["231"]) }
    }
}
