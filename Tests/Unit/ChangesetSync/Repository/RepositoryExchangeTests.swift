import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Stores exchange commits over a remote")
struct RepositoryExchangeTests {
    private let folder = TemporaryFolder()

    private func remote(of device: Device) throws -> FolderStore {
        FolderStore(path: folder.path("remote"), repository: try device.repository.store().repository)
    }

    private func founder(_ name: String = "a", sliceRows: Int = 50_000) throws -> (Device, FolderStore) {
        try FileManager.default.createDirectory(atPath: folder.path("remote"), withIntermediateDirectories: true)
        let device = try Device(folder.path(name + ".db"), sliceRows: sliceRows)
        return (device, try remote(of: device))
    }

    private func expectEqual(_ devices: [Device]) throws {
        let (rows, vector) = (try devices[0].rows(), try devices[0].vector())
        for device in devices.dropFirst() {
            #expect(try device.rows() == rows)
            #expect(try device.vector() == vector)
        }
        for device in devices { #expect(try device.count("inbox") == 0) }
    }

    /// Everybody syncs until nothing is new.
    private func settle(_ devices: [Device], _ remote: any ObjectStore) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    @Test("two stores in files write at once, exchange over a folder, and have equal rows")
    func twoStores() throws {
        let (a, remote) = try founder()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10), (2, 'Bob', 20); INSERT INTO team VALUES ('x', 'Oslo')")
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        try b.sync(remote)
        #expect(try b.rows() == a.rows())
        #expect(try b.rows() == ["player 1 Ann 10", "player 2 Bob 20", "team x Oslo"])
        try a.write("UPDATE player SET score = 11 WHERE id = 1; DELETE FROM player WHERE id = 2")
        try b.write("UPDATE player SET name = 'Anna' WHERE id = 1; INSERT INTO team VALUES ('y', 'Rome')")
        try settle([a, b], remote)
        #expect(try a.rows() == ["player 1 Anna 11", "team x Oslo", "team y Rome"])
        try expectEqual([a, b])
        let report = try a.sync(remote)
        #expect(report.isComplete && report.receivedCommits == 0 && report.sentObjects == 0)
        // A store that is opened again knows all of it.
        try a.close()
        let again = try Device(a.path)
        #expect(try again.sync(remote).sentObjects == 0)
        #expect(try again.rows() == b.rows())
    }

    @Test("a store that has rows before it joins brings them, and keeps them when another one has them too")
    func rowsBefore() throws {
        let (a, remote) = try founder()
        try a.write("INSERT INTO player VALUES (1, 'Ann', 10)")
        let pool = try Device.open(folder.path("b.db"))
        try pool.write { try $0.execute(sql: "INSERT INTO player VALUES (1, 'Ben', 5), (7, 'Cat', 7)") }
        try pool.close()
        // It founds a repository of its own, which it leaves.
        try Device(folder.path("b.db"), sliceRows: 1).close()
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sliceRows: 1)
        try settle([a, b], remote)
        try expectEqual([a, b])
        #expect(try a.rows() == ["player 1 Ben 5", "player 7 Cat 7"])
    }

    @Test("a commit that arrives before the one it needs waits, is sent on, and is joined later")
    func sentOn() throws {
        let (a, remote) = try founder()
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle([a, b, c], remote)
        try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
        let (left, right) = (MemoryRemote(), MemoryRemote())
        try settle([a, b], left)
        try b.write("UPDATE player SET score = 2")
        // Only the commit of b is at the other remote.
        try b.sync(right)
        let only = MemoryRemote()
        let store = try b.repository.store()
        let tag = try Exchange(store, with: right, named: "x").tag(ofAuthor: store.keys.id)
        only.objects = right.objects.filter { !$0.key.hasPrefix("c/") || $0.key.hasPrefix("c/" + tag) }
        try c.sync(only)
        #expect(try c.rows().isEmpty)
        #expect(try c.count("inbox") == 1)
        let further = MemoryRemote()
        try c.sync(further)
        #expect(further.names("c/").count == 1)
        try settle([c], left)
        #expect(try c.rows() == ["player 1 Ann 2"])
    }

    @Test(
        "five stores over a remote that fails and lies have equal rows when it heals",
        arguments: Sweep.sample([1, 2, 3] as [UInt64], oneIn: 3))
    func fiveStores(seed: UInt64) throws {
        let memory = MemoryRemote()
        var numbers = Seed(value: seed).numbers(1)
        let a = try Device(folder.path("0.db"), sliceRows: 3)
        var devices = [a]
        for name in 1..<5 {
            devices.append(try Device(folder.path("\(name).db"), invitedBy: a, at: memory, sliceRows: 3))
        }
        let remote = FaultyRemote(memory, Seed(value: seed).numbers(0), rate: 4)
        var written = 0
        for _ in 0..<40 {
            guard let device = devices.randomElement(using: &numbers) else { continue }
            let id = Int.random(in: 1...6, using: &numbers)
            switch Int.random(in: 0..<6, using: &numbers) {
            case 0: try device.write("INSERT OR REPLACE INTO player VALUES (\(id), 'n\(written)', \(written))")
            case 1: try device.write("UPDATE player SET score = \(written) WHERE id = \(id)")
            case 2: try device.write("DELETE FROM player WHERE id = \(id)")
            case 3: try device.write("INSERT OR IGNORE INTO team VALUES ('t\(id)', 'c\(written % 4)')")
            default:
                // A listing that fails is the one failure that is thrown.
                do { try device.sync(remote) } catch is RemoteFailure {}
            }
            written += 1
        }
        remote.calm()
        for _ in 0..<5 { try settle(devices, remote) }
        try expectEqual(devices)
        for device in devices {
            let report = try device.sync(remote)
            #expect(report.unsent == 0 && report.waiting.isEmpty && report.failures.isEmpty)
        }
    }

    @Test("a removed member's later commits are refused by all, and what was known of it stays")
    func removal() throws {
        let (a, remote) = try founder()
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: remote)
        try settle([a, b, c], remote)
        try b.write("INSERT INTO player VALUES (1, 'kept', 1)")
        try settle([a, b, c], remote)
        try a.repository.remove(b.repository.store().keys.id)
        try settle([a, c], remote)
        try b.write("INSERT INTO player VALUES (2, 'refused', 2)")
        try b.sync(remote)
        try settle([a, c], remote)
        for device in [a, c] { #expect(try device.rows() == ["player 1 kept 1"]) }
        try c.write("INSERT INTO player VALUES (3, 'later', 3)")
        try settle([a, c], remote)
        #expect(try a.rows() == ["player 1 kept 1", "player 3 later 3"])
        try b.sync(remote)
        #expect(try !b.rows().contains("player 3 later 3"))
    }
}

@Suite("A process is killed at a call of the remote", .serialized)
struct KilledExchangeTests {
    private let folder = TemporaryFolder()

    /// Copies two stores and a remote as they are.
    private func copy(_ name: String) throws -> String {
        let path = folder.path(name)
        try FileManager.default.copyItem(atPath: folder.path("start"), toPath: path)
        return path
    }

    private static func sync(_ path: String, killAt: Int, isAfter: Bool) throws -> Int {
        let device = try Device(path + "/b.db")
        let remote = FolderStore(path: path + "/remote", repository: try device.repository.store().repository)
        let killing = KillingRemote(remote, killAt: killAt, isAfter: isAfter)
        try device.sync(killing)
        return killing.callCount
    }

    @Test("whatever call it is, the next exchange goes on, and nothing is lost")
    func killed() async throws {
        let start = folder.path("start")
        try FileManager.default.createDirectory(atPath: start + "/remote", withIntermediateDirectories: true)
        do {
            let a = try Device(start + "/a.db")
            let remote = FolderStore(path: start + "/remote", repository: try a.repository.store().repository)
            let b = try Device(start + "/b.db", invitedBy: a, at: remote)
            try b.sync(remote)
            try a.write("INSERT INTO player VALUES (1, 'Ann', 1)")
            try a.sync(remote)
            try a.write("UPDATE player SET score = 2")
            try a.sync(remote)
            try b.write("INSERT INTO player VALUES (2, 'Bob', 2)")
            try a.close()
            try b.close()
        }
        let callCount = try Self.sync(copy("count"), killAt: 0, isAfter: false)
        // A listing, two objects that are got, and one that is put.
        #expect(callCount >= 4)
        for call in 1...callCount {
            for isAfter in Sweep.sample([false, true], oneIn: 2, offset: call) {
                let path = try copy("\(call)-\(isAfter)")
                await #expect(processExitsWith: .signal(SIGKILL)) {
                    [path = path as String, call = call as Int, isAfter = isAfter as Bool] in
                    _ = try Self.sync(path, killAt: call, isAfter: isAfter)
                }
                let (a, b) = (try Device(path + "/a.db"), try Device(path + "/b.db"))
                let remote = FolderStore(path: path + "/remote", repository: try a.repository.store().repository)
                for _ in 0..<2 {
                    try b.sync(remote)
                    try a.sync(remote)
                }
                #expect(try a.rows() == ["player 1 Ann 2", "player 2 Bob 2"], "call \(call)")
                #expect(try b.rows() == a.rows(), "call \(call)")
                #expect(try a.vector() == b.vector())
            }
        }
    }
}
