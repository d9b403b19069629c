import Foundation
import Testing

@Suite("cipherctl import-csv")
struct ImportCSVTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.fill("csv") {
            let created = try place.ctl("create", place.path("s.db"))
            try #require(created.status == 0, "\(created.errors)")
            try sql(
                """
                CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT NOT NULL, score REAL, photo BLOB DEFAULT x'aa');
                CREATE TABLE plain (a, b)
                """, "--write")
        }
    }

    @discardableResult
    private func sql(_ text: String, _ options: String...) throws -> String {
        let outcome = try place.run(
            ["sql", place.path("s.db"), text, "--raw-key-file", place.key, "--quiet"] + options)
        try #require(outcome.status == 0, "\(outcome.errors)")
        return outcome.output
    }

    private func load(_ text: String, _ options: String..., table: String = "person") throws -> CommandRun.Outcome {
        try place.write(text, to: "in.csv")
        defer { try? place.remove("in.csv") }
        return try place.run(
            ["import-csv", place.path("s.db"), place.path("in.csv"), table, "--raw-key-file", place.key] + options)
    }

    private static let rows = "SELECT id, name, score, quote(photo) AS photo FROM person ORDER BY id"

    @Test("the header names the columns in any order, and the table decides about types, NULL and defaults")
    func header() throws {
        let outcome = try load("Score,NAME,id\n1.5,\"A, \"\"b\"\"\",2\n,\"\",1\n")
        #expect(outcome.status == 0 && outcome.output.contains("rows          2"), "\(outcome.errors)")
        #expect(
            try sql(Self.rows, "--mode", "list") == "id|name|score|photo\n1|||X'AA'\n2|A, \"b\"|1.5|X'AA'\n")
        #expect(
            try sql("SELECT typeof(score) || typeof(name) AS t FROM person WHERE id = 1", "--mode", "list")
                == "t\nnulltext\n")
    }

    @Test("a result of --mode csv is read back as it was")
    func roundTrip() throws {
        let values =
            "SELECT 1 AS a, x'00ff' AS b UNION ALL SELECT NULL, '' UNION ALL SELECT 1.5, 'x' || char(10) || '\"'"
        let text = try sql(values, "--mode", "csv")
        #expect(try load(text, table: "plain").status == 0)
        #expect(
            try sql("SELECT quote(a) AS a, quote(b) AS b FROM plain", "--mode", "list")
                == "a|b\n'1'|X'00FF'\nNULL|''\n'1.5'|'x\n\"'\n")
    }

    @Test("a separator, a text for NULL and no header")
    func options() throws {
        let outcome = try load("7;Ann;NULL;X'01'\n", "--separator", ";", "--null", "NULL", "--no-header")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try sql(Self.rows, "--mode", "list", "--no-header") == "7|Ann||X'01'\n")
    }

    @Test("a new table has columns of text, and 007 stays 007")
    func newTable() throws {
        let made = try load("code,\"a \"\"b\"\"\"\n007,x\n", "--create", table: "fresh")
        #expect(made.status == 0, "\(made.errors)")
        #expect(try sql("SELECT * FROM fresh", "--mode", "list") == "code|a \"b\"\n007|x\n")
        let again = try load("code\n1\n", "--create", table: "fresh")
        #expect(again.status == 64 && again.errors.contains("already"), "\(again.errors)")
    }

    @Test(
        "the first bad line is named, and nothing is imported",
        arguments: [
            ("id,name\n1,a\n2\n", "Line 3", "1 field instead of 2"),
            ("id,name\n1,a\nx,b\n", "Line 3", "of integers"),
            ("id,score\n1,\"1,5\"\n", "Line 2", "of reals"),
            ("id,name\n1,\"a\nb\"\n1,c\n", "Line 4", "UNIQUE constraint failed"),
            ("id,name\n1,\n", "Line 2", "NOT NULL constraint failed"),
            ("id,name\n1,\"a\n", "Line 2", "a quote is not closed"),
            ("id,nme\n1,a\n", "Line 1", "\"nme\" is not in the table"),
            ("id,ID\n1,a\n", "Line 1", "named twice"),
            ("", "Line 1", "empty"),
        ])
    func badLine(_ text: String, _ line: String, _ reason: String) throws {
        let outcome = try load(text)
        #expect(outcome.status == 65, "\(outcome.errors)")
        #expect(outcome.errors.contains(line) && outcome.errors.contains(reason), "\(outcome.errors)")
        #expect(outcome.errors.contains("Nothing was imported") && outcome.errors.contains("hint: "))
        #expect(try sql("SELECT count(*) AS n FROM person", "--mode", "list") == "n\n0\n")
    }

    // Story: the hint advised --skip-bad-lines, which was given and does not help: no line is read after such a quote.
    @Test("the hint for an open quote does not advise to leave the line out", arguments: [[], ["--skip-bad-lines"]])
    func openQuote(_ options: [String]) throws {
        try place.write("id,name\n1,a\n2,\"open\n3,c\n", to: "open.csv")
        let outcome = try place.run(
            ["import-csv", place.path("s.db"), place.path("open.csv"), "person", "--raw-key-file", place.key] + options)
        #expect(outcome.status == 65 && outcome.errors.contains("a quote is not closed"), "\(outcome.errors)")
        #expect(outcome.errors.contains("hint: Correct the line.\n"), "\(outcome.errors)")
        let other = try load("id,name\nx,b\n")
        #expect(other.errors.contains("--skip-bad-lines"), "\(other.errors)")
    }

    @Test("bad lines can be left out and are named; batches before an error stay")
    func partly() throws {
        let skipped = try load("id,name\n1,a\nx,b\n2\n3,c\n", "--skip-bad-lines", "--json")
        #expect(skipped.status == 2, "\(skipped.errors)")
        #expect(skipped.json["rows"] as? Int == 2 && skipped.json["bad_lines"] as? Int == 2, "\(skipped.output)")
        #expect(skipped.errors.contains("line 3 was left out") && skipped.errors.contains("line 4 was left out"))
        let batches = try load("id,name\n11,a\n12,b\n13,c\n1,d\n", "--batch", "2")
        #expect(batches.status == 65 && batches.errors.contains("2 rows stay, up to line 3"), "\(batches.errors)")
        #expect(try sql("SELECT group_concat(id) AS i FROM person", "--mode", "list") == "i\n1,3,11,12\n")
    }

    @Test("no such table, a view, and options that are wrong say so")
    func wrongUse() throws {
        let missing = try load("a\n1\n", table: "nowhere")
        #expect(missing.status == 64 && missing.errors.contains("no table \"nowhere\""), "\(missing.errors)")
        #expect(try load("a\n", "--separator", "ab").status == 64)
        #expect(try load("a\n", "--batch", "0").status == 64)
        #expect(try load("a\n", "--create", "--no-header").status == 64)
        let none = try place.ctl("import-csv", place.path("s.db"), place.path("none.csv"), "person")
        #expect(none.status == 66 && none.errors.contains("none.csv"), "\(none.errors)")
    }
}
