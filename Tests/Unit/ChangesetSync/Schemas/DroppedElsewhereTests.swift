import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

/// The status of a new device advised an update of its program for ever, although all programs had dropped the table.
@Suite("A device that never had the tables and columns that others have dropped")
struct DroppedElsewhereTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let note = "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT);"
    private static let sql = note + "CREATE TABLE tag (word TEXT PRIMARY KEY NOT NULL, note INTEGER)"

    private func devices() throws -> (Device, Device) {
        let a = try Device(folder.path("a.db"), sql: Self.sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: Self.sql)
        try a.write("INSERT INTO note VALUES (1, 'a'); INSERT INTO tag VALUES ('x', 1), ('y', 2)")
        try settle(a, b)
        return (a, b)
    }

    private func settle(_ devices: Device...) throws {
        for _ in 0..<3 { for device in devices { try device.sync(remote) } }
    }

    private func change(_ device: Device, _ sql: String) throws {
        try device.pool.write { try $0.execute(sql: sql) }
        _ = try device.repository.pull()
    }

    private struct Change: CustomTestStringConvertible {
        let sql: String
        let schema: String
        var testDescription: String { sql }
    }

    private static let changes = [
        Change(sql: "DROP TABLE tag", schema: note),
        Change(
            sql: "ALTER TABLE tag DROP COLUMN note", schema: note + "CREATE TABLE tag (word TEXT PRIMARY KEY NOT NULL)"),
    ]

    @Test(
        "it is settled, by commits and by a snapshot, also if a device that was away writes later",
        arguments: [false, true])
    func newcomer(_ isSnapshot: Bool) throws {
        for (number, change) in Self.changes.enumerated() {
            let (a, b) = (try Device(folder.path("\(number)a.db"), sql: Self.sql), MemoryRemote())
            let late = try Device(folder.path("\(number)b.db"), invitedBy: a, at: b, sql: Self.sql)
            try a.write("INSERT INTO note VALUES (1, 'a'); INSERT INTO tag VALUES ('x', 1), ('y', 2)")
            for device in [late, a] { try device.sync(b) }
            try self.change(a, change.sql)
            try a.sync(b)
            if isSnapshot { #expect(try a.repository.compact(b, named: "remote").sentSnapshots == 1) }
            let new = try Device(folder.path("\(number)c.db"), invitedBy: a, at: b, sql: change.schema)
            for _ in 0..<2 { for device in [new, a] { try device.sync(b) } }
            let settled = try new.repository.status()
            #expect(settled.isSettled, "\(settled.obstacles)")
            try late.write("INSERT INTO tag VALUES ('late', 3)")
            for _ in 0..<2 { for device in [late, new, a] { try device.sync(b) } }
            for device in [new, a] {
                let status = try device.repository.status()
                #expect(status.isSettled && status.obstacles.count == 1, "\(status.obstacles)")
            }
            #expect(try new.repository.verify().digest == a.repository.verify().digest)
        }
    }

    @Test("it needs attention as long as no member has dropped the table or column, or if one has made it again")
    func notMigrated() throws {
        let (a, b) = try devices()
        let new = try Device(folder.path("c.db"), invitedBy: a, at: remote, sql: Self.note)
        try settle(new, a, b)
        #expect(try new.repository.status().obstacles == [.missingTable("tag", rows: 2)])
        try change(a, "DROP TABLE tag")
        try settle(a, b, new)
        #expect(try new.repository.status().isSettled)
        // The program of the next version has the table again, with other content.
        try change(a, "CREATE TABLE tag (word TEXT PRIMARY KEY NOT NULL, note INTEGER)")
        try settle(a, new, b)
        let obstacles = try new.repository.status().obstacles
        #expect(obstacles == [.missingTable("tag", rows: 2)], "\(obstacles)")
        #expect(try a.repository.status().isSettled && b.repository.status().isSettled)
    }

    @Test("if all members drop a table at once, each says so once, and the stores come to rest")
    func rest() throws {
        let (a, b) = try devices()
        for device in [a, b] { try change(device, "DROP TABLE tag") }
        try settle(a, b)
        let counts = try [a, b].map { try $0.repository.status().commitCount }
        try settle(a, b)
        #expect(try [a, b].map { try $0.repository.status().commitCount } == counts && counts[0] == counts[1])
        for device in [a, b] { #expect(try device.repository.status().isSettled) }
    }

    @Test("a reader that drops a table makes no commit, which others would refuse")
    func reader() throws {
        let (a, b) = try devices()
        let reader = try Device(folder.path("r.db"), invitedBy: a, at: remote, sql: Self.sql, as: .reader)
        try settle(reader, a, b)
        try change(reader, "DROP TABLE tag")
        try settle(reader, a)
        #expect(try reader.repository.status().isSettled && a.repository.status().isSettled)
    }
}
