import CSQLCipher
import CipherDatabase
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// The change history of tracked tables: in a commit its triggers pause, and what the commit captured is written.
@Suite("The history of commits")
struct CommitHistoryTests {
    /// The changes after one of them, as `+player 1` for an insertion, `-` a deletion, `*` an update, `!` a table that
    /// must be read again; with the columns that were noted, and the values that were kept.
    private func changes(_ queue: DatabaseQueue, after number: Int64) throws -> [String] {
        try queue.read { try $0.historyEntries(after: number, limit: 1_000) }.map { entry in
            let sign: [HistoryOperation: String] = [
                .inserted: "+", .updated: "*", .deleted: "-", .perhapsDeleted: "?", .reset: "!",
            ]
            var parts = ["\(sign[entry.operation] ?? "")\(entry.tableName)"] + entry.key.map(\.description)
            if let columns = entry.columns { parts.append(columns.sorted().joined(separator: ",")) }
            parts += entry.former.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value.storage)" }
            return parts.joined(separator: " ")
        }
    }

    private func changes(_ replica: Replica, after number: Int64) throws -> [String] {
        try changes(replica.queue, after: number)
    }

    private func last(_ replica: Replica) throws -> Int64 { try replica.read { try $0.lastHistoryNumber() } }

    /// The changes that a commit adds.
    private func committing(_ replica: Replica, _ sql: String) throws -> [String] {
        let number = try last(replica)
        try replica.run(sql)
        return try changes(replica, after: number)
    }

    /// The tables whose triggers would pause in a commit.
    private func pausing(_ replica: Replica) throws -> Set<String> {
        try replica.queue.write { db in
            defer { db.resumeHistory() }
            return Set(try db.pauseHistory { _ in true }.keys)
        }
    }

    private func record(_ replica: Replica, columns: Bool = false, keeping: [String] = []) throws {
        try replica.queue.write {
            try $0.startHistory(of: ["player"], notesColumns: columns, kept: ["player": keeping])
        }
    }

    @Test("a commit has each row that it has changed once, as it is at the end")
    func once() throws {
        let replica = try Replica()
        #expect(
            try committing(
                replica,
                """
                INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Bea', 2), (3, 'Cy', 3);
                UPDATE player SET score = 5 WHERE id = 1; DELETE FROM player WHERE id = 2
                """) == ["+player 1", "+player 3"])
        #expect(
            try committing(
                replica,
                """
                UPDATE player SET id = 9 WHERE id = 3; REPLACE INTO player VALUES (1, 'Ann', 6);
                SAVEPOINT s; DELETE FROM player; ROLLBACK TO s; UPDATE player SET name = name
                """) == ["-player 3", "*player 1", "+player 9"])
    }

    @Test("each change of a commit is in the history, and nothing else, for random schemas and statements")
    func random() throws {
        for index in 0..<max(20, Simulation.schedules) {
            var numbers = Simulation.seed.numbers(index)
            let schema = RandomSchema(&numbers)
            let replica = try Replica(schema.sql.joined(separator: ";"), tracking: schema.names)
            for _ in 0..<6 {
                let (before, number) = (try replica.head, try last(replica))
                var run: [String] = []
                try replica.repository.commit { db in
                    for _ in 0..<Int.random(in: 1...12, using: &numbers) {
                        run.append(schema.statement(&numbers))
                        do { try db.execute(sql: run[run.count - 1]) } catch is DatabaseError {}
                    }
                }
                let entries = try replica.read { try $0.historyEntries(after: number, limit: 10_000) }
                let name: Comment = "\(Simulation.seed), program \(index): \(schema.sql) -> \(run)"
                let head = try replica.head
                let delta = try head.flatMap { $0 == before ? nil : try replica.delta($0) }
                let expected = (delta?.tables ?? []).flatMap { table in
                    table.changes.map { Self.text($0, of: table.table) }
                }
                #expect(entries.map { Self.text($0) } == expected, name)
                #expect(Set(entries.map(\.origin)).count == (entries.isEmpty ? 0 : 1), name)
                if entries.count != expected.count { return }
            }
        }
    }

    private static func text(_ entry: HistoryEntry) -> String {
        let key = zip(entry.keyColumns, entry.key.map(\.storage)).sorted { $0.0 < $1.0 }
        return "\(entry.operation) \(entry.tableName) \(key.map { "\($0.0)=\($0.1)" })"
    }

    private static func text(_ change: ChangesetSync.RowChange, of table: DeltaTable) -> String {
        let operation: HistoryOperation =
            switch change.operation {
            case .insert: .inserted
            case .update: .updated
            case .delete: .deleted
            }
        let values = table.key(of: change.keyRecord).values.map { value in
            switch value {
            case .integer(let number): number.databaseValue
            case .real(let number): number.databaseValue
            case .text(let bytes): String(decoding: bytes, as: UTF8.self).databaseValue
            case .blob(let bytes): Data(bytes).databaseValue
            case .null, .undefined: DatabaseValue.null
            }
        }
        let key: [(String, DatabaseValue.Storage)] = zip(
            table.keyColumns.map { table.columns[$0] }, values.map(\.storage)
        ).sorted { $0.0 < $1.0 }
        return "\(operation) \(table.name) \(key.map { "\($0.0)=\($0.1)" })"
    }

    @Test("columns that have changed and values of deletions are those that the triggers would record")
    func details() throws {
        let replica = try Replica()
        try record(replica, columns: true, keeping: ["name"])
        #expect(try pausing(replica) == ["player"])
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Bea', 2)")
        for statements in [
            "UPDATE player SET score = 7 WHERE id = 1", "UPDATE player SET name = 'B', score = NULL WHERE id = 2",
            "DELETE FROM player WHERE id = 1",
        ] {
            let number = try last(replica)
            try replica.queue.write { db in
                try db.inSavepoint {
                    try db.execute(sql: statements)
                    return .commit
                }
            }
            let recorded = try changes(replica, after: number)
            try replica.repository.commitForeignWrites()
            let head = try #require(try replica.head)
            try replica.repository.revert(head)
            #expect(try committing(replica, statements) == recorded)
        }
    }

    @Test("of a table that keeps a generated column the triggers record, in a commit too")
    func generated() throws {
        let replica = try Replica(
            "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, up AS (upper(name)) STORED)")
        #expect(try committing(replica, "INSERT INTO player VALUES (1, 'Ann')") == ["+player 1"])
        #expect(try pausing(replica) == ["player"])
        try record(replica, keeping: ["up"])
        #expect(try pausing(replica) == [])
        #expect(
            try committing(replica, "DELETE FROM player; INSERT INTO player VALUES (2, 'b')") == [
                "-player 1 up=string(\"ANN\")", "+player 2",
            ])
        try record(replica)
        try replica.repository.migrate()
        #expect(try pausing(replica) == ["player"])
        #expect(try committing(replica, "DELETE FROM player") == ["-player 2"])
    }

    @Test("a table is known by its name as SQLite compares it, and by a key in its own order")
    func names() throws {
        let replica = try Replica(
            #"CREATE TABLE "Ärger" (a TEXT NOT NULL, b INT NOT NULL, v, PRIMARY KEY (b, a)) WITHOUT ROWID"#,
            tracking: ["Ärger"])
        #expect(try pausing(replica) == ["Ärger"])
        #expect(
            try committing(replica, #"INSERT INTO "Ärger" VALUES ('x', 1, 2); UPDATE "Ärger" SET v = 3"#) == [
                "+Ärger 1 'x'"
            ])
    }

    @Test("a commit inside a commit is recorded once, and not where it fails")
    func nested() throws {
        struct Stop: Error {}
        let replica = try Replica()
        let number = try last(replica)
        try replica.repository.commit { db in
            try db.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)")
            try replica.repository.commit { try $0.execute(sql: "INSERT INTO player VALUES (2, 'Bea', 1)") }
            #expect(throws: Stop.self) {
                try replica.repository.commit { db in
                    try db.execute(sql: "INSERT INTO player VALUES (3, 'Cy', 1)")
                    throw Stop()
                }
            }
            try db.execute(sql: "INSERT INTO player VALUES (4, 'Dan', 1)")
        }
        #expect(try changes(replica, after: number) == ["+player 1", "+player 2", "+player 4"])
    }

    @Test("what is recorded may change inside a commit: then the table must be read again")
    func changedRecording() throws {
        let replica = try Replica()
        for keeping in [["name"], []] {
            let number = try last(replica)
            try replica.repository.commit { db in
                try db.execute(sql: "REPLACE INTO player VALUES (1, 'Ann', abs(random()))")
                try db.startHistory(of: ["player"], notesColumns: false, kept: ["player": keeping])
                try db.execute(sql: "REPLACE INTO player VALUES (2, 'Bea', abs(random()))")
            }
            #expect(try Set(changes(replica, after: number)) == ["!player"])
        }
    }

    // MARK: The end of the transaction

    @Test("what runs after a rollback inside a commit is recorded, and found outside of commits")
    func rollback() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let number = try last(replica)
        #expect(throws: DatabaseError.self) {
            try replica.repository.commit { db in
                db.afterNextTransaction(
                    onCommit: { _ in },
                    onRollback: { try? $0.execute(sql: "INSERT INTO player VALUES (9, 'Ida', 1)") })
                try db.execute(sql: "INSERT OR ROLLBACK INTO player VALUES (1, 'again', 1)")
            }
        }
        #expect(try changes(replica, after: number) == ["+player 9"])
        #expect(code { try replica.run("UPDATE player SET score = 2") } == .foreignWrites)
        #expect(try replica.repository.commitForeignWrites() != nil)
        #expect(try replica.repository.verify().isEmpty)
    }

    @Test("a block cannot commit the transaction of its commit", arguments: [true, false])
    func ownEnd(bySQL: Bool) throws {
        let replica = try Replica()
        #expect(
            code {
                try replica.repository.commit { db in
                    try db.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)")
                    if bySQL { try db.execute(sql: "COMMIT") } else { try db.commit() }
                }
            } == .transactionEndedInCommit)
        #expect(try replica.strings("SELECT id FROM player") == [])
        #expect(try committing(replica, "INSERT INTO player VALUES (2, 'Bea', 1)") == ["+player 2"])
    }

    // MARK: Other programs

    private let folder = TemporaryFolder()

    /// Runs statements on a connection that does not know of the library.
    private func stock(_ path: String, _ sql: String) {
        var handle: OpaquePointer?
        #expect(sqlite3_open(path, &handle) == SQLITE_OK)
        #expect(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK)
        sqlite3_close(handle)
    }

    private func plainStore() throws -> (String, DatabaseQueue, ChangesetRepository) {
        let path = folder.path("plain-\(UInt32.random(in: 0...UInt32.max)).db")
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.write { try $0.execute(sql: Replica.players) }
        let repository = ChangesetRepository(queue)
        try repository.migrate()
        try repository.enable(["player"])
        return (path, queue, repository)
    }

    @Test("where another program has renamed a column of the key, or one whose values are kept, a commit follows")
    func renamedColumns() throws {
        let (path, queue, repository) = try plainStore()
        try queue.write { try $0.startHistory(of: ["player"], notesColumns: false, kept: ["player": ["name"]]) }
        try repository.commit { try $0.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)") }
        stock(path, "ALTER TABLE player RENAME COLUMN id TO number; ALTER TABLE player RENAME COLUMN name TO title")
        try repository.commitForeignWrites()
        let number = try queue.read { try $0.lastHistoryNumber() }
        try repository.commit { try $0.execute(sql: "DELETE FROM player") }
        #expect(try changes(queue, after: number) == ["-player 1 title=string(\"Ann\")"])
    }

    @Test("triggers that an earlier version has made again record a commit once")
    func triggersOfEarlierVersion() throws {
        let (path, queue, repository) = try plainStore()
        let (name, sql) = try #require(
            try queue.read { db in
                try Row.fetchOne(
                    db, sql: "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND name GLOB '*_insert'"
                ).map { ($0[0] as String, $0[1] as String) }
            })
        let condition = "WHEN sqlite_compileoption_get(-770215403) IS NULL"
        #expect(sql.contains(condition))
        stock(path, "DROP TRIGGER \(name); \(sql.replacing(condition, with: ""))")
        let number = try queue.read { try $0.lastHistoryNumber() }
        try repository.commit { try $0.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)") }
        #expect(try changes(queue, after: number) == ["+player 1"])
    }

    @Test("an attached store records what a commit writes to it")
    func attached() throws {
        let (_, queue, repository) = try plainStore()
        let (other, otherQueue, _) = try plainStore()
        let number = try otherQueue.read { try $0.lastHistoryNumber() }
        try queue.writeWithoutTransaction { try $0.execute(sql: "ATTACH '\(other)' AS other") }
        try repository.commit { db in
            try db.execute(
                sql: "INSERT INTO player VALUES (1, 'Ann', 1); INSERT INTO other.player VALUES (2, 'Bea', 1)")
        }
        #expect(try changes(otherQueue, after: number) == ["+player 2"])
    }

    @Test("outside of commits the triggers record, also after a commit that has failed")
    func outside() throws {
        struct Stop: Error {}
        let replica = try Replica()
        for round in 1...2 {
            let number = try last(replica)
            try replica.write("INSERT INTO player VALUES (\(round), 'Ann', 1); DELETE FROM player")
            #expect(try changes(replica, after: number) == ["+player \(round)", "-player \(round)"])
            #expect(try replica.repository.commitForeignWrites() == nil)
            #expect(throws: Stop.self) {
                try replica.repository.commit { db in
                    try db.execute(sql: "INSERT INTO player VALUES (5, 'Eve', 1)")
                    throw Stop()
                }
            }
        }
    }

    @Test("what is recorded and not tracked is recorded by its triggers in a commit")
    func others() throws {
        let replica = try Replica(
            Replica.players
                + """
                ; CREATE TABLE log (id INTEGER PRIMARY KEY, text);
                CREATE TRIGGER noted AFTER INSERT ON player BEGIN INSERT INTO log (text) VALUES (NEW.name); END
                """)
        try replica.queue.write { try $0.startHistory(of: ["log"], notesColumns: false, kept: [:]) }
        #expect(
            try committing(replica, "INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Bea', 2)") == [
                "+log 1", "+log 2", "+player 1", "+player 2",
            ])
    }

    @Test("a store of an earlier version records by its triggers, once, until the repository is migrated")
    func earlier() throws {
        let replica = try Replica()
        try replica.queue.write { db in
            try db.stopHistory(of: ["player"])
            try db.startHistory(of: ["player"], notesColumns: false, kept: [:])
        }
        try replica.repository.commitForeignWrites()
        #expect(try pausing(replica) == [])
        #expect(
            try committing(replica, "INSERT INTO player VALUES (1, 'Ann', 1); UPDATE player SET score = 2") == [
                "+player 1", "*player 1",
            ])
        let number = try last(replica)
        try replica.repository.migrate()
        #expect(try pausing(replica) == ["player"])
        // Nothing is missing, so nobody has to read the table again.
        #expect(try changes(replica, after: number) == [])
        #expect(
            try committing(replica, "INSERT INTO player VALUES (2, 'Bea', 1); UPDATE player SET score = 3") == [
                "*player 1", "+player 2",
            ])
        #expect(try replica.read { try $0.isHistoryInOrder() })
    }

    @Test("no trigger pauses where the repository does not track one of the tables any more")
    func untracked() throws {
        let replica = try Replica(
            Replica.players + "; CREATE TABLE team (id INTEGER PRIMARY KEY NOT NULL)", tracking: ["player", "team"])
        try replica.queue.write { db in
            try db.execute(sql: "DELETE FROM cipherstore_sync_table WHERE name = 'team'")
            try db.execute(sql: "UPDATE cipherstore_sync_state SET revision = revision + 1")
        }
        #expect(
            try committing(replica, "INSERT INTO team VALUES (1); INSERT INTO player VALUES (1, 'Ann', 1)") == [
                "+team 1", "+player 1",
            ])
    }

    @Test("where all rows are removed, whoever follows the history reads the tables again")
    func removed() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let number = try last(replica)
        try replica.repository.reset()
        #expect(try changes(replica, after: number) == ["!player"])
        #expect(try committing(replica, "INSERT INTO player VALUES (2, 'Bea', 1)") == ["+player 2"])
    }
}
