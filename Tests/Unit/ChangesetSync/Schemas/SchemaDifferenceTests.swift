import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

/// A way in which the tables of two members differ.
struct SchemaDifference: Sendable, CustomTestStringConvertible {
    let name: String
    /// The table of the member that writes, and of the member that receives.
    let theirs: String
    let ours: String
    /// The rows that are written, as SQL.
    let rows: String
    /// The reason, the table and the number of rows that the status names; nil if everything is shown.
    let reason: (word: String, table: String, rows: Int)?
    /// The rows of `note` that are shown.
    let shown: [String]
    /// The receiver's migration to the writer's schema.
    var migration: String?

    var testDescription: String { name }

    private static let plain = "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)"
    private static let two = "INSERT INTO note VALUES (1, 'a'), (2, 'b')"
    /// The receiver makes its table anew; the rows that it shows go along.
    private static func made(_ sql: String, copying columns: String? = nil) -> String {
        let copy = columns.map { "INSERT INTO note (\($0)) SELECT \($0) FROM former;" } ?? ""
        return "ALTER TABLE note RENAME TO former; \(sql); \(copy) DROP TABLE former;"
    }

    private static let ofTwo = "CREATE TABLE note (id INTEGER, part INTEGER, body TEXT, PRIMARY KEY (id, part))"
    private static let ofID = "CREATE TABLE note (id INTEGER PRIMARY KEY, part INTEGER, body TEXT)"
    private static let byCode = "CREATE TABLE note (id INTEGER, body TEXT PRIMARY KEY NOT NULL)"

    static let all: [SchemaDifference] = [
        SchemaDifference(
            name: "more key columns", theirs: ofTwo, ours: ofID,
            rows: "INSERT INTO note VALUES (1, 1, 'a'), (1, 2, 'b')",
            reason: ("otherKey", "note", 2), shown: [], migration: made(ofTwo)),
        SchemaDifference(
            name: "fewer key columns", theirs: ofID, ours: ofTwo,
            rows: "INSERT INTO note VALUES (1, 1, 'a'), (2, 1, 'b')",
            reason: ("otherKey", "note", 2), shown: [], migration: made(ofID)),
        SchemaDifference(
            name: "another key column", theirs: plain, ours: byCode, rows: two,
            reason: ("otherKey", "note", 2), shown: [],
            migration: made(plain)),
        SchemaDifference(
            name: "another name", theirs: plain, ours: "CREATE TABLE remark (id INTEGER PRIMARY KEY, body TEXT)",
            rows: two,
            reason: ("missingTable", "note", 2), shown: [], migration: "\(plain); DROP TABLE remark"),
        SchemaDifference(
            name: "a view", theirs: plain, ours: "CREATE VIEW note AS SELECT 1 AS id, 'x' AS body", rows: two,
            reason: ("missingTable", "note", 2), shown: ["1 x"], migration: "DROP VIEW note; \(plain)"),
        SchemaDifference(
            name: "no key", theirs: plain, ours: "CREATE TABLE note (id INTEGER, body TEXT)", rows: two,
            reason: ("missingTable", "note", 2), shown: [], migration: made(plain)),
        SchemaDifference(
            name: "a column fewer", theirs: plain, ours: "CREATE TABLE note (id INTEGER PRIMARY KEY)", rows: two,
            reason: ("missingColumn", "note", 2), shown: ["1", "2"], migration: "ALTER TABLE note ADD COLUMN body TEXT"),
        SchemaDifference(
            name: "a column of another name", theirs: plain,
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT)",
            rows: two, reason: ("missingColumn", "note", 2), shown: ["1 NULL", "2 NULL"],
            migration: "ALTER TABLE note DROP COLUMN text; ALTER TABLE note ADD COLUMN body TEXT"),
        SchemaDifference(
            name: "a generated column", theirs: plain,
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT GENERATED ALWAYS AS (id || '!') VIRTUAL)",
            rows: two, reason: ("missingColumn", "note", 2), shown: ["1 1!", "2 2!"],
            migration: "ALTER TABLE note DROP COLUMN body; ALTER TABLE note ADD COLUMN body TEXT"),
        SchemaDifference(
            name: "a column more", theirs: plain,
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, more TEXT DEFAULT 'd')", rows: two,
            reason: nil,
            shown: ["1 a d", "2 b d"]),
        SchemaDifference(
            name: "WITHOUT ROWID", theirs: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT) WITHOUT ROWID",
            ours: plain, rows: two, reason: nil, shown: ["1 a", "2 b"]),
        SchemaDifference(
            name: "another affinity of the key", theirs: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, body TEXT)",
            ours: plain, rows: "INSERT INTO note VALUES ('1', 'a'), ('x', 'b')", reason: ("type", "note", 2), shown: [],
            migration: made("CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, body TEXT)")),
        SchemaDifference(
            name: "another affinity of a column", theirs: plain,
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body INTEGER)",
            rows: "INSERT INTO note VALUES (1, '7'), (2, 'b')", reason: ("altered", "note", 1), shown: ["1 7", "2 b"],
            migration: made(plain, copying: "id, body")),
        SchemaDifference(
            name: "STRICT", theirs: "CREATE TABLE note (id INTEGER PRIMARY KEY, body)",
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body INTEGER) STRICT",
            rows: "INSERT INTO note VALUES (1, 7), (2, 'b')", reason: ("type", "note", 1), shown: ["1 7"],
            migration: made("CREATE TABLE note (id INTEGER PRIMARY KEY, body)", copying: "id, body")),
        SchemaDifference(
            name: "another collation of the key", theirs: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, body TEXT)",
            ours: "CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, body TEXT)",
            rows: "INSERT INTO note VALUES ('A', 'a'), ('a', 'b')", reason: ("unique", "note", 1), shown: ["A a"],
            migration: made("CREATE TABLE note (id TEXT PRIMARY KEY NOT NULL, body TEXT)", copying: "id, body")),
        SchemaDifference(
            name: "NOT NULL", theirs: plain, ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT NOT NULL)",
            rows: "INSERT INTO note VALUES (1, 'a'), (2, NULL)", reason: ("notNull", "note", 1), shown: ["1 a"],
            migration: made(plain, copying: "id, body")),
        SchemaDifference(
            name: "CHECK", theirs: plain,
            ours: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT CHECK (body <> 'b'))", rows: two,
            reason: ("check", "note", 1), shown: ["1 a"], migration: made(plain, copying: "id, body")),
        SchemaDifference(
            name: "UNIQUE", theirs: plain, ours: "\(plain); CREATE UNIQUE INDEX u ON note (body)",
            rows: "INSERT INTO note VALUES (1, 'a'), (2, 'a')", reason: ("unique", "note", 1), shown: ["1 a"],
            migration: "DROP INDEX u"),
        SchemaDifference(
            name: "UNIQUE over some rows", theirs: plain,
            ours: "\(plain); CREATE UNIQUE INDEX u ON note (body) WHERE id > 1",
            rows: "INSERT INTO note VALUES (1, 'a'), (2, 'a'), (3, 'a')", reason: ("unique", "note", 1),
            shown: ["1 a", "2 a"], migration: "DROP INDEX u"),
        SchemaDifference(
            name: "UNIQUE over an expression", theirs: plain,
            ours: "\(plain); CREATE UNIQUE INDEX u ON note (lower(body) DESC)",
            rows: "INSERT INTO note VALUES (1, 'A'), (2, 'a')", reason: ("unique", "note", 1), shown: ["1 A"],
            migration: "DROP INDEX u"),
        SchemaDifference(
            name: "FOREIGN KEY", theirs: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)",
            ours: """
                CREATE TABLE kind (name TEXT PRIMARY KEY NOT NULL);
                CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT REFERENCES kind)
                """,
            rows: two, reason: ("foreignKey", "note", 2), shown: [], migration: made(plain)),
        SchemaDifference(
            name: "FOREIGN KEY to a unique column", theirs: plain,
            ours: """
                CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT UNIQUE);
                CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT REFERENCES kind (name))
                """,
            rows: two, reason: ("foreignKey", "note", 2), shown: [], migration: made(plain)),
    ]
}

@Suite("Members with different schemas")
struct SchemaDifferenceTests {
    private let folder = TemporaryFolder()
    private let remote = MemoryRemote()
    private let further = MemoryRemote()

    private func shown(_ device: Device) throws -> [String] {
        if try device.texts("SELECT 1 FROM sqlite_schema WHERE name = 'note'").isEmpty { return [] }
        return try device.texts("SELECT * FROM note").sorted()
    }

    @Test(
        "rows that the schema cannot show are kept, listed by table, number and reason, passed on, and shown later",
        arguments: SchemaDifference.all)
    func difference(_ difference: SchemaDifference) throws {
        let b = try Device(folder.path("b.db"), sql: difference.ours)
        let a = try Device(folder.path("a.db"), invitedBy: b, at: remote, sql: difference.theirs)
        try a.write(difference.rows)
        for device in [a, b] { try device.sync(remote) }
        #expect(try shown(b) == difference.shown)
        let obstacles = try b.repository.status().obstacles.map { "\($0)" }
        if let (word, table, rows) = difference.reason {
            let found = obstacles.filter {
                $0.contains(word) && $0.contains("\"\(table)\"") && $0.contains("rows: \(rows)")
            }
            #expect(found.count == 1 && obstacles.count == 1, "\(obstacles)")
        } else {
            #expect(obstacles.isEmpty, "\(obstacles)")
        }
        // The receiver passes on what it cannot show: as commits, and in a snapshot.
        try b.repository.sync(further, named: "further")
        let c = try Device(folder.path("c.db"), invitedBy: b, at: further, sql: difference.theirs)
        try c.sync(further)
        #expect(try shown(c) == shown(a))
        #expect(try b.repository.compact(further, named: "further").sentSnapshots == 1)
        let d = try Device(folder.path("d.db"), invitedBy: b, at: further, sql: difference.theirs)
        try d.sync(further)
        #expect(try shown(d) == shown(a))
        guard let migration = difference.migration else { return }
        try b.pool.write { try $0.execute(sql: migration) }
        for _ in 0..<2 { for device in [b, a] { try device.sync(remote) } }
        #expect(try shown(b) == shown(a) && shown(a) == shown(c))
        #expect(try b.repository.status().obstacles == [])
    }

    @Test("a row of another key and a row of the program with an equal key do not touch each other")
    func equalKeys() throws {
        let a = try Device(folder.path("a.db"), sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT)")
        let b = try Device(
            folder.path("b.db"), invitedBy: a, at: remote,
            sql: "CREATE TABLE note (id INTEGER, body TEXT PRIMARY KEY NOT NULL) STRICT")
        try b.write("INSERT INTO note VALUES (5, 'mine')")
        try a.write("INSERT INTO note VALUES (5, 'theirs')")
        for _ in 0..<2 { for device in [a, b] { try device.sync(remote) } }
        #expect(try shown(a) == ["5 theirs"] && shown(b) == ["5 mine"])
        try b.write("DELETE FROM note")
        for device in [b, a] { try device.sync(remote) }
        #expect(try shown(a) == ["5 theirs"])
    }

    @Test("of two rows of one key, written under different columns, each member shows and deletes its own")
    func oneKeyTwice() throws {
        let a = try Device(
            folder.path("a.db"), sql: "CREATE TABLE note (id INTEGER PRIMARY KEY, code INTEGER, body TEXT)")
        let b = try Device(
            folder.path("b.db"), invitedBy: a, at: remote,
            sql: "CREATE TABLE note (id INTEGER, code INTEGER PRIMARY KEY, body TEXT)")
        try a.write("INSERT INTO note VALUES (1, 7, 'theirs')")
        try b.write("INSERT INTO note VALUES (9, 1, 'mine')")
        for _ in 0..<2 { for device in [a, b] { try device.sync(remote) } }
        #expect(try shown(a) == ["1 7 theirs"] && shown(b) == ["9 1 mine"])
        try b.write("UPDATE note SET body = 'changed'")
        for device in [b, a] { try device.sync(remote) }
        #expect(try shown(a) == ["1 7 theirs"] && shown(b) == ["9 1 changed"])
        try b.write("DELETE FROM note")
        for device in [b, a] { try device.sync(remote) }
        #expect(try shown(a) == ["1 7 theirs"] && shown(b).isEmpty)
        #expect(try !b.repository.status().obstacles.isEmpty)
    }

    @Test("a row that a unique key over some rows hides is shown when the other one leaves, on every device the same")
    func partialKey() throws {
        let sql = """
            CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT, open INTEGER);
            CREATE UNIQUE INDEX one_open ON note (body) WHERE open
            """
        let a = try Device(folder.path("a.db"), sql: sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try a.write("INSERT INTO note VALUES (1, 'x', 1)")
        try b.write("INSERT INTO note VALUES (2, 'x', 1), (3, 'x', 0)")
        for _ in 0..<2 { for device in [a, b] { try device.sync(remote) } }
        #expect(try shown(a) == ["1 x 1", "3 x 0"] && shown(b) == shown(a))
        try b.write("UPDATE note SET open = 0 WHERE id = 1")
        for device in [b, a] { try device.sync(remote) }
        #expect(try shown(a) == ["1 x 0", "2 x 1", "3 x 0"] && shown(b) == shown(a))
        #expect(try a.repository.status().obstacles.isEmpty)
    }

    @Test("a parent that RESTRICT holds by a unique column is there again, on both devices")
    func restrictByUnique() throws {
        let sql = """
            CREATE TABLE kind (id INTEGER PRIMARY KEY, name TEXT UNIQUE, more TEXT);
            CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT REFERENCES kind (name))
            """
        let a = try Device(folder.path("a.db"), sql: sql)
        let b = try Device(folder.path("b.db"), invitedBy: a, at: remote, sql: sql)
        try a.write("INSERT INTO kind VALUES (1, 'x', 'm')")
        for device in [a, b] { try device.sync(remote) }
        try a.write("DELETE FROM kind")
        try b.write("INSERT INTO note VALUES (1, 'x')")
        for _ in 0..<3 { for device in [a, b] { try device.sync(remote) } }
        for device in [a, b] {
            #expect(try device.texts("SELECT * FROM kind") == ["1 x m"] && shown(device) == ["1 x"])
            #expect(try device.repository.status().obstacles.isEmpty)
        }
    }

    @Test("children that are not tracked follow ON DELETE and ON UPDATE; those that cannot are listed")
    func untrackedChildren() throws {
        let tracked = "CREATE TABLE note (id INTEGER PRIMARY KEY, body TEXT UNIQUE)"
        let a = try Device(folder.path("a.db"), sql: tracked)
        let b = try Device(
            folder.path("b.db"), invitedBy: a, at: remote,
            sql: """
                \(tracked);
                CREATE TABLE tag (note INTEGER REFERENCES note ON DELETE CASCADE, word TEXT UNIQUE);
                CREATE TABLE word (of TEXT REFERENCES tag (word) ON DELETE CASCADE);
                CREATE TABLE mark (note INTEGER REFERENCES note ON DELETE SET NULL);
                CREATE TABLE other (note INTEGER DEFAULT 2 REFERENCES note ON DELETE SET DEFAULT);
                CREATE TABLE kept (note INTEGER REFERENCES note);
                CREATE TABLE named (body TEXT REFERENCES note (body) ON UPDATE CASCADE);
                CREATE TABLE log (word TEXT);
                CREATE TRIGGER logged AFTER DELETE ON tag BEGIN INSERT INTO log VALUES (old.word); END
                """)
        try a.write("INSERT INTO note VALUES (1, 'a'), (2, 'b')")
        for device in [a, b] { try device.sync(remote) }
        try b.pool.write { db in
            try db.execute(
                sql: """
                    INSERT INTO tag VALUES (1, 'one'), (2, 'two'); INSERT INTO word VALUES ('one'), ('two');
                    INSERT INTO mark VALUES (1); INSERT INTO other VALUES (1); INSERT INTO kept VALUES (1);
                    INSERT INTO named VALUES ('b')
                    """)
        }
        try a.write("DELETE FROM note WHERE id = 1; UPDATE note SET body = 'c' WHERE id = 2")
        for device in [a, b] { try device.sync(remote) }
        #expect(try b.texts("SELECT * FROM tag") == ["2 two"] && b.texts("SELECT * FROM word") == ["two"])
        #expect(try b.texts("SELECT * FROM mark") == ["NULL"] && b.texts("SELECT * FROM other") == ["2"])
        #expect(try b.texts("SELECT * FROM named") == ["c"] && b.texts("SELECT * FROM log") == ["one"])
        #expect(try b.texts("SELECT * FROM kept") == ["1"])
        let obstacles = try b.repository.status().obstacles.map { "\($0)" }
        #expect(obstacles.count == 1 && obstacles[0].contains("orphans") && obstacles[0].contains("rows: 1"))
        try b.pool.write { try $0.execute(sql: "DELETE FROM kept") }
        #expect(try b.repository.status().obstacles.isEmpty)
    }
}
