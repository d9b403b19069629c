import CipherDatabase
import CipherRecords
import Foundation
import FormerSimulation
import Testing

@testable import ChangesetSync

@Suite("Commits of a repository")
struct CommitFlowTests {
    @Test("a commit returns the value of its block, moves the head and is a record with the names that programs use")
    func commit() throws {
        let replica = try Replica()
        #expect(try replica.head == nil)
        let id = try replica.repository.commit(meta: "{\"by\":\"Ω\"}") { db in
            try db.execute(sql: "INSERT INTO player (name, score) VALUES ('Ann', 1)")
            return db.lastInsertedRowID
        }
        #expect(id == 1)
        let first = try #require(try replica.head)
        try replica.run("UPDATE player SET score = 2")
        let changesets = try replica.queue.read { try Changeset.order(Column("n")).fetchAll($0) }
        #expect(changesets.map(\.parent_uuid) == [nil, first.description])
        #expect(changesets.map(\.meta) == ["{\"by\":\"Ω\"}", "{}"])
        #expect(changesets.allSatisfy { !$0.pushed && $0.merge_uuid == nil && $0.merge_changeset == nil })
        let delta = try Delta(encoded: Array(changesets[1].parent_changeset)[...])
        #expect(delta == (try replica.delta(#require(CommitID(changesets[1].uuid)))))
        #expect(try replica.repository.log().map(\.uuid) == changesets.reversed().map(\.uuid))
    }

    @Test("nothing changed is no commit, and neither is a change of other tables")
    func nothingChanged() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let head = try replica.head
        try replica.run("UPDATE player SET score = 1; UPDATE player SET score = 5; UPDATE player SET score = 1")
        try replica.repository.commit { try $0.execute(sql: "CREATE TABLE other (a); INSERT INTO other VALUES (1)") }
        #expect(try replica.head == head)
        #expect(try replica.strings("SELECT a FROM other") == ["1"])
    }

    @Test("a commit inside another one is a part of it; an error undoes the inner one alone")
    func nested() throws {
        let replica = try Replica()
        struct Failure: Error {}
        try replica.repository.commit(meta: "outer") { db in
            try db.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)")
            try replica.repository.commit(meta: "inner") {
                try $0.execute(sql: "INSERT INTO player VALUES (2, 'B', 1)")
            }
            #expect(throws: Failure.self) {
                try replica.repository.commit { db in
                    try db.execute(sql: "DELETE FROM player")
                    throw Failure()
                }
            }
        }
        #expect(try replica.commitCount == 1)
        #expect(try replica.strings("SELECT id FROM player ORDER BY id") == ["1", "2"])
        #expect(try replica.repository.log().map(\.meta) == ["outer"])
        #expect(try replica.repository.verify().isEmpty)
    }

    /// The triggers of the capture were taken for those that a rollback had removed, because the number of the temporary
    /// schema was the same again.
    @Test("an error undoes the commit, and the next one is exact all the same")
    func rollback() throws {
        let replica = try Replica()
        struct Failure: Error {}
        try replica.queue.write { try $0.execute(sql: "CREATE TABLE other (a)") }
        var version: Int32 = 0
        #expect(throws: Failure.self) {
            try replica.repository.commit { db in
                try db.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)")
                version = try Int32.fetchOne(db, sql: "PRAGMA temp.schema_version") ?? 0
                throw Failure()
            }
        }
        #expect(try replica.commitCount == 0)
        try replica.queue.write { db in
            var count = 0
            while try Int32.fetchOne(db, sql: "PRAGMA temp.schema_version") != version, count < 100 {
                count += 1
                try db.execute(sql: "CREATE TEMP TABLE mine\(count) (a)")
            }
        }
        try replica.run("INSERT INTO player VALUES (2, 'Ben', 1)")
        #expect(try replica.commitCount == 1)
        #expect(try replica.repository.verify().isEmpty)
    }

    @Test("what cannot be tracked is refused with its reason, and nothing is changed")
    func refused() throws {
        let queue = DatabaseQueue()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE keyless (a);
                    CREATE TABLE nulls (a TEXT PRIMARY KEY, b);
                    INSERT INTO nulls VALUES (NULL, 1);
                    CREATE TABLE fine (a TEXT PRIMARY KEY NOT NULL);
                    CREATE VIEW shown AS SELECT * FROM fine;
                    CREATE VIRTUAL TABLE words USING fts5(text);
                    """)
        }
        let repository = ChangesetRepository(queue)
        #expect(code { try repository.commit { _ in } } == .notEnabled)
        try repository.migrate()
        #expect(code { try repository.pull() } == .notEnabled)
        #expect(code { try repository.enable(["keyless"]) } == .noPrimaryKey)
        #expect(code { try repository.enable(["fine", "nulls"]) } == .nullKey)
        for name in ["shown", "words", "words_data", "sqlite_schema", "cipherstore_sync_commit", "absent", ""] {
            #expect(code { try repository.enable([name]) } == .unsuitableTable, "\(name)")
        }
        try queue.write {
            try $0.execute(sql: "CREATE TEMP TRIGGER mine AFTER INSERT ON main.fine BEGIN SELECT 1; END")
        }
        #expect(code { try repository.enable(["fine"]) } == .applicationTemporaryTrigger)
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM cipherstore_sync_table") } == 0)
        try queue.write { try $0.execute(sql: "DROP TRIGGER mine") }
        try repository.enable(["fine"])
        try repository.enable(["FINE"])
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM cipherstore_sync_table") } == 1)
    }

    private static let playersAndTeams =
        Replica.players + "; CREATE TABLE team (id INTEGER PRIMARY KEY NOT NULL, name TEXT)"

    /// They counted as committed: the commit of the other table's rows took up the history up to then.
    @Test("writes outside of commits stay so when another table is tracked")
    func writesBeforeTracking() throws {
        let one = try Replica(Self.playersAndTeams)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try one.write("UPDATE player SET score = 5; INSERT INTO team VALUES (1, 'red')")
        #expect(code { try one.repository.enable(["team"]) } == .foreignWrites)
        try one.repository.enable(["player"])
        #expect(try one.repository.commitForeignWrites() != nil)
        try one.repository.enable(["team"])
        #expect(try one.repository.verify().isEmpty)
        let two = try Replica(Self.playersAndTeams, tracking: ["player", "team"], key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.strings("SELECT score FROM player") == ["5"])
        #expect(try two.state() == one.state())
    }

    /// The digest of the altered table stayed that of its former columns, so that others refused the next commit.
    @Test("a table that has another column is right when another table is tracked", arguments: [false, true])
    func alteredBeforeTracking(hasRows: Bool) throws {
        let alteration = "ALTER TABLE player ADD COLUMN rank INTEGER DEFAULT 3"
        let one = try Replica(Self.playersAndTeams)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try one.write(alteration)
        if hasRows { try one.write("INSERT INTO team VALUES (1, 'red')") }
        try one.repository.enable(["team"])
        #expect(try one.repository.verify().isEmpty)
        try one.run("INSERT INTO player VALUES (2, 'Ben', 2, 4)")
        let two = try Replica(Self.playersAndTeams, tracking: ["player", "team"], key: one.key())
        try two.write(alteration)
        try two.fetch(one)
        try two.repository.pull()
        #expect(try two.strings("SELECT id, rank FROM player") == ["1,3", "2,4"])
        #expect(try two.state() == one.state() && two.repository.verify().isEmpty)
    }

    @Test("a row without a key is refused by the commit that makes it")
    func nullKeys() throws {
        let replica = try Replica("CREATE TABLE t (a TEXT PRIMARY KEY, b)", tracking: ["t"])
        #expect(code { try replica.run("INSERT INTO t VALUES (NULL, 1)") } == .nullKey)
        // What did not last is no reason.
        try replica.repository.commit { db in
            try db.execute(sql: "SAVEPOINT s; INSERT INTO t VALUES (NULL, 1); ROLLBACK TO s; RELEASE s")
            try db.execute(sql: "INSERT INTO t VALUES ('a', 1)")
        }
        #expect(try replica.strings("SELECT * FROM t") == ["'a',1"])
    }

    @Test("a commit begins its own transaction, and refuses one of the program")
    func insideTransaction() throws {
        let replica = try Replica()
        try replica.queue.write { db in
            let found = code { try replica.repository.commit { _ in } }
            #expect(found == .insideTransaction)
        }
    }

    @Test("the definition of a tracked table does not change inside a commit; other objects may")
    func schemaChanges() throws {
        let replica = try Replica()
        #expect(code { try replica.run("ALTER TABLE player ADD COLUMN team") } == .schemaChangedInCommit)
        #expect(code { try replica.run("DROP TABLE player") } == .schemaChangedInCommit)
        try replica.run("CREATE TABLE other (a); INSERT INTO player VALUES (1, 'Ann', 1)")
        try replica.run("CREATE TRIGGER t AFTER INSERT ON other BEGIN UPDATE player SET score = NEW.a; END")
        try replica.run("INSERT INTO other VALUES (17)")
        #expect(try replica.commitCount == 2)
        #expect(try replica.repository.verify().isEmpty)
    }

    @Test("rows that are there when tracking begins are a commit")
    func existingRows() throws {
        let replica = try Replica(Replica.players + "; INSERT INTO player VALUES (1, 'Ann', 1)")
        #expect(try replica.commitCount == 1)
        let other = try Replica(key: replica.key())
        try other.fetch(replica)
        _ = try other.repository.pull()
        #expect(try other.state() == replica.state())
    }

    @Test("rows written outside of commits are noticed, by the next commit, pull and revert; undone ones are none")
    func foreignWrites() throws {
        let replica = try Replica()
        let id = try #require(try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)"))
        try replica.queue.write { try $0.execute(sql: "UPDATE player SET score = 2") }
        #expect(code { try replica.run("INSERT INTO player VALUES (2, 'Ben', 1)") } == .foreignWrites)
        #expect(code { try replica.repository.revert(id) } == .foreignWrites)
        try replica.queue.write { try $0.execute(sql: "UPDATE player SET score = 1") }
        try replica.run("INSERT INTO player VALUES (2, 'Ben', 1)")
        #expect(try replica.commitCount == 2)
        #expect(try replica.repository.verify().isEmpty)
    }

    @Test("rows written outside of commits are taken into one, and reach the others")
    func commitOfForeignWrites() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cleo', 3)")
        try replica.run("UPDATE player SET score = 9 WHERE id = 3")
        #expect(try replica.repository.commitForeignWrites() == nil)
        try replica.queue.write { db in
            try db.execute(sql: "UPDATE player SET score = 5 WHERE id = 1; DELETE FROM player WHERE id = 2")
            try db.execute(sql: "INSERT INTO player VALUES (4, 'Dan', 4)")
        }
        let commit = try #require(try replica.repository.commitForeignWrites(meta: "found"))
        #expect(commit.meta == "found")
        let changes = try replica.repository.changes(of: #require(CommitID(commit.uuid)))
        #expect(changes.map(\.kind) == [.deleted, .updated, .inserted])
        #expect(changes[1].key == ["id": 1.databaseValue] && changes[1].old == ["score": 1.databaseValue])
        #expect(changes[1].new == ["score": 5.databaseValue])
        #expect(try replica.repository.verify().isEmpty)
        let other = try Replica(key: replica.key())
        try other.fetch(replica)
        try other.repository.pull()
        #expect(try other.state() == replica.state())
        // A migration that fills a column is such a write too.
        try replica.queue.write { db in
            try db.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT; UPDATE player SET team = 'red' WHERE id = 1")
        }
        #expect(code { try replica.run("DELETE FROM player WHERE id = 4") } == .foreignWrites)
        try replica.repository.commitForeignWrites()
        try other.queue.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN team TEXT") }
        try other.fetch(replica)
        try other.repository.pull()
        #expect(try other.state() == replica.state())
        #expect(try other.repository.verify().isEmpty && replica.repository.verify().isEmpty)
    }

    @Test("the difference between two commits is what has to happen from one to the other, in either direction")
    func diff() throws {
        let replica = try Replica()
        let first = try #require(try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)"))
        try replica.run("UPDATE player SET score = 2")
        let last = try #require(try replica.run("UPDATE player SET score = 3; INSERT INTO player VALUES (2, 'Ben', 1)"))
        let forward = try replica.repository.diff(from: first, to: last)
        #expect(forward.map(\.kind) == [.updated, .inserted])
        #expect(forward[0].old == ["score": 1.databaseValue] && forward[0].new == ["score": 3.databaseValue])
        #expect(try replica.repository.diff(from: last, to: first).map(\.kind) == [.deleted, .updated])
        #expect(try replica.repository.diff(from: nil, to: last).map(\.kind) == [.inserted, .inserted])
        #expect(try replica.repository.diff(from: last, to: last).isEmpty)
    }

    /// SQLite gives the number of a removed row again: the next commit had one below that of the saved state, which then
    /// counted for later.
    @Test("a commit that gets the number of a removed one moves the head all the same")
    func removedNumber() throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.run("INSERT INTO player VALUES (2, 'B', 1)")
        try two.fetch(one)
        let fetched = try two.queue.write { db in
            let store = CommitStore(db: db)
            let fetched = try #require(try store.leaves().map(\.n).max())
            try store.remove(leaves: [fetched]) {
                try db.execute(sql: "DELETE FROM cipherstore_sync_commit WHERE n = ?", arguments: [fetched])
            }
            return fetched
        }
        let made = try #require(try two.run("INSERT INTO player VALUES (3, 'C', 1)"))
        #expect(try two.read { try CommitStore(db: $0).requireNode(made).n } == fetched)
        #expect(try two.commitCount == 2 && two.repository.log().count == 2)
        #expect(try two.repository.verify().isEmpty)
        try two.run("UPDATE player SET score = 2")
        #expect(try two.repository.log().count == 3 && two.repository.verify().isEmpty)
    }

    @Test("the state is that after the last commit, whether the row of the commit keeps it or it was saved")
    func stateOfCommits() throws {
        let tables = (0..<Limits.digestsOfCommit + 4).map { "t\($0)" }
        let schema = tables.map { "CREATE TABLE \($0) (id INTEGER PRIMARY KEY, v)" }.joined(separator: ";")
        let one = try Replica(schema, tracking: tables)
        let two = try Replica(schema, tracking: tables, key: one.key())
        func state() throws -> RepositoryState { try one.queue.read { try RepositoryState($0) } }
        for step in 1...40 {
            let commit = try one.run("INSERT INTO t\(step % tables.count) VALUES (\(step), 1)")
            #expect(try state().sequence == UInt64(step))
            #expect(try state().leaves.numbers == [state().head])
            let numbered = try #require(try state().head)
            #expect(try one.queue.read { try CommitStore(db: $0).node(numbered).id } == commit)
            #expect(try one.repository.verify().isEmpty)
            guard step % 15 == 0 else { continue }
            // Commits of others, which come and are merged while rows of commits keep the state.
            try two.run("INSERT INTO t0 VALUES (\(step + 1_000), 1); INSERT INTO t1 VALUES (\(step), 2)")
            try one.fetch(two)
            #expect(try state().leaves.numbers.count == 2 && state().sequence == UInt64(step))
            try one.repository.mergeAll()
            try one.repository.pull()
            #expect(try one.repository.verify().isEmpty)
            try two.fetch(one)
            try two.repository.pull()
            #expect(try two.state() == one.state() && two.head == one.head)
        }
        let kept = try one.strings("SELECT count(state) > 20, count(state) < 40 FROM cipherstore_sync_commit")
        #expect(kept == ["1,1"])
    }

    @Test("a store whose own tables have any content is an error, and no trap")
    func damagedTables() throws {
        let damages = [
            "UPDATE cipherstore_sync_commit SET id = x'00'", "UPDATE cipherstore_sync_commit SET body = 'text'",
            "UPDATE cipherstore_sync_commit SET body = x''", "UPDATE cipherstore_sync_commit SET generation = 'x'",
            "UPDATE cipherstore_sync_commit SET kind = 77", "UPDATE cipherstore_sync_commit SET parent1 = n",
            "UPDATE cipherstore_sync_commit SET author = 99", "DELETE FROM cipherstore_sync_commit",
            "UPDATE cipherstore_sync_state SET head = 99", "UPDATE cipherstore_sync_state SET head = 'x'",
            "UPDATE cipherstore_sync_state SET secret = x'00'", "UPDATE cipherstore_sync_state SET repository = 1",
            "UPDATE cipherstore_sync_state SET epoch = -1", "UPDATE cipherstore_sync_state SET schema = ''",
            "UPDATE cipherstore_sync_state SET sequence = -5", "UPDATE cipherstore_sync_state SET digests = x'01'",
            "UPDATE cipherstore_sync_author SET id = x'01'", "UPDATE cipherstore_sync_state SET leaves = x'00'",
            "DELETE FROM cipherstore_sync_table", "DELETE FROM cipherstore_sync_state",
            "UPDATE cipherstore_sync_commit SET state = x'00'", "UPDATE cipherstore_sync_commit SET state = NULL",
            "UPDATE cipherstore_sync_commit SET sequence = -5", "UPDATE cipherstore_sync_state SET upto = 'x'",
            "UPDATE cipherstore_sync_table SET name = 'absent'", "DROP TABLE cipherstore_sync_commit",
        ]
        for damage in damages {
            let replica = try Replica()
            try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
            let head = try #require(try replica.head)
            try replica.queue.write { db in
                // The program itself may not drop these tables.
                try db.changingHistory { try db.execute(sql: damage) }
            }
            _ = code { try replica.run("UPDATE player SET score = 2") }
            _ = code { try replica.repository.pull() }
            _ = code { try replica.repository.mergeAll() }
            _ = code { try replica.repository.log() }
            _ = code { try replica.repository.revert(head) }
            _ = code { try replica.repository.verify() }
            _ = code { try replica.repository.commitForeignWrites() }
            _ = code { try replica.repository.diff(from: nil, to: head) }
            // Whatever is wrong, the rows of the program stay.
            #expect(try replica.strings("SELECT count(*) FROM player") == ["1"], "\(damage)")
        }
    }

    @Test("the tables of the repository are hidden and not dropped by a program, as all of the library's own are")
    func hidden() throws {
        let replica = try Replica()
        let names = try replica.strings("SELECT name FROM sqlite_schema WHERE name LIKE 'cipherstore_sync%'")
        #expect(names.count > 10)
        let isHidden = names.allSatisfy { Database.isStoreInternalObject(String($0.dropFirst().dropLast())) }
        #expect(isHidden)
        let dropping = #expect(throws: DatabaseError.self) { try replica.write("DROP TABLE cipherstore_sync_commit") }
        #expect(dropping?.resultCode == .SQLITE_AUTH && dropping?.message?.contains("history") == false)
    }

    @Test("a wide table is captured in several calls of one row")
    func wideTables() throws {
        let columns = (0..<500).map { "c\($0)" }
        let replica = try Replica(
            "CREATE TABLE wide (id INTEGER PRIMARY KEY NOT NULL, \(columns.joined(separator: ", ")))",
            tracking: ["wide"])
        try replica.run("INSERT INTO wide (id, c0, c499) VALUES (1, 'a', 'z'), (2, 'b', 'y')")
        let head = try #require(try replica.run("UPDATE wide SET c250 = id; DELETE FROM wide WHERE id = 2"))
        #expect(try replica.delta(head).changeCount == 2)
        #expect(try replica.repository.verify().isEmpty)
        try replica.repository.revert(head)
        #expect(try replica.strings("SELECT id, c250, c499 FROM wide") == ["1,NULL,'z'", "2,NULL,'y'"])
    }

    @Test("a commit is later than its parent, whatever the clock says")
    func clocks() throws {
        let clock = TestClock(seconds: 2_000_000_000)
        let replica = try Replica(clock: clock)
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        clock.seconds.withLock { $0 = 1000 }
        try replica.run("INSERT INTO player VALUES (2, 'Ben', 1)")
        let times = try replica.queue.read {
            try Int64.fetchAll($0, sql: "SELECT time FROM cipherstore_sync_commit ORDER BY n")
        }
        #expect(times[0] == 2_000_000_000_000 << 16 && times[1] == times[0] + 1)
    }
}
