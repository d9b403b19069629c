import CipherDatabase
import Testing

@testable import ChangesetSync

@Suite("Errors of repositories")
struct SyncErrorTests {
    private func sibling(of other: Replica) throws -> Replica {
        let replica = try Replica(key: other.key())
        try replica.fetch(other)
        try replica.repository.pull()
        return replica
    }

    private func error(_ body: () throws -> some Any) -> SyncError? {
        do {
            _ = try body()
            return nil
        } catch {
            return error as? SyncError
        }
    }

    /// It said "update the program", which this store had done.
    @Test("a store that has removed a column says so, where a commit of another store has it")
    func removedColumn() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        // A connection that has not committed, as that of a program that migrates.
        let two = try Replica(copyOf: sibling(of: one))
        try two.write("ALTER TABLE player DROP COLUMN score")
        try one.run("UPDATE player SET score = 2")
        try two.fetch(one)
        let pulled = try #require(error { try two.repository.pull() })
        #expect(pulled.code == .columnRemoved && pulled.table == "player")
        #expect(try pulled.commit == one.head)
        try two.run("UPDATE player SET name = 'B'")
        #expect(error { try two.repository.mergeAll() }?.code == .columnRemoved)
        #expect(error { try two.repository.mergeAndPull() }?.code == .columnRemoved)
        // The other store lacks nothing; a third one lacks the column from the beginning.
        let three = try Replica(
            "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT)", key: one.key())
        try three.fetch(one)
        #expect(error { try three.repository.pull() }?.code == .schemaAhead)
    }

    /// The values stayed in the other stores, which had other rows than this one, or none of its updates.
    @Test("a column that was dropped and is there again has lost its values, in every store", arguments: [true, false])
    func columnAddedAgain(committingBetween: Bool) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 7), (2, 'Ben', 0)")
        let two = try sibling(of: one)
        try one.write("ALTER TABLE player DROP COLUMN score")
        if committingBetween {
            try one.run("INSERT INTO player VALUES (3, 'Cy')")
            try two.fetch(one)
            try two.repository.pull()
            // What another store does with the column meanwhile has to wait, and is named.
            let three = try Replica(copyOf: one)
            try two.run("UPDATE player SET score = 5 WHERE id = 3")
            try three.fetch(two)
            #expect(error { try three.repository.pull() }?.code == .columnRemoved)
            try two.run("UPDATE player SET score = NULL WHERE id = 3")
            try one.fetch(two)
        }
        try one.write("ALTER TABLE player ADD COLUMN score INTEGER")
        #expect(error { try one.run("UPDATE player SET name = 'A' WHERE id = 1") }?.code == .foreignWrites)
        #expect(try one.repository.commitForeignWrites() != nil)
        #expect(try one.repository.commitForeignWrites() == nil)
        try one.run("UPDATE player SET name = 'A' WHERE id = 1")
        _ = try one.repository.mergeAll()
        try one.repository.pull()
        for other in [two, try Replica(key: one.key())] {
            try other.fetch(one)
            try other.repository.pull()
            #expect(try other.head == one.head)
            #expect(try other.state() == one.state())
            #expect(try other.repository.verify().isEmpty)
        }
        #expect(try one.strings("SELECT score FROM player WHERE id < 3") == ["NULL", "NULL"])
    }

    /// Two leaves with an older schema were merged first, which no store with another schema may do.
    @Test("a store with a newer schema merges what several older ones have done, by way of its own commit")
    func newerThanTwo() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let (two, three) = try (sibling(of: one), sibling(of: one))
        try one.run("UPDATE player SET score = 5 WHERE id = 1")
        try two.run("UPDATE player SET score = 6 WHERE id = 2")
        // Its own leaf comes last in the order of merges.
        try three.run("UPDATE player SET name = 'Anna' WHERE id = 1")
        try three.write("ALTER TABLE player ADD COLUMN team TEXT DEFAULT 'none'")
        for other in [one, two] { try three.fetch(other) }
        let leaves = try (#require(try one.head), #require(try two.head))
        #expect(error { try three.repository.merge(leaves.0, leaves.1) }?.code == .olderSchema)
        #expect(try three.repository.mergeAll().count == 2)
        try three.repository.pull()
        #expect(try three.strings("SELECT name, score, team FROM player") == ["'Anna',5,'none'", "'Ben',6,'none'"])
        #expect(try three.repository.verify().isEmpty)
    }

    /// It was an error of SQLite without the name of the table.
    @Test(
        "a constraint that one store alone has stops a pull and is named, and nothing is changed",
        arguments: [
            ("name TEXT, score INTEGER CHECK (score < 5))", "CHECK"),
            ("name TEXT NOT NULL, score INTEGER)", "NOT NULL"), ("name TEXT, score INTEGER) STRICT", "STRICT"),
        ])
    func constraintOfOneStore(columns: String, kind: String) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try Replica("CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, " + columns, key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        let before = try (two.state(), two.head)
        for (index, sql) in [
            "UPDATE player SET name = NULL, score = 6.5 WHERE id = 2", "INSERT INTO player VALUES (3, NULL, 7.5)",
        ].enumerated() {
            try one.run("UPDATE player SET score = 3 WHERE id = 1; " + sql)
            try two.fetch(one)
            let found = try #require(error { try two.repository.pull() }, "\(index)")
            #expect(found.code == .constraintViolation && found.table == "player")
            #expect(found.detail?.contains(kind) == true && found.description.contains("7.5") == false)
            #expect(try two.state() == before.0 && two.head == before.1)
        }
        #expect(try two.repository.verify().isEmpty)
    }

    /// A merge tries rows against unique indexes, and removed a row that failed for another reason.
    @Test("a merge removes no row for a constraint that one store alone has")
    func mergeWithConstraintOfOneStore() throws {
        let index = "; CREATE UNIQUE INDEX i ON player (lower(name)) WHERE score IS NOT NULL"
        let one = try Replica(Replica.players + index)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try Replica(
            "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, score INTEGER CHECK (score < 5))" + index,
            key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        try one.run("INSERT INTO player VALUES (2, 'Ben', 9)")
        try two.run("INSERT INTO player VALUES (3, 'Cleo', 3)")
        try two.fetch(one)
        let before = try (two.state(), two.head)
        let found = error { try two.repository.mergeAndPull() }
        #expect(found?.code == .constraintViolation && found?.table == "player")
        #expect(try two.state() == before.0 && two.head == before.1)
        try one.fetch(two)
        try one.repository.mergeAll()
        try one.repository.pull()
        #expect(try one.strings("SELECT id FROM player ORDER BY id") == ["1", "2", "3"])
    }

    @Test("a commit that cannot be read is named, whoever needs it")
    func damagedCommit() throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let two = try sibling(of: one)
        let damaged = try #require(try one.run("UPDATE player SET score = 2"))
        try one.run("UPDATE player SET score = 3")
        try two.fetch(one)
        // A bit of the delta, and then of the commit.
        for offset in [12, 0] {
            let place = offset == 0 ? "1" : "length(body) - \(offset)"
            try two.write(
                """
                UPDATE cipherstore_sync_commit SET body = CAST(
                    substr(body, 1, \(place) - 1) || x'ff' || substr(body, \(place) + 1) AS BLOB)
                WHERE hex(id) = upper('\(damaged)')
                """)
            for call in [
                { _ = try two.repository.pull() }, { _ = try two.repository.diff(from: nil, to: two.head ?? damaged) },
                { _ = try two.repository.changes(of: damaged) },
            ] as [() throws -> Void] {
                guard let found = error({ try call() }) else { continue }
                #expect(found.code == .damagedCommit && found.commit == damaged, "\(offset) \(found)")
            }
            #expect(error { try two.repository.pull() }?.code == .damagedCommit)
        }
    }

    /// The error said to fetch the commit again, which nobody had made yet.
    @Test("a merge that is too long is refused as such")
    func longMerge() throws {
        let one = try Replica()
        let id = try #require(try one.run("INSERT INTO player VALUES (1, 'Ann', 1)"))
        let delta = try one.delta(id)
        let length = delta.encoded().count
        #expect(try Merger.encoded(delta, limit: length).count == length)
        let found = error { try Merger.encoded(delta, limit: length - 1) }
        #expect(found?.code == .payloadTooLarge && found?.description.contains("Fetch") == false)
    }
}
