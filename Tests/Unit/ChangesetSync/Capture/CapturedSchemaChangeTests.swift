import CipherDatabase
import CipherRecords
import CipherSchema
import Foundation
import TestKit
import Testing

@testable import ChangesetSync

/// The temporary triggers of the capture name the columns of the tables, and stay on a connection between its commits.
@Suite("Changes of tracked tables")
struct CapturedSchemaChangeTests {
    private let folder = TemporaryFolder()

    private var configuration: Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 7, count: 32)) }
        return configuration
    }

    /// A connection of its own to a store in a file.
    private func connection(_ body: (DatabaseQueue) throws -> Void = { _ in }) throws -> DatabaseQueue {
        let queue = try DatabaseQueue(path: folder.path("store.db"), configuration: configuration)
        try body(queue)
        return queue
    }

    /// A store in a file with a repository, by a connection that has committed.
    private func store(_ schema: String = Replica.players) throws -> (DatabaseQueue, ChangesetRepository) {
        let queue = try connection { try $0.write { try $0.execute(sql: schema) } }
        let repository = ChangesetRepository(queue)
        try repository.migrate()
        try repository.enable(["player"])
        try repository.commit { try $0.execute(sql: "INSERT INTO player (id, name, score) VALUES (1, 'Ann', 1)") }
        return (queue, repository)
    }

    /// Commits an insertion, an update and a deletion, and finds each of them in its commit.
    private func expectCapture(_ repository: ChangesetRepository, _ comment: Comment) throws {
        for (sql, kind) in [
            ("INSERT INTO player (id, name) VALUES (99, 'Zoe')", SyncRowChange.Kind.inserted),
            ("UPDATE player SET name = 'Zora' WHERE id = 99", .updated), ("DELETE FROM player WHERE id = 99", .deleted),
        ] {
            try repository.commit { try $0.execute(sql: sql) }
            let head = try #require(try repository.log(limit: 1).first.flatMap { CommitID($0.uuid) }, comment)
            #expect(try repository.changes(of: head).map(\.kind) == [kind], comment)
        }
        #expect(try repository.verify().isEmpty, comment)
    }

    private static let alterations = [
        "ALTER TABLE player DROP COLUMN score", "ALTER TABLE main.player DROP score",
        "alter /* a */ table \"PLAYER\" drop column score", "ALTER TABLE player RENAME COLUMN score TO points",
        "ALTER TABLE player ADD COLUMN team",
        """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY NOT NULL, name TEXT); INSERT INTO fresh SELECT id, name FROM player;
        DROP TABLE player; ALTER TABLE fresh RENAME TO player
        """,
    ]

    /// SQLite refused to drop a column that a trigger of the capture named: a program could not migrate after a commit.
    @Test("a tracked table is altered on the connection that commits, in a write or outside of transactions")
    func altered() throws {
        for (index, sql) in Self.alterations.enumerated() {
            let replica = try Replica()
            try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
            if index.isMultiple(of: 2) {
                try replica.write(sql)
            } else {
                try replica.queue.writeWithoutTransaction { try $0.execute(sql: sql) }
            }
            // Under the new name its values are in no commit.
            if sql.contains("RENAME COLUMN") { try replica.repository.commitForeignWrites() }
            try expectCapture(replica.repository, "\(sql)")
        }
    }

    @Test("a migration alters a tracked table after commits, on the writer of a pool")
    func migration() throws {
        let pool = try DatabasePool(path: folder.path("pool.db"), configuration: configuration)
        var migrator = DatabaseMigrator()
        migrator.registerMigration("players") { try $0.execute(sql: Replica.players) }
        try migrator.migrate(pool)
        let repository = ChangesetRepository(pool)
        try repository.migrate()
        try repository.enable(["player"])
        try repository.commit { try $0.execute(sql: "INSERT INTO player VALUES (1, 'Ann', 1)") }
        migrator.registerMigration("without scores") { db in
            try db.alter(table: "player") { table in
                table.drop(column: "score")
                table.add(column: "team", .text)
            }
            try db.execute(sql: "UPDATE player SET team = 'red'")
        }
        try migrator.migrate(pool)
        try repository.commitForeignWrites()
        try expectCapture(repository, "a migration")
    }

    @Test("an alteration that is rolled back leaves a capture that fits")
    func rolledBack() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        for sql in Self.alterations {
            try replica.queue.writeWithoutTransaction { db in
                try db.inTransaction {
                    try db.execute(sql: sql)
                    return .rollback
                }
            }
            try expectCapture(replica.repository, "\(sql)")
        }
        #expect(throws: DatabaseError.self) { try replica.write("ALTER TABLE player DROP COLUMN id") }
        try expectCapture(replica.repository, "an alteration that failed")
    }

    @Test("a commit that drops a column of a tracked table is refused as such, and goes on where the block takes that")
    func insideCommit() throws {
        let replica = try Replica(Replica.players + "; CREATE TABLE other (a, b)")
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        #expect(code { try replica.run("ALTER TABLE player DROP COLUMN score") } == .schemaChangedInCommit)
        try replica.repository.commit { db in
            #expect(code { try db.execute(sql: "ALTER TABLE Player DROP COLUMN score") } == .schemaChangedInCommit)
            try db.execute(sql: "UPDATE player SET score = 2; ALTER TABLE other DROP COLUMN b")
        }
        #expect(try replica.strings("SELECT score FROM player") == ["2"])
        try expectCapture(replica.repository, "a refused alteration")
    }

    /// A plain write failed with "no such column: OLD.score", until the next commit of the connection.
    @Test("another connection alters a tracked table, and this one writes, commits and alters on")
    func otherConnection() throws {
        for (index, sql) in Self.alterations.enumerated() {
            for way in 0..<5 {
                let (queue, repository) = try store()
                let kept = "UPDATE player SET name = ? WHERE id = 1"
                // The statement is compiled, and compiled again inside of its next step.
                try queue.write { try $0.execute(sql: kept, arguments: ["Ann"]) }
                try connection { try $0.write { try $0.execute(sql: sql) } }.close()
                switch way {
                case 0: try queue.write { try $0.execute(sql: kept, arguments: ["Bea"]) }
                case 1: try queue.writeWithoutTransaction { try $0.execute(sql: "UPDATE player SET name = 'Bea'") }
                case 2:
                    let returned = try queue.write {
                        try String.fetchAll($0, sql: "UPDATE player SET name = 'Bea' RETURNING name")
                    }
                    #expect(returned == ["Bea"])
                case 3: try queue.write { try $0.execute(sql: "ALTER TABLE player ADD COLUMN third") }
                default: break
                }
                try repository.commitForeignWrites()
                try expectCapture(repository, "\(index), \(way)")
                try queue.close()
                for file in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
                    try FileManager.default.removeItem(atPath: folder.path(file))
                }
            }
        }
    }

    /// A table without the column of an earlier commit was taken for one of an older program.
    @Test("writes outside of commits are taken into one after a column was dropped, and reach the others")
    func foreignWritesAfterDrop() throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2), (3, 'Cleo', 3), (4, 'Dan', 4)")
        // Of the lost column alone.
        try replica.run("UPDATE player SET score = 9 WHERE id = 3")
        let other = try Replica(key: replica.key())
        try other.fetch(replica)
        try other.repository.pull()
        try replica.write(
            """
            ALTER TABLE player DROP COLUMN score; UPDATE player SET name = 'Bea' WHERE id = 2;
            DELETE FROM player WHERE id = 4; INSERT INTO player VALUES (5, 'Eve');
            """)
        #expect(code { try replica.run("DELETE FROM player WHERE id = 1") } == .foreignWrites)
        let commit = try #require(try replica.repository.commitForeignWrites())
        let changes = try replica.repository.changes(of: #require(CommitID(commit.uuid)))
        #expect(changes.map(\.kind) == [.deleted, .updated, .inserted])
        #expect(changes[1].key == ["id": 2.databaseValue] && changes[1].new == ["name": "Bea".databaseValue])
        #expect(try replica.repository.verify().isEmpty)
        try other.write("ALTER TABLE player DROP COLUMN score")
        try other.fetch(replica)
        try other.repository.pull()
        #expect(try other.state() == replica.state())
        #expect(try other.repository.verify().isEmpty)
        #expect(try replica.repository.commitForeignWrites() == nil)
        // It is another column, though it has the name of the lost one.
        try replica.write("ALTER TABLE player ADD COLUMN score; UPDATE player SET score = 7 WHERE id = 3")
        let again = try #require(try replica.repository.commitForeignWrites())
        #expect(try replica.repository.changes(of: #require(CommitID(again.uuid))).count >= 1)
        #expect(try replica.repository.verify().isEmpty)
    }

    /// Makes the table again: with other columns, and what these have.
    private static func rebuilding(_ columns: String, _ selection: String) -> String {
        """
        CREATE TABLE fresh (id INTEGER PRIMARY KEY NOT NULL, \(columns)); INSERT INTO fresh SELECT id, \(selection);
        DROP TABLE player; ALTER TABLE fresh RENAME TO player
        """
    }

    private static let rebuildings = [
        rebuilding("name TEXT, score INTEGER, rank INTEGER DEFAULT 3", "name, score + 1, 3 FROM player"),
        rebuilding("name TEXT, score INTEGER, rank INTEGER DEFAULT 3", "name, score, score FROM player"),
        rebuilding("name TEXT, score INTEGER, rank INTEGER", "name, score, NULL FROM player WHERE id = 1"),
        rebuilding("score INTEGER, name TEXT", "score, upper(name) FROM player"),
        rebuilding("name TEXT, score TEXT", "name, score FROM player"),
        rebuilding("points INTEGER, name TEXT", "score, name FROM player"),
        "ALTER TABLE player RENAME COLUMN score TO points",
        "DROP TABLE player; CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT, rank INTEGER)",
    ]

    /// The history says only that the definition has changed, so the values were in no commit and no other store got them.
    @Test("a table that a migration makes again with other rows was written outside of commits", arguments: rebuildings)
    func rebuilt(_ sql: String) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        let two = try Replica(key: one.key())
        try two.fetch(one)
        try two.repository.pull()
        // Each store runs the migration.
        for replica in [one, two] {
            try replica.write(sql)
            #expect(code { try replica.run("UPDATE player SET name = 'Cleo' WHERE id = 1") } == .foreignWrites)
            #expect(try replica.repository.commitForeignWrites() != nil)
            #expect(try replica.repository.verify().isEmpty)
        }
        try expectCapture(one.repository, "\(sql)")
        try two.fetch(one)
        try two.repository.mergeAll()
        try two.repository.pull()
        #expect(try two.state() == one.state() && two.repository.verify().isEmpty)
        #expect(try two.head != nil && two.repository.conflicts().isEmpty)
    }

    private static let harmless = [
        rebuilding("name TEXT, score INTEGER, rank INTEGER DEFAULT 3", "name, score, 3 FROM player"),
        rebuilding("score INTEGER, name TEXT", "score, name FROM player"),
        rebuilding("name TEXT", "name FROM player"),
        rebuilding("rank REAL DEFAULT 2, name TEXT NOT NULL", "2, name FROM player"),
        "ALTER TABLE player ADD COLUMN rank TEXT DEFAULT 'x'; CREATE INDEX byName ON player (name)",
        "CREATE UNIQUE INDEX byName ON player (name); DROP INDEX byName", "VACUUM", "REINDEX player",
    ]

    @Test("a table that is made again with the same rows, or gets a column, goes on without more", arguments: harmless)
    func sameRows(_ sql: String) throws {
        let one = try Replica()
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1), (2, 'Ben', 2)")
        try one.run("UPDATE player SET score = 7 WHERE id = 2")
        try one.queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        #expect(try one.repository.commitForeignWrites() == nil || sql.contains("player"), "\(sql)")
        try one.run("UPDATE player SET name = 'Cleo' WHERE id = 1")
        try expectCapture(one.repository, "\(sql)")
    }
}
