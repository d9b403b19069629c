import CipherDatabase
import CipherRecords
import FormerSimulation
import Testing

@testable import ChangesetSync

/// What merges hold equal, and which references they follow.
@Suite("Keys and references in merges")
struct MergedKeyTests {
    /// Three replicas with the same rows. The third one writes nothing: it merges what the other two have made.
    private struct Replicas {
        let one: Replica
        let two: Replica
        let three: Replica

        /// - Parameter start: What all begin with, written while foreign keys are not enforced.
        init(_ schema: String, _ tables: [String], start: String) throws {
            let first = try Replica(schema, tracking: tables, clock: TestClock(seconds: 1000))
            try first.withoutForeignKeys { try first.run(start) }
            one = first
            let key = try one.key()
            two = try Replica(schema, tracking: tables, key: key, clock: TestClock(seconds: 2000))
            three = try Replica(schema, tracking: tables, key: key, clock: TestClock(seconds: 3000))
            for replica in [two, three] {
                try replica.fetch(first)
                try replica.repository.pull()
            }
        }

        /// All merge the same two commits, each from its own rows.
        func merge() throws {
            try one.fetch(two)
            for replica in [two, three] { try replica.fetch(one) }
            for replica in [one, two, three] {
                try replica.repository.mergeAll()
                try replica.repository.pull()
            }
            for replica in [two, three] {
                #expect(try replica.head == one.head)
                #expect(try replica.state() == one.state())
            }
            for replica in [one, two, three] {
                #expect(try replica.repository.verify().isEmpty)
                #expect(try replica.commitCount == one.commitCount)
            }
        }
    }

    private static let teams = """
        CREATE TABLE team (name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE, v);
        CREATE TABLE member (id INTEGER PRIMARY KEY NOT NULL, team TEXT REFERENCES team(name) ON DELETE CASCADE, v);
        CREATE TABLE coach (id INTEGER PRIMARY KEY NOT NULL, team TEXT REFERENCES team(name), v);
        """

    // MARK: References that led to nothing before

    /// A merge followed ON DELETE for every changed row without a parent, and so removed rows that never had one: a change
    /// of another cell of such a row was lost without an error.
    @Test("a row whose reference led to nothing before stays as it is, and keeps its changes")
    func formerOrphans() throws {
        let replicas = try Replicas(
            Self.teams, ["team", "member", "coach"],
            start: """
                INSERT INTO team VALUES ('red', 1);
                INSERT INTO member VALUES (1, 'gone', 1), (2, 'gone', 1), (3, 'red', 1);
                INSERT INTO coach VALUES (1, 'gone', 1);
                """)
        try replicas.one.run("UPDATE member SET v = 2 WHERE id = 1; UPDATE coach SET v = 2; DELETE FROM team")
        try replicas.two.run("UPDATE member SET v = 3 WHERE id = 2; INSERT INTO member VALUES (4, 'RED', 3)")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM member") == ["1,'gone',2", "2,'gone',3"])
        #expect(try replicas.one.strings("SELECT * FROM coach") == ["1,'gone',2"])
    }

    @Test("a reference to nothing that one side has made stays, also where the other side enforces foreign keys")
    func newOrphans() throws {
        let replicas = try Replicas(
            Self.teams, ["team", "member", "coach"], start: "INSERT INTO team VALUES ('red', 1)")
        let one = replicas.one
        try one.withoutForeignKeys { try one.run("INSERT INTO member VALUES (1, 'gone', 1), (2, 'red', 1)") }
        try replicas.two.run("UPDATE team SET v = 2")
        try replicas.merge()
        #expect(try one.strings("SELECT * FROM member") == ["1,'gone',1", "2,'red',1"])
        // It can be repaired by anyone, and later merges leave it alone.
        try replicas.one.run("INSERT INTO member VALUES (3, 'red', 1)")
        try replicas.two.run("UPDATE member SET team = 'red' WHERE id = 1")
        try replicas.merge()
        #expect(try one.strings("SELECT id, team FROM member") == ["1,'red'", "2,'red'", "3,'red'"])
    }

    /// Each side changes one column of a reference: what they make together refers to nothing on either side.
    @Test("a reference that the merge makes of cells of both sides follows ON DELETE")
    func mixedReference() throws {
        let schema = """
            CREATE TABLE place (row INT, seat INT, PRIMARY KEY (row, seat)) WITHOUT ROWID;
            CREATE TABLE guest (id INTEGER PRIMARY KEY NOT NULL, row INT, seat INT,
                FOREIGN KEY (row, seat) REFERENCES place(row, seat) ON DELETE SET NULL);
            """
        let replicas = try Replicas(
            schema, ["place", "guest"],
            start: "INSERT INTO place VALUES (1, 1), (1, 2), (2, 1); INSERT INTO guest VALUES (1, 1, 1)")
        try replicas.one.run("UPDATE guest SET row = 2")
        try replicas.two.run("UPDATE guest SET seat = 2")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM guest") == ["1,NULL,NULL"])
    }

    // MARK: References that are equal to SQLite

    /// The parent was compared by its bytes where the merge had changed it, and by its collation elsewhere.
    @Test("a reference that is equal by the collation of the parent's key leads to it")
    func collation() throws {
        let replicas = try Replicas(
            Self.teams, ["team", "member", "coach"], start: "INSERT INTO team VALUES ('red', 1), ('blue', 1)")
        try replicas.one.run("UPDATE team SET v = 2 WHERE name = 'red'; DELETE FROM team WHERE name = 'blue'")
        try replicas.two.run("INSERT INTO member VALUES (1, 'Red', 1), (2, 'Blue', 1)")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM team") == ["'red',2"])
        #expect(try replicas.one.strings("SELECT * FROM member") == ["1,'Red',1"])
        // A row that is needed comes back under its own spelling.
        try replicas.one.run("DELETE FROM member; DELETE FROM team")
        try replicas.two.run("INSERT INTO coach VALUES (1, 'RED', 1)")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT name FROM team") == ["'red'"])
        #expect(try replicas.one.strings("SELECT * FROM coach") == ["1,'RED',1"])
    }

    /// SQLite applies the affinity of the parent's column to the reference, and only then compares.
    @Test("a reference that is equal by the affinity of the parent's key leads to it")
    func affinity() throws {
        let schema = """
            CREATE TABLE number (id INTEGER PRIMARY KEY NOT NULL, v);
            CREATE TABLE code (code TEXT PRIMARY KEY NOT NULL, v);
            CREATE TABLE use (id INTEGER PRIMARY KEY NOT NULL, n REFERENCES number(id) ON DELETE CASCADE,
                t TEXT REFERENCES number(id) ON DELETE SET NULL, c REFERENCES code(code) ON DELETE CASCADE);
            """
        let replicas = try Replicas(
            schema, ["number", "code", "use"],
            start: "INSERT INTO number VALUES (1, 1), (2, 1), (3, 1); INSERT INTO code VALUES ('7', 1), ('8', 1)")
        try replicas.one.run(
            "UPDATE number SET v = 2 WHERE id = 1; UPDATE code SET v = 2 WHERE code = '7'; "
                + "DELETE FROM number WHERE id > 1; DELETE FROM code WHERE code = '8'")
        try replicas.two.run(
            """
            INSERT INTO use VALUES (1, '1', ' 1.0', 7), (2, '2', NULL, NULL), (3, NULL, '03', 7), (4, NULL, NULL, 8);
            """)
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM use") == ["1,'1',' 1.0',7", "3,NULL,NULL,7"])
    }

    /// Texts under a collation of the program can be compared by SQLite alone.
    @Test("a collation of the program compares keys and references as well")
    func ownCollation() throws {
        let schema = """
            CREATE TABLE team (name TEXT PRIMARY KEY NOT NULL COLLATE swiftCaseInsensitiveCompare, v);
            CREATE TABLE member (id INTEGER PRIMARY KEY NOT NULL, team REFERENCES team(name) ON DELETE CASCADE);
            """
        let replicas = try Replicas(
            schema, ["team", "member"], start: "INSERT INTO team VALUES ('été', 1), ('hiver', 1)")
        try replicas.one.run(
            "UPDATE team SET v = 2 WHERE name = 'été'; DELETE FROM team WHERE name = 'hiver'; "
                + "INSERT INTO team VALUES ('août', 1)")
        try replicas.two.run(
            "INSERT INTO member VALUES (1, 'ÉTÉ'), (2, 'Hiver'); INSERT INTO team VALUES ('AOÛT', 2), ('mai', 2)")
        try replicas.merge()
        #expect(
            try replicas.one.strings("SELECT name, v FROM team ORDER BY v, hex(name)") == [
                "'août',1", "'mai',2", "'été',2",
            ])
        #expect(try replicas.one.strings("SELECT * FROM member") == ["1,'ÉTÉ'"])
    }

    // MARK: Primary keys that are equal to SQLite

    /// The merge had both rows. No store could pull it: the second one is refused by the primary key.
    @Test("of two primary keys that are equal by collation the older row stays, and the other is a conflict")
    func equalKeys() throws {
        let replicas = try Replicas(
            Self.teams, ["team", "member", "coach"], start: "INSERT INTO team VALUES ('blue', 1)")
        try replicas.one.run("INSERT INTO team VALUES ('red', 1), ('Green', 1)")
        try replicas.two.run(
            "INSERT INTO team VALUES ('Red', 2); INSERT INTO member VALUES (1, 'Red', 2); "
                + "DELETE FROM team WHERE name = 'blue'; INSERT INTO team VALUES ('Blue', 2)")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM team ORDER BY name") == ["'Blue',2", "'Green',1", "'red',1"])
        #expect(try replicas.one.strings("SELECT * FROM member") == ["1,'Red',2"])
        for replica in [replicas.one, replicas.two, replicas.three] {
            let conflicts = try replica.repository.conflicts()
            #expect(conflicts.map(\.reason) == [.unique])
            #expect(conflicts.first?.key == ["Red".databaseValue] && conflicts.first?.chosen.isEmpty == true)
        }
    }

    @Test("of two primary keys that are equal as numbers, and of several columns, one row stays")
    func equalNumbers() throws {
        let schema = "CREATE TABLE t (a NOT NULL, b TEXT NOT NULL COLLATE RTRIM, v, PRIMARY KEY (a, b)) WITHOUT ROWID"
        let replicas = try Replicas(schema, ["t"], start: "INSERT INTO t VALUES (0, '', 0)")
        try replicas.one.run("INSERT INTO t VALUES (1, 'x', 1), (2, 'y ', 1), (3, 'z', 1)")
        try replicas.two.run("INSERT INTO t VALUES (1.0, 'x', 2), (2, 'y', 2), ('3', 'z', 2)")
        try replicas.merge()
        #expect(
            try replicas.one.strings("SELECT * FROM t ORDER BY a")
                == ["0,'',0", "1,'x',1", "2,'y ',1", "3,'z',1", "'3','z',2"])
    }

    /// A change of the spelling is a deletion and an insertion; against a change of the former row both would be there.
    @Test("a row under another spelling of its key goes where the former one stays")
    func respelledKey() throws {
        let replicas = try Replicas(
            Self.teams, ["team", "member", "coach"], start: "INSERT INTO team VALUES ('red', 1)")
        try replicas.one.run("UPDATE team SET v = 2")
        try replicas.two.run("UPDATE team SET name = 'RED'")
        try replicas.merge()
        #expect(try replicas.one.strings("SELECT * FROM team") == ["'red',2"])
        #expect(try Set(replicas.one.repository.conflicts().map(\.reason)) == [.deletedAndChanged, .unique])
    }
}

extension Replica {
    /// As a program does that does not enforce foreign keys.
    func withoutForeignKeys(_ body: () throws -> Void) throws {
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF") }
        try body()
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = ON") }
    }
}
