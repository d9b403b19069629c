import CipherDatabase
import Testing

@testable import ChangesetSync

@Suite("The commits of the rows that a table has when its tracking begins")
struct FirstCommitsTests {
    private static func rows(_ count: Int) -> String {
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(count)) "
    }

    @Test("a large table becomes several commits, so that other devices take it up in several transactions")
    func largeTable() throws {
        let count = 2 * Limits.pulledRows + 5
        let one = try Replica(
            "\(Replica.players); \(Self.rows(count)) INSERT INTO player SELECT i, 'p' || i, i % 7 FROM n")
        #expect(try one.commitCount == 3)
        #expect(try one.repository.verify().isEmpty)
        let two = try Replica(key: one.key())
        try two.fetch(one)
        var progress = PullProgress()
        for part in 1...2 {
            _ = try two.repository.applying { try two.repository.pullSlice(&$0, &progress) }
            #expect(try two.strings("SELECT count(*) FROM player") == ["\(part * Limits.pulledRows)"])
            #expect(try two.repository.verify().isEmpty)
        }
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.head == one.head)
    }

    @Test("rows that are long end a commit earlier")
    func longRows() throws {
        let one = try Replica(
            """
            CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, image BLOB);
            \(Self.rows(5)) INSERT INTO player SELECT i, zeroblob(\(Limits.pulledBytes / 2)) FROM n
            """)
        #expect(try one.commitCount == 3)
    }

    @Test("rows come no later than those that refer to them, so foreign keys hold after each commit")
    func parentsFirst() throws {
        let schema = """
            CREATE TABLE a (id INTEGER PRIMARY KEY NOT NULL, b REFERENCES B (id));
            CREATE TABLE b (id INTEGER PRIMARY KEY NOT NULL, c REFERENCES c (id));
            CREATE TABLE c (id INTEGER PRIMARY KEY NOT NULL);
            """
        let count = Limits.pulledRows + 1
        let one = try Replica(
            schema
                + ["c SELECT i", "b SELECT i, \(count + 1) - i", "a SELECT i, \(count + 1) - i"].map {
                    "\(Self.rows(count)) INSERT INTO \($0) FROM n;"
                }.joined(),
            tracking: ["a", "b", "c"])
        #expect(try one.commitCount == 4)
        let two = try Replica(schema, tracking: ["a", "b", "c"], key: one.key())
        try two.fetch(one)
        var progress = PullProgress()
        for _ in 0..<4 {
            _ = try two.repository.applying { try two.repository.pullSlice(&$0, &progress) }
            #expect(try two.strings("PRAGMA foreign_key_check").isEmpty)
        }
        #expect(try two.state() == one.state() && two.head == one.head)
    }

    @Test("rows that refer to each other are in one commit")
    func cycles() throws {
        let schema = """
            CREATE TABLE tree (id INTEGER PRIMARY KEY NOT NULL, parent REFERENCES tree (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE one (id INTEGER PRIMARY KEY NOT NULL, other REFERENCES two (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE two (id INTEGER PRIMARY KEY NOT NULL, other REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED);
            CREATE TABLE root (id INTEGER PRIMARY KEY NOT NULL);
            """
        let count = Limits.pulledRows + 1
        let tables = ["tree", "one", "two", "root"]
        let one = try Replica(
            schema
                + ["tree SELECT i, \(count + 1) - i", "one SELECT i, i", "two SELECT i, i", "root SELECT i"].map {
                    "\(Self.rows(count)) INSERT INTO \($0) FROM n;"
                }.joined(),
            tracking: tables)
        // The table without references is divided; its last rows are in the commit of the others.
        #expect(try one.commitCount == 2)
        let two = try Replica(schema, tracking: tables, key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.head == one.head)
        #expect(try two.strings("PRAGMA foreign_key_check").isEmpty)
    }

    /// A new device takes what breaks a foreign key with its first rows only.
    @Test("where foreign keys do not hold, all rows are one commit, which a new device takes as it is")
    func orphans() throws {
        let schema = """
            CREATE TABLE parent (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE child (id INTEGER PRIMARY KEY NOT NULL, parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
            """
        let count = 2 * Limits.pulledRows
        let one = try Replica(schema, tracking: [])
        try one.queue.writeWithoutTransaction { db in
            try db.execute(sql: "PRAGMA foreign_keys = OFF")
            try db.execute(
                sql: "INSERT INTO parent VALUES (1); \(Self.rows(count)) INSERT INTO child SELECT i, 1 FROM n;"
                    + "UPDATE child SET parent = 9 WHERE id = \(count - 5)")
            try db.execute(sql: "PRAGMA foreign_keys = ON")
        }
        try one.repository.enable(["parent", "child"])
        #expect(try one.commitCount == 1)
        let two = try Replica(schema, tracking: ["parent", "child"], key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.head == one.head)
    }

    @Test("a table that is named twice is tracked once")
    func sameTable() throws {
        let one = try Replica(
            "\(Replica.players); \(Self.rows(Limits.pulledRows)) INSERT INTO player SELECT i, 'p', 0 FROM n",
            tracking: ["player", "Player", "player"])
        #expect(try one.commitCount == 1)
        #expect(try one.repository.verify().isEmpty)
    }

    @Test("after a tracking that failed, another one on the same connection knows its own tables")
    func failure() throws {
        let replica = try Replica("CREATE TABLE a (id INTEGER PRIMARY KEY NOT NULL); \(Replica.players)", tracking: [])
        try replica.queue.write { db in
            try db.execute(sql: "INSERT INTO a VALUES (1); INSERT INTO player VALUES (1, 'p', 1)")
            try db.execute(sql: "CREATE TEMP TRIGGER own AFTER INSERT ON a BEGIN SELECT 1; END")
        }
        #expect(code { try replica.repository.enable(["a"]) } == .applicationTemporaryTrigger)
        try replica.repository.enable(["player"])
        try replica.run("UPDATE player SET score = 2")
        #expect(try replica.commitCount == 2)
        #expect(try replica.repository.verify().isEmpty)
    }
}
