import Foundation
import Testing

@Suite("cipherctl sql")
struct SQLTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func sql(_ text: String, _ options: String...) throws -> CommandRun.Outcome {
        try place.run(["sql", place.path("s.db"), text, "--raw-key-file", place.key] + options)
    }

    private static let values = "SELECT 1 AS n, 'a,\"b\"' AS t, NULL AS gap, x'00ff' AS b, '' AS empty, 1.5 AS n"

    @Test("tables are aligned, numbers to the right")
    func table() throws {
        let outcome = try sql("SELECT 7 AS n, 'x' AS word UNION ALL SELECT 1234, NULL")
        #expect(outcome.output == "   n  word\n----  ----\n   7  x\n1234  NULL\n")
    }

    // Only the tools that read files of others trusted no schema.
    @Test("a schema is not trusted, cells are checked, and SQL may not write the schema, reading or writing")
    func defended() throws {
        for options in [[], ["--write"]] {
            let found = try place.run(
                ["sql", place.path("s.db"), "PRAGMA trusted_schema; PRAGMA cell_size_check", "--mode", "csv"]
                    + options + ["--raw-key-file", place.key])
            #expect(found.output == "trusted_schema\r\n0\r\ncell_size_check\r\n1\r\n", "\(found.output)\(found.errors)")
        }
        // A virtual table that tells of the schema: a view may have been made by somebody else.
        let made = try sql("CREATE VIEW v AS SELECT name FROM pragma_table_info('t')", "--write")
        #expect(made.status == 0, "\(made.errors)")
        let read = try sql("SELECT * FROM v")
        #expect(read.status == 1 && read.errors.contains("unsafe use of virtual table"), "\(read.errors)")
        #expect(try sql("SELECT name FROM pragma_table_info('t')").status == 0)
        #expect(try sql("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema", "--write").status != 0)
    }

    @Test("a table keeps control characters from the terminal")
    func control() throws {
        let outcome = try sql("SELECT char(27) || '[2J' || char(10) AS t")
        #expect(outcome.output.contains("\\u{1b}[2J\\n"))
        #expect(!outcome.output.contains("\u{1b}"))
    }

    @Test("CSV is RFC 4180's, and tells NULL from the empty text")
    func csv() throws {
        let outcome = try sql(Self.values, "--mode", "csv")
        #expect(outcome.output == "n,t,gap,b,empty,n\r\n1,\"a,\"\"b\"\"\",,X'00FF',\"\",1.5\r\n")
    }

    @Test("JSON keeps types, and names that come twice apart")
    func json() throws {
        let outcome = try sql(Self.values, "--json")
        let rows = try #require(
            JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [[String: Any]])
        #expect(rows.count == 1)
        #expect(rows[0]["n"] as? Int == 1)
        #expect(rows[0]["n:1"] as? Double == 1.5)
        #expect(rows[0]["t"] as? String == "a,\"b\"")
        #expect(rows[0]["gap"] is NSNull)
        #expect(rows[0]["b"] as? [String: String] == ["blob": "00FF"])
        #expect(try sql("SELECT 1 WHERE 0", "--json").output == "[]\n")
    }

    @Test("several statements run in turn, from an argument or from standard input")
    func several() throws {
        let text = "CREATE TABLE u (a); INSERT INTO u VALUES (1); -- a comment\nSELECT a FROM u; SELECT 2 AS b;"
        let outcome = try sql(text, "--write", "--mode", "csv")
        #expect(outcome.output == "a\r\n1\r\nb\r\n2\r\n")
        let input = try place.ctl(
            "sql", place.path("s.db"), "-", "--mode", "csv", input: "SELECT count(*) AS n FROM u;\n")
        #expect(input.output == "n\r\n1\r\n")
        #expect(try place.ctl("sql", place.path("s.db"), input: "\n-- nothing\n").status == 0)
    }

    @Test("writing needs --write, and the error says so")
    func readOnly() throws {
        let outcome = try sql("INSERT INTO t (text) VALUES ('no')")
        #expect(outcome.status == 77)
        #expect(outcome.errors.contains("hint: Add --write."))
        #expect(try sql("SELECT count(*) AS n FROM t", "--mode", "csv").output == "n\r\n3000\r\n")
    }

    @Test("a failing statement ends the run with 1 and shows no rows' values")
    func failure() throws {
        let outcome = try sql("SELECT 1 AS first; SELECT a FROM nowhere; SELECT 3", "--mode", "csv", "--write")
        #expect(outcome.status == 1)
        #expect(outcome.output == "first\r\n1\r\n")
        #expect(outcome.errors.contains("no such table: nowhere"))
    }

    @Test("a transaction left open is rolled back")
    func transactionLeftOpen() throws {
        let outcome = try sql("BEGIN; DELETE FROM t", "--write")
        #expect(outcome.status == 1)
        #expect(outcome.errors.contains("inside a transaction"))
        #expect(try sql("SELECT count(*) AS n FROM t", "--mode", "csv").output == "n\r\n3000\r\n")
        #expect(try sql("BEGIN; DELETE FROM t WHERE id > 10; COMMIT", "--write").status == 0)
        #expect(try sql("SELECT count(*) AS n FROM t", "--mode", "csv").output == "n\r\n10\r\n")
    }

    @Test(
        "what would break the encryption or the sharing is refused",
        arguments: [
            "ATTACH 'other.db' AS o", "PRAGMA key = 'x'", "PRAGMA rekey = 'x'", "PRAGMA wal_checkpoint",
            "PRAGMA cipher_default_kdf_iter = 1",
        ])
    func refused(_ text: String) throws {
        let outcome = try sql(text, "--write")
        #expect(outcome.status == 77)
        #expect(!place.exists("other.db"))
    }

    // An error printed the rest of the script, with all of its values (745,465 bytes).
    @Test("an error shows the failing statement and its line, and nothing of the rest of the script")
    func failingLine() throws {
        let place = try Workplace()
        #expect(try place.ctl("create", place.path("s.db")).status == 0)
        let rest = (0..<1000).map { "INSERT INTO t VALUES ('secret value \($0)');" }.joined(separator: "\n")
        for wrong in ["INSERT INTO missing VALUES (1);", "INSRT INTO t VALUES (2);", "INSERT INTO u VALUES (NULL);"] {
            let script = """
                CREATE TABLE IF NOT EXISTS t (a); -- one
                CREATE TABLE IF NOT EXISTS u (a NOT NULL);
                /* a comment;
                   of two lines */
                \(wrong)
                \(rest)
                """
            let outcome = try place.ctl("sql", place.path("s.db"), "--write", "-", input: script)
            #expect(outcome.status == 1, "\(outcome.errors)")
            #expect(outcome.errors.contains("Line 5: "), "\(outcome.errors)")
            #expect(outcome.errors.contains(wrong.dropLast()), "\(outcome.errors)")
            #expect(!outcome.errors.contains("secret value") && outcome.errors.utf8.count < 1000)
            let json = try place.ctl("sql", place.path("s.db"), "--write", "-", "--json", input: script)
            #expect(json.errors.contains("\"line\":5") || json.errors.contains("\"line\": 5"), "\(json.errors)")
        }
    }

    // A script of one line was said to fail in line 1 if its line had an end.
    @Test("a text of one line names no line, and its JSON does", arguments: ["SELECT 1; SELECT nothing; SELECT 2"])
    func onlyLine(sql: String) throws {
        func errors(_ text: String, _ options: String...) throws -> String {
            let outcome = try place.run(
                ["sql", place.path("s.db"), "-", "--raw-key-file", place.key] + options, input: text)
            #expect(outcome.status == 1)
            return outcome.errors
        }
        for text in [sql, sql + "\n", "\n" + sql + "\r\n\n"] {
            try #expect(!errors(text).contains("Line ") && errors(text).contains("SELECT nothing"))
        }
        try #expect(self.sql(sql).errors.contains("SELECT nothing") && !self.sql(sql).errors.contains("Line "))
        try #expect(errors(sql, "--json").contains("\"line\": 1"))
        try #expect(
            errors("SELECT 1;\n" + sql).contains("Line 2: ") && errors(sql + ";\nSELECT 3").contains("Line 1: "))
    }

    // It said "nothing was lost, try again" after the first statement was committed.
    @Test(
        "rows that cannot be printed do not hide that statements have changed the store",
        .enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
    func fullOutput() throws {
        let place = try Workplace()
        #expect(try place.ctl("create", place.path("s.db")).status == 0)
        #expect(try place.ctl("sql", place.path("s.db"), "CREATE TABLE t (a)", "--write").status == 0)
        func errors(_ sql: String) throws -> String {
            let shell = "exec \"$0\" sql s.db --write \"$1\" --raw-key-file \"$2\" > /dev/full"
            return try CommandRun(
                URL(fileURLWithPath: "/bin/sh"), ["-c", shell, Workplace.program().path, sql, place.key],
                directory: place.path("")
            ).finish().errors
        }
        for sql in ["INSERT INTO t VALUES (1); SELECT 5", "INSERT INTO t VALUES (1) RETURNING a"] {
            let text = try errors(sql)
            #expect(text.contains("have changed the store") && !text.contains("nothing was lost"), "\(text)")
        }
        #expect(
            try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM t", "--mode", "csv").output.contains("2"))
        #expect(try !errors("SELECT 5").contains("have changed the store"))
    }

    /// All rows were kept until the end: eleven gigabytes, and nothing was printed.
    @Test("a result without end is printed as it comes, and ends with its reader")
    func endless() throws {
        let place = try Workplace()
        try place.makeStore()
        let query = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x, 'row' FROM c"
        let script = "ulimit -v 4000000; \"$@\" | head -2000 | tail -1"
        let words = ["-c", script, "sh", try Workplace.program().path]
        let outcome = try CommandRun(
            URL(fileURLWithPath: "/bin/sh"),
            words + ["sql", place.path("s.db"), query, "--raw-key-file", place.key]
        ).finish()
        #expect(outcome.status == 0 && outcome.output == "1998  row\n", "\(outcome.output)\(outcome.errors)")
    }
}
