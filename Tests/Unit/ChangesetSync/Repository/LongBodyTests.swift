import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("The body of a long commit is stored once")
struct LongBodyTests {
    private let folder = TemporaryFolder()
    private static let long = "INSERT INTO player VALUES (1, printf('%.*c', 200000, 'x'), 1)"
    private static let isLong = "SELECT length(bytes) > 200000 FROM cipherstore_repository_body"

    private func remote(_ name: String, of device: Device) throws -> FolderStore {
        try FileManager.default.createDirectory(atPath: folder.path(name), withIntermediateDirectories: true)
        return FolderStore(path: folder.path(name), repository: try device.repository.store().repository)
    }

    private func fetch(_ device: Device, _ remote: any ObjectStore) throws {
        let report = try device.repository.run(
            Exchange(device.repository.store(), with: remote, named: "remote"), .fetching)
        #expect(report.failures.isEmpty)
    }

    @Test("a pull leaves the body where the fetch has put it; it is read, sent on, and forgotten from there")
    func journey() throws {
        let a = try Device(folder.path("a.db"))
        let first = try remote("first", of: a)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: first)
        try b.sync(first)
        let second = try remote("second", of: a)
        let c = try Device(folder.path("c.db"), invitedBy: a, at: second)
        try c.sync(second)
        try a.write(Self.long)
        try a.sync(first)
        try fetch(b, first)
        #expect(try b.count("inbox") == 1)
        #expect(try b.texts(Self.isLong) == ["1"])
        try b.repository.pull()
        #expect(try b.count("inbox") == 0)
        #expect(try b.texts(Self.isLong) == ["1"])
        #expect(try b.texts("SELECT length(body), long FROM cipherstore_repository_commit WHERE long") == ["0 1"])
        #expect(try b.texts("SELECT length(name) FROM player") == ["200000"])
        let head = try #require(try b.repository.log(limit: 1).first)
        #expect(try b.repository.changes(of: head.uuid).count == 1)
        // The author does not use this remote: another device carries the commit.
        try b.repository.sync(second, named: "second")
        try c.sync(second)
        #expect(try c.texts("SELECT length(name) FROM player") == ["200000"])
        try b.repository.forgetHistory(tombstones: false)
        #expect(try b.count("body") == 0)
        #expect(try b.repository.verify().differences.isEmpty)
    }

    @Test("a snapshot that covers a long commit which waits removes its body")
    func covered() throws {
        let a = try Device(folder.path("a.db"))
        let first = try remote("first", of: a)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: first)
        try b.sync(first)
        try a.write(Self.long)
        try a.sync(first)
        try fetch(b, first)
        #expect(try b.count("body") == 1)
        let snapshot = try a.pool.writeWithoutTransaction { db in
            try a.repository.replica.snapshot(db, clock: a.repository.clock())
        }
        try b.pool.writeWithoutTransaction { db in
            let clock = b.repository.clock()
            try b.repository.replica.begin(db, clock: clock, try #require(snapshot))
            while b.repository.replica.isJoining { try b.repository.replica.step(db, clock: clock) }
        }
        #expect(try b.count("inbox") == 0)
        #expect(try b.count("body") == 0)
        #expect(try b.texts("SELECT length(name) FROM player") == ["200000"])
    }
}
