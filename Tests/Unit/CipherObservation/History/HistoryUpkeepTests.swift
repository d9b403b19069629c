import CipherDatabase
import CipherObservation
import CipherRecords
import CipherSchema
import Foundation
import Testing

/// The recording follows the tables: through changes of the schema, and after others have changed it.
@Suite struct HistoryUpkeepTests {
    private let file = TemporaryFile()

    private func open(_ notices: Collected<String> = Collected()) throws -> DatabaseQueue {
        var config = Configuration()
        config.allowsUnencrypted = true
        config.onNotice = { notices.add($0) }
        return try DatabaseQueue(path: file.path, configuration: config)
    }

    /// A database with the recorded table `t`.
    private func recorded(columns: Bool = false) throws -> DatabaseQueue {
        let queue = try open()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a, file); INSERT INTO t VALUES (1, 'x', 'f')")
            try db.recordHistory(of: .tables(["t"]), columns: columns, keeping: columns ? ["t": ["file"]] : [:])
        }
        return queue
    }

    /// The changes that a function makes, as `inserted t`.
    private func changes(_ queue: DatabaseQueue, _ body: (Database) throws -> Void) throws -> [String] {
        let token = try queue.read { try $0.historyToken() }
        try queue.inDatabase(body)
        return try queue.history(since: token).transactions.flatMap(\.changes).map { "\($0.kind) \($0.tableName)" }
    }

    @Test("a table that is made again in a migration stays recorded, and must be read again")
    func twelveSteps() throws {
        let queue = try recorded()
        let token = try queue.read { try $0.historyToken() }
        var migrator = DatabaseMigrator()
        migrator.registerMigration("rebuild") { db in
            try db.execute(
                sql: """
                    CREATE TABLE new_t (id INTEGER PRIMARY KEY, a NOT NULL, file);
                    INSERT INTO new_t SELECT * FROM t;
                    DROP TABLE t;
                    ALTER TABLE new_t RENAME TO t;
                    """)
        }
        try migrator.migrate(queue)
        let kinds = try queue.history(since: token).transactions.flatMap(\.changes).map(\.kind)
        #expect(!kinds.isEmpty && kinds.allSatisfy { $0 == .reset })
        #expect(try changes(queue) { try $0.execute(sql: "INSERT INTO t VALUES (5, 6, 7)") } == ["inserted t"])
        #expect(try queue.read { try $0.isHistoryInOrder() })
    }

    @Test("columns are added, renamed and dropped, also those that the triggers name")
    func columns() throws {
        let queue = try recorded(columns: true)
        for sql in [
            "ALTER TABLE t ADD COLUMN b", "ALTER TABLE t RENAME COLUMN a TO c", "ALTER TABLE t DROP COLUMN c",
            "ALTER TABLE t RENAME COLUMN file TO path",
        ] {
            #expect(try changes(queue) { try $0.execute(sql: sql) } == ["reset t"], "\(sql)")
        }
        let token = try queue.read { try $0.historyToken() }
        try queue.write { try $0.execute(sql: "UPDATE t SET b = 1; DELETE FROM t") }
        let found = try queue.history(since: token).transactions.flatMap(\.changes)
        #expect(found.map(\.changedColumns) == [["b"], nil])
        #expect(found[1].formerValues == ["path": "f".databaseValue])
        #expect(throws: DatabaseError.self) {
            try queue.write { try $0.execute(sql: "ALTER TABLE t DROP COLUMN id") }
        }
        #expect(try queue.read { try $0.isHistoryInOrder() })
    }

    @Test("a renamed table is recorded by its new name; a dropped one when it comes back")
    func renamedAndDropped() throws {
        let queue = try recorded()
        #expect(try changes(queue) { try $0.execute(sql: "ALTER TABLE t RENAME TO u") } == ["reset t", "reset u"])
        #expect(try queue.read { try $0.recordedTables() } == ["u"])
        #expect(try changes(queue) { try $0.execute(sql: "DROP TABLE u") } == ["reset u"])
        #expect(try queue.read { try $0.recordedTables() } == [])
        let back = try changes(queue) { db in
            try db.execute(sql: "CREATE TABLE u (k TEXT PRIMARY KEY); INSERT INTO u VALUES ('a')")
        }
        #expect(back == ["reset u", "inserted u"])
    }

    @Test("a change of the schema that is rolled back changes nothing")
    func rolledBack() throws {
        let queue = try recorded()
        let changes = try changes(queue) { db in
            try db.inTransaction {
                try db.execute(sql: "SAVEPOINT s; DROP TABLE t; ROLLBACK TO s; INSERT INTO t VALUES (2, 3, 4)")
                return .commit
            }
            try db.inTransaction {
                try db.execute(sql: "ALTER TABLE t RENAME TO u")
                return .rollback
            }
            try db.execute(sql: "INSERT INTO t VALUES (3, 3, 4)")
        }
        #expect(changes == ["inserted t", "inserted t"])
        #expect(try queue.read { try $0.recordedTables() } == ["t"])
    }

    @Test("where all tables are recorded, those that are created later are too")
    func allTables() throws {
        let queue = try open()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (a); CREATE VIEW v AS SELECT 1; CREATE VIRTUAL TABLE f USING fts5(a)")
            try db.recordHistory(of: .allTables)
        }
        #expect(try queue.read { try $0.recordedTables() } == ["t"])
        let found = try changes(queue) { db in
            try db.execute(sql: "CREATE TABLE w (k PRIMARY KEY) WITHOUT ROWID; INSERT INTO w VALUES (1)")
            try db.execute(sql: "CREATE TABLE copy AS SELECT * FROM w")
        }
        #expect(found == ["reset w", "inserted w", "reset copy"])
        let error = #expect(throws: HistoryError.self) {
            try queue.write { try $0.stopRecordingHistory(of: .tables(["w"])) }
        }
        #expect(error?.code == .allTablesRecorded)
        #expect(try changes(queue) { try $0.execute(sql: "INSERT INTO w VALUES (3)") } == ["inserted w"])
        try queue.write { try $0.stopRecordingHistory(of: .allTables) }
        #expect(try changes(queue) { try $0.execute(sql: "CREATE TABLE z (a); INSERT INTO w VALUES (2)") } == [])
    }

    @Test("all tables of an empty database are recorded, as soon as there are any")
    func noTables() throws {
        let queue = try open()
        try queue.write { try $0.recordHistory(of: .allTables) }
        let (status, token) = try queue.read { try ($0.historyStatus(), $0.historyToken()) }
        #expect(status?.tableNames == [])
        #expect(status?.changeCount == 0)
        #expect(try queue.history(since: token).transactions.isEmpty)
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        #expect(try queue.read { try $0.historyStatus() }?.tableNames == ["t"])
        let kinds = try queue.history(since: token).transactions.flatMap(\.changes).map(\.kind)
        #expect(kinds == [.reset, .inserted])
    }

    @Test("what is recorded is read again where another connection changes it meanwhile")
    func changedWhileRead() throws {
        var queue = try recorded(columns: true)
        try queue.close()
        queue = try open()
        let other = try open()
        let changes = Collected<String>()
        try queue.inDatabase { db in
            db.clearSchemaCache()
            db.trace { event in
                // The columns of the history are known then, and what is recorded is not.
                guard event.description.contains("FROM main.cipherstore_history_table"), changes.all.isEmpty else {
                    return
                }
                changes.add("w")
                try? other.write { db in
                    try db.execute(sql: "ALTER TABLE t ADD COLUMN b; CREATE TABLE w (x, y, z, PRIMARY KEY (x, y, z))")
                    try db.recordHistory(of: .tables(["w"]))
                }
            }
            #expect(try db.recordedTables() == ["t", "w"])
            db.trace(nil)
            #expect(changes.all == ["w"])
            try other.write { try $0.execute(sql: "UPDATE t SET b = 1; INSERT INTO w VALUES (1, 2, 3)") }
            let entries = try db.historyEntries(after: 0, limit: 100).suffix(2)
            #expect(entries.first?.columns == ["b"])
            #expect(entries.last?.key.map(\.description) == ["1", "2", "3"])
        }
    }

    @Test("triggers that pause in commits record what a stock program writes, and stay as they are")
    func pausingTriggers() throws {
        var queue = try open()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE)")
            try db.startHistory(of: ["t"], notesColumns: false, kept: [:], pausing: true)
        }
        let token = try queue.read { try $0.historyToken() }
        try queue.close()
        let sql = "INSERT INTO t VALUES (1, 'x'); UPDATE t SET a = 'y'; UPDATE t SET id = 2; DELETE FROM t"
        #expect(StockConnection(file.path).execute(sql) == 0)
        let notices = Collected<String>()
        queue = try open(notices)
        let changes = try queue.history(since: token).transactions.flatMap(\.changes)
        #expect(changes.map(\.kind) == [.inserted, .updated, .deleted, .inserted, .deleted])
        #expect(notices.all.isEmpty)
    }

    @Test("triggers that a stock program drops are made again at the next opening, which names the table")
    func droppedTriggers() throws {
        var queue = try recorded()
        let token = try queue.read { try $0.historyToken() }
        try queue.close()
        let stock = StockConnection(file.path)
        #expect(stock.execute("DROP TRIGGER cipherstore_history_1_insert; INSERT INTO t VALUES (9, 9, 9)") == 0)
        let reader = try open()
        let notices = Collected<String>()
        try reader.close()
        // The opening above has repaired them: once more, with a look at the notice.
        #expect(stock.execute("DROP TRIGGER cipherstore_history_1_delete; DELETE FROM t WHERE id = 9") == 0)
        queue = try open(notices)
        #expect(notices.all.contains { $0.contains("\"t\"") && $0.contains("triggers") })
        let kinds = try queue.history(since: token).transactions.flatMap(\.changes).map(\.kind)
        #expect(kinds == [.reset, .reset])
        #expect(try changes(queue) { try $0.execute(sql: "DELETE FROM t") } == ["deleted t"])
    }

    @Test(
        "tables of the history that a stock program drops are made again at the next opening, which says so",
        arguments: ["", "_table", "_author", "_reader", "_state", "all"])
    func droppedTables(suffix: String) throws {
        let queue = try recorded(columns: true)
        let token = try queue.write { db in
            try db.setHistoryLimits(HistoryLimits(count: 77))
            try db.execute(sql: "CREATE TABLE u (a); INSERT INTO t VALUES (2, 'y', 'g')")
            try db.registerHistoryReader("slow")
            return try db.historyToken()
        }
        try queue.close()
        let suffixes = suffix == "all" ? ["", "_table", "_author", "_reader", "_state"] : [suffix]
        for suffix in suffixes {
            #expect(StockConnection(file.path).execute("DROP TABLE cipherstore_history\(suffix)") == 0)
        }
        let notices = Collected<String>()
        let again = try open(notices)
        let notice = try #require(notices.all.first)
        #expect(notices.all.count == 1 && notice.contains("was made that records \"t\""), "\(notices.all)")
        let hasSettings = !suffixes.contains("_state")
        #expect(notice.contains("limits and options are those of a new history") != hasSettings)
        #expect(try again.read { try $0.historyLimits() }.count == (hasSettings ? 77 : 1_000_000))
        #expect(try again.read { try $0.isHistoryInOrder() })
        let error = #expect(throws: HistoryError.self) { try again.history(since: token) }
        #expect(error?.code == .expired)
        let readers = try again.read { try $0.historyReaders() }
        #expect(readers.map(\.isExpired) == (suffixes.contains("_reader") ? [] : [true]))
        let fresh = try again.read { try $0.historyToken() }
        try again.write { try $0.execute(sql: "UPDATE t SET a = 'z' WHERE id = 2; DELETE FROM t WHERE id = 1") }
        let found = try again.history(since: fresh).transactions.flatMap(\.changes)
        #expect(found.map(\.kind) == [.updated, .deleted])
        let hasDefinitions = !suffixes.contains("_table")
        #expect(found.first?.changedColumns == (hasDefinitions ? ["a"] : nil))
        #expect(found.last?.formerValues == (hasDefinitions ? ["file": "f".databaseValue] : [:]))
        try again.close()
        _ = try open(notices)
        #expect(notices.all.count == 1)
    }

    @Test("a unique index that a stock program adds is noticed at the next opening")
    func foreignIndex() throws {
        var queue = try recorded()
        let token = try queue.read { try $0.historyToken() }
        try queue.close()
        #expect(
            StockConnection(file.path).execute("CREATE UNIQUE INDEX i ON t (a); REPLACE INTO t VALUES (2, 'x', 1)") == 0
        )
        queue = try open()
        let kinds = try queue.history(since: token).transactions.flatMap(\.changes).map(\.kind)
        #expect(kinds == [.inserted, .reset])
        #expect(
            try changes(queue) { try $0.execute(sql: "REPLACE INTO t VALUES (3, 'x', 1)") } == [
                "deleted t", "inserted t",
            ])
    }

    @Test("triggers of the program come after those of the history, whenever they were made")
    func newerTrigger() throws {
        let queue = try recorded()
        let found = try changes(queue) { db in
            try db.execute(
                sql: """
                    CREATE TRIGGER gone AFTER INSERT ON t BEGIN DELETE FROM t WHERE id = NEW.id; END;
                    INSERT INTO t VALUES (4, 4, 4)
                    """)
        }
        #expect(found == ["inserted t", "deleted t"])
    }

    @Test("VACUUM may change the rowids of rows without a key: they must be read again")
    func vacuum() throws {
        let queue = try open()
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (a); CREATE TABLE k (id INTEGER PRIMARY KEY)")
            try db.recordHistory(of: .allTables)
        }
        #expect(try changes(queue) { try $0.execute(sql: "VACUUM") } == ["reset t"])
    }

    @Test("the history is no part of dumps and of the schema that a migrator compares")
    func hidden() throws {
        let queue = try recorded()
        var dump = ""
        final class Text: TextOutputStream {
            var text = ""
            func write(_ string: String) { text += string }
        }
        let stream = Text()
        try queue.dumpContent(to: stream)
        dump = stream.text
        #expect(dump.contains("CREATE TABLE t") && !dump.contains("cipherstore"))
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { try $0.execute(sql: "CREATE TABLE z (id INTEGER PRIMARY KEY)") }
        let other = DatabaseQueue()
        try migrator.migrate(other)
        try other.write { try $0.recordHistory(of: .allTables) }
        #expect(try other.read { try migrator.hasSchemaChanges($0) } == false)
    }

    @Test("observers are not notified of the tables of the history")
    func observers() throws {
        let queue = try recorded()
        let recorder = Recorder()
        queue.add(transactionObserver: recorder)
        try queue.write { try $0.execute(sql: "INSERT INTO t VALUES (5, 5, 5)") }
        #expect(recorder.take() == ["+t 5", "will", "commit"])
        #expect(recorder.asked == [.insert(tableName: "t")])
        try queue.writeWithoutTransaction { try $0.registerHistoryReader("r") }
        try queue.purgeHistory()
        #expect(recorder.take() == [])
    }
}
