import Foundation
import TestKit
import Testing

@testable import cipherctl

/// Names from outside: of files, of slots, of programs.
@Suite("Names from outside")
struct NameTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    /// Colours, the title of a window, a line that looks like another message, and text that runs backwards.
    private static let name = "a\u{1b}[31m\u{1b}]0;title\u{07}\ncipherctl: note: all is well\u{9b}2J\u{202e}bd.db"

    /// - Parameter isNamed: Whether the name is in what is printed.
    private func expectHarmless(
        _ arguments: [String], isNamed: Bool = true, at location: SourceLocation = #_sourceLocation
    ) throws {
        let outcome = try place.run(arguments)
        let text = outcome.output + outcome.errors
        let isHarmful = text.unicodeScalars.contains {
            $0 != "\n" && ($0.value < 0x20 || (0x7f...0x9f).contains($0.value) || $0.value == 0x202e)
        }
        #expect(!isHarmful, "\(arguments.first ?? ""): \(text.debugDescription)", sourceLocation: location)
        #expect(!text.contains("\ncipherctl: note: all is well"), sourceLocation: location)
        // It is printed nevertheless, as escapes.
        #expect(!isNamed || text.contains("[31m"), "\(arguments.first ?? "")", sourceLocation: location)
    }

    // A file's name moved the cursor, changed colours, and put lines of its own among the messages.
    @Test("control characters of a file's name never reach the terminal", arguments: [[], ["--json"]])
    func fileName(_ form: [String]) throws {
        let path = place.path(Self.name)
        let key = form + ["--raw-key-file", place.key]
        for command in ["status", "verify", "doctor", "key list"] {
            try expectHarmless(command.split(separator: " ").map(String.init) + [path] + key)
        }
        try expectHarmless(["create", path] + key)
        try expectHarmless(["create", path] + key)
        for command in ["status", "verify", "key list", "key test"] {
            let outcome = try place.run(command.split(separator: " ").map(String.init) + [path] + key)
            #expect(outcome.status == 0, "\(outcome.errors)")
            #expect(!(outcome.output + outcome.errors).unicodeScalars.contains { $0 == "\u{1b}" || $0 == "\u{9b}" })
        }
        try expectHarmless(["rotate", path, "--no-backup"] + key)
        try expectHarmless(["backup", path, place.path("b" + Self.name)] + key)
        try FileManager.default.removeItem(atPath: path + "-sidecar.bak")
        try expectHarmless(["sql", path, "SELECT 1", "--write"] + form + ["--key-file", place.path(Self.name + "k")])
    }

    // A name in the schema put a line of its own among the messages: errors of SQL keep their line ends.
    @Test("control characters of a schema and its rows never reach the terminal", arguments: [[], ["--json"]])
    func schemaNames(_ form: [String]) throws {
        try place.makeStore()
        let (store, name) = (place.path("s.db"), Self.name)
        let key = form + ["--raw-key-file", place.key]
        let made = try place.run(
            [
                "sql", store,
                """
                CREATE TABLE "\(name)" (id INTEGER PRIMARY KEY, "\(name)" TEXT UNIQUE, u, CHECK (u <> 9));
                CREATE TABLE child (id INTEGER PRIMARY KEY, parent);
                INSERT INTO "\(name)" VALUES (1, '\(name)', 1);
                CREATE INDEX "\(name)i" ON "\(name)" (u);
                CREATE VIEW "\(name)v" AS SELECT * FROM "\(name)none";
                CREATE VIRTUAL TABLE "\(name)f" USING fts5 ("\(name)")
                """, "--write",
            ] + key)
        try #require(made.status == 0, "\(made.errors)")
        try expectHarmless(["sql", store, "SELECT * FROM \"\(name)\""] + key)
        try expectHarmless(["sql", store, "SELECT * FROM \"\(name)v\""] + key)
        try expectHarmless(["sql", store, "INSERT INTO \"\(name)\" VALUES (2, '\(name)', 1)", "--write"] + key)
        try expectHarmless(["sql", store, "SELECT \"\(name)none\" FROM child"] + key)
        try expectHarmless(
            ["history", "record", store, "--table", name, "--columns", "--keep", "\(name).\(name)"] + key)
        try expectHarmless(["history", "record", store, "--all"] + key)
        _ = try place.run(["sql", store, "DELETE FROM \"\(name)\"", "--write"] + key)
        try expectHarmless(["history", store] + key)
        try expectHarmless(["history", "record", store, "--table", name + "none"] + key)
        try expectHarmless(["verify", store] + key, isNamed: false)
        try expectHarmless(["sync", "init", store, "--table", name + "none"] + key, isNamed: false)
        try expectHarmless(["salvage", store, place.path(name + "saved")] + key)
        try expectHarmless(["export", store, place.path(name + "plain")] + key)
        try expectHarmless(["import", place.path(name + "plain"), place.path(name + "again")] + key)
        try expectHarmless(["conformance", store] + key, isNamed: false)
        try expectHarmless(
            ["key", "add", store, "--label", name, "--new-raw-key-file", place.key] + key,
            isNamed: false)
    }

    @Test("each character that steers is shown by an escape, and no other is changed")
    func escapes() {
        #expect("a\u{1b}b\u{7f}\r\n\t".withoutControls() == "a\\u{1b}b\\u{7f}\\r\\n\\t")
        #expect("SELECT\n\t1\u{0}".withoutControls(keepsLines: true) == "SELECT\n\t1\\u{0}")
        #expect("\u{202e}\u{2066}\u{2028}".withoutControls() == "\\u{202e}\\u{2066}\\u{2028}")
        for text in ["", "Grüße/日本.db", "می\u{200c}خواهم.db", "👩\u{200d}🚀.db", "back\\slash"] {
            #expect(text.withoutControls() == text)
        }
    }

    // "has no option" was all that was said of it.
    @Test("a file whose name begins with a dash is named, with how to write it")
    func dash() throws {
        let outcome = try place.ctl("create", "-dash.db")
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("\"-dash.db\"") && outcome.errors.contains("./-dash.db"), "\(outcome.errors)")
        for arguments in [["create", "./-dash.db"], ["status", "--no-key", "--", "-dash.db"]] {
            let key = arguments.contains("--") ? [] : ["--raw-key-file", place.key]
            #expect(try place.run(arguments + key).status == 0)
        }
        // A possible secret is not repeated.
        for secret in ["-pTr0ub4dor&3", "-secret phrase.db"] {
            #expect(try !place.ctl("create", secret).errors.contains(secret))
        }
    }

    // The second rotation cost as much as the first, and the first one's backup was that of no use.
    @Test("a store that is named twice is rotated once, whatever leads to it")
    func namedTwice() throws {
        try place.makeStore()
        let store = place.path("s.db")
        try FileManager.default.createSymbolicLink(atPath: place.path("link.db"), withDestinationPath: store)
        let outcome = try place.ctl("rotate", store, "./s.db", place.path("link.db"), store, "--no-backup", "--json")
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(outcome.json["rotated"] as? Int == 1 && outcome.json["not_begun"] as? Int == 0)
        #expect(outcome.errors.contains(#"\"./s.db\" was named before"#), "\(outcome.errors)")
        #expect(try place.ctl("status", store, "--json").json["epoch"] as? Int == 2)
    }
}
