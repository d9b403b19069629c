import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl import")
struct ImportTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    /// A bit of everything that a database can hold.
    private static let everything = """
        PRAGMA page_size = 1024; PRAGMA encoding = 'UTF-16le'; PRAGMA auto_vacuum = 2;
        PRAGMA user_version = 7; PRAGMA application_id = 99;
        CREATE TABLE a (id INTEGER PRIMARY KEY AUTOINCREMENT, t TEXT, b BLOB, r REAL);
        INSERT INTO a (t, b, r) VALUES ('one', x'00ff', 1.5), (NULL, NULL, NULL), ('Ω', x'', 9e999), ('', NULL, -0.0);
        DELETE FROM a WHERE id = 2;
        CREATE TABLE gone (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO gone DEFAULT VALUES; DELETE FROM gone;
        CREATE TABLE w (k TEXT COLLATE NOCASE, n, PRIMARY KEY (k, n)) WITHOUT ROWID;
        INSERT INTO w VALUES ('b', 1), ('A', 2), ('a', 1);
        CREATE TABLE norow (x); INSERT INTO norow (rowid, x) VALUES (10, 'ten'), (20, 'twenty'), (-5, 'minus');
        CREATE VIRTUAL TABLE f USING fts5 (x, content = 'norow'); INSERT INTO f (f) VALUES ('rebuild');
        CREATE VIRTUAL TABLE g USING fts5 (body); INSERT INTO g VALUES ('hello world'), ('good bye');
        CREATE VIRTUAL TABLE h USING fts4 (body); INSERT INTO h VALUES ('hello fts4');
        CREATE TABLE gen (a INT, twice INT GENERATED ALWAYS AS (a * 2) STORED, more AS (a + 1)); INSERT INTO gen VALUES (4);
        CREATE TABLE "we ird ""name" (rowid TEXT, _rowid_, "a b"); INSERT INTO "we ird ""name" VALUES ('x', 1, 2);
        CREATE TABLE hidden (rowid, _rowid_, oid); INSERT INTO hidden VALUES (3, 3, 3), (1, 1, 1);
        CREATE TABLE old (a DEFAULT 'd' CHECK (a <> 'never'), UNIQUE (a)); INSERT INTO old VALUES (1);
        CREATE INDEX partial ON a (t) WHERE t IS NOT NULL; CREATE UNIQUE INDEX expression ON a (id, length(t));
        CREATE VIEW v AS SELECT t FROM a; CREATE VIEW vv AS SELECT * FROM v;
        CREATE TRIGGER tr AFTER INSERT ON a BEGIN UPDATE a SET r = 0 WHERE id = new.id; END;
        CREATE TRIGGER tv INSTEAD OF INSERT ON v BEGIN INSERT INTO a (t) VALUES (new.t); END;
        ANALYZE;
        """

    private func importPlain(_ name: String = "plain.db") throws -> CommandRun.Outcome {
        try place.ctl("import", place.path(name), place.path("s.db"), "--json")
    }

    private func query(_ text: String, write: Bool = false) throws -> String {
        let arguments = ["sql", place.path("s.db"), text, "--mode", "csv", "--raw-key-file", place.key]
        let outcome = try place.run(arguments + (write ? ["--write"] : []))
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.output.replacing("\r\n", with: "\n")
    }

    @Test("an import says once what it left out, and does not call the content the same")
    func leftOut() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        configuration.foreignKeysEnabled = false
        configuration.prepareDatabase { db in
            db.add(function: DatabaseFunction("prog_f", argumentCount: 1, pure: true) { values in values[0] })
        }
        let queue = try DatabaseQueue(path: place.path("plain.db"), configuration: configuration)
        try queue.inDatabase { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (a); CREATE INDEX t_a ON t (prog_f(a)); INSERT INTO t VALUES ('x');
                    CREATE TABLE parent (id INTEGER PRIMARY KEY);
                    CREATE TABLE child (a REFERENCES parent (id), b REFERENCES parent (id));
                    INSERT INTO child VALUES (5, 6);
                    """)
        }
        try queue.close()
        let outcome = try place.ctl("import", place.path("plain.db"), place.path("s.db"))
        let all = outcome.output + outcome.errors
        #expect(outcome.status == 2, "\(all)")
        #expect(all.split(separator: "index \"t_a\"").count == 2, "\(all)")
        #expect(!all.contains("same content hash") && all.contains("without the indexes that were left out"), "\(all)")
        #expect(all.split(separator: "row 1 of table \"child\"").count == 2, "\(all)")
        let json = try place.ctl("import", place.path("plain.db"), place.path("j.db"), "--json")
        #expect(json.errors.split(separator: "prog_f").count == 2, "\(json.errors)")
    }

    @Test("everything comes along, and works")
    func everything() throws {
        try place.makePlain(Self.everything)
        let before = try place.bytes("plain.db")
        let outcome = try importPlain()
        try #require(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.bytes("plain.db") == before)
        #expect(try place.names().filter { $0.hasPrefix("plain.db") } == ["plain.db"])

        let plain = try place.run(["hash", "--plain", place.path("plain.db"), "--json"])
        let store = try place.ctl("hash", place.path("s.db"), "--json")
        #expect(store.json["content_hash"] as? String == plain.json["content_hash"] as? String)
        #expect(outcome.json["content_hash"] as? String == plain.json["content_hash"] as? String)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)

        #expect(try query("PRAGMA encoding; PRAGMA auto_vacuum") == "encoding\nUTF-16le\nauto_vacuum\n2\n")
        #expect(try query("PRAGMA user_version; PRAGMA application_id") == "user_version\n7\napplication_id\n99\n")
        #expect(try query("SELECT rowid, x FROM norow ORDER BY 1") == "rowid,x\n-5,minus\n10,ten\n20,twenty\n")
        #expect(try query("SELECT rowid FROM f WHERE f MATCH 'twenty'") == "rowid\n20\n")
        #expect(try query("SELECT body FROM g WHERE g MATCH 'hello'") == "body\nhello world\n")
        #expect(try query("SELECT body FROM h WHERE h MATCH 'hello'") == "body\nhello fts4\n")
        #expect(try query("SELECT * FROM gen") == "a,twice,more\n4,8,5\n")
        #expect(try query("SELECT name, seq FROM sqlite_sequence ORDER BY 1") == "name,seq\na,4\ngone,1\n")
        #expect(try query("SELECT count(*) > 0 AS n FROM sqlite_stat1") == "n\n1\n")
        #expect(
            try query("INSERT INTO v VALUES ('new'); SELECT id, t, r FROM a WHERE id > 4", write: true)
                == "id,t,r\n5,new,0.0\n")
        #expect(
            try query("INSERT INTO g VALUES ('late'); SELECT body FROM g WHERE g MATCH 'late'", write: true)
                == "body\nlate\n")
    }

    @Test("any change of the content changes the hash")
    func hash() throws {
        let schema = "CREATE TABLE t (a, b); "
        let contents = [
            "", "INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES (1, 2.0)", "INSERT INTO t VALUES ('1', 2)",
            "INSERT INTO t VALUES (x'31', 2)", "INSERT INTO t VALUES (12, NULL)",
            "INSERT INTO t (rowid, a, b) VALUES (2, 1, 2)",
            "INSERT INTO t VALUES (1, 2); CREATE INDEX i ON t (a)",
            "INSERT INTO t VALUES (1, 2); PRAGMA user_version = 1",
            "INSERT INTO t VALUES ('ab', 'c')", "INSERT INTO t VALUES ('a', 'bc')",
        ]
        var hashes = Set<String>()
        for (number, content) in contents.enumerated() {
            try place.makePlain(schema + content, as: "\(number).db")
            let outcome = try place.run(["hash", "--plain", place.path("\(number).db"), "--json"])
            hashes.insert(try #require(outcome.json["content_hash"] as? String))
        }
        #expect(hashes.count == contents.count)
        // Page size, encoding, free pages and planner statistics are no content.
        let other =
            "PRAGMA page_size = 8192; PRAGMA encoding = 'UTF-16be'; CREATE TABLE t (a, b); INSERT INTO t VALUES "
            + "(1, 2); CREATE TABLE u (a); INSERT INTO u VALUES (zeroblob(50000)); DROP TABLE u; ANALYZE"
        try place.makePlain(other, as: "other.db")
        let outcome = try place.run(["hash", "--plain", place.path("other.db"), "--json"])
        #expect(try #require(outcome.json["content_hash"] as? String) == (try plainHash("1.db")))
    }

    private func plainHash(_ name: String) throws -> String {
        try #require(place.run(["hash", "--plain", place.path(name), "--json"]).json["content_hash"] as? String)
    }

    @Test("a source that is in use is read with its WAL, and neither is changed")
    func sourceInUse() throws {
        var configuration = Configuration()
        configuration.allowsUnencrypted = true
        let pool = try DatabasePool(path: place.path("plain.db"), configuration: configuration)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES ('only in the log')") }
        // By another process: closing a descriptor of the file here would drop the locks of the pool.
        let sum = try #require(SystemProgram.find("cksum"))
        let files = [place.path("plain.db"), place.path("plain.db-wal")]
        let before = try CommandRun(sum, files).finish().output
        #expect(try importPlain().status == 0)
        #expect(try CommandRun(sum, files).finish().output == before)
        #expect(try query("SELECT a FROM t") == "a\nonly in the log\n")
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES ('more')") }
        try pool.close()
    }

    @Test(
        "larger pages are kept, smaller ones become 4096 bytes",
        arguments: [(512, 4096), (4096, 4096), (16_384, 16_384)])
    func pageSize(_ source: Int, _ store: Int) throws {
        try place.makePlain("PRAGMA page_size = \(source); CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(40000))")
        #expect(try importPlain().json["page_bytes"] as? Int == store)
        let rows = try query("PRAGMA page_size; SELECT length(a) AS n FROM t")
        #expect(rows.hasSuffix("page_size\n\(store)\nn\n40000\n"), "\(rows)")
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
        let revealed = try place.ctl("key", "reveal", place.path("s.db"), "--json").json
        #expect(revealed["page_bytes"] as? Int == store)
    }

    @Test(
        "what stands at the target is named and left alone",
        arguments: ["s.db", "s.db-wal", "s.db-shm", "s.db-journal", "s.db-sidecar", "s.db-sidecar.bak"])
    func targetTaken(_ name: String) throws {
        try place.makePlain("CREATE TABLE t (a)")
        try place.write("precious", to: name)
        let outcome = try importPlain()
        #expect(outcome.status == 64)
        #expect("\(outcome.errorJSON["message"] ?? "")".contains("\(name)\" exists"))
        #expect(try place.bytes(name) == Array("precious".utf8))
        #expect(try place.names() == ["raw.key", "plain.db", name])
    }

    @Test(
        "what is no plain database is refused",
        arguments: [("v4-header32.db", 65), ("v4-standard.db", 65), ("nothing", 66), ("directory", 65), ("empty", 65)])
    func badSource(_ name: String, _ status: Int32) throws {
        switch name {
        case "nothing": break
        case "directory":
            try FileManager.default.createDirectory(atPath: place.path("plain.db"), withIntermediateDirectories: false)
        case "empty": try place.write("", to: "plain.db")
        default: try FileManager.default.copyItem(atPath: Workplace.fixture(name), toPath: place.path("plain.db"))
        }
        let outcome = try importPlain()
        #expect(outcome.status == status, "\(outcome.errors)")
        // The hint about an encrypted store was given for an empty file.
        if name == "empty" { #expect(!outcome.errors.contains("encrypted"), "\(outcome.errors)") }
        #expect(!place.exists("s.db"))
        #expect(try place.names().subtracting(["raw.key", "plain.db"]).isEmpty)
    }

    @Test("a source that cannot be copied leaves nothing behind")
    func failingCopy() throws {
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000)); CREATE TABLE u (a)")
        let size = try place.bytes("plain.db").count
        try place.truncate("plain.db", to: size / 4096 / 2 * 4096)
        let outcome = try importPlain()
        #expect(outcome.status == 65, "\(outcome.errors)")
        #expect(try place.names() == ["raw.key", "plain.db"])
    }

    // MARK: Cut short

    /// Starts an import of a database that takes a while, and returns when it has begun to write.
    private func beginLongImport() throws -> CommandRun {
        try place.makePlain(
            """
            CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 120000)
            INSERT INTO t SELECT i, printf('row %d %s', i, hex(randomblob(30))) FROM c;
            """)
        let arguments = ["import", place.path("plain.db"), place.path("s.db"), "--raw-key-file", place.key]
        let run = try CommandRun(Workplace.program(), arguments)
        let hasBegun = try waitUntil { try staging().contains(where: hasSidecar) || !run.isRunning }
        #expect(hasBegun && run.isRunning)
        return run
    }

    /// The database that is made in a staging directory has a new name each time.
    private func hasSidecar(_ directory: String) -> Bool {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: place.path(directory))) ?? []
        return names.contains { $0.hasPrefix("staged-") && $0.hasSuffix("-sidecar") }
    }

    private func staging() throws -> [String] { try place.names().filter { $0.hasPrefix("s.db.importing-") } }

    @Test("an import that is killed blocks nothing: the next one cleans up and works")
    func killed() throws {
        let run = try beginLongImport()
        run.send(SIGKILL)
        #expect(run.finish().status == 128 + SIGKILL)
        #expect(!place.exists("s.db") && !place.exists("s.db-sidecar"))
        #expect(try staging().count == 1)
        let again = try importPlain()
        #expect(again.status == 0, "\(again.errors)")
        #expect(again.errors.contains(#"{"note": {"message": "removed"#))
        #expect(try staging().isEmpty)
        #expect(try query("SELECT count(*) AS n FROM t") == "n\n120000\n")
    }

    @Test("an import that is interrupted takes back what it began", arguments: [SIGINT, SIGTERM])
    func interrupted(_ signal: Int32) throws {
        let run = try beginLongImport()
        run.send(signal)
        let outcome = run.finish()
        #expect(outcome.status == 130, "\(outcome.errors)")
        #expect(outcome.errors.contains("interrupted"))
        #expect(try place.names() == ["raw.key", "plain.db"])
    }

    // Story: one call of instr() in an index took 88 seconds, and a signal had no effect until its end.
    @Test(
        "a signal ends an import within one long call of SQLite, and the next import tidies up",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/stat")))
    func interruptedCall() throws {
        try place.makePlain(
            """
            CREATE TABLE t (x); CREATE INDEX i ON t (length(x)); INSERT INTO t VALUES (printf('%.*c', 4000000, 'a'));
            PRAGMA writable_schema = ON;
            UPDATE sqlite_schema SET sql = 'CREATE INDEX i ON t (instr(x, substr(x, 2000000) || ''b''))' WHERE name = 'i'
            """)
        let run = try CommandRun(
            Workplace.program(), ["import", place.path("plain.db"), place.path("s.db"), "--raw-key-file", place.key])
        #expect(try waitUntil { try processorTicks(of: run.processIdentifier) > 200 || !run.isRunning })
        run.send(SIGINT)
        if !waitUntil(within: .seconds(40), { !run.isRunning }) { run.send(SIGKILL) }
        let outcome = run.finish()
        #expect(outcome.status == 130 && outcome.errors.contains("before it had undone its work"), "\(outcome)")
        #expect(try staging().count == 1)
        try place.makePlain("CREATE TABLE u (a)", as: "other.db")
        #expect(try importPlain("other.db").status == 0)
        #expect(try staging().isEmpty)
    }

    /// The processor time that a process has used, in hundredths of a second.
    private func processorTicks(of process: Int32) throws -> Int {
        let fields = try String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8).split(separator: " ")
        return Int(fields[13]) ?? 0
    }

    @Test("the directory of an import that is under way is left alone")
    func concurrent() throws {
        let run = try beginLongImport()
        // It is under way as long as the other one takes.
        run.send(SIGSTOP)
        try place.makePlain("CREATE TABLE t (a)", as: "small.db")
        #expect(try importPlain("small.db").status == 0)
        run.send(SIGCONT)
        let first = run.finish()
        #expect(first.status == 64, "\(first.errors)")
        #expect(try query("SELECT count(*) AS n FROM t") == "n\n0\n")
        #expect(try staging().isEmpty)
    }

    @Test("a publication that was cut before the sidecar is taken back, one that was complete is kept")
    func cutPublication() throws {
        try place.makePlain("CREATE TABLE t (a)")
        try place.makeStore("made.db")
        // The leftover of a killed import: the directory of a process that is gone, and the database linked to its
        // place.
        let staged = "s.db.importing-1-0123abcd"
        try FileManager.default.createDirectory(atPath: place.path(staged), withIntermediateDirectories: false)
        for ending in ["", "-sidecar", "-sidecar.bak"] {
            try place.copy("made.db\(ending)", to: "\(staged)/s.db\(ending)")
        }
        try place.write("", to: "\(staged)/import.lock")
        try FileManager.default.linkItem(atPath: place.path("\(staged)/s.db"), toPath: place.path("s.db"))
        #expect(try importPlain().status == 0)
        #expect(try query("SELECT count(*) AS n FROM t") == "n\n0\n")
        #expect(try staging().isEmpty)
    }

    // MARK: Real data

    @Test(
        "the content of proj.db is the same before and after",
        .enabled(if: ImportTests.hasProjections, "needs proj-data"))
    func projections() throws {
        let source = try CommandRun(
            Workplace.program(), ["import", Self.projPath, place.path("s.db"), "--raw-key-file", place.key, "--json"]
        ).finish()
        try #require(source.status == 0, "\(source.errors)")
        let plain = try place.run(["hash", "--plain", Self.projPath, "--json"]).json["content_hash"] as? String
        let store = try place.ctl("hash", place.path("s.db"), "--json").json["content_hash"] as? String
        #expect(plain != nil && plain == store)
        #expect(try place.ctl("verify", place.path("s.db")).status == 0)
    }

    private static let projPath = "/usr/share/proj/proj.db"
    static var hasProjections: Bool { FileManager.default.fileExists(atPath: projPath) }
}
