import CipherSchema
import Foundation
import Testing

@testable import CipherDatabase
@testable import CipherRecords

/// A synchronized full-text table follows its table through every statement that changes rows.
///
/// The story: `INSERT OR REPLACE` removed a row without a trigger. Its words stayed in the index, were given to the next
/// row with the same rowid, and the index ended as SQLITE_CORRUPT.
@Suite("Synchronized full-text tables")
struct SynchronizationTests {
    private struct Doc: Codable, FetchableRecord, PersistableRecord {
        var id: Int64
        var k: String?
        var body: String
    }

    private static let hasFTS4 = (try? DatabaseQueue().write { try $0.create(virtualTable: "t", using: FTS4()) }) != nil

    /// Runs a block on a table whose text is indexed.
    private func withIndex(
        columns: String = "id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT", fts4: Bool = false,
        before: String = "", _ body: (Database) throws -> Void
    ) throws {
        try DatabaseQueue().writeWithoutTransaction { db in
            try db.execute(sql: "CREATE TABLE doc (\(columns)); \(before)")
            if fts4 {
                try db.create(virtualTable: "ft", using: FTS4()) { t in
                    t.synchronize(withTable: "doc")
                    t.column("body")
                }
            } else {
                try db.create(virtualTable: "ft", using: FTS5()) { t in
                    t.synchronize(withTable: "doc")
                    t.column("body")
                }
            }
            try body(db)
        }
    }

    /// Compares the index with the table: SQLite does that.
    private func check(_ db: Database, fts4: Bool = false, _ location: SourceLocation = #_sourceLocation) {
        #expect(throws: Never.self, sourceLocation: location) {
            try db.execute(
                sql: fts4
                    ? "INSERT INTO ft(ft) VALUES ('integrity-check')"
                    : "INSERT INTO ft(ft, rank) VALUES ('integrity-check', 1)")
        }
    }

    private func found(_ word: String, _ db: Database) throws -> [Int64] {
        try Int64.fetchAll(db, sql: "SELECT rowid FROM ft WHERE ft MATCH ? ORDER BY rowid", arguments: [word])
    }

    @Test("a row that REPLACE displaces takes its words with it")
    func replace() throws {
        try withIndex { db in
            try Doc(id: 1, k: "a", body: "zarquon").insert(db)
            // By another unique key, by its own key, and by both.
            try Doc(id: 2, k: "a", body: "plain").insert(db, onConflict: .replace)
            try #expect(found("zarquon", db) == [] && found("plain", db) == [2])
            try Doc(id: 1, k: "b", body: "other").insert(db)
            try Doc(id: 2, k: "c", body: "again").insert(db, onConflict: .replace)
            try #expect(found("plain", db) == [] && found("again", db) == [2])
            try Doc(id: 1, k: "c", body: "both").insert(db, onConflict: .replace)
            try #expect(found("again", db) == [] && found("other", db) == [] && found("both", db) == [1])
            check(db)
            try db.execute(sql: "DELETE FROM doc WHERE id = 1")
            try #expect(found("both", db) == [])
            check(db)
        }
    }

    @Test("UPDATE OR REPLACE, by a unique key and by the rowid")
    func updateOrReplace() throws {
        try withIndex { db in
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one'), (2, 'b', 'two'), (3, 'c', 'three')")
            try db.execute(sql: "UPDATE OR REPLACE doc SET k = 'b' WHERE id = 1")
            try #expect(found("two", db) == [] && found("one", db) == [1])
            try db.execute(sql: "UPDATE OR REPLACE doc SET id = 3, body = 'moved' WHERE id = 1")
            try #expect(found("three", db) == [] && found("one", db) == [] && found("moved", db) == [3])
            check(db)
        }
    }

    @Test("rows that stay, as with IGNORE and UPSERT, keep their words, and lose none later")
    func rowsThatStay() throws {
        try withIndex(columns: "id INTEGER PRIMARY KEY, k TEXT UNIQUE NOT NULL, body TEXT CHECK (body <> 'no')") { db in
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one'), (2, 'b', 'two')")
            try db.execute(sql: "INSERT OR IGNORE INTO doc VALUES (3, 'a', 'x')")
            try db.execute(sql: "INSERT INTO doc VALUES (3, 'a', 'x') ON CONFLICT DO NOTHING")
            try db.execute(sql: "UPDATE OR IGNORE doc SET k = 'a', body = 'x' WHERE id = 2")
            try db.execute(sql: "UPDATE OR IGNORE doc SET k = NULL, body = 'x' WHERE id = 2")
            try db.execute(sql: "UPDATE OR IGNORE doc SET body = 'no' WHERE id = 2")
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO doc VALUES (3, 'a', 'x')") }
            check(db)
            try db.execute(
                sql: "INSERT INTO doc VALUES (3, 'a', 'upsert') ON CONFLICT (k) DO UPDATE SET body = excluded.body")
            try #expect(found("one", db) == [] && found("upsert", db) == [1] && found("two", db) == [2])
            // The notes about a row that stayed are gone with its values.
            try db.execute(sql: "INSERT OR IGNORE INTO doc VALUES (4, 'b', 'x')")
            try db.execute(sql: "UPDATE doc SET body = 'second' WHERE id = 2")
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES (5, 'b', 'five')")
            try db.execute(sql: "INSERT OR IGNORE INTO doc VALUES (6, 'b', 'x')")
            try db.execute(sql: "DELETE FROM doc WHERE id = 5; INSERT INTO doc VALUES (5, 'q', 'new')")
            try #expect(found("second", db) == [] && found("two", db) == [] && found("five", db) == [])
            check(db)
        }
    }

    @Test("tables with a hidden rowid, a conflict clause of their own, expressions, partial and later indexes")
    func keysOfAllKinds() throws {
        try withIndex(
            columns: "id TEXT PRIMARY KEY ON CONFLICT REPLACE, a, b COLLATE NOCASE, body TEXT",
            before: "CREATE UNIQUE INDEX e ON doc (lower(a)); CREATE UNIQUE INDEX p ON doc (a, b) WHERE b <> 'free'"
        ) { db in
            try db.execute(sql: "INSERT INTO doc VALUES ('x', 'A', 'k', 'one'), ('y', 'B', 'k', 'two')")
            try db.execute(sql: "INSERT INTO doc VALUES ('x', 'C', 'k', 'three')")
            try #expect(found("one", db) == [] && found("three", db).count == 1)
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES ('z', 'b', 'm', 'four')")
            try #expect(found("two", db) == [] && found("four", db).count == 1)
            check(db)
            // The triggers follow an index that comes later.
            try db.execute(sql: "CREATE UNIQUE INDEX later ON doc (b)")
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES ('q', 'q', 'M', 'five')")
            try #expect(found("four", db) == [] && found("five", db).count == 1)
            check(db)
            try db.execute(sql: "DROP INDEX later; DROP INDEX p")
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES ('r', 'r', 'M', 'six')")
            try #expect(found("five", db).count == 1 && found("six", db).count == 1)
            check(db)
        }
    }

    @Test("with recursive triggers, with a trigger of the program that writes the same table, and in one transaction")
    func triggersOfPrograms() throws {
        let nested = """
            CREATE TRIGGER nested BEFORE INSERT ON doc WHEN new.id < 100
            BEGIN INSERT INTO doc VALUES (new.id + 100, 'nested' || new.id, 'nested'); END
            """
        for recursive in [false, true] {
            try withIndex(before: nested) { db in
                try db.execute(sql: "PRAGMA recursive_triggers = \(recursive ? 1 : 0)")
                try db.inTransaction {
                    try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'zarquon')")
                    try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES (2, 'a', 'plain'), (3, 'a', 'last')")
                    return .commit
                }
                try #expect(found("zarquon", db) == [] && found("plain", db) == [] && found("last", db) == [3])
                check(db)
            }
        }
    }

    @Test("a table that exists already, a temporary one, and one that is dropped")
    func lifeOfTheTriggers() throws {
        try withIndex { db in
            // The triggers of an earlier version.
            try db.dropFTS5SynchronizationTriggers(forTable: "ft")
            try #expect(!db.triggerExists("__ft_ai"))
            func create(_ options: VirtualTableOptions = .ifNotExists) throws {
                try db.create(virtualTable: "ft", options: options, using: FTS5()) { t in
                    t.synchronize(withTable: "doc")
                    t.column("body")
                }
            }
            try create()
            try create()
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one'); REPLACE INTO doc VALUES (2, 'a', 'b')")
            try #expect(found("one", db) == [])
            check(db)
            try db.dropFTS5SynchronizationTriggers(forTable: "ft")
            try db.drop(table: "ft")
            try #expect(String.fetchAll(db, sql: "SELECT name FROM sqlite_master WHERE name LIKE '%ft%'") == [])
            // A temporary one looks for its content in the temporary schema.
            try db.execute(sql: "CREATE TEMP TABLE doc (id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT)")
            try create(.temporary)
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'b'); REPLACE INTO doc VALUES (3, 'a', 'three')")
            try #expect(found("b", db) == [] && found("three", db) == [3])
            check(db)
            try db.execute(sql: "CREATE UNIQUE INDEX temp.later ON doc (body)")
            try db.execute(sql: "REPLACE INTO doc VALUES (4, 'd', 'three')")
            try #expect(found("three", db) == [4])
            check(db)
        }
    }

    @Test("FTS4 refuses what it cannot follow", .enabled(if: SynchronizationTests.hasFTS4))
    func fts4() throws {
        try withIndex(columns: "id INTEGER PRIMARY KEY, k TEXT UNIQUE NOT NULL, body TEXT", fts4: true) { db in
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one'), (2, 'b', 'two')")
            for sql in [
                "INSERT OR REPLACE INTO doc VALUES (3, 'a', 'x')", "INSERT OR REPLACE INTO doc VALUES (1, 'q', 'x')",
                "UPDATE OR REPLACE doc SET k = 'b' WHERE id = 1", "UPDATE OR REPLACE doc SET id = 2 WHERE id = 1",
            ] {
                let error = #expect(throws: DatabaseError.self) { try db.execute(sql: sql) }
                #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_TRIGGER)
            }
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES (4, 'd', 'four')")
            try db.execute(sql: "INSERT OR IGNORE INTO doc VALUES (3, 'a', 'x')")
            try db.execute(sql: "UPDATE OR IGNORE doc SET k = 'b' WHERE id = 1")
            try db.execute(sql: "UPDATE OR IGNORE doc SET k = NULL WHERE id = 1")
            try db.execute(
                sql: "INSERT INTO doc VALUES (3, 'a', 'upsert') ON CONFLICT (k) DO UPDATE SET body = excluded.body")
            try #expect(found("upsert", db) == [1] && found("two", db) == [2] && found("four", db) == [4])
            check(db, fts4: true)
        }
    }

    @Test("an index of a table without a declared key survives VACUUM", arguments: [false, true])
    func vacuum(fts4: Bool) throws {
        guard !fts4 || Self.hasFTS4 else { return }
        try withIndex(columns: "body TEXT", fts4: fts4) { db in
            try db.execute(sql: "INSERT INTO doc VALUES ('one'), ('two'), ('three')")
            try db.execute(sql: "DELETE FROM doc WHERE body = 'one'")
            try db.execute(sql: "VACUUM")
            let sql = "SELECT body FROM doc WHERE rowid IN (SELECT rowid FROM ft WHERE ft MATCH 'two')"
            try #expect(String.fetchAll(db, sql: sql) == ["two"])
            check(db, fts4: fts4)
        }
    }

    // It was "no such table: doc", once.
    @Test("a change of a table is compiled after VACUUM and a change of the schema by another connection")
    func changeOfSchemaAfterVacuum() throws {
        try withFile { path in
            var configuration = Configuration()
            configuration.allowsUnencrypted = true
            let queue = try DatabaseQueue(path: path, configuration: configuration)
            let other = try DatabaseQueue(path: path, configuration: configuration)
            try queue.write { db in
                try db.execute(sql: "CREATE TABLE doc (id INTEGER PRIMARY KEY, body TEXT)")
                for name in ["first", "second"] {
                    try db.create(virtualTable: name, using: FTS5()) { t in
                        t.synchronize(withTable: "doc")
                        t.column("body")
                    }
                }
                try db.execute(sql: "INSERT INTO doc VALUES (1, 'one')")
            }
            let changes = [
                "UPDATE doc SET body = 'two'", "INSERT OR REPLACE INTO doc VALUES (1, 'three')",
                "INSERT INTO doc VALUES (2, 'one')", "DELETE FROM doc WHERE id = 2",
            ]
            for (number, change) in changes.enumerated() {
                try queue.vacuum()
                try queue.read { db in try #expect(Int.fetchOne(db, sql: "SELECT count(*) FROM doc") != 0) }
                try other.write { try $0.execute(sql: "CREATE TABLE n\(number) (a)") }
                try queue.write { try $0.execute(sql: change) }
            }
            try queue.write { db in
                for name in ["first", "second"] {
                    try #expect(
                        Int64.fetchAll(db, sql: "SELECT rowid FROM \(name) WHERE \(name) MATCH 'three'") == [1])
                }
            }
        }
    }

    @Test("VACUUM leaves an index as it is that the program fills in its own way")
    func vacuumOfOwnIndexes() throws {
        try DatabaseQueue().writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE doc (body TEXT);
                    INSERT INTO doc VALUES ('one'), ('two');
                    CREATE VIRTUAL TABLE ft USING fts5(body, content='doc');
                    INSERT INTO ft(rowid, body) VALUES (1, 'uno'), (2, 'dos');
                    CREATE VIRTUAL TABLE own USING fts5(body, content='doc');
                    INSERT INTO own(own) VALUES ('rebuild');
                    CREATE VIRTUAL TABLE ghost USING fts5(body, content='missing');
                    CREATE VIRTUAL TABLE bare USING fts5(body, content='');
                    DELETE FROM doc WHERE rowid = 1; INSERT INTO own(own, rowid, body) VALUES ('delete', 1, 'one');
                    """)
            try db.execute(sql: "VACUUM")
            try #expect(found("dos", db) == [2])
            try #expect(Int64.fetchAll(db, sql: "SELECT rowid FROM own WHERE own MATCH 'two'") == [1])
        }
    }

    private func withFile(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: folder) }
        try body(folder.appendingPathComponent("plain.db").path)
    }

    /// Opens a file for one access.
    private func open(_ path: String, _ body: (Database) throws -> Void) throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let queue = try DatabaseQueue(path: path, configuration: configuration)
        try queue.writeWithoutTransaction(body)
        try queue.close()
    }

    // The index was made again in a commit of its own, and nothing said so after a kill before it.
    @Test("a VACUUM that is killed before the index is made again is completed by the next opening")
    func killedVacuum() throws { try withFile(killVacuum) }

    private func killVacuum(_ path: String) throws {
        let find = "SELECT body FROM doc WHERE rowid IN (SELECT rowid FROM ft WHERE ft MATCH 'two')"
        func marks(_ db: Database) throws -> Int {
            try Int.fetchOne(db, sql: "SELECT count(*) FROM sqlite_schema WHERE name = 'cipherstore_vacuum'") ?? 0
        }
        try open(path) { db in
            try db.execute(sql: "CREATE TABLE doc (body TEXT)")
            try db.create(virtualTable: "ft", using: FTS5()) { t in
                t.synchronize(withTable: "doc")
                t.column("body")
            }
            try db.execute(sql: "INSERT INTO doc VALUES ('one'), ('two'), ('three')")
            try db.execute(sql: "DELETE FROM doc WHERE body = 'one'")
            try db.execute(sql: "VACUUM")
            try #expect(marks(db) == 0 && String.fetchAll(db, sql: find) == ["two"])
            try db.execute(sql: "DELETE FROM doc WHERE body = 'two'; INSERT INTO doc VALUES ('two')")
            // The statement alone, with what is done before it.
            try #require(db.features[FullTextUpkeep.key]).willVacuum(on: db)
            try db.withoutHistoryUpkeep { try db.execute(sql: "VACUUM") }
            try #expect(marks(db) == 1 && String.fetchAll(db, sql: find) != ["two"])
        }
        // While the process runs, another connection leaves the index to it.
        try open(path) { try #expect(marks($0) == 1 && String.fetchAll($0, sql: find) != ["two"]) }
        try open(path) { try $0.execute(sql: "UPDATE cipherstore_vacuum SET run = 0") }
        try open(path) { db in
            try #expect(marks(db) == 0 && String.fetchAll(db, sql: find) == ["two"])
            check(db)
        }
    }

    // They went on losing what REPLACE displaces until the program created the table again.
    @Test("triggers of an earlier version are made again by the next opening, and the index with them")
    func earlierTriggers() throws { try withFile(replaceTriggers) }

    private func replaceTriggers(_ path: String) throws {
        try open(path) { db in
            try db.execute(
                sql: """
                    CREATE TABLE doc (id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT);
                    CREATE VIRTUAL TABLE ft USING fts5(body, content='doc', content_rowid='id');
                    CREATE TRIGGER "__ft_ai" AFTER INSERT ON "doc" BEGIN
                        INSERT INTO "ft"("rowid", "body") VALUES (new."id", new."body");
                    END;
                    CREATE TRIGGER "__ft_ad" AFTER DELETE ON "doc" BEGIN
                        INSERT INTO "ft"("ft", "rowid", "body") VALUES('delete', old."id", old."body");
                    END;
                    CREATE TRIGGER "__ft_au" AFTER UPDATE ON "doc" BEGIN
                        INSERT INTO "ft"("ft", "rowid", "body") VALUES('delete', old."id", old."body");
                        INSERT INTO "ft"("rowid", "body") VALUES (new."id", new."body");
                    END;
                    INSERT INTO doc VALUES (1, 'a', 'zarquon');
                    INSERT OR REPLACE INTO doc VALUES (2, 'a', 'plain');
                    """)
            try #expect(found("zarquon", db) == [1])
        }
        try open(path) { db in
            try #expect(found("zarquon", db) == [] && found("plain", db) == [2])
            try db.execute(sql: "INSERT OR REPLACE INTO doc VALUES (3, 'a', 'again')")
            try #expect(found("plain", db) == [] && found("again", db) == [3])
            check(db)
        }
        // Triggers of the program, which index other words, are its own.
        try open(path) { db in
            try db.dropFTS5SynchronizationTriggers(forTable: "ft")
            try db.execute(
                sql: """
                    CREATE TRIGGER "__ft_ai" AFTER INSERT ON "doc" BEGIN
                        INSERT INTO "ft"("rowid", "body") VALUES (new."id", upper(new."body"));
                    END
                    """)
        }
        try open(path) { db in
            let names = try String.fetchAll(db, sql: "SELECT name FROM sqlite_schema WHERE type = 'trigger'")
            #expect(names == ["__ft_ai"])
        }
    }

    // Each update of a counter wrote the words of the row again.
    @Test("an update of other columns does not write the index; one that can displace a row or change its words does")
    func otherColumns() throws {
        func cost(_ sql: String, _ db: Database) throws -> Int {
            let before = try Int.fetchOne(db, sql: "SELECT total_changes()") ?? 0
            try db.execute(sql: sql)
            return try (Int.fetchOne(db, sql: "SELECT total_changes()") ?? 0) - before
        }
        let columns = "id INTEGER PRIMARY KEY, k TEXT UNIQUE, body TEXT, seen INTEGER"
        for fts4 in [false, true] where !fts4 || Self.hasFTS4 {
            try withIndex(columns: columns, fts4: fts4) { db in
                try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one', 0), (2, 'b', 'two', 0)")
                #expect(try cost("UPDATE doc SET seen = seen + 1 WHERE id = 1", db) == 1)
                #expect(try cost("UPDATE OR REPLACE doc SET seen = NULL WHERE id = 1", db) == 1)
                #expect(try cost("UPDATE doc SET body = 'three' WHERE id = 1", db) > 1)
                try #expect(found("one", db) == [] && found("three", db) == [1])
                for (name, id) in [("rowid", 5), ("_rowid_", 6), ("oid", 7), ("id", 8)] {
                    try db.execute(sql: "UPDATE doc SET \(name) = \(id) WHERE k = 'a'")
                    try #expect(found("three", db) == [Int64(id)], "\(name)")
                }
                check(db, fts4: fts4)
            }
        }
        try withIndex(columns: columns) { db in
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'a', 'one', 0), (2, 'b', 'two', 0)")
            try db.execute(sql: "INSERT OR IGNORE INTO doc VALUES (3, 'a', 'x', 0)")
            try db.execute(sql: "UPDATE doc SET seen = 9 WHERE id = 1; UPDATE OR REPLACE doc SET k = 'a' WHERE id = 2")
            try #expect(found("one", db) == [] && found("two", db) == [2])
            check(db)
            // A key of another column comes, and goes.
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'q', 'one', 1); CREATE UNIQUE INDEX s ON doc (seen)")
            try db.execute(sql: "UPDATE OR REPLACE doc SET seen = 1 WHERE id = 2")
            try #expect(found("one", db) == [] && found("two", db) == [2])
            try db.execute(sql: "DROP INDEX s; CREATE UNIQUE INDEX e ON doc (abs(seen))")
            try db.execute(sql: "INSERT INTO doc VALUES (1, 'q', 'one', 2)")
            try db.execute(sql: "UPDATE OR REPLACE doc SET seen = -2 WHERE id = 2")
            try #expect(found("one", db) == [] && found("two", db) == [2])
            check(db)
        }
        try withIndex(columns: "id INTEGER PRIMARY KEY, raw TEXT, seen, body TEXT AS (raw || '!')") { db in
            try db.execute(sql: "INSERT INTO doc (id, raw) VALUES (1, 'one'); UPDATE doc SET raw = 'two'")
            try #expect(found("one", db) == [] && found("two", db) == [1])
            check(db)
        }
    }
}
