import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import FormerSimulation
import Testing

@testable import ChangesetSync

@Suite("Merging")
struct MergeTests {
    private func sibling(of other: Replica, _ schema: String = Replica.players, _ tables: [String] = ["player"]) throws
        -> Replica
    {
        let replica = try Replica(schema, tracking: tables, key: other.key())
        try replica.fetch(other)
        try replica.repository.pull()
        return replica
    }

    /// Each takes what the other has, merges, and pulls.
    private func exchange(_ one: Replica, _ other: Replica) throws {
        try one.fetch(other)
        try other.fetch(one)
        for replica in [one, other] {
            try replica.repository.mergeAll()
            try replica.repository.pull()
        }
        try one.fetch(other)
        try other.fetch(one)
    }

    private func expectEqual(_ one: Replica, _ other: Replica, _ comment: Comment = "") throws {
        #expect(try one.head == other.head, comment)
        #expect(try one.state() == other.state(), comment)
        #expect(try one.repository.verify().isEmpty && other.repository.verify().isEmpty, comment)
        #expect(try one.queue.read { try $0.foreignKeyViolations().next() == nil }, comment)
    }

    @Test("a head that a better merge has replaced is gone back from, and then forward")
    func replacedMerge() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cleo', 3)")
        let (two, three) = try (sibling(of: one), sibling(of: one))
        try one.run("UPDATE player SET score = 10 WHERE id = 1")
        try two.run("UPDATE player SET score = 20 WHERE id = 2")
        try three.run("UPDATE player SET score = 30 WHERE id = 3")
        // One merges with two, and two with three; then both see everything.
        try one.fetch(two)
        try one.repository.mergeAll()
        try one.repository.pull()
        try two.fetch(three)
        try two.repository.mergeAll()
        try two.repository.pull()
        for _ in 0..<2 {
            try one.fetch(two)
            try two.fetch(one)
            for replica in [one, two] {
                try replica.repository.mergeAll()
                try replica.repository.pull()
            }
        }
        #expect(try one.head == two.head)
        #expect(try one.state() == two.state())
        #expect(try one.strings("SELECT score FROM player ORDER BY id") == ["10", "20", "30"])
        #expect(try one.repository.verify().isEmpty && two.repository.verify().isEmpty)
    }

    @Test("cells that different sides have changed are all taken")
    func cells() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try sibling(of: one)
        try one.run("UPDATE player SET name = 'Anna' WHERE id = 1; DELETE FROM player WHERE id = 2")
        try two.run("UPDATE player SET score = 5 WHERE id = 1; INSERT INTO player VALUES (3, 'Cleo', 3)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player ORDER BY id") == ["1,'Anna',5", "3,'Cleo',3"])
        #expect(try one.repository.conflicts().isEmpty)
    }

    /// Of an earlier design: replicas had the same head, and each kept its own value.
    @Test(
        "defect 1: equal heads have equal rows, after concurrent updates of a cell and after an update against a deletion"
    )
    func sameHeadSameRows() throws {
        let clocks = [TestClock(seconds: 1000), TestClock(seconds: 2000)]
        let one = try Replica(clock: clocks[0])
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try Replica(key: one.key(), clock: clocks[1])
        try two.fetch(one)
        try two.repository.pull()
        try one.run("UPDATE player SET score = 10 WHERE id = 1; UPDATE player SET score = 11 WHERE id = 2")
        try two.run("UPDATE player SET score = 20 WHERE id = 1; DELETE FROM player WHERE id = 2")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT id, score FROM player ORDER BY id") == ["1,20", "2,11"])
        let conflicts = try one.repository.conflicts()
        #expect(Set(conflicts.map(\.reason)) == [.cell, .deletedAndChanged])
        let cell = conflicts.first { $0.reason == .cell }
        #expect(cell?.column == "score" && cell?.key == [1.databaseValue] && cell?.chosen == [20.databaseValue])
        #expect(cell?.base == [1.databaseValue])
    }

    /// Of an earlier design: each side merged the other's merge, for ever: 3, 5, 7, 9, ... changesets.
    @Test("defect 3: merges come to an end when both sides merge at the same time")
    func quiescence() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        try one.run("UPDATE player SET score = 2")
        try two.run("UPDATE player SET name = 'B'")
        for _ in 0..<5 { try exchange(one, two) }
        try expectEqual(one, two)
        #expect(try one.commitCount == 4 && two.commitCount == 4)
    }

    // MARK: What users of other engines lose

    @Test("loss 1: a row that is deleted and inserted again concurrently with a change is there")
    func deletedAndInserted() throws {
        let one = try Replica(clock: TestClock(seconds: 1000))
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try Replica(key: one.key(), clock: TestClock(seconds: 2000))
        try two.fetch(one)
        try two.repository.pull()
        try one.run("DELETE FROM player")
        try one.run("INSERT INTO player VALUES (1, 'Anew', 1)")
        try two.run("UPDATE player SET score = 5")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player") == ["1,'Anew',5"])
    }

    @Test("loss 2: a child whose parent is deleted concurrently brings it back, or follows ON DELETE")
    func references() throws {
        let schema = """
            CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, v);
            CREATE TABLE strict (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id));
            CREATE TABLE cascading (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE CASCADE);
            CREATE TABLE nulling (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE SET NULL);
            """
        let names = ["p", "strict", "cascading", "nulling"]
        let one = try Replica(schema, tracking: names)
        try one.run("INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        let two = try sibling(of: one, schema, names)
        try one.run("DELETE FROM p")
        try two.run(
            "INSERT INTO strict VALUES (1, 1); INSERT INTO cascading VALUES (1, 2); INSERT INTO nulling VALUES (1, 3)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM p") == ["1,'a'"])
        #expect(try one.strings("SELECT * FROM strict") == ["1,1"])
        #expect(try one.strings("SELECT * FROM cascading").isEmpty)
        #expect(try one.strings("SELECT * FROM nulling") == ["1,NULL"])
    }

    @Test("loss 3: an update after a concurrent deletion keeps the row; a deletion that knows of the update removes it")
    func updateAgainstDeletion() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try sibling(of: one)
        try one.run("DELETE FROM player")
        try two.run("UPDATE player SET score = 5 WHERE id = 1")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player") == ["1,'Ann',5"])
        try two.run("DELETE FROM player")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player").isEmpty)
    }

    @Test("loss 4: a deletion against a new column with a default; each store migrates when it likes")
    func deletionAgainstNewColumn() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try sibling(of: one)
        let migration = "ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'"
        try one.queue.write { try $0.execute(sql: migration) }
        try one.run("UPDATE player SET team = 'red' WHERE id = 1")
        try two.run("DELETE FROM player WHERE id = 2; UPDATE player SET score = 9 WHERE id = 1")
        try two.fetch(one)
        #expect(code { try two.repository.mergeAll() } == .schemaAhead)
        try two.queue.write { try $0.execute(sql: migration) }
        try exchange(one, two)
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player") == ["1,'Ann',9,'red'"])
    }

    @Test("loss 8: a clock in the future wins over what it has not seen, and over nothing that is written after it")
    func futureClock() throws {
        let one = try Replica(clock: TestClock(seconds: 1000))
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try Replica(key: one.key(), clock: TestClock(seconds: 60_000_000_000))
        try two.fetch(one)
        try two.repository.pull()
        try two.run("UPDATE player SET score = 2")
        try exchange(one, two)
        try one.run("UPDATE player SET score = 3")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT score FROM player") == ["3"])
    }

    /// Neither of two common ancestors is under the other one, so one of them is not under the base: what it inserted
    /// looks like work of both sides.
    @Test("a deletion that knows of a row is not undone where merges have crossed")
    func crossedMerges() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        try one.run("INSERT INTO player VALUES (5, 'by one', 1)")
        try two.run("INSERT INTO player VALUES (6, 'by two', 1)")
        let (first, second) = try (#require(try one.head), #require(try two.head))
        try one.fetch(two)
        try two.fetch(one)
        try two.run("UPDATE player SET score = 3 WHERE id = 1")
        for replica in [one, two] {
            try replica.repository.mergeAll()
            try replica.repository.pull()
        }
        #expect(first != second)
        try one.run("UPDATE player SET name = 'Anna' WHERE id = 1")
        try two.run("DELETE FROM player WHERE id > 1")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM player ORDER BY id") == ["1,'Anna',3"])
        #expect(try one.repository.conflicts().isEmpty)
    }

    /// Which of two common ancestors is the base, and which side comes first, depends on identifiers, so there are several.
    @Test("a write that knows of another one wins, where merges have crossed", arguments: 0..<24)
    func crossedWrites(index: Int) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        try one.run("INSERT INTO player VALUES (5, 'by one', 1)")
        try two.run("UPDATE player SET score = 2 WHERE id = 1")
        try one.fetch(two)
        try two.fetch(one)
        try two.run("UPDATE player SET score = 3 WHERE id = 1")
        for replica in [one, two] {
            try replica.repository.mergeAll()
            try replica.repository.pull()
        }
        try one.run("INSERT INTO player VALUES (6, 'later', 1)")
        try two.run("INSERT INTO player VALUES (7, 'later', 1)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT score FROM player WHERE id = 1") == ["3"])
        #expect(try one.repository.conflicts().isEmpty)
    }

    @Test("a merge has the time of its later head, and whoever fetches it finds so")
    func times() throws {
        let one = try Replica(clock: TestClock(seconds: 1000))
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        try one.run("UPDATE player SET score = 2")
        try two.run("UPDATE player SET name = 'B'")
        try exchange(one, two)
        let times = try one.read { db in
            try Row.fetchAll(
                db,
                sql: """
                    SELECT c.time, max(p.time, q.time) FROM cipherstore_sync_commit AS c
                    JOIN cipherstore_sync_commit AS p ON p.n = c.parent1
                    JOIN cipherstore_sync_commit AS q ON q.n = c.parent2
                    """
            ).map { [$0[0] as Int64, $0[1] as Int64] }
        }
        #expect(times.count == 1 && times.allSatisfy { $0[0] == $0[1] })
    }

    // MARK: Constraints

    @Test("of two rows with the same unique value the older one keeps it; the other gets its former one back, or goes")
    func uniqueValues() throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, u TEXT UNIQUE COLLATE NOCASE)"
        let one = try Replica(schema, tracking: ["t"], clock: TestClock(seconds: 1000))
        try one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
        let two = try Replica(schema, tracking: ["t"], key: one.key(), clock: TestClock(seconds: 2000))
        try two.fetch(one)
        try two.repository.pull()
        try one.run("UPDATE t SET u = 'x' WHERE id = 1; INSERT INTO t VALUES (3, 'y')")
        try two.run("UPDATE t SET u = 'X' WHERE id = 2; INSERT INTO t VALUES (4, 'Y')")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM t ORDER BY id") == ["1,'x'", "2,'b'", "3,'y'"])
        #expect(try one.repository.conflicts().map(\.reason) == [.unique, .unique])
    }

    @Test("a mixed row that no constraint admits is one side's row as a whole")
    func mixedRows() throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, low INT, high INT, CHECK (low <= high))"
        let one = try Replica(schema, tracking: ["t"], clock: TestClock(seconds: 1000))
        try one.run("INSERT INTO t VALUES (1, 1, 10)")
        let two = try Replica(schema, tracking: ["t"], key: one.key(), clock: TestClock(seconds: 2000))
        try two.fetch(one)
        try two.repository.pull()
        try one.run("UPDATE t SET low = 8")
        try two.run("UPDATE t SET high = 3")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT * FROM t") == ["1,1,3"])
        #expect(try one.repository.conflicts().map(\.reason) == [.constraint])
    }

    @Test("rows that a partial index or one of an expression forbids side by side: one of them keeps its values")
    func indexedValues() throws {
        let schema = """
            CREATE TABLE seat (id INTEGER PRIMARY KEY NOT NULL, name TEXT, active INTEGER);
            CREATE UNIQUE INDEX active ON seat (active) WHERE active = 1;
            CREATE UNIQUE INDEX name ON seat (lower(name));
            """
        let one = try Replica(schema, tracking: ["seat"])
        try one.run("INSERT INTO seat VALUES (1, 'Ann', 0), (2, 'Ben', 0)")
        let two = try sibling(of: one, schema, ["seat"])
        try one.run("UPDATE seat SET active = 1 WHERE id = 1; INSERT INTO seat VALUES (3, 'Cleo', 0)")
        try two.run("UPDATE seat SET active = 1 WHERE id = 2; INSERT INTO seat VALUES (4, 'CLEO', 0)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT count(*), sum(active) FROM seat") == ["3,1"])
        #expect(try one.strings("SELECT lower(name) FROM seat ORDER BY 1") == ["'ann'", "'ben'", "'cleo'"])
        let reasons = try one.repository.conflicts().map(\.reason)
        #expect(reasons == [.unique, .unique])
    }

    @Test("a row whose parent was deleted gets the default of its column; without a parent for that it is removed")
    func defaults() throws {
        let schema = """
            CREATE TABLE team (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE member (id INTEGER PRIMARY KEY NOT NULL,
                team INTEGER DEFAULT 1 REFERENCES team(id) ON DELETE SET DEFAULT);
            """
        let one = try Replica(schema, tracking: ["member", "team"])
        try one.run("INSERT INTO team VALUES (1), (2), (3)")
        let two = try sibling(of: one, schema, ["member", "team"])
        try one.run("DELETE FROM team WHERE id = 2")
        try two.run("INSERT INTO member VALUES (1, 2)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT id, team FROM member") == ["1,1"])
        try one.run("DELETE FROM member; DELETE FROM team WHERE id <> 3")
        try exchange(one, two)
        try one.run("DELETE FROM team")
        try two.run("INSERT INTO member VALUES (2, 3)")
        try exchange(one, two)
        try expectEqual(one, two)
        #expect(try one.strings("SELECT id FROM member").isEmpty)
    }
}
