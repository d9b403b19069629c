import CipherDatabase
import CipherRecords
import Testing

@testable import ChangesetSync

/// Rows that refer to nothing, as programs commit them that do not enforce foreign keys.
@Suite("Pulling rows that refer to nothing")
struct OrphanTests {
    private static let schema = """
        CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL);
        CREATE TABLE log (n INTEGER PRIMARY KEY NOT NULL, player REFERENCES player(id), v);
        """

    private func replica(
        _ key: RepositoryKey? = nil, _ schema: String = Self.schema, _ tables: [String] = ["player", "log"]
    )
        throws -> Replica
    { try Replica(schema, tracking: tables, key: key) }

    private func sibling(of one: Replica) throws -> Replica {
        let two = try replica(one.key())
        try two.fetch(one)
        try two.repository.pull()
        return two
    }

    /// A store that has such rows works on with them. No other one could ever begin with its rows.
    @Test("a store without rows takes them as they are; later commits are refused until their author repairs them")
    func firstPull() throws {
        let one = try replica()
        try one.withoutForeignKeys { try one.run("INSERT INTO log VALUES (1, 5, 1)") }
        try one.run("UPDATE log SET v = 2")
        let two = try sibling(of: one)
        #expect(try two.state() == one.state())
        try one.run("UPDATE log SET v = 3")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
        try one.withoutForeignKeys { try one.run("INSERT INTO log VALUES (2, 6, 1)") }
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .foreignKeyViolation)
        try one.run("INSERT INTO player VALUES (6)")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
    }

    /// The author may never repair it. A merge is nobody's to repair, so nobody could have pulled any more.
    @Test("a pull takes what a merge has of one of its sides, and goes on")
    func mergedOrphan() throws {
        let one = try replica()
        try one.run("INSERT INTO player VALUES (1), (2); INSERT INTO log VALUES (1, 2, 1)")
        let (two, three) = try (sibling(of: one), sibling(of: one))
        try one.withoutForeignKeys {
            try one.run("INSERT INTO log VALUES (2, 5, 1); UPDATE log SET player = 7 WHERE n = 1")
        }
        try two.run("INSERT INTO player VALUES (3)")
        try two.fetch(one)
        try two.repository.mergeAll()
        try two.repository.pull()
        try three.fetch(two)
        try three.repository.pull()
        for replica in [two, three] {
            #expect(try replica.strings("SELECT n, player FROM log") == ["1,7", "2,5"])
            #expect(try replica.repository.verify().isEmpty)
        }
        try three.run("DELETE FROM log WHERE n = 2; UPDATE log SET player = 3")
        try two.fetch(three)
        try two.repository.pull()
        #expect(try two.strings("SELECT n, player FROM log") == ["1,3"])
    }

    /// All rows of the tables were checked then, also those that were there before.
    @Test("a long pull is not stopped by a row that was there before")
    func longPull() throws {
        let one = try replica()
        try one.withoutForeignKeys { try one.run("INSERT INTO log VALUES (0, 5, 1)") }
        let two = try sibling(of: one)
        try one.repository.commit { db in
            for id in 1...(Limits.foreignKeyLookups + 1) {
                try db.execute(sql: "INSERT INTO player VALUES (?)", arguments: [100 + id])
            }
            try db.execute(sql: "INSERT INTO log SELECT id, id, 1 FROM player")
        }
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
        try one.withoutForeignKeys { try one.run("DELETE FROM player") }
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .foreignKeyViolation)
    }

    @Test("what refers to a row is found as SQLite compares: by the collation and the affinity of the parent's key")
    func comparison() throws {
        let schema = """
            CREATE TABLE a (name TEXT PRIMARY KEY NOT NULL);
            CREATE TABLE b (id INTEGER PRIMARY KEY NOT NULL, a TEXT COLLATE NOCASE REFERENCES a(name));
            CREATE TABLE c (name TEXT PRIMARY KEY NOT NULL COLLATE NOCASE);
            CREATE TABLE d (id INTEGER PRIMARY KEY NOT NULL, c TEXT REFERENCES c(name));
            CREATE TABLE e (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE f (id INTEGER PRIMARY KEY NOT NULL, e REFERENCES e(id));
            """
        let tables = ["a", "b", "c", "d", "e", "f"]
        let one = try replica(nil, schema, tables)
        try one.run(
            """
            INSERT INTO a VALUES ('red'), ('Red'); INSERT INTO b VALUES (1, 'red');
            INSERT INTO c VALUES ('Red'), ('Blue'); INSERT INTO d VALUES (1, 'red');
            INSERT INTO e VALUES (1), (2); INSERT INTO f VALUES (1, '1');
            """)
        let two = try replica(one.key(), schema, tables)
        try two.fetch(one)
        try two.repository.pull()
        // Another row of the other spelling goes, to which nothing refers.
        try one.run("DELETE FROM a WHERE name = 'Red'; DELETE FROM c WHERE name = 'Blue'; DELETE FROM e WHERE id = 2")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
        for sql in ["DELETE FROM c", "DELETE FROM e"] {
            let other = try Replica(copyOf: one)
            try other.withoutForeignKeys { try other.run(sql) }
            let three = try Replica(copyOf: two)
            try three.fetch(other)
            #expect(code { try three.repository.pull() } == .foreignKeyViolation, "\(sql)")
        }
    }

    @Test("a store that rejoins takes such a row with the checkpoint")
    func rejoin() async throws {
        let fleet = try await CheckpointFleet(3, Self.schema, tracking: ["player", "log"])
        let one = fleet.replicas[0]
        try one.run("INSERT INTO player VALUES (1)")
        try await fleet.settle()
        let away = try fleet.replicas[2].read { try RepositoryState($0).author }
        try fleet.replicas[2].run("INSERT INTO player VALUES (3)")
        try one.withoutForeignKeys { try one.run("INSERT INTO log VALUES (1, 5, 1)") }
        try fleet.replicas[1].run("INSERT INTO player VALUES (2)")
        try await fleet.settle([0, 1])
        try await fleet.managers[0].retire(away)
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await fleet.managers[2].rejoin()
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.replicas[2].strings("SELECT * FROM log") == ["1,5,1"])
    }
}
