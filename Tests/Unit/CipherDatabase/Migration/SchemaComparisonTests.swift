import CSQLCipher
import CipherDatabase
import CipherSchema
import Foundation
import TestKit
import Testing

/// The changes of the schema that count, with `eraseDatabaseOnSchemaChange`: the meaning of definitions, not their
/// spelling.
@Suite struct SchemaComparisonTests {
    /// Two definitions, and what they differ in.
    struct Pair: Sendable, CustomTestStringConvertible {
        let old: String
        let new: String
        var testDescription: String { "\(old) | \(new)" }

        init(_ old: String, _ new: String) {
            self.old = old
            self.new = new
        }
    }

    /// Migrates with one definition and then with another; whether the rows between are still there.
    private func keepsRows(_ pair: Pair) throws -> Bool {
        var config = Configuration()
        config.acceptsDoubleQuotedStringLiterals = true
        // Some of these refer to what SQLite cannot check.
        config.foreignKeysEnabled = false
        let queue = DatabaseQueue(configuration: config)
        for (definition, isFirst) in [(pair.old, true), (pair.new, false)] {
            var migrator = DatabaseMigrator()
            migrator.eraseDatabaseOnSchemaChange = true
            migrator.registerMigration("v1") { db in
                try db.execute(sql: "CREATE TABLE kept (a); CREATE TABLE p (id INTEGER PRIMARY KEY, u UNIQUE)")
                try db.execute(sql: definition)
            }
            try migrator.migrate(queue)
            if isFirst { try queue.write { try $0.execute(sql: "INSERT INTO kept VALUES (1)") } }
        }
        return try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM kept") } == 1
    }

    static let spellings = definitionSpellings + expressionSpellings + deferralSpellings + indexSpellings + renamings

    private static let definitionSpellings = [
        Pair("CREATE TABLE t (a INTEGER, b TEXT)", "create table \"T\"(\n [a] integer /* , x */,\n `b` Text -- y\n);"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER PRIMARY KEY NOT NULL)"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER, PRIMARY KEY (id))"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER PRIMARY KEY ASC)"),
        Pair(
            "CREATE TABLE t (a TEXT PRIMARY KEY) WITHOUT ROWID",
            "CREATE TABLE t (a TEXT NOT NULL, PRIMARY KEY (a)) WITHOUT ROWID"),
        Pair("CREATE TABLE t (a TEXT) STRICT", "CREATE TABLE IF NOT EXISTS main.t (a TEXT) strict"),
        Pair("CREATE TABLE t (a INT REFERENCES p)", "CREATE TABLE t (a INT REFERENCES \"p\"(\"id\"))"),
        Pair("CREATE TABLE t (a INT REFERENCES t)", "CREATE TABLE t (a INT REFERENCES t(rowid))"),
        Pair(
            "CREATE TABLE t (a INT REFERENCES p ON DELETE NO ACTION MATCH SIMPLE NOT DEFERRABLE)",
            "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES p (id) ON UPDATE NO ACTION)"),
        Pair(
            "CREATE TABLE t (a, b, FOREIGN KEY (a) REFERENCES p, UNIQUE (a), CHECK (a > b))",
            "CREATE TABLE t (a CONSTRAINT x UNIQUE CHECK ((a > b)), b, CONSTRAINT y FOREIGN KEY (a) REFERENCES p)"),
        Pair("CREATE TABLE t (a NOT NULL UNIQUE)", "CREATE TABLE t (a UNIQUE ON CONFLICT ABORT NOT NULL)"),
        Pair("CREATE TABLE t (a DEFAULT 'x')", "CREATE TABLE t (a DEFAULT (('x')))"),
        Pair("CREATE TABLE t (a DEFAULT \"x\")", "CREATE TABLE t (a DEFAULT 'x')"),
        Pair("CREATE TABLE t (a DEFAULT -1)", "CREATE TABLE t (a DEFAULT (-1))"),
        Pair("CREATE TABLE t (a DEFAULT 255)", "CREATE TABLE t (a DEFAULT 0xFF)"),
        Pair("CREATE TABLE t (a DEFAULT 100.0)", "CREATE TABLE t (a DEFAULT 1.0e2)"),
        Pair("CREATE TABLE t (a DEFAULT x'0aff')", "CREATE TABLE t (a DEFAULT X'0AFF')"),
        Pair("CREATE TABLE t (a DEFAULT CURRENT_DATE)", "CREATE TABLE t (a DEFAULT (current_date))"),
        Pair("CREATE TABLE t (a, CHECK (a != 1))", "CREATE TABLE t (a, CHECK (\"a\"<>1))"),
        Pair("CREATE TABLE t (a, b AS (a + 1))", "CREATE TABLE t (a, b GENERATED ALWAYS AS (a+1) VIRTUAL)"),
        Pair("CREATE TABLE t (a VARCHAR (10))", "CREATE TABLE t (a varchar(10))"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX IF NOT EXISTS main.\"i\" ON \"p\"(\"u\" ASC)"),
        Pair("CREATE INDEX i ON p (u) WHERE u > 1", "CREATE INDEX i ON p (u) where (\"u\" > 1)"),
        Pair("CREATE VIEW v AS SELECT id FROM p", "create view if not exists \"v\" as\n  select \"id\" from p;"),
        Pair(
            "CREATE TRIGGER r AFTER INSERT ON p BEGIN DELETE FROM kept; END",
            "CREATE TRIGGER IF NOT EXISTS r after insert on p for each row begin delete from kept; end;"),
        Pair(
            "CREATE VIRTUAL TABLE f USING fts5 (body, title)", "create virtual table f using FTS5(\"body\",title)"),
    ]

    // In an expression of a table, a name in double quotes that is not a column's was compared as text, wherever it
    // stood: databases were erased for the quotes of a collation, a type, a function or the name of the table.
    private static let expressionSpellings = [
        Pair("CREATE TABLE t (a, CHECK (t.a > 0))", "CREATE TABLE t (a, CHECK (\"t\".\"a\" > 0))"),
        Pair("CREATE TABLE t (a, CHECK (t.a > 0))", "CREATE TABLE t (a, CHECK (a > 0))"),
        Pair("CREATE TABLE t (a, CHECK (main.t.a > 0))", "CREATE TABLE t (a, CHECK ('t'.'a' > 0))"),
        Pair("CREATE TABLE t (a CHECK (lower(a) > 'b'))", "CREATE TABLE t (a CHECK (\"LOWER\"([a]) > 'b'))"),
        Pair(
            "CREATE TABLE t (a CHECK (CAST(a AS TEXT) > 'b'))",
            "CREATE TABLE t (a CHECK (CAST(a AS \"TEXT\") > 'b'))"),
        Pair(
            "CREATE TABLE t (a, b AS (CAST(a AS x y(3)) + 1))",
            "CREATE TABLE t (a, b AS (cast(a AS 'x' \"Y\"(3)) + 1))"),
        Pair("CREATE TABLE t (a CHECK (rowid > 0))", "CREATE TABLE t (a CHECK (\"RowID\" > 0))"),
        Pair("CREATE TABLE t (a CHECK (_rowid_ > oid))", "CREATE TABLE t (a CHECK (\"_rowid_\" > `oid`))"),
        Pair("CREATE TABLE t (a CHECK (a <> 'x'))", "CREATE TABLE t (a CHECK (a <> \"x\"))"),
        Pair("CREATE TABLE t (a DEFAULT (lower('X')))", "CREATE TABLE t (a DEFAULT (\"lower\"('X')))"),
        Pair("CREATE INDEX i ON p (u COLLATE NOCASE)", "CREATE INDEX i ON p (u COLLATE \"NOCASE\")"),
        Pair("CREATE INDEX i ON p (u COLLATE nocase DESC)", "CREATE INDEX i ON p ('u' COLLATE 'NoCase' DESC)"),
        Pair("CREATE INDEX i ON p (abs(u))", "CREATE INDEX i ON p (\"abs\"(\"u\"))"),
        Pair("CREATE INDEX i ON p (u) WHERE p.u > 0", "CREATE INDEX i ON p (u) WHERE \"p\".u > 0"),
    ]

    // The clause was dropped where it did not follow its reference at once.
    private static let deferralSpellings = [
        Pair(
            "CREATE TABLE t (a REFERENCES p NOT NULL DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE t (a NOT NULL REFERENCES p DEFERRABLE INITIALLY DEFERRED)"),
        Pair(
            "CREATE TABLE t (a REFERENCES p, b DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE t (a REFERENCES p DEFERRABLE INITIALLY DEFERRED, b)"),
        Pair(
            "CREATE TABLE t (a REFERENCES p DEFERRABLE INITIALLY DEFERRED NOT DEFERRABLE)",
            "CREATE TABLE t (a REFERENCES p)"),
        Pair("CREATE TABLE t (a REFERENCES p NOT NULL DEFERRABLE)", "CREATE TABLE t (a NOT NULL REFERENCES p)"),
    ]

    // The indexes of references were named otherwise before, and a UNIQUE one had an index of its own.
    private static let indexSpellings = [
        Pair(
            "CREATE TABLE t (a, b); CREATE INDEX t_on_a_b ON t (a, b)",
            "CREATE TABLE t (a, b); CREATE INDEX index_t_on_a_b ON t (a, b)"),
        Pair(
            "CREATE TABLE t (a UNIQUE REFERENCES p); CREATE INDEX t_on_a ON t (a)",
            "CREATE TABLE t (a UNIQUE REFERENCES p)"),
    ]

    /// A table of `ALTER TABLE`, which quotes names as it likes, against a table that was made so.
    private static let renamings = [
        Pair(
            "CREATE TABLE w (b, CHECK (w.b > 0)); ALTER TABLE w RENAME TO w2",
            "CREATE TABLE w2 (b, CHECK (w2.b > 0))"),
        Pair(
            "CREATE TABLE w (b); CREATE INDEX i ON w (b) WHERE w.b > 0; ALTER TABLE w RENAME TO w2",
            "CREATE TABLE w2 (b); CREATE INDEX i ON w2 (b) WHERE w2.b > 0"),
        Pair(
            """
            CREATE TABLE w (b UNIQUE); CREATE TABLE x (r REFERENCES w (b)); CREATE VIEW v AS SELECT w.b FROM w;
            CREATE TRIGGER r AFTER INSERT ON w BEGIN UPDATE w SET b = 1 WHERE w.b = 2; END;
            ALTER TABLE w RENAME TO w2
            """,
            """
            CREATE TABLE w2 (b UNIQUE); CREATE TABLE x (r REFERENCES w2 (b)); CREATE VIEW v AS SELECT w2.b FROM w2;
            CREATE TRIGGER r AFTER INSERT ON w2 BEGIN UPDATE w2 SET b = 1 WHERE w2.b = 2; END
            """),
        Pair(
            """
            CREATE TABLE w (b CHECK (w.b > 0 AND b <> "x"), c AS (b + 1)); CREATE INDEX i ON w (abs(b)) WHERE w.b > 0;
            ALTER TABLE w RENAME COLUMN b TO "e"
            """,
            """
            CREATE TABLE w (e CHECK (w.e > 0 AND e <> 'x'), c AS (e + 1)); CREATE INDEX i ON w (abs(e)) WHERE w.e > 0
            """),
        Pair(
            """
            CREATE TABLE w (b CHECK (w.b > 0)); CREATE INDEX i ON w (b COLLATE NOCASE) WHERE w.b > 0;
            ALTER TABLE w RENAME COLUMN b TO "e f"; ALTER TABLE w RENAME TO "w 2"
            """,
            """
            CREATE TABLE [w 2] ([e f] CHECK ([w 2].[e f] > 0));
            CREATE INDEX i ON [w 2] ([e f] COLLATE "NOCASE") WHERE [w 2].[e f] > 0
            """),
    ]

    @Test("another spelling keeps all rows", arguments: spellings)
    func spelling(_ pair: Pair) throws {
        #expect(try keepsRows(pair))
        #expect(try keepsRows(Pair(pair.new, pair.old)))
    }

    @Test("a clause that defers is applied to the last reference, as SQLite does", arguments: deferralSpellings)
    func deferral(_ pair: Pair) throws {
        func isDeferred(_ definition: String) throws -> Bool {
            let queue = DatabaseQueue()
            return try queue.writeWithoutTransaction { db in
                try db.execute(sql: "CREATE TABLE p (id INTEGER PRIMARY KEY); \(definition); BEGIN")
                let refused = databaseError { try db.execute(sql: "INSERT INTO t (a) VALUES (1)") }
                if refused == nil {
                    #expect(databaseError { try db.execute(sql: "COMMIT") }?.resultCode == .SQLITE_CONSTRAINT)
                }
                try db.execute(sql: "ROLLBACK")
                return refused == nil
            }
        }
        #expect(try isDeferred(pair.old) == isDeferred(pair.new))
        #expect(try isDeferred(pair.new) == pair.new.contains("INITIALLY DEFERRED"))
    }

    static let changes = columnChanges + keyChanges + objectChanges

    private static let columnChanges = [
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a, b)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE u (a)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (b)"),
        Pair("CREATE TABLE t (a, b)", "CREATE TABLE t (b, a)"),
        Pair("CREATE TABLE t (a)", ""),
        Pair("CREATE TABLE t (a TEXT)", "CREATE TABLE t (a)"),
        Pair("CREATE TABLE t (a INT PRIMARY KEY)", "CREATE TABLE t (a INTEGER PRIMARY KEY)"),
        Pair("CREATE TABLE t (a TEXT PRIMARY KEY)", "CREATE TABLE t (a TEXT PRIMARY KEY NOT NULL)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a NOT NULL)"),
        Pair("CREATE TABLE t (a NOT NULL)", "CREATE TABLE t (a NOT NULL ON CONFLICT IGNORE)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a DEFAULT 0)"),
        Pair("CREATE TABLE t (a DEFAULT 0)", "CREATE TABLE t (a DEFAULT -0.5)"),
        Pair("CREATE TABLE t (a DEFAULT 1)", "CREATE TABLE t (a DEFAULT '1')"),
        Pair("CREATE TABLE t (a DEFAULT 1)", "CREATE TABLE t (a DEFAULT 1.0)"),
        Pair("CREATE TABLE t (a DEFAULT 'x')", "CREATE TABLE t (a DEFAULT 'X')"),
        Pair("CREATE TABLE t (a DEFAULT \"x\")", "CREATE TABLE t (a DEFAULT \"X\")"),
        Pair("CREATE TABLE t (a DEFAULT NULL)", "CREATE TABLE t (a DEFAULT 'null')"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a COLLATE NOCASE)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a CHECK (a > 0))"),
        Pair("CREATE TABLE t (a CHECK (a <> 'x'))", "CREATE TABLE t (a CHECK (a <> 'X'))"),
        Pair("CREATE TABLE t (a CHECK (a <> \"x\"))", "CREATE TABLE t (a CHECK (a <> \"X\"))"),
        Pair(
            "CREATE TABLE t (a PRIMARY KEY CHECK (a <> \"rowid\")) WITHOUT ROWID",
            "CREATE TABLE t (a PRIMARY KEY CHECK (a <> \"ROWID\")) WITHOUT ROWID"),
        Pair("CREATE TABLE t (a, b CHECK (t.a > 0))", "CREATE TABLE t (a, b CHECK (t.b > 0))"),
        Pair("CREATE TABLE t (a CHECK (\"lower\"(a) > 0))", "CREATE TABLE t (a CHECK (\"upper\"(a) > 0))"),
        Pair("CREATE TABLE t (a CHECK (CAST(a AS \"INT\") > 0))", "CREATE TABLE t (a CHECK (CAST(a AS \"TEXT\") > 0))"),
        Pair(
            "CREATE TABLE t (a CHECK (CAST(a AS TEXT) <> \"x\"))",
            "CREATE TABLE t (a CHECK (CAST(a AS TEXT) <> \"X\"))"),
        Pair("CREATE TABLE t (a CHECK (a <> upper(\"x\")))", "CREATE TABLE t (a CHECK (a <> upper(\"X\")))"),
        Pair("CREATE TABLE t (a, b AS (a))", "CREATE TABLE t (a, b AS (a) STORED)"),
        Pair("CREATE TABLE t (a, b AS (a))", "CREATE TABLE t (a, b AS (a + 1))"),
        Pair("CREATE TABLE t (a, b AS (a))", "CREATE TABLE t (a, b)"),
        Pair("CREATE TABLE t (a TEXT)", "CREATE TABLE t (a TEXT) STRICT"),
    ]

    private static let keyChanges = [
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT)"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER PRIMARY KEY DESC)"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER)"),
        Pair("CREATE TABLE t (id INTEGER PRIMARY KEY)", "CREATE TABLE t (id INTEGER PRIMARY KEY) WITHOUT ROWID"),
        Pair("CREATE TABLE t (a PRIMARY KEY)", "CREATE TABLE t (a PRIMARY KEY ON CONFLICT REPLACE)"),
        Pair("CREATE TABLE t (a, b, PRIMARY KEY (a, b))", "CREATE TABLE t (a, b, PRIMARY KEY (b, a))"),
        Pair("CREATE TABLE t (a, b, PRIMARY KEY (a))", "CREATE TABLE t (a, b, PRIMARY KEY (a, b))"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a UNIQUE)"),
        Pair("CREATE TABLE t (a UNIQUE)", "CREATE TABLE t (a UNIQUE ON CONFLICT IGNORE)"),
        Pair("CREATE TABLE t (a, b, UNIQUE (a, b))", "CREATE TABLE t (a UNIQUE, b UNIQUE)"),
        Pair("CREATE TABLE t (a)", "CREATE TABLE t (a REFERENCES p)"),
        Pair("CREATE TABLE t (a REFERENCES p)", "CREATE TABLE t (a REFERENCES kept)"),
        Pair("CREATE TABLE t (a REFERENCES p)", "CREATE TABLE t (a REFERENCES p (u))"),
        Pair("CREATE TABLE t (a REFERENCES p)", "CREATE TABLE t (a REFERENCES p ON DELETE CASCADE)"),
        Pair("CREATE TABLE t (a REFERENCES p)", "CREATE TABLE t (a REFERENCES p ON UPDATE SET NULL)"),
        Pair("CREATE TABLE t (a REFERENCES p)", "CREATE TABLE t (a REFERENCES p DEFERRABLE INITIALLY DEFERRED)"),
        Pair(
            "CREATE TABLE t (a REFERENCES p NOT NULL DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE t (a REFERENCES p NOT NULL)"),
        Pair(
            "CREATE TABLE t (a REFERENCES p, b REFERENCES p NOT NULL DEFERRABLE INITIALLY DEFERRED)",
            "CREATE TABLE t (a REFERENCES p DEFERRABLE INITIALLY DEFERRED, b REFERENCES p NOT NULL)"),
        Pair("CREATE TABLE t (a REFERENCES p, b)", "CREATE TABLE t (a, b, FOREIGN KEY (b) REFERENCES p)"),
    ]

    private static let objectChanges = [
        Pair("", "CREATE INDEX i ON p (u)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX j ON p (u)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE UNIQUE INDEX i ON p (u)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX i ON p (u, id)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX i ON p (u DESC)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX i ON p (u COLLATE NOCASE)"),
        Pair("CREATE INDEX i ON p (u COLLATE \"NOCASE\")", "CREATE INDEX i ON p (u COLLATE \"RTRIM\")"),
        Pair("", "CREATE INDEX p_on_id ON p (id)"),
        Pair("", "CREATE INDEX p_on_u ON p (u) WHERE u > 0"),
        Pair("", "CREATE INDEX p_on_u ON p (u COLLATE NOCASE)"),
        Pair("", "CREATE UNIQUE INDEX p_on_u ON p (u)"),
        Pair("CREATE INDEX p_on_id_u ON p (id, u)", "CREATE INDEX index_p_on_id_u ON p (u, id)"),
        Pair("CREATE UNIQUE INDEX p_on_id_u ON p (id, u)", "CREATE UNIQUE INDEX index_p_on_id_u ON p (id, u)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX i ON p (u + 1)"),
        Pair("CREATE INDEX i ON p (u)", "CREATE INDEX i ON p (u) WHERE u > 0"),
        Pair("CREATE INDEX i ON p (u) WHERE u > 'x'", "CREATE INDEX i ON p (u) WHERE u > 'X'"),
        Pair("CREATE VIEW v AS SELECT id FROM p", "CREATE VIEW v AS SELECT u FROM p"),
        Pair("CREATE VIEW v AS SELECT 'x'", "CREATE VIEW v AS SELECT 'X'"),
        Pair("CREATE VIEW v AS SELECT 1", "CREATE VIEW v (a) AS SELECT 1"),
        Pair("CREATE VIEW v AS SELECT 1 AS a", "CREATE TABLE v (a)"),
        Pair(
            "CREATE TRIGGER r AFTER INSERT ON p BEGIN DELETE FROM kept; END",
            "CREATE TRIGGER r AFTER DELETE ON p BEGIN DELETE FROM kept; END"),
        Pair(
            "CREATE TRIGGER r AFTER INSERT ON p BEGIN DELETE FROM kept; END",
            "CREATE TRIGGER r AFTER INSERT ON p BEGIN DELETE FROM kept; DELETE FROM p; END"),
        Pair("CREATE VIRTUAL TABLE f USING fts5 (body)", "CREATE VIRTUAL TABLE f USING fts5 (body, title)"),
        Pair(
            "CREATE VIRTUAL TABLE f USING fts5 (body)",
            "CREATE VIRTUAL TABLE f USING fts5 (body, tokenize = 'porter')"),
    ]

    @Test("another meaning starts over", arguments: changes)
    func change(_ pair: Pair) throws {
        #expect(try !keepsRows(pair))
        #expect(try !keepsRows(Pair(pair.new, pair.old)))
    }

    // The comparison ran in memory, where SQLite refuses the file control of GRDB's guide to sharing a database:
    // migrating with eraseDatabaseOnSchemaChange failed in every program that follows the guide.
    @Test("a preparing function that keeps the log of the file is accepted, and so is its key")
    func persistentLog() throws {
        let folder = TemporaryFolder()
        let config = MigrationScratch.encrypted.with { config in
            config.prepareDatabase { db in
                var flag: CInt = 1
                let code = sqlite3_file_control(db.sqliteConnection, nil, SQLITE_FCNTL_PERSIST_WAL, &flag)
                guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
            }
        }
        let pool = try DatabasePool(path: folder.path("app.db"), configuration: config)
        var migrator = MigrationScratch.logging("v1", "v2")
        migrator.eraseDatabaseOnSchemaChange = true
        try migrator.migrate(pool)
        try migrator.migrate(pool)
        #expect(try pool.read(MigrationScratch.log) == ["v1", "v2"])
    }

    @Test("the comparison leaves no file, and writes nothing that could be read")
    func scratchFile() throws {
        let queue = DatabaseQueue()
        let files = Shared<[String]>([])
        var migrator = DatabaseMigrator()
        migrator.registerMigration("v1") { db in
            try db.execute(sql: "CREATE TABLE secret (a); INSERT INTO secret VALUES ('marker in plain')")
        }
        migrator.registerMigration("v2") { db in
            let path = try String.fetchOne(db, sql: "SELECT file FROM pragma_database_list WHERE name = 'main'") ?? ""
            guard !path.isEmpty else { return }
            files.change { $0.append(path) }
            let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
            #expect(bytes.count >= 4096 && !bytes.starts(with: Data("SQLite format 3".utf8)))
            for text in ["CREATE TABLE", "marker in plain"] { #expect(bytes.range(of: Data(text.utf8)) == nil) }
        }
        try migrator.migrate(queue)
        #expect(files.value == [])
        #expect(try !queue.read(migrator.hasSchemaChanges))
        let path = try #require(files.value.first)
        #expect(!FileManager.default.fileExists(atPath: path))
        #expect(!FileManager.default.fileExists(atPath: (path as NSString).deletingLastPathComponent))
    }
}

extension Configuration {
    fileprivate func with(_ change: (inout Configuration) -> Void) -> Configuration {
        var config = self
        change(&config)
        return config
    }
}
