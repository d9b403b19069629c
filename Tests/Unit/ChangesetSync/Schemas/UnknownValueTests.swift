import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// A store that had joined by a snapshot, and whose program then dropped a column, made no snapshot at all: it could not
/// fill a remote that was emptied, and no device could join by it.
@Suite("A store without the commits of its rows changes its schema, and fills a remote")
struct UnknownValueTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private static let sql = """
        CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, n INTEGER);
        CREATE TABLE tag (word TEXT PRIMARY KEY NOT NULL, note INTEGER)
        """

    struct Change: Sendable, CustomTestStringConvertible {
        let name: String
        let sql: String
        /// The rows that a device has which joins by this store alone.
        let rows: [String]
        /// The rows on other members that have the former schema.
        var obstacle: String?
        /// The rows of the table that was changed.
        var shown: (query: String, rows: [String])?
        var testDescription: String { name }
    }

    private static let notes = ["1 a 10", "2 b 20", "3 c 30"]
    private static let tags = ["x 1", "y 2"]
    private static let changes = [
        Change(
            name: "a dropped column", sql: "ALTER TABLE note DROP COLUMN n",
            rows: ["1 a NULL", "2 b NULL", "3 c 30"] + tags),
        Change(name: "a dropped table", sql: "DROP TABLE note", rows: ["1 NULL NULL", "2 NULL NULL", "3 c 30"] + tags),
        Change(name: "a dropped table with a key of text", sql: "DROP TABLE tag", rows: notes + ["x NULL", "y 2"]),
        Change(
            name: "all tables dropped", sql: "DROP TABLE note; DROP TABLE tag",
            rows: ["1 NULL NULL", "2 NULL NULL", "3 c 30", "x NULL", "y 2"]),
        Change(
            name: "a renamed column", sql: "ALTER TABLE note RENAME COLUMN n TO number",
            rows: ["1 a NULL", "2 b NULL", "3 c 30"] + tags, obstacle: "missingColumn",
            shown: ("SELECT * FROM note ORDER BY id", notes)),
        Change(
            name: "a renamed table", sql: "ALTER TABLE note RENAME TO memo",
            rows: ["1 NULL NULL", "2 NULL NULL", "3 c 30"] + tags, obstacle: "missingTable",
            shown: ("SELECT * FROM memo ORDER BY id", notes)),
        Change(name: "an added column", sql: "ALTER TABLE note ADD COLUMN more TEXT DEFAULT 'm'", rows: notes + tags),
        Change(
            name: "other types",
            sql: """
                CREATE TABLE new (id INTEGER PRIMARY KEY, body TEXT, n TEXT); INSERT INTO new SELECT * FROM note;
                DROP TABLE note; ALTER TABLE new RENAME TO note
                """,
            rows: notes + tags, obstacle: "conflict"),
        Change(
            name: "another key",
            sql: """
                CREATE TABLE new (word TEXT NOT NULL, note INTEGER NOT NULL, PRIMARY KEY (word, note));
                INSERT INTO new SELECT * FROM tag; DROP TABLE tag; ALTER TABLE new RENAME TO tag
                """,
            rows: notes + ["x NULL", "y 2"], obstacle: "otherKey"),
        Change(
            name: "a key that is dropped",
            sql: """
                CREATE TABLE new (word TEXT NOT NULL, note INTEGER); INSERT INTO new SELECT * FROM tag;
                DROP TABLE tag; ALTER TABLE new RENAME TO tag
                """,
            rows: notes + ["x NULL", "y 2"]),
        Change(
            name: "dropped and made again",
            sql: "ALTER TABLE note DROP COLUMN n; -- then; ALTER TABLE note ADD COLUMN n INTEGER",
            rows: ["1 a NULL", "2 b NULL", "3 c 30"] + tags),
    ]

    private func all(_ device: Device) throws -> [String] {
        try device.texts("SELECT * FROM note ORDER BY id") + device.texts("SELECT * FROM tag ORDER BY word")
    }

    /// Rows 1, 2 and x are of a snapshot, rows 3 and y of commits.
    private static let start = Result {
        try MadeStores { folder, remote in
            let a = try Device(folder.path("a.db"), sql: sql)
            try a.write("INSERT INTO note VALUES (1, 'a', 10), (2, 'b', 20); INSERT INTO tag VALUES ('x', 1)")
            try a.sync(remote)
            #expect(try a.repository.compact(remote, named: "remote").deletedObjects > 0)
            let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
            try b.sync(remote)
            try a.write("INSERT INTO note VALUES (3, 'c', 30); INSERT INTO tag VALUES ('y', 2)")
            for device in [a, b] {
                try device.sync(remote)
                try device.close()
            }
        }
    }

    private func devices() throws -> (Device, Device) {
        try Self.start.get().write(to: folder, remote)
        let (a, b) = (try Device(folder.path("a.db"), sql: ""), try Device(folder.path("b.db"), sql: ""))
        #expect(try all(b) == Self.notes + Self.tags)
        return (a, b)
    }

    private func change(_ device: Device, _ change: Change) throws {
        for sql in change.sql.split(separator: "-- then;") {
            try device.pool.write { try $0.execute(sql: String(sql)) }
            try device.sync(remote)
        }
    }

    @Test("an emptied remote is filled with every row, and with each value that is known", arguments: changes)
    func emptiedRemote(_ change: Change) throws {
        let (a, b) = try devices()
        let invitation = try a.repository.invite(until: .max)
        for device in [a, b] { try device.sync(remote) }
        try self.change(b, change)
        remote.objects = [:]
        try b.sync(remote)
        #expect(try b.repository.status().remotes.flatMap(\.problems).isEmpty)
        let c = try Device(folder.path("c.db"), invitation, at: remote, sql: Self.sql)
        try c.sync(remote)
        #expect(try all(c) == change.rows)
        if let shown = change.shown { #expect(try b.texts(shown.query) == shown.rows) }
        #expect(try c.repository.verify().differences.isEmpty && b.repository.verify().differences.isEmpty)

        // The values of another store win, and reach all.
        try a.sync(remote)
        for device in [c, b, a] { try device.sync(remote) }
        #expect(try all(a) == Self.notes + Self.tags)
        #expect(try all(c) == Self.notes + Self.tags)
        for device in [a, c] {
            let obstacles = try device.repository.status().obstacles.map { "\($0)" }
            #expect(obstacles.allSatisfy { text in change.obstacle.map(text.contains) ?? false }, "\(obstacles)")
        }
        if change.name != "other types" { #expect(try c.repository.verify() == a.repository.verify()) }
    }
}
