import CipherObservation
import CipherSchema
import Testing

@testable import ChangesetSync
@testable import CipherDatabase

/// Databases with objects that need what this connection lacks: modules, functions, collations.
@Suite("Objects of the schema that cannot be prepared")
struct UnknownPartsTests {
    /// As a program leaves them that registers `vec0` and `prog`.
    private static func addUnknownParts(_ db: Database) throws {
        try db.execute(
            sql: """
                CREATE TABLE emb_chunks (chunk_id INTEGER PRIMARY KEY NOT NULL, size INTEGER);
                CREATE TABLE "Emb_rowids" (rowid INTEGER PRIMARY KEY NOT NULL, id);
                CREATE TABLE embassy (id INTEGER PRIMARY KEY NOT NULL, country TEXT);
                CREATE TABLE child (id INTEGER PRIMARY KEY NOT NULL, embassy INTEGER REFERENCES embassy (id));
                CREATE VIEW broken AS SELECT prog(country) AS c FROM embassy;
                CREATE VIEW lost AS SELECT * FROM gone_table;
                CREATE VIEW of_module AS SELECT * FROM emb;
                CREATE TABLE log (country TEXT);
                CREATE TRIGGER notes AFTER INSERT ON log BEGIN INSERT INTO embassy (country) VALUES (prog(NEW.country)); END;
                CREATE TRIGGER replaces INSTEAD OF INSERT ON broken BEGIN SELECT prog(NEW.c); END;
                """)
        db.mayChangeStoreTables = true
        defer { db.mayChangeStoreTables = false }
        try db.execute(sql: "PRAGMA writable_schema = ON")
        try db.execute(
            sql: """
                INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql)
                VALUES ('table', 'emb', 'emb', 0, 'CREATE VIRTUAL TABLE emb USING vec0(v float[3])')
                """)
        try db.execute(sql: "PRAGMA writable_schema = RESET")
    }

    private static let own = ["child", "embassy", "log"]

    @Test("tables that belong to a virtual table of an unknown module are in no list of all tables, and are named")
    func shadowTables() throws {
        let queue = DatabaseQueue()
        try queue.write(Self.addUnknownParts)
        let all = try queue.read { try ProgramTables($0) }
        #expect(all.names == Self.own)
        #expect(Set(all.leftOut.map(\.name)) == ["emb_chunks", "Emb_rowids"])
        #expect(all.leftOut.allSatisfy { $0.module == "vec0" && $0.virtualTable == "emb" })
        #expect(all.leftOut.allSatisfy { $0.reason.contains("vec0") })
        try queue.write { try $0.recordHistory(of: .allTables) }
        #expect(try queue.read { try $0.historyStatus()?.tableNames.sorted() } == Self.own)
        // A table that is created later joins, and one of the module does not.
        try queue.write { try $0.execute(sql: "CREATE TABLE later (a); CREATE TABLE emb_vectors (a)") }
        #expect(try queue.read { try $0.historyStatus()?.tableNames.sorted() } == (Self.own + ["later"]).sorted())
    }

    @Test("the module of a virtual table is found however its definition is written")
    func modules() {
        let definitions = [
            "CREATE VIRTUAL TABLE t USING vec0(a)", "create virtual table \"a b\" using \"VEC0\" (x)",
            "CREATE VIRTUAL TABLE [x y]\nUSING\tvec0", "CREATE VIRTUAL TABLE IF NOT EXISTS main.t USING `vec0`(a)",
            "CREATE VIRTUAL/**/TABLE 'it''s' USING vec0(a)",
        ]
        for sql in definitions { #expect(ProgramTables.module(ofDefinition: sql) == "vec0", "\(sql)") }
        #expect(ProgramTables.module(ofDefinition: "CREATE TABLE t (a)") == nil)
    }

    @Test("history, sync, the schema and foreign keys work beside objects that cannot be prepared")
    func besides() throws {
        let queue = DatabaseQueue()
        let token = try queue.write { db in
            try Self.addUnknownParts(db)
            try db.recordHistory(of: .tables(["embassy"]), columns: true)
            return try db.historyToken()
        }
        try queue.write { try $0.execute(sql: "INSERT INTO embassy VALUES (1, 'fr'); INSERT INTO child VALUES (1, 1)") }
        #expect(try queue.history(since: token).transactions.flatMap(\.changes).count == 1)
        try queue.read { db in
            try db.checkForeignKeys()
            #expect(try db.foreignKeyViolations().next() == nil)
            #expect(try db.isHistoryInOrder())
            #expect(try db.columns(in: "embassy").count == 2 && db.tableExists("emb") && db.viewExists("broken"))
        }
        let dumped = Dumped()
        try queue.dumpSchema(to: dumped)
        #expect(dumped.text.contains("vec0") && dumped.text.contains("prog(country)"))

        let repository = ChangesetRepository(queue)
        try repository.migrate()
        try repository.enable(["embassy", "child"])
        try repository.commit { db in
            try db.execute(sql: "INSERT INTO embassy VALUES (2, 'it'); INSERT INTO child VALUES (2, 2)")
        }
        let other = try Replica(
            """
            CREATE TABLE embassy (id INTEGER PRIMARY KEY NOT NULL, country TEXT);
            CREATE TABLE child (id INTEGER PRIMARY KEY NOT NULL, embassy INTEGER REFERENCES embassy (id))
            """, tracking: ["embassy", "child"], key: queue.read(RepositoryState.key))
        let commits = try queue.read { db in
            try Int64.fetchAll(db, sql: "SELECT n FROM cipherstore_sync_commit ORDER BY n").map {
                try CommitStore(db: db).canonical($0)
            }
        }
        let key = try other.key()
        try other.queue.write { db in
            for bytes in commits {
                let id = try bytes.withUnsafeBytes { try key.commitID(of: $0) }
                _ = try CommitStore(db: db).insert(Commit(encoded: bytes[...]), id: id, canonical: bytes)
            }
        }
        try other.repository.pull()
        #expect(try other.strings("SELECT country FROM embassy ORDER BY id") == ["'fr'", "'it'"])
        #expect(try repository.summary().foreignWrites.isEmpty && repository.verify().isEmpty)
    }

    @Test("a change of the whole database is observed beside objects that cannot be prepared")
    func observation() throws {
        let (queue, changes) = (DatabaseQueue(), Dumped())
        try queue.write(Self.addUnknownParts)
        let observation = DatabaseRegionObservation(tracking: .fullDatabase).start(
            in: queue, onError: { Issue.record($0) }, onChange: { _ in changes.write("changed;") })
        defer { observation.cancel() }
        try queue.write { try $0.execute(sql: "INSERT INTO embassy VALUES (1, 'fr')") }
        #expect(changes.text == "changed;")
    }

    /// Keeps what is written to it.
    // Safe because: each test writes to it from one thread.
    private final class Dumped: TextOutputStream, @unchecked Sendable {
        private(set) var text = ""

        func write(_ string: String) { text += string }
    }
}
