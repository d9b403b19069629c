import CipherDatabase
import CipherRecords
import Synchronization
import Testing

@testable import ChangesetSync

@Suite("After a pull")
struct AfterApplyTests {
    /// A tracked table, and others that the block writes.
    private static let schema = """
        CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER);
        CREATE TABLE seen (n INTEGER PRIMARY KEY, kind TEXT, player INTEGER REFERENCES player(id) ON DELETE CASCADE);
        CREATE TABLE counted (n INTEGER NOT NULL);
        INSERT INTO counted VALUES (0);
        CREATE TRIGGER counts AFTER INSERT ON seen BEGIN UPDATE counted SET n = n + 1; END
        """

    private struct Refusal: Error {}

    private func pair(_ afterApply: @escaping ChangesetRepository.AfterApply) throws -> (Replica, Replica) {
        let one = try Replica(Self.schema)
        return (one, try Replica(Self.schema, key: one.key(), afterApply: afterApply))
    }

    @Test("a block gets each changed row once, and writes other tables in the same transaction, with their triggers")
    func changes() throws {
        let calls = Mutex<[[SyncRowChange]]>([])
        let (one, two) = try pair { db, changes in
            calls.withLock { $0.append(changes) }
            for change in changes where change.kind != .deleted {
                try db.execute(
                    sql: "INSERT INTO seen (kind, player) VALUES (?, ?)",
                    arguments: [change.kind.rawValue, change.key["id"]])
            }
            // The rows are those of the new head already.
            #expect(try Head.fetchOne(db) != nil && Int.fetchOne(db, sql: "SELECT count(*) FROM player") == 2)
        }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cleo', 3)")
        try one.run("DELETE FROM player WHERE id = 3; UPDATE player SET score = 7 WHERE id = 2")
        try two.fetch(one)
        try two.repository.pull()
        try two.repository.pull()
        try one.run("UPDATE player SET score = 8 WHERE id = 2")
        try two.fetch(one)
        try two.repository.mergeAll()
        try two.repository.pull()
        // Neither own commits nor a commit that is undone are pulled.
        let own = try two.run("UPDATE player SET score = 9 WHERE id = 1")
        try two.repository.revert(try #require(own))
        let found = calls.withLock { $0 }
        #expect(found.map { $0.map(\.kind) } == [[.inserted, .inserted], [.updated]])
        #expect(found[1][0].old == ["score": 7.databaseValue] && found[1][0].new == ["score": 8.databaseValue])
        #expect(try two.strings("SELECT kind, player FROM seen") == ["'inserted',1", "'inserted',2", "'updated',2"])
        #expect(try two.strings("SELECT n FROM counted") == ["3"])
        #expect(try two.repository.verify().isEmpty)
        // Both act on later writes, as before.
        try two.run("DELETE FROM player WHERE id = 2")
        #expect(try two.strings("SELECT player FROM seen") == ["1"])
    }

    @Test("an error of the block undoes the pull, with what the block wrote; the next pull calls it again")
    func errors() throws {
        let fails = Mutex(true)
        let (one, two) = try pair { db, changes in
            try db.execute(sql: "INSERT INTO seen (kind) VALUES ('x')")
            if fails.withLock({ $0 }) { throw Refusal() }
        }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.fetch(one)
        #expect(throws: Refusal.self) { try two.repository.pull() }
        #expect(try two.head == nil && two.strings("SELECT * FROM player").isEmpty)
        #expect(try two.strings("SELECT * FROM seen").isEmpty && two.strings("SELECT n FROM counted") == ["0"])
        fails.withLock { $0 = false }
        try two.repository.pull()
        #expect(try two.head == one.head && two.strings("SELECT kind FROM seen") == ["'x'"])
    }

    @Test("foreign keys hold what the block writes")
    func foreignKeys() throws {
        let (one, two) = try pair { db, _ in try db.execute(sql: "INSERT INTO seen (player) VALUES (77)") }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.fetch(one)
        let error = #expect(throws: DatabaseError.self) { try two.repository.pull() }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        #expect(try two.head == nil && two.strings("SELECT * FROM player").isEmpty)
    }

    /// Each device would make a commit of its own of the same pull, and never come to an end.
    @Test(
        "a block that writes a tracked table is refused, also by a cascade or a nested commit, and nothing is changed")
    func trackedTables() throws {
        let step = Mutex(0)
        let statements = [
            "UPDATE player SET name = 'other'", "INSERT OR REPLACE INTO player VALUES (1, 'other', 1)",
            "DELETE FROM guild",
        ]
        let schema = """
            CREATE TABLE guild (id INTEGER PRIMARY KEY NOT NULL);
            INSERT INTO guild VALUES (1);
            CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT,
                score INTEGER REFERENCES guild(id) ON DELETE CASCADE);
            """
        let one = try Replica(schema)
        let repository = Mutex<ChangesetRepository?>(nil)
        let two = try Replica(schema, key: one.key()) { db, _ in
            let number = step.withLock { $0 }
            if number < statements.count { return try db.execute(sql: statements[number]) }
            let nested = repository.withLock { $0 }
            if number == statements.count { try nested?.commit { try $0.execute(sql: statements[0]) } }
        }
        repository.withLock { $0 = two.repository }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.fetch(one)
        for number in 0...statements.count {
            step.withLock { $0 = number }
            #expect(code { try two.repository.pull() } == .trackedTableWritten, "\(number)")
            #expect(try two.head == nil && two.strings("SELECT * FROM player").isEmpty, "\(number)")
            #expect(try two.strings("SELECT * FROM guild") == ["1"])
        }
        step.withLock { $0 = .max }
        try two.repository.pull()
        #expect(try two.head == one.head && two.repository.verify().isEmpty)
    }

    @Test("a long pull calls the block in each of its transactions")
    func severalTransactions() throws {
        let heads = Mutex<[String]>([])
        let (one, two) = try pair { db, changes in
            let head = try Head.fetchOne(db)?.uuid ?? "-"
            heads.withLock { $0.append("\(changes.count) \(head)") }
        }
        try one.run(
            """
            WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Limits.pulledRows))
            INSERT INTO player SELECT i, 'p', i FROM n
            """)
        let middle = try #require(try one.head)
        let last = try #require(try one.run("DELETE FROM player WHERE id < 3"))
        try two.fetch(one)
        try two.repository.pull()
        #expect(heads.withLock { $0 } == ["\(Limits.pulledRows) \(middle)", "2 \(last)"])
    }

    /// What an observer of transactions wrote after a pull was in no history, no trigger fired, and no foreign key held.
    @Test("what is written when the transaction of a pull has ended is written as usual")
    func afterTheTransaction() throws {
        let refusals = Mutex(0)
        let (one, two) = try pair { db, _ in
            db.afterNextTransaction(onCommit: { db in
                do {
                    try db.execute(sql: "INSERT INTO seen (player) VALUES (99)")
                } catch {
                    refusals.withLock { $0 += 1 }
                }
                // Neither throws: the pull would not hear of it.
                try? db.execute(sql: "INSERT INTO seen (player) VALUES (1)")
                try? db.execute(sql: "UPDATE player SET name = 'Bea' WHERE id = 1")
            })
        }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.fetch(one)
        try two.repository.pull()
        #expect(refusals.withLock { $0 } == 1)
        #expect(try two.strings("SELECT player FROM seen") == ["1"])
        #expect(try two.strings("SELECT n FROM counted") == ["1"])
        #expect(code { try two.run("UPDATE player SET score = 2") } == .foreignWrites)
        try two.repository.commitForeignWrites()
        #expect(try two.repository.verify().isEmpty)
        #expect(try two.read { try Bool.fetchOne($0, sql: "PRAGMA foreign_keys") } == true)
    }
}
