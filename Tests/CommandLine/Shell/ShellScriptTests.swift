import Foundation
import Testing

@Suite("cipherctl shell with a script")
struct ShellScriptTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func shell(_ script: String, _ options: String...) throws -> CommandRun.Outcome {
        try place.run(
            ["shell", place.path("s.db"), "--raw-key-file", place.key] + options, input: script,
            environment: ["CIPHERSTORE_HISTORY": place.path("history")])
    }

    @Test("statements and instructions run in turn, without a prompt and without a history")
    func script() throws {
        let outcome = try shell(
            """
            -- a comment;
            .mode list
            SELECT 1 AS a,
              ';' AS b; SELECT 2 AS c;
            .headers off
            SELECT count(*) FROM t;
            .mode insert copy
            SELECT 3
            """)
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.output == "a|b\n1|;\nc\n2\n3000\nINSERT INTO \"copy\" VALUES(3);\n")
        #expect(outcome.errors.isEmpty && !place.exists("history"))
    }

    @Test("a transaction goes over statements, and one that is open at the end is rolled back")
    func transactions() throws {
        let committed = try shell("BEGIN;\nDELETE FROM t WHERE id = 1;\nCOMMIT;\n", "--write")
        #expect(committed.status == 0, "\(committed.errors)")
        let open = try shell("BEGIN;\nDELETE FROM t;\n", "--write")
        #expect(open.status == 1 && open.errors.contains("inside a transaction"), "\(open.errors)")
        #expect(try shell(".mode list\n.headers off\nSELECT count(*) FROM t;").output == "2999\n")
    }

    @Test("the first error ends it, with its line; a write needs --write")
    func errors() throws {
        let wrong = try shell("SELECT 1 WHERE 0;\n\nSELECT nothing;\nSELECT 2;\n")
        #expect(wrong.status == 1 && wrong.errors.contains("Line 3: "), "\(wrong.errors)")
        let write = try shell("SELECT 1 WHERE 0;\nDELETE FROM t;\n")
        #expect(write.status == 77 && write.errors.contains("Line 2: "), "\(write.errors)")
        #expect(write.errors.contains("hint: Start the shell with --write."))
        let unknown = try shell("SELECT 1;\n.frobnicate\n")
        #expect(unknown.status == 64 && unknown.errors.contains("Line 2: "), "\(unknown.errors)")
        for text in [
            "SELECT 'open", "SELECT (", ".mode xml", ".headers maybe", ".tables a b", ".dump", ".read", ".import x",
        ] {
            let outcome = try shell(text)
            #expect([1, 64].contains(outcome.status) && outcome.errors.contains("cipherctl: error: "), "\(text)")
        }
    }

    @Test("instructions list the schema, read files, import and dump")
    func instructions() throws {
        try place.write(
            "CREATE TABLE person (id INTEGER PRIMARY KEY, name);\nCREATE INDEX byname ON person (name);\n", to: "a.sql")
        try place.write("id,name\n1,Ann\n2,Bob\n", to: "in.csv")
        let outcome = try shell(
            """
            .read \(place.path("a.sql"))
            .import "\(place.path("in.csv"))" person
            .tables
            .tables p%
            .indexes person
            .schema person
            .dump --insecure-plaintext person
            .quit
            SELECT 1;
            """, "--write")
        #expect(outcome.status == 0, "\(outcome.errors)")
        let schema = "CREATE TABLE person (id INTEGER PRIMARY KEY, name);\nCREATE INDEX byname ON person (name);\n"
        #expect(
            outcome.output.hasPrefix("2 rows imported\nperson\nt\nperson\nbyname\n\(schema)PRAGMA"), "\(outcome.output)"
        )
        #expect(outcome.output.contains("INSERT INTO \"person\" VALUES(2,'Bob');\n"))
        #expect(outcome.output.hasSuffix("COMMIT;\n"))
    }

    @Test("an error in a file that is read names the file and the line, and a file cannot read itself for ever")
    func readErrors() throws {
        try place.write("SELECT 1 WHERE 0;\nSELECT nothing;\n", to: "a.sql")
        let wrong = try shell("SELECT 1 WHERE 0;\n.read \(place.path("a.sql"))\n")
        #expect(wrong.errors.contains("Line 2 of \"\(place.path("a.sql"))\": "), "\(wrong.errors)")
        try place.write(".read \(place.path("b.sql"))\n", to: "b.sql")
        let endless = try shell(".read \(place.path("b.sql"))\n")
        #expect(endless.status == 64 && endless.errors.contains("nested too deeply"), "\(endless.errors)")
    }
}
