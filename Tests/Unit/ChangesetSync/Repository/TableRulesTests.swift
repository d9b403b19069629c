import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Rules of tables are the same on all devices")
struct TableRulesTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()

    private func devices() throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"))
        return (a, try Device(folder.path("b.db"), invitedBy: a, at: remote))
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    private func deletionsWin(_ device: Device) throws -> [String] {
        try device.texts("SELECT deletions_win FROM cipherstore_repository_table WHERE local = 'player'")
    }

    /// The next commit has a later time than those before it.
    private func nextMillisecond() {
        let now = ChangesetRepository.Clock.now()
        while ChangesetRepository.Clock.now() == now {}
    }

    /// A snapshot had no rules. A newcomer took the steps of a counter for nothing, and showed NULL.
    @Test("a device that joins by a snapshot knows counters, and that deletions win")
    func snapshot() throws {
        let (a, b) = try devices()
        try settle(a, b)
        try a.repository.setRules(of: "player", counters: ["score"], deletionsWin: true)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try settle(a, b)
        #expect(try a.repository.compact(remote, named: "remote").deletedObjects > 0)
        #expect(remote.names("c/").isEmpty)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try c.sync(remote)
        #expect(try c.rows() == ["player 1 Ann 10"] && deletionsWin(c) == ["1"])
        for (device, step) in [(a, 1), (b, 2), (c, 4)] {
            try device.write("UPDATE player SET score = score + \(step)")
        }
        try settle(a, b, c)
        for device in [a, b, c] { #expect(try device.rows() == ["player 1 Ann 17"]) }
    }

    @Test("of two rules that devices set at once the later one counts everywhere, whatever came first")
    func concurrent() throws {
        let (a, b) = try devices()
        try settle(a, b)
        try a.repository.setRules(of: "player", deletionsWin: true)
        nextMillisecond()
        try b.repository.setRules(of: "player", deletionsWin: false)
        try settle(a, b)
        #expect(try deletionsWin(a) == ["0"] && deletionsWin(b) == ["0"])
        try b.repository.setRules(of: "player", deletionsWin: true)
        nextMillisecond()
        try a.repository.setRules(of: "player", counters: ["score"])
        try settle(b, a)
        #expect(try deletionsWin(a) == ["0"] && deletionsWin(b) == ["0"])
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try c.sync(remote)
        #expect(try deletionsWin(c) == ["0"])
    }

    @Test("a table that gets a column keeps its rules")
    func migration() throws {
        let (a, b) = try devices()
        try a.repository.setRules(of: "player", counters: ["score"], deletionsWin: true)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        try settle(a, b)
        for device in [a, b] {
            try device.pool.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN note TEXT") }
            try device.write("UPDATE player SET score = score + 5")
        }
        try settle(a, b)
        for device in [a, b] {
            #expect(try device.texts("SELECT score FROM player") == ["20"] && deletionsWin(device) == ["1"])
        }
    }
}
