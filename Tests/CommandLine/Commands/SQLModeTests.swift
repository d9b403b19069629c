import Foundation
import Testing

@Suite("cipherctl sql: modes, parameters and files")
struct SQLModeTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func sql(_ words: [String], input: String? = nil) throws -> CommandRun.Outcome {
        try place.run(["sql", place.path("s.db"), "--raw-key-file", place.key] + words, input: input)
    }

    private static let values = "SELECT 1 AS n, 'a|<b>' AS \"t x\", NULL AS gap, x'00ff' AS b, 'it''s' || char(10) AS n"

    @Test(
        "each mode prints the same values in its form",
        arguments: [
            ("jsonl", #"{"n": 1, "t x": "a|<b>", "gap": null, "b": {"blob": "00FF"}, "n:1": "it's\n"}"# + "\n"),
            (
                "markdown",
                "| n | t x | gap | b | n |\n| --- | --- | --- | --- | --- |\n"
                    + "| 1 | a\\|&lt;b> | NULL | X'00FF' | it's<br> |\n\n"
            ),
            (
                "html",
                "<table>\n<tr><th>n</th><th>t x</th><th>gap</th><th>b</th><th>n</th></tr>\n"
                    + "<tr><td>1</td><td>a|&lt;b&gt;</td><td class=\"null\"></td><td>X'00FF'</td><td>it's\n</td></tr>\n"
                    + "</table>\n"
            ),
            ("line", "  n = 1\nt x = a|<b>\ngap = NULL\n  b = X'00FF'\n  n = it's\\n\n"),
            ("list", "n|t x|gap|b|n\n1|a|<b>||X'00FF'|it's\n\n"),
            (
                "insert",
                "INSERT INTO \"result\"(\"n\",\"t x\",\"gap\",\"b\",\"n\") VALUES(1,'a|<b>',NULL,X'00FF','it''s\n');\n"
            ),
        ])
    func modes(_ mode: String, _ expected: String) throws {
        let outcome = try sql([Self.values, "--mode", mode])
        #expect(outcome.output == expected, "\(outcome.errors)")
    }

    @Test("headers can be left out, and insert names a table")
    func headers() throws {
        for (mode, expected) in [
            ("csv", "1\r\n"), ("list", "1\n"), ("table", "1\n"), ("insert", "INSERT INTO \"t\" VALUES(1);\n"),
        ] {
            let table = mode == "insert" ? ["--table", "t"] : []
            #expect(try sql(["SELECT 1 AS long", "--mode", mode, "--no-header"] + table).output == expected)
        }
        #expect(try sql(["SELECT 1", "--table", "t"]).status == 64)
        #expect(try sql(["SELECT 1", "--mode", "xml"]).errors.contains("markdown"))
    }

    @Test("parameters have the types that were given, in each statement that names them")
    func parameters() throws {
        let outcome = try sql(
            [
                "SELECT typeof(:a) AS a, :a AS v; SELECT 1 AS one; SELECT typeof(@i) AS i, typeof($r) AS r, hex(:b) AS b, :n AS n",
                "--mode", "list", "--no-header", "--param", "a=x=y:z", "--param", ":i:int=5", "--param", "r:real=1.5",
                "--param", "b:blob=00ff", "--param", "n:null",
            ])
        #expect(outcome.output == "text|x=y:z\n1\ninteger|real|00FF|\n", "\(outcome.errors)")
    }

    @Test("a parameter that is missing, unknown or of another type is refused, without its value")
    func wrongParameters() throws {
        let missing = try sql(["SELECT :a, :b", "--param", "a=marker"])
        #expect(missing.status == 1 && missing.errors.contains("missing statement argument: b"), "\(missing.errors)")
        let misspelt = try sql(["SELECT :a", "--param", "aa=marker"])
        #expect(misspelt.status == 1 && misspelt.errors.contains("missing statement argument: a"), "\(misspelt.errors)")
        for words in ["i:int=marker", "r:real=marker", "b:blob=marker", "x:date=marker", "=marker", "a b=marker", "a"] {
            let outcome = try sql(["SELECT :i", "--param", words])
            #expect(outcome.status == 64 && !outcome.errors.contains("marker"), "\(words): \(outcome.errors)")
        }
        #expect(try sql(["SELECT :a", "--param", "a=1", "--param", "a=2"]).status == 64)
        #expect(try sql(["SELECT 1", "--param", "a=1"]).errors.contains("no effect"))
    }

    @Test("a file is run, its errors name it and the line, and rows that changed are counted")
    func file() throws {
        try place.write("UPDATE t SET text = 'x' WHERE id <= 3;\nDELETE FROM t WHERE id = 1;\nSELECT 1;\n", to: "a.sql")
        let outcome = try sql(["--file", place.path("a.sql"), "--write", "--mode", "list"])
        #expect(outcome.status == 0 && outcome.errors.contains("note: 4 rows affected"), "\(outcome.errors)")
        #expect(outcome.output == "1\n1\n")
        #expect(try sql(["DELETE FROM t WHERE id = 1", "--write"]).errors.contains("0 rows affected"))
        #expect(try sql(["CREATE TABLE u (a)", "--write"]).errors.isEmpty)
        try place.write("SELECT 1;\nSELECT\nnothing\n;", to: "b.sql")
        let wrong = try sql(["--file", place.path("b.sql")])
        #expect(wrong.status == 1 && wrong.errors.contains("Line 2 of \"\(place.path("b.sql"))\""), "\(wrong.errors)")
        #expect(try sql(["SELECT 1", "--file", place.path("a.sql")]).status == 64)
        #expect(try sql(["--file", place.path("none.sql")]).status == 66)
    }
}
