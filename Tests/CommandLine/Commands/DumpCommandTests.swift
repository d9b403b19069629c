import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl dump", .enabled(if: SystemProgram.find("sqlite3") != nil || SystemProgram.find("python3") != nil))
struct DumpCommandTests {
    private let place: Workplace

    private static let content = """
        CREATE TABLE note (id INTEGER PRIMARY KEY AUTOINCREMENT, text, twice AS (id * 2));
        CREATE TABLE pair (a TEXT, b INT, PRIMARY KEY (b, a)) WITHOUT ROWID;
        CREATE TABLE "odd ""name" ("a b" REAL, "c" BLOB) /* a comment */;
        CREATE INDEX i ON note (text) WHERE text IS NOT NULL;
        CREATE VIEW v AS SELECT text FROM note -- the end
        ;
        CREATE TRIGGER r AFTER INSERT ON note BEGIN UPDATE note SET text = 'x' WHERE id = new.id AND text = 'y'; END;
        CREATE VIRTUAL TABLE words USING fts5(body, content='note', content_rowid='id');
        INSERT INTO note (id, text) VALUES (5, 'it''s'), (1, NULL), (9, x'00ff'), (10, 'line' || char(10) || 'two'),
            (11, CAST(x'ff41' AS TEXT)), (12, 'nul' || char(0) || 'after'), (13, char(27) || '[2J');
        DELETE FROM note WHERE id = 13;
        INSERT INTO pair VALUES ('b', 2), ('a', 2), ('z', 1);
        INSERT INTO "odd ""name" VALUES (0.1, zeroblob(2)), (1e300, ''), (-9e999, 5), (9e999, -9223372036854775808),
            (4.35, NULL), (5e-324, 1.7976931348623157e308), (123456789012345.67, 1e15);
        INSERT INTO words (rowid, body) VALUES (5, 'hello world');
        PRAGMA user_version = 7;
        """

    private static let numbers = "[0.1, 1e+300, -inf, inf, 4.35, 5e-324, 123456789012345.67]"

    init() throws {
        place = try Workplace()
        try place.fill("dump") {
            let created = try place.ctl("create", place.path("s.db"))
            try #require(created.status == 0, "\(created.errors)")
            let filled = try place.ctl("sql", place.path("s.db"), Self.content, "--write")
            try #require(filled.status == 0, "\(filled.errors)")
        }
    }

    private func dump(_ words: String...) throws -> CommandRun.Outcome {
        try place.run(["dump", place.path("s.db")] + words + ["--raw-key-file", place.key])
    }

    @Test("nothing is printed without --insecure-plaintext, and a table that is missing is named")
    func refused() throws {
        let outcome = try dump()
        #expect(outcome.status == 64 && outcome.output.isEmpty && outcome.errors.contains("--insecure-plaintext"))
        let missing = try dump("nowhere", "--insecure-plaintext")
        #expect(missing.status == 64 && missing.errors.contains("no table \"nowhere\""), "\(missing.errors)")
        #expect(missing.output.isEmpty)
    }

    @Test("another SQLite reads the dump, and has the same values of the same types")
    func readBack() throws {
        let text = try dump("--insecure-plaintext")
        try #require(text.status == 0, "\(text.errors)")
        try place.write(text.output, to: "dump.sql")
        try place.write(
            """
            import sqlite3, sys
            db = sqlite3.connect(sys.argv[1])
            db.text_factory = bytes
            db.executescript(open(sys.argv[2], encoding="utf-8").read())
            db = sqlite3.connect(sys.argv[1])
            db.text_factory = bytes
            for row in db.execute(sys.argv[3]):
                print(row[0].decode())
            print(db.execute("PRAGMA user_version").fetchone()[0], db.execute("PRAGMA integrity_check").fetchone()[0].decode())
            print([row[0] for row in db.execute('SELECT "a b" FROM "odd ""name" ORDER BY rowid')])
            print(db.execute("SELECT rowid FROM words WHERE words MATCH 'hello'").fetchall())
            print(db.execute("SELECT count(*) FROM sqlite_schema WHERE name LIKE 'cipherstore%'").fetchone()[0])
            """, to: "load.py")
        // Bytes of texts; Python prints numbers so that they are read back exactly.
        let values = """
            SELECT id || typeof(text) || hex(text) || twice FROM note UNION ALL SELECT a || b FROM pair
            UNION ALL SELECT typeof("a b") || typeof(c) || hex(c) FROM "odd ""name"
            UNION ALL SELECT name || seq FROM sqlite_sequence WHERE name = 'note'
            UNION ALL SELECT * FROM (SELECT type || name FROM sqlite_schema
                WHERE name IN ('i', 'v', 'r', 'words') ORDER BY name)
            """
        let python = try #require(SystemProgram.find("python3"))
        let loaded = try CommandRun(
            python, [place.path("load.py"), place.path("plain.db"), place.path("dump.sql"), values]
        ).finish()
        try #require(loaded.status == 0, "\(loaded.errors)")
        let own = try place.ctl("sql", place.path("s.db"), values, "--mode", "list")
        let ownLines = own.output.split(separator: "\n").dropFirst().map(String.init)
        let lines = loaded.output.split(separator: "\n").map(String.init)
        #expect(Array(lines.dropLast(4)) == ownLines)
        #expect(Array(lines.suffix(4)) == ["7 ok", Self.numbers, "[(5,)]", "0"])
        // Equal contents give equal texts.
        #expect(try dump("--insecure-plaintext").output == text.output)
    }

    // Story: such a table was missing from the dump. Only a note said so, and --quiet hid it.
    @Test("a table of the program with a prefix of the library's is written, also by its name")
    func reservedName() throws {
        let sql =
            "CREATE TABLE cipherstore_own (id INTEGER PRIMARY KEY AUTOINCREMENT, a); "
            + "INSERT INTO cipherstore_own (a) VALUES ('kept')"
        let made = try place.ctl("sql", place.path("s.db"), sql, "--write")
        try #require(made.status == 0, "\(made.errors)")
        for words in [["--insecure-plaintext"], ["cipherstore_own", "--insecure-plaintext"]] {
            let outcome = try place.run(["dump", place.path("s.db")] + words + ["--raw-key-file", place.key])
            #expect(outcome.status == 0 && outcome.errors.isEmpty, "\(outcome.errors)")
            #expect(outcome.output.contains("CREATE TABLE cipherstore_own"))
            #expect(outcome.output.contains("INSERT INTO \"cipherstore_own\" VALUES(1,'kept');"), "\(outcome.output)")
            #expect(outcome.output.contains("INSERT INTO \"sqlite_sequence\" VALUES('cipherstore_own',1);"))
        }
    }

    // Story: both ended with SQLite's "no query solution", the dump in its middle.
    @Test("a table WITHOUT ROWID with a collation of the program is dumped, and sql says why it cannot read it")
    func foreignCollation() throws {
        var program = Configuration()
        program.prepareDatabase { db in db.add(collation: DatabaseCollation("prog") { $1.compare($0) }) }
        let store = try SharedStore.open(
            at: place.path("s.db"), unlockedBy: .rawKeyFile(path: place.key), configuration: program)
        try store.write { db in
            try db.execute(sql: "CREATE TABLE wr (k TEXT COLLATE prog PRIMARY KEY, v) WITHOUT ROWID")
            try db.execute(sql: "INSERT INTO wr VALUES ('a', 2), ('B', 1)")
        }
        try store.close()
        let outcome = try dump("wr", "--insecure-plaintext")
        #expect(outcome.status == 0, "\(outcome.errors)")
        let lines = outcome.output.split(separator: "\n").filter { $0.hasPrefix("INSERT INTO \"wr\"") }
        #expect(lines == ["INSERT INTO \"wr\" VALUES('B',1);", "INSERT INTO \"wr\" VALUES('a',2);"])
        let read = try place.ctl("sql", place.path("s.db"), "SELECT * FROM wr")
        #expect(read.status == 1 && read.errors.contains("no query solution"), "\(read.errors)")
        #expect(read.errors.contains("hint: A key or an index of the table has a collation"), "\(read.errors)")
    }

    @Test("some tables come with their indexes and triggers, and nothing else")
    func someTables() throws {
        let outcome = try dump("NOTE", "--insecure-plaintext")
        #expect(outcome.status == 0, "\(outcome.errors)")
        for part in ["CREATE TABLE note", "CREATE INDEX i", "CREATE TRIGGER r", "sqlite_sequence WHERE"] {
            #expect(outcome.output.contains(part), "\(part)")
        }
        for part in ["pair", "odd", "words", "user_version", "CREATE VIEW"] {
            #expect(!outcome.output.contains(part), "\(part)")
        }
    }

    @Test("pairs come in the order of their primary key")
    func order() throws {
        let lines = try dump("pair", "--insecure-plaintext").output.split(separator: "\n").filter {
            $0.hasPrefix("INSERT INTO \"pair\"")
        }
        #expect(lines.map { $0.suffix(9) } == ["('z',1);", "('a',2);", "('b',2);"].map { "S\($0)".suffix(9) })
    }
}
