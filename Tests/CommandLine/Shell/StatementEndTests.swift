import Testing

@testable import cipherctl

@Suite("Ends of statements")
struct StatementEndTests {
    @Test(
        "a statement ends with a semicolon that is in no quote, comment or trigger",
        arguments: [
            ("SELECT 1;", true), ("SELECT 1", false), ("SELECT 1; ", true), ("SELECT 1; -- a\n", true),
            ("SELECT 1; /* a; */ ", true), ("SELECT 1; /* a", false), ("SELECT 1; SELECT 2\n", false),
            ("SELECT 1; SELECT 2;", true), ("SELECT ';", false), ("SELECT ';';", true), ("SELECT 'it''s;';", true),
            ("SELECT \";\";", true), ("SELECT `;", false), ("SELECT [;];", true), ("-- a;\n", false),
            ("-- a;\nSELECT 1;", true), ("SELECT 1 - 2 / 3;", true), ("SELECT 1 --;", false), ("", false), (";", false),
            ("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1;", false),
            ("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END", false),
            ("CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 1; END;", true),
            ("CREATE TEMP TRIGGER t BEGIN SELECT CASE 1 WHEN 1 THEN 2 END; END ;", true),
            ("EXPLAIN CREATE TRIGGER t BEGIN SELECT 1; END;", true), ("CREATE TABLE trigger_end (a);", true),
            ("EXPLAIN QUERY PLAN SELECT 1;", true), ("SELECT x'00;';", true), ("SELECT 'ü;", false),
        ])
    func ends(_ sql: String, _ isComplete: Bool) {
        var whole = StatementEnd()
        #expect(whole.read(Array(sql.utf8)) == isComplete)
        // The same in two pieces, wherever it is cut.
        let bytes = Array(sql.utf8)
        for cut in bytes.indices {
            var cutOnce = StatementEnd()
            let first = cutOnce.read(bytes[..<cut])
            let second = cutOnce.read(bytes[cut...])
            #expect(((first || second) && cutOnce.isBlank) == isComplete, "cut at \(cut)")
        }
    }

    @Test("a script is cut into whole statements, with their lines, and what is left comes at the end")
    func assembly() throws {
        var lines = LineReader("SELECT 1; SELECT\n2;\n-- note\n\nCREATE TRIGGER t BEGIN\nSELECT 1;\nEND;\nSELECT 'a")
        var assembly = SQLAssembly()
        var pieces: [SQLPiece] = []
        while let line = try lines.nextLine() {
            if let piece = try assembly.append(line) { pieces.append(piece) }
        }
        if let rest = try assembly.finish() { pieces.append(rest) }
        #expect(pieces.map(\.line) == [1, 3, 8])
        #expect(pieces.map { $0.text.hasSuffix(";\n") } == [true, true, false])
    }
}

@Suite("Completion in the shell")
struct ShellCompletionTests {
    private let names = ["person", "person_id", "Photo", "two words"]

    @Test(
        "a word is completed as far as it is certain",
        arguments: [
            ("SELECT * FROM per", "son", 2), ("SELECT pho", "to ", 1), ("sel", "ect ", 1), ("SEL", "ECT ", 1),
            ("SELECT \"two", " words\"", 1), ("SELECT two", "", 0), (".ta", "bles ", 1), ("", "", 0),
            ("SELECT ", "", 0),
            ("SELECT zzz", "", 0), (".read fi", "", 0),
        ])
    func words(_ text: String, _ insertion: String, _ count: Int) {
        let found = ShellCompletion(of: text, names: names)
        #expect(found.insertion == insertion && found.candidates.count == count, "\(found)")
    }

    @Test("names that are listed fit the terminal, and cannot control it")
    func columns() {
        let text = ShellCompletion.columns(["aaaa", "bb", "\u{1b}[2J"], width: 20)
        #expect(!text.contains("\u{1b}"))
        #expect(ShellCompletion.columns(["aaaa", "bb", "cc"], width: 12) == "aaaa  bb\ncc\n")
        #expect(ShellCompletion.columns(["aaaaaaaaaa"], width: 5) == "aaaaaaaaaa\n")
    }
}
