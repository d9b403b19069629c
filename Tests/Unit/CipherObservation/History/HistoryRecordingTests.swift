import CSQLCipher
import CipherDatabase
import CipherObservation
import Foundation
import Testing

/// The changes that the triggers of the history record.
@Suite struct HistoryRecordingTests {
    private let queue: DatabaseQueue

    init() {
        var config = Configuration()
        config.allowsUnsafeTransactions = true
        queue = DatabaseQueue(configuration: config)
    }

    private func execute(_ sql: String) throws { try queue.inDatabase { try $0.execute(sql: sql) } }

    private func record(_ tables: [String]?, columns: Bool = false, keeping: [String: [String]] = [:]) throws {
        try queue.write { try $0.startHistory(of: tables, notesColumns: columns, kept: keeping) }
    }

    /// The changes after one of them, as `+shelf 1` for an insertion, `-` a deletion, `*` an update, `?` a deletion that
    /// is not sure, `!` a table that must be read again.
    private func changes(after number: Int64 = 0) throws -> [String] {
        try queue.read { try $0.historyEntries(after: number, limit: 1_000) }.map(text)
    }

    private func text(_ entry: HistoryEntry) -> String {
        let sign: [HistoryOperation: String] = [
            .inserted: "+", .updated: "*", .deleted: "-", .perhapsDeleted: "?", .reset: "!",
        ]
        let key = entry.key.map { " \($0.storage)" }.joined()
        let plain = key.replacing("int64(", with: "").replacing("string(", with: "").replacing(")", with: "")
        return (sign[entry.operation] ?? "") + entry.tableName + plain
    }

    private func after(_ sql: String) throws -> [String] {
        let last = try queue.read { try $0.lastHistoryNumber() }
        try execute(sql)
        return try changes(after: last)
    }

    @Test("insertions, updates and deletions are recorded with their keys, and no other table is")
    func rows() throws {
        try execute("CREATE TABLE shelf (id INTEGER PRIMARY KEY, label TEXT); CREATE TABLE other (a)")
        #expect(try queue.read { try $0.recordedTables() } == nil)
        try record(["Shelf"])
        #expect(try queue.read { try $0.recordedTables() } == ["shelf"])
        #expect(try changes() == ["!shelf"])
        #expect(
            try after("INSERT INTO shelf VALUES (7, 'a'), (8, 'b'); INSERT INTO other VALUES (1)") == [
                "+shelf 7", "+shelf 8",
            ])
        #expect(try after("UPDATE shelf SET label = 'c' WHERE id = 8") == ["*shelf 8"])
        #expect(try after("UPDATE shelf SET id = 9 WHERE id = 8") == ["-shelf 8", "+shelf 9"])
        #expect(try after("UPDATE shelf SET rowid = 10 WHERE id = 9") == ["-shelf 9", "+shelf 10"])
        #expect(try after("DELETE FROM shelf") == ["-shelf 7", "-shelf 10"])
    }

    @Test("keys are typed: text that only its case changes, numbers that only their class changes")
    func typedKeys() throws {
        try execute(
            "CREATE TABLE word (w TEXT COLLATE NOCASE PRIMARY KEY) WITHOUT ROWID; CREATE TABLE n (a PRIMARY KEY)")
        try record(["word", "n"])
        #expect(try after("INSERT INTO word VALUES ('a')") == [#"+word "a""#])
        #expect(try after("UPDATE word SET w = 'A'") == [#"-word "a""#, #"+word "A""#])
        #expect(
            try after("INSERT INTO n VALUES (1); UPDATE n SET a = 1.0") == [
                "+n 1", "-n 1", "+n double(1.0",
            ])
    }

    // ANY was taken for a type that makes 1.0 an integer, as it is without STRICT.
    @Test("a REPLACE by an equal key of another class is a deletion, where ANY stores values as they are")
    func keysOfAnyClass() throws {
        try execute("CREATE TABLE s (a ANY PRIMARY KEY) STRICT; CREATE TABLE loose (a ANY PRIMARY KEY)")
        try record(["s", "loose"])
        #expect(
            try after("INSERT INTO s VALUES (1); INSERT OR REPLACE INTO s VALUES (1.0)") == [
                "+s 1", "?s 1", "+s double(1.0",
            ])
        #expect(
            try after("INSERT INTO loose VALUES (1); INSERT OR REPLACE INTO loose VALUES (1.0)") == [
                "+loose 1", "+loose 1",
            ])
    }

    @Test("rows that REPLACE removes are recorded, by unique, partial and expression indexes")
    func replace() throws {
        try execute(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b TEXT, c);
            CREATE UNIQUE INDEX partial ON t (c) WHERE c > 0;
            CREATE UNIQUE INDEX expression ON t (lower(b));
            """)
        try record(["t"])
        try execute("INSERT INTO t VALUES (1, 'x', 'B', 5), (2, 'y', 'D', 6)")
        #expect(try after("REPLACE INTO t VALUES (3, 'x', NULL, NULL)") == ["?t 1", "+t 3"])
        #expect(try after("REPLACE INTO t VALUES (4, NULL, 'd', NULL)") == ["?t 2", "+t 4"])
        #expect(
            try after("INSERT INTO t VALUES (5, NULL, NULL, 9); UPDATE OR REPLACE t SET c = 9 WHERE id = 4") == [
                "+t 5", "?t 5", "*t 4",
            ])
        #expect(try after("UPDATE t SET b = b") == ["*t 3", "*t 4"])
    }

    // Story: the history said "updated 3", or nothing, of a row that was removed.
    @Test(
        "a row that REPLACE removes is deleted, although an action of a foreign key concerns it or the row that is written",
        arguments: [
            ("SET NULL", "INSERT OR REPLACE INTO node VALUES (4, NULL, 's3')", ["-node 3", "+node 4"]),
            (
                "SET NULL", "UPDATE OR REPLACE node SET id = 4, tag = 's3' WHERE id = 5",
                ["-node 3", "-node 5", "+node 4"]
            ),
            ("CASCADE", "UPDATE OR REPLACE node SET id = 4 WHERE id = 3", ["-node 4", "-node 3"]),
            ("CASCADE", "UPDATE OR REPLACE node SET tag = 's4' WHERE id = 3", ["-node 4", "-node 3"]),
        ])
    func actionsAndReplacement(_ action: String, _ sql: String, _ expected: [String]) throws {
        try execute(
            """
            CREATE TABLE node (id INTEGER PRIMARY KEY, pid REFERENCES node(id) ON DELETE \(action), tag TEXT UNIQUE);
            INSERT INTO node VALUES (3, 4, 's3'), (4, NULL, 's4'), (5, NULL, 's5');
            """)
        try record(["node"])
        let last = try queue.read { try $0.lastHistoryNumber() }
        try execute(sql)
        let found = try queue.read { db in
            try db.resolvingDeletions(in: db.historyEntries(after: last, limit: 1_000), isEnd: true)
        }
        #expect(found.map(text) == expected)
    }

    @Test("REPLACE, UPSERT, cascades and triggers of the program are recorded the same", arguments: [false, true])
    func program(recursive: Bool) throws {
        try execute(
            """
            PRAGMA recursive_triggers = \(recursive);
            CREATE TABLE parent (id INTEGER PRIMARY KEY, a UNIQUE, n DEFAULT 0);
            CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent(id) ON DELETE CASCADE ON UPDATE CASCADE);
            CREATE TABLE log (id INTEGER PRIMARY KEY, what);
            CREATE TRIGGER noted AFTER UPDATE OF n ON parent BEGIN INSERT INTO log (what) VALUES (NEW.n); END;
            INSERT INTO parent (id, a) VALUES (1, 'x'), (2, 'y'), (3, 'z');
            INSERT INTO child VALUES (10, 1), (11, 1), (20, 2);
            """)
        try record(nil)
        let token = try queue.read { try $0.historyToken() }
        try execute(
            """
            INSERT INTO parent (id, a) VALUES (9, 'x') ON CONFLICT (a) DO UPDATE SET n = 5;
            REPLACE INTO parent (id, a) VALUES (4, 'z');
            DELETE FROM parent WHERE id = 1;
            UPDATE parent SET id = 7 WHERE id = 2;
            REPLACE INTO parent (id, a) VALUES (7, 'w');
            """)
        let changes = try queue.history(since: token, limit: 1_000).transactions.flatMap(\.changes)
        let found = changes.map { "\($0.kind) \($0.tableName) \($0.rowID ?? -1)" }
        func at(_ change: String) -> [Int] { found.indices.filter { found[$0] == change } }
        #expect(at("updated parent 1").count == 1 && at("inserted log 1").count == 1)
        #expect(at("deleted parent 3").count == 1 && at("inserted parent 4").count == 1)
        #expect(
            at("deleted parent 1").count == 1 && at("deleted child 10").count == 1 && at("deleted child 11").count == 1)
        #expect(at("deleted parent 2").count == 1 && at("updated child 20").count == 1)
        // The second is that of the REPLACE, whose removal of the child is a deletion too.
        #expect(at("inserted parent 7").count == 2 && at("deleted child 20").count == 1)
        #expect(at("inserted parent 9").isEmpty && at("deleted parent 9").isEmpty)
        for (earlier, later) in [
            ("deleted parent 3", "inserted parent 4"), ("updated parent 1", "deleted parent 1"),
            ("updated child 20", "deleted child 20"), ("deleted parent 2", "inserted parent 7"),
        ] { #expect(at(earlier).last ?? 99 < at(later).first ?? -1, "\(earlier), \(later): \(found)") }
    }

    @Test("each row tells its transaction and its author, and a writer without the library is unknown")
    func stamps() throws {
        let file = TemporaryFile()
        var config = Configuration()
        config.allowsUnencrypted = true
        config.label = "editor"
        let first = try DatabaseQueue(path: file.path, configuration: config)
        let second = try DatabaseQueue(path: file.path, configuration: config)
        try first.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)")
            try db.startHistory(of: ["t"], notesColumns: false, kept: [:])
        }
        try first.writeWithoutTransaction { try $0.execute(sql: "INSERT INTO t VALUES (1); INSERT INTO t VALUES (2)") }
        try second.write { try $0.execute(sql: "INSERT INTO t VALUES (3), (4)") }
        var raw: OpaquePointer?
        #expect(sqlite3_open(file.path, &raw) == SQLITE_OK)
        #expect(sqlite3_exec(raw, "INSERT INTO t VALUES (5)", nil, nil, nil) == SQLITE_OK)
        sqlite3_close(raw)
        let entries = try first.writeWithoutTransaction { try $0.historyEntries(after: 1, limit: 10) }
        #expect(entries.map(\.isOwn) == [true, true, false, false, false])
        #expect(Set(entries.map(\.origin)).count == 4)
        #expect(entries[2].origin == entries[3].origin)
        #expect(entries[4].origin == nil && entries[4].author == nil)
        let age = try #require(entries[0].seconds) - Date().timeIntervalSince1970
        #expect(abs(age) < 60)
    }

    @Test(
        "an author is known again after its row was rolled back",
        arguments: [
            "BEGIN; SAVEPOINT s; INSERT INTO t VALUES (1, 1); ROLLBACK TO s; INSERT INTO t VALUES (4, 4); COMMIT",
            "BEGIN; INSERT INTO t VALUES (2, 2), (3, 99); INSERT INTO t VALUES (4, 4); COMMIT",
            "BEGIN; INSERT INTO t VALUES (5, 5); ROLLBACK; INSERT INTO t VALUES (4, 4)",
        ])
    func authorAfterRollback(sql: String) throws {
        try execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a CHECK (a < 9))")
        try record(["t"])
        try execute("DELETE FROM cipherstore_history_author")
        for statement in sql.components(separatedBy: "; ") { try? execute(statement) }
        // Before the next transaction, which would make the row again.
        let authors = try queue.read { try Int64.fetchSet($0, sql: "SELECT id FROM cipherstore_history_author") }
        try execute("INSERT INTO t VALUES (6, 6)")
        let entries = try queue.read { try $0.historyEntries(after: 1, limit: 10) }
        #expect(entries.map { text($0) } == ["+t 4", "+t 6"])
        #expect(authors == Set(entries.compactMap(\.author)))
        #expect(entries[0].origin != entries[1].origin)
    }

    @Test("a deletion is not sure where a trigger has inserted the row again before it is recorded")
    func insertedAgain() throws {
        try execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a); INSERT INTO t VALUES (1, 1), (2, 2)")
        try record(["t"])
        let token = try queue.read { try $0.historyToken() }
        // Temporary triggers run first.
        try execute(
            """
            CREATE TEMP TRIGGER back AFTER DELETE ON t BEGIN INSERT INTO t VALUES (OLD.id, 9); END;
            CREATE TEMP TRIGGER other AFTER UPDATE OF id ON t BEGIN INSERT INTO t VALUES (OLD.id, 9); END
            """)
        #expect(try after("DELETE FROM t WHERE id = 1") == ["+t 1", "?t 1"])
        #expect(try after("UPDATE t SET id = 3 WHERE id = 2") == ["+t 2", "?t 2", "+t 3"])
        let kinds = try queue.history(since: token).transactions.flatMap(\.changes).map(\.kind)
        #expect(kinds == [.inserted, .inserted, .inserted])
    }

    @Test("changed columns and former values are recorded where they are asked for")
    func columnsAndFormerValues() throws {
        try execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE, file)")
        try record(["t"], columns: true, keeping: ["t": ["file", "b"]])
        try execute("INSERT INTO t VALUES (1, 1, 'x', 'f1'), (2, 1, 'x', 'f2')")
        try execute("UPDATE t SET a = 1, b = 'X' WHERE id = 1; UPDATE t SET id = 3, a = 2 WHERE id = 2")
        try execute("DELETE FROM t WHERE id = 1; REPLACE INTO t VALUES (3, 5, NULL, x'01')")
        let entries = try queue.read { try $0.historyEntries(after: 3, limit: 20) }
        #expect(entries.map { text($0) } == ["*t 1", "-t 2", "+t 3", "-t 1", "?t 3", "+t 3"])
        #expect(entries[0].columns == ["b"])
        #expect(entries[1].former == ["file": "f2".databaseValue, "b": "x".databaseValue])
        #expect(entries[3].former["file"] == "f1".databaseValue)
        #expect(entries[4].former["file"] == "f2".databaseValue)
    }

    @Test("what cannot be recorded is refused with the reason")
    func unsuitable() throws {
        try execute(
            """
            CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE f USING fts5(a);
            CREATE TABLE hidden (rowid, oid, _rowid_); CREATE TABLE t (a)
            """)
        for name in ["v", "f", "f_data", "hidden", "sqlite_schema", "cipherstore_history"] {
            let error = #expect(throws: HistoryError.self) { try record([name]) }
            #expect(error?.code == .unsuitableTable, "\(name)")
        }
        #expect(throws: DatabaseError.self) { try record(["missing"]) }
        let error = #expect(throws: HistoryError.self) { try record(["t"], keeping: ["t": ["b"]]) }
        #expect(error?.code == .noSuchColumn)
        #expect(try queue.read { try $0.recordedTables() } == nil)
    }

    @Test("sqlite_compileoption_get still answers other arguments")
    func otherArguments() throws {
        let options = try queue.read { db in
            try String.fetchAll(
                db, sql: "SELECT sqlite_compileoption_get(0) UNION ALL SELECT sqlite_compileoption_get(1)")
        }
        #expect(options.count == 2 && options.allSatisfy { !$0.isEmpty })
        #expect(try queue.read { try String.fetchOne($0, sql: "SELECT sqlite_compileoption_get(-5)") } == nil)
    }
}
