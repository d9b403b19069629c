import Foundation
import Testing

@testable import CipherDatabase
@testable import CipherRecords

/// A synchronized full-text table follows its content through changes of the schema and beside triggers of the program.
@Suite("Full-text tables whose content is made again")
struct RebuiltContentTests {
    private static var plain: Configuration {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        return configuration
    }

    private func withIndex(_ path: String? = nil, _ body: (Database) throws -> Void) throws {
        let queue = try path.map { try DatabaseQueue(path: $0, configuration: Self.plain) } ?? DatabaseQueue()
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT, extra TEXT)")
            try db.create(virtualTable: "ft", using: FTS5()) { t in
                t.synchronize(withTable: "doc")
                t.column("body")
            }
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'zarquon', 'x'), (2, 'plain', 'y')")
            try body(db)
        }
    }

    private func check(_ db: Database, _ location: SourceLocation = #_sourceLocation) {
        #expect(throws: Never.self, sourceLocation: location) {
            try db.execute(sql: "INSERT INTO ft(ft, rank) VALUES ('integrity-check', 1)")
        }
    }

    private func found(_ word: String, _ db: Database) throws -> [Int64] {
        try Int64.fetchAll(db, sql: "SELECT rowid FROM ft WHERE ft MATCH ? ORDER BY rowid", arguments: [word])
    }

    /// The steps by which SQLite advises to change a table.
    /// - SeeAlso: <https://www.sqlite.org/lang_altertable.html#otheralter>
    private static let steps = """
        CREATE TABLE new_doc (id INTEGER PRIMARY KEY, body TEXT NOT NULL, extra TEXT);
        INSERT INTO new_doc SELECT id + 10, body, extra FROM doc WHERE id = 1;
        INSERT INTO new_doc VALUES (30, 'fresh', NULL);
        DROP TABLE doc;
        ALTER TABLE new_doc RENAME TO doc;
        """

    // Story: DROP TABLE drops the triggers of the table. The index kept its words, and followed nothing.
    @Test("a table that is made again by the steps of a migration is followed", arguments: [false, true])
    func recreation(inTransaction: Bool) throws {
        try withIndex { db in
            if inTransaction {
                try db.inTransaction {
                    try db.execute(sql: Self.steps)
                    return .commit
                }
            } else {
                try db.execute(sql: Self.steps)
            }
            try #expect(found("zarquon", db) == [11] && found("plain", db) == [] && found("fresh", db) == [30])
            try db.execute(sql: "INSERT INTO doc VALUES (2, 'later', 'x')")
            try db.execute(sql: "UPDATE doc SET body = 'changed' WHERE id = 11; DELETE FROM doc WHERE id = 30")
            try #expect(found("later", db) == [2] && found("changed", db) == [11] && found("zarquon", db) == [])
            check(db)
        }
    }

    @Test("a table that was made again by another program is followed from the next opening on")
    func recreationElsewhere() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("a.db").path
        try withIndex(path) { db in
            // As another program does, without the upkeep of this library.
            try db.withoutHistoryUpkeep { try db.execute(sql: Self.steps) }
            try #expect(found("zarquon", db) == [1])
        }
        try DatabaseQueue(path: path, configuration: Self.plain).writeWithoutTransaction { db in
            try #expect(found("zarquon", db) == [11] && found("fresh", db) == [30])
            try db.execute(sql: "INSERT INTO doc VALUES (2, 'later', 'x')")
            try #expect(found("later", db) == [2])
            check(db)
        }
    }

    @Test("a former table that is renamed away leaves its triggers to the new one")
    func renamedAway() throws {
        try withIndex { db in
            try db.execute(
                sql: """
                    ALTER TABLE doc RENAME TO old_doc;
                    CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT, extra TEXT);
                    INSERT INTO doc SELECT id + 10, body, extra FROM old_doc;
                    DROP TABLE old_doc;
                    """)
            try #expect(found("zarquon", db) == [11] && found("plain", db) == [12])
            try db.execute(sql: "INSERT INTO doc VALUES (2, 'later', 'x')")
            try #expect(found("later", db) == [2])
            check(db)
        }
    }

    @Test("triggers that the program drops itself stay dropped, also beside triggers of its own")
    func droppedTriggers() throws {
        try withIndex { db in
            let names = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            for name in names { try db.execute(sql: "DROP TRIGGER \(name.quotedDatabaseIdentifier)") }
            try db.execute(
                sql: """
                    CREATE TRIGGER own AFTER INSERT ON doc BEGIN
                        INSERT INTO ft (rowid, body) VALUES (new.id, upper(new.body)); END;
                    CREATE TABLE other (id); CREATE INDEX i ON other(id); ALTER TABLE other ADD COLUMN b;
                    """)
            let left = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            #expect(left == ["own"])
        }
    }

    // Story: of two triggers SQLite fires the later one first. It changed the row, and the index saw that before the row.
    @Test("a trigger of the program that changes the written row fires after the index", arguments: [false, true])
    func triggersOfPrograms(isReopened: Bool) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let path = folder.appendingPathComponent("a.db").path
        let triggers = """
            CREATE TRIGGER added AFTER INSERT ON doc BEGIN
                UPDATE doc SET body = 'added' || new.body WHERE id = new.id; END;
            CREATE TRIGGER changed AFTER UPDATE OF extra ON doc BEGIN
                UPDATE doc SET body = new.extra || new.body WHERE id = new.id; END;
            """
        func write(_ db: Database) throws {
            try db.execute(sql: "INSERT INTO doc VALUES (3, 'word', 'x')")
            try #expect(found("addedword", db) == [3] && found("word", db) == [])
            try db.execute(sql: "UPDATE doc SET extra = 'now', body = 'text' WHERE id = 3")
            try #expect(found("nowtext", db) == [3] && found("text", db) == [] && found("addedword", db) == [])
            check(db)
        }
        try withIndex(path) { db in
            if isReopened {
                try db.withoutHistoryUpkeep { try db.execute(sql: triggers) }
            } else {
                try db.execute(sql: triggers)
                try write(db)
            }
        }
        if isReopened { try DatabaseQueue(path: path, configuration: Self.plain).writeWithoutTransaction(write) }
    }
}
