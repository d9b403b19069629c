import CipherDatabase
import CipherRecords
import Testing

@testable import ChangesetSync

@Suite("Pulling")
struct PullTests {
    /// A replica of the same repository.
    private func sibling(of other: Replica, _ schema: String = Replica.players, _ tables: [String] = ["player"]) throws
        -> Replica
    {
        try Replica(schema, tracking: tables, key: other.key())
    }

    @Test("the rows become those of the other store, and the head its head; a second pull has nothing to do")
    func pull() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        try one.run("UPDATE player SET score = 7 WHERE id = 1; DELETE FROM player WHERE id = 2")
        let two = try sibling(of: one)
        #expect(try two.repository.pull() == nil)
        try two.fetch(one)
        let pulled = try two.repository.pull()
        #expect(try pulled?.uuid == one.head?.description)
        #expect(try two.state() == one.state())
        #expect(try two.head == one.head)
        #expect(try two.repository.pull() == nil)
        #expect(try two.repository.verify().isEmpty)
    }

    /// Of an earlier design: changes were taken in an order in which an UPDATE came before its INSERT, and was skipped.
    @Test("defect 2: a long way is one net change, so no change comes before the row that it is of")
    func order() throws {
        let one = try Replica()
        for index in 0..<50 {
            try one.run("INSERT INTO player VALUES (\(index), 'p', 0)")
            try one.run("UPDATE player SET score = score + 1; DELETE FROM player WHERE id = \(index - 3)")
        }
        let two = try sibling(of: one)
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
    }

    /// Of an earlier design: each commit of a pull walked all commits before it.
    @Test("defect 8: a pull reads each commit once")
    func linearPull() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'p', 0)")
        for _ in 0..<200 { try one.run("UPDATE player SET score = score + 1") }
        var reads = 0
        try one.queue.write { db in
            let transaction = try RepositoryTransaction(db)
            let graph = CommitGraph(reading: { n in
                reads += 1
                return try transaction.store.node(n)
            })
            let last = try #require(try transaction.head())
            let steps = try #require(try graph.path(from: nil, to: last.n))
            #expect(steps.count == 201)
        }
        #expect(reads <= 201)
    }

    /// On the way from what both had before it was where the rows of this store were not, and stayed there until it had the
    /// column.
    @Test("a pull that goes back over a merge never stops where the rows of this store are not", arguments: 0..<8)
    func backOverMerge(index: Int) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let (two, three) = (try sibling(of: one), try sibling(of: one))
        for replica in [two, three] {
            try replica.fetch(one)
            try replica.repository.pull()
        }
        try one.run("INSERT INTO player VALUES (2, 'one', \(index))")
        try two.run("INSERT INTO player VALUES (3, 'two', 2)")
        try three.run("INSERT INTO player VALUES (4, 'three', 3)")
        // One merges with the second store, and that with the third, which then has another column.
        try one.fetch(two)
        try two.fetch(three)
        for replica in [one, two] {
            try replica.repository.mergeAll()
            try replica.repository.pull()
        }
        try two.write("ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'")
        try two.run("INSERT INTO player VALUES (5, 'five', 5, 'red')")
        try two.fetch(one, atMost: 1)
        #expect(try two.repository.mergeAll().count == 1)
        let former = try one.state()
        try one.fetch(two)
        #expect(code { try one.repository.pull() } == .schemaAhead)
        #expect(try one.strings("SELECT name FROM player WHERE id = 2") == ["'one'"])
        for (key, row) in former["player"] ?? [:] { #expect(try one.state()["player"]?[key] == row) }
        try one.write("ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'")
        try one.repository.pull()
        #expect(try one.strings("SELECT id FROM player ORDER BY id") == ["1", "2", "3", "4", "5"])
        #expect(try one.repository.verify().isEmpty)
    }

    /// Of an earlier design: tables without a primary key were never synced, and nobody was told.
    @Test("defect 6: a table without a primary key is refused when it is named")
    func noPrimaryKey() throws {
        #expect(code { try Replica("CREATE TABLE t (a)", tracking: ["t"]) } == .noPrimaryKey)
    }

    /// Of an earlier design: a receiver without a column advanced its head and dropped the rows.
    @Test(
        "defect 7: a receiver that lacks a column stops before the commit that has it, and goes on when it has the column"
    )
    func missingColumn() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let before = try one.head
        let two = try sibling(of: one)
        try one.queue.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'") }
        try one.run("INSERT INTO player VALUES (2, 'Ben', 2, 'red')")
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .schemaAhead)
        #expect(try two.head == before)
        #expect(try two.strings("SELECT id FROM player") == ["1"])
        try two.queue.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'") }
        try two.repository.pull()
        #expect(try two.state() == one.state())
        #expect(try two.head == one.head)
        #expect(try two.repository.verify().isEmpty)
        // A store that has the column from the beginning takes the older commits with its default.
        let three = try sibling(
            of: one,
            "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER, team TEXT DEFAULT 'none')")
        try three.fetch(one)
        try three.repository.pull()
        #expect(try three.state() == one.state())
    }

    @Test("a row that is not what the commits say stops a pull, and nothing is changed")
    func diverged() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try sibling(of: one)
        try two.fetch(one)
        try two.repository.pull()
        try one.run("UPDATE player SET score = 5; INSERT INTO player VALUES (3, 'Cleo', 3)")
        try two.fetch(one)
        // As a program without this library writes: the history knows nothing of it.
        try two.queue.write { db in
            try db.execute(sql: "PRAGMA writable_schema = 0")
            let triggers = try String.fetchAll(
                db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'player'")
            try db.changingHistory { for name in triggers { try db.execute(sql: "DROP TRIGGER \(name)") } }
            try db.execute(sql: "UPDATE player SET score = 99 WHERE id = 2")
        }
        let (head, state) = try (two.head, two.state())
        let found = code { try two.repository.pull() }
        #expect(found == .workingStateDiverged || found == .foreignWrites)
        #expect(try two.head == head && two.state() == state)
        #expect(try two.repository.verify() == ["player"])
        try two.repository.reset()
        #expect(try two.head == nil && two.commitCount == 0)
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
    }

    @Test("a row with any other value is neither deleted nor updated by a delta")
    func otherValues() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let update = try one.delta(#require(try one.run("UPDATE player SET score = 2")))
        let deletion = try one.delta(#require(try one.run("DELETE FROM player")))
        for (delta, values) in [(update, "'Ann', 9"), (deletion, "'Anna', 2")] {
            let two = try sibling(of: one)
            try two.write("INSERT INTO player VALUES (1, \(values))")
            let state = try two.state()
            let found = code {
                try two.repository.applying(takesForeignWrites: true) { try Pull.applyDelta(delta, in: &$0) }
            }
            #expect(try found == .workingStateDiverged && two.state() == state, "\(values)")
        }
    }

    @Test("a commit whose digest is not that of the rows stops a pull, and nothing is changed")
    func wrongDigest() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        try two.fetch(one)
        try two.repository.pull()
        let id = try #require(try one.run("UPDATE player SET score = 2"))
        let (head, state) = try (two.head, two.state())
        try two.queue.write { db in
            var commit = try one.read { db in
                let store = CommitStore(db: db)
                return try store.commit(store.requireNode(id).n)
            }
            commit.digests = [try #require(TableDigest(table: "player", bytes: Array(repeating: 7, count: 16)))]
            let canonical = try commit.encoded()
            let forged = try commit.id(key: RepositoryState.key(db))
            _ = try CommitStore(db: db).insert(commit, id: forged, canonical: canonical)
        }
        #expect(code { try two.repository.pull() } == .digestMismatch)
        #expect(try two.head == head && two.state() == state)
    }

    @Test("neither triggers nor foreign keys of the receiver act on what is pulled, and its own writes fire them again")
    func triggers() throws {
        let schema = """
            CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER);
            CREATE TABLE log (n INTEGER PRIMARY KEY NOT NULL, player REFERENCES player(id) ON DELETE CASCADE);
            CREATE TRIGGER logs AFTER INSERT ON player BEGIN INSERT INTO log (player) VALUES (NEW.id); END
            """
        let one = try Replica(schema, tracking: ["player", "log"])
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 1)")
        try one.run("DELETE FROM player WHERE id = 1")
        let two = try sibling(of: one, schema, ["player", "log"])
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
        try two.run("INSERT INTO player VALUES (3, 'Cleo', 1)")
        #expect(try two.strings("SELECT player FROM log ORDER BY n") == ["2", "3"])
        #expect(throws: DatabaseError.self) { try two.run("INSERT INTO log VALUES (9, 77)") }
    }

    /// Of an earlier design: a conflict of foreign keys was answered by OMIT, which commits orphans.
    @Test("defect 5: a row that would refer to nothing stops a pull; nothing is left out or half applied")
    func orphans() throws {
        let schema = """
            CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE log (n INTEGER PRIMARY KEY NOT NULL, player REFERENCES player(id));
            """
        let one = try Replica(schema, tracking: ["player", "log"])
        try one.run("INSERT INTO player VALUES (1)")
        let two = try sibling(of: one, schema, ["player", "log"])
        try two.fetch(one)
        try two.repository.pull()
        // As a program that does not enforce foreign keys commits.
        try one.queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF") }
        try one.run("INSERT INTO log VALUES (1, 5), (2, 1)")
        try two.fetch(one)
        let head = try two.head
        #expect(code { try two.repository.pull() } == .foreignKeyViolation)
        #expect(try two.head == head && two.strings("SELECT * FROM log").isEmpty)
        try one.run("INSERT INTO player VALUES (5)")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state())
    }

    @Test("a deletion of a row to which another one still refers stops a pull")
    func deletedParent() throws {
        let schema = """
            CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE log (n INTEGER PRIMARY KEY NOT NULL, player REFERENCES player(id));
            """
        let one = try Replica(schema, tracking: ["player", "log"])
        try one.run("INSERT INTO player VALUES (1), (2); INSERT INTO log VALUES (1, 1)")
        let two = try sibling(of: one, schema, ["player", "log"])
        try two.fetch(one)
        try two.repository.pull()
        try one.queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF") }
        try one.run("DELETE FROM player")
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .foreignKeyViolation)
        #expect(try two.strings("SELECT count(*) FROM player") == ["2"])
    }

    @Test("rows that exchange unique values are updated all the same")
    func exchangedValues() throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, u TEXT UNIQUE ON CONFLICT REPLACE, v)"
        let one = try Replica(schema, tracking: ["t"])
        try one.run("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
        let two = try sibling(of: one, schema, ["t"])
        try two.fetch(one)
        try two.repository.pull()
        try one.run(
            "UPDATE t SET u = 'x' WHERE id = 1; UPDATE t SET u = 'a' WHERE id = 2; UPDATE t SET u = 'b' WHERE id = 3; "
                + "UPDATE t SET u = 'c' WHERE id = 1")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.strings("SELECT * FROM t ORDER BY id") == ["1,'c',1", "2,'a',2", "3,'b',3"])
        #expect(try two.repository.verify().isEmpty)
    }

    @Test("what is pulled is in the change history and reaches observers, as any other write")
    func history() throws {
        let one = try Replica()
        let two = try sibling(of: one)
        let number = try two.queue.read { try $0.lastHistoryNumber() }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        try one.run("UPDATE player SET score = 3 WHERE id = 1")
        try two.fetch(one)
        try two.repository.pull()
        let entries = try two.queue.read { try $0.historyEntries(after: number, limit: 10) }
        #expect(entries.map(\.operation) == [.inserted, .inserted])
        #expect(entries.map(\.key) == [[1.databaseValue], [2.databaseValue]])
        try one.run("DELETE FROM player WHERE id = 1; UPDATE player SET score = 4")
        try two.fetch(one)
        try two.repository.pull()
        let later = try two.queue.read { try $0.historyEntries(after: number + 2, limit: 10) }
        #expect(later.map(\.operation) == [.deleted, .updated])
        // None of it is a write outside of commits.
        try two.run("UPDATE player SET score = 5")
        #expect(try two.repository.verify().isEmpty)
    }

    @Test("a revert is a commit that undoes another one; where later work depends on it, it is refused")
    func revert() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let update = try #require(try one.run("UPDATE player SET score = 5 WHERE id = 1"))
        try one.run("UPDATE player SET score = 6 WHERE id = 2")
        let reverted = try one.repository.revert(update, meta: "undo")
        #expect(reverted?.meta == "undo")
        #expect(try one.strings("SELECT score FROM player ORDER BY id") == ["1", "6"])
        #expect(code { try one.repository.revert(update) } == .changedLater)
        #expect(code { try one.repository.revert(Samples.id(5)) } == .unknownCommit)
        #expect(try one.commitCount == 4)
    }

    /// One of the sides was undone, and which one was chance.
    @Test("a merge is reverted only with a word which of its parents stays", arguments: [0, 1])
    func revertOfMerge(kept: Int) throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let sides = [try #require(try one.head)]
        try two.run("INSERT INTO player VALUES (2, 'Ben', 2)")
        let all = sides + [try #require(try two.head)]
        try one.fetch(two)
        let merges = try one.repository.mergeAll()
        try one.repository.pull()
        let merge = try #require(try one.head)
        #expect(merges.count == 1 && code { try one.repository.revert(merge) } == .isMerge)
        #expect(code { try one.repository.revert(merge, keeping: merge) } == .unknownCommit)
        #expect(try one.strings("SELECT id FROM player ORDER BY id") == ["1", "2"])
        try one.repository.revert(merge, keeping: all[kept])
        #expect(try one.strings("SELECT id FROM player") == ["\(kept + 1)"])
        #expect(try one.repository.verify().isEmpty)
    }

    @Test("what stands against a revert is said: a row that refers to it, and a unique value that was taken")
    func revertRefused() throws {
        let one = try Replica(
            """
            CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE);
            CREATE TABLE c (id INTEGER PRIMARY KEY NOT NULL, p INTEGER REFERENCES p)
            """, tracking: ["p", "c"])
        let parent = try #require(try one.run("INSERT INTO p VALUES (1, 'one')"))
        try one.run("INSERT INTO c VALUES (1, 1)")
        func detail(_ id: CommitID) -> String? {
            do {
                try one.repository.revert(id)
                return nil
            } catch {
                return (error as? SyncError).flatMap { $0.code == .changedLater ? $0.detail : "\($0)" } ?? "\(error)"
            }
        }
        #expect(detail(parent)?.contains("refer to one that does not exist") == true)
        let renamed = try #require(try one.run("UPDATE p SET name = 'two'"))
        try one.run("INSERT INTO p VALUES (2, 'one')")
        #expect(detail(renamed)?.contains("belongs to another row now") == true)
        try one.run("UPDATE p SET name = 'three' WHERE id = 1")
        #expect(detail(renamed)?.contains("was changed again") == true)
    }

    /// It stopped at the first part for ever.
    @Test("rows that break a constraint of this store and were repaired later are taken with the repair")
    func constraintRepairedLater() throws {
        let schema = "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL, v INT)"
        let one = try Replica(schema, tracking: ["t"])
        let two = try sibling(of: one, schema.replacing("v INT", with: "v INT CHECK (v < 9) UNIQUE"), ["t"])
        for start in 1...3 {
            try one.run(
                """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Limits.pulledRows))
                INSERT INTO t SELECT \(start * Limits.pulledRows) + i, CASE i WHEN 1 THEN 10 END FROM n
                """)
        }
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .constraintViolation)
        #expect(try two.strings("SELECT count(*) FROM t") == ["0"])
        try one.run("UPDATE t SET v = NULL")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.head == one.head)
    }

    @Test("what a later commit repairs is taken with it, though a transaction ends before it as a rule")
    func repairedLater() throws {
        let schema = """
            CREATE TABLE parent (id INTEGER PRIMARY KEY NOT NULL);
            CREATE TABLE child (id INTEGER PRIMARY KEY NOT NULL, parent REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
            """
        let one = try Replica(schema, tracking: ["parent", "child"])
        try one.run("INSERT INTO parent VALUES (1)")
        let two = try sibling(of: one, schema, ["parent", "child"])
        try two.fetch(one)
        try two.repository.pull()
        try one.queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA foreign_keys = OFF") }
        for start in 0..<2 {
            try one.run(
                """
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Limits.pulledRows))
                INSERT INTO child SELECT \(start * Limits.pulledRows) + i, 9 FROM n
                """)
        }
        try two.fetch(one)
        #expect(code { try two.repository.pull() } == .foreignKeyViolation)
        #expect(try two.strings("SELECT count(*) FROM child") == ["0"])
        try one.run("INSERT INTO parent VALUES (9)")
        try one.run("INSERT INTO parent VALUES (10)")
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.head == one.head)
        #expect(try two.repository.verify().isEmpty)
    }

    @Test("loss 10: a long way is gone in several transactions, so that other writers come between them")
    func severalTransactions() throws {
        let one = try Replica()
        let two = try sibling(of: one)
        try one.run(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Limits.pulledRows))
            INSERT INTO player SELECT i, 'p', i FROM n
            """)
        let middle = try #require(try one.head)
        try one.run("DELETE FROM player WHERE id < 3")
        try one.run("DELETE FROM player WHERE id < 9")
        try two.fetch(one)
        var progress = PullProgress()
        let first = try two.repository.applying { try two.repository.pullSlice(&$0, &progress) }
        #expect(try first?.uuid == middle.description && two.head == middle)
        // Another writer commits before the rest is taken.
        try two.run("INSERT INTO player VALUES (-1, 'own', 0)")
        #expect(try two.repository.pull() == nil)
        #expect(try two.repository.mergeAndPull() != nil)
        #expect(try two.strings("SELECT count(*), min(id) FROM player") == ["\(Limits.pulledRows - 7),-1"])
        #expect(try two.repository.verify().isEmpty)
    }
}
