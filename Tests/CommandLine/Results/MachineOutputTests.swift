import Foundation
import TestKit
import Testing

/// The lines that programs get on standard error: notes and warnings as JSON, progress only on request.
@Suite("cipherctl: what programs read on standard error")
struct MachineOutputTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try place.makePlain("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    }

    private func objects(_ text: String) -> [[String: Any]] {
        text.split(separator: "\n").map { line in
            (try? JSONSerialization.jsonObject(with: Data(line.utf8))) as? [String: Any] ?? [:]
        }
    }

    // A program that parsed standard error met lines for people among the JSON.
    @Test(
        "with --json every note and warning is an object on a line of its own",
        arguments: [
            (["create", "new.db", "--key-env", "STORE_KEY"], "warning"), (["key", "list", "s.db"], "note"),
            (["export", "s.db", "out.db", "--insecure-plaintext"], "warning"),
            (["sync", "init", "s.db", "--all-tables"], "warning"), (["doctor", "s.db", "--key-env", "STORE_KEY"], ""),
            (["history", "s.db", "--table", "other"], "note"), (["conformance", "s.db", "--report", "r.html"], "note"),
            (["sql", "s.db", "SELECT 1", "--key-env", "STORE_KEY"], "warning"),
            (["key", "recovery", "s.db"], "note"), (["rotate", "s.db", "s.db", "--dry-run"], "note"),
        ])
    func json(_ words: [String], kind: String) throws {
        #expect(try place.ctl("history", "record", store, "--table", "t").status == 0)
        let hasKey = words.contains("--key-env") || words.contains("list")
        let environment = ["STORE_KEY": "weak"]
        let outcome = try place.run(
            words + ["--json"] + (hasKey ? [] : ["--raw-key-file", place.key]), environment: environment)
        let found = objects(outcome.errors)
        #expect(found.allSatisfy { !$0.isEmpty }, "\(outcome.errors)")
        if !kind.isEmpty {
            let messages = found.compactMap { ($0[kind] as? [String: Any])?["message"] as? String }
            #expect(!messages.isEmpty, "\(outcome.errors)")
        }
        // People get what they have always got.
        let lines = try place.run(
            words.map { ["new.db": "n2.db", "out.db": "o2.db", "r.html": "r2.html"][$0] ?? $0 }
                + (hasKey ? [] : ["--raw-key-file", place.key]), environment: environment)
        #expect(!lines.errors.contains("{"), "\(lines.errors)")
    }

    /// Commands that have something to say beside their result, each with names of its own.
    private static let busy: [[String]] = [
        ["rotate", "s.db", "--no-backup"], ["backup", "s.db", "b"], ["verify", "s.db"],
        ["import", "plain.db", "i.db"], ["conformance", "s.db", "--report", "c.html"],
    ]

    // A nightly rotation sent a mail with lines of JSON each night.
    @Test("off a terminal no progress is printed", arguments: busy)
    func silence(_ words: [String]) throws {
        let outcome = try place.run(words + ["--raw-key-file", place.key])
        #expect([0, 2, 65].contains(outcome.status), "\(outcome.errors)")
        #expect(!outcome.errors.contains("progress") && !outcome.errors.contains("\u{1b}"), "\(outcome.errors)")
    }

    @Test("with --progress json each is a line of JSON", arguments: busy)
    func progress(_ words: [String]) throws {
        let outcome = try place.run(words + ["--progress", "json", "--raw-key-file", place.key])
        #expect([0, 2, 65].contains(outcome.status), "\(outcome.errors)")
        let found = objects(outcome.errors).compactMap { $0["progress"] as? [String: Any] }
        #expect(!found.isEmpty, "\(outcome.errors)")
        #expect(outcome.output.first != "{", "the result stays text")
    }

    @Test("with --quiet there are neither notes nor progress, and warnings stay", arguments: busy)
    func quiet(_ words: [String]) throws {
        let outcome = try place.run(words + ["--quiet", "--raw-key-file", place.key])
        #expect([0, 2, 65].contains(outcome.status), "\(outcome.errors)")
        #expect(outcome.errors.isEmpty && !outcome.output.isEmpty, "\(outcome.errors)")
        let warned = try place.run(
            ["sql", store, "SELECT 1", "--quiet", "--key-env", "STORE_KEY"], environment: ["STORE_KEY": "weak"])
        #expect(warned.errors.contains("cipherctl: warning: "), "\(warned.errors)")
        let both = try place.run(words + ["--quiet", "--progress", "json", "--raw-key-file", place.key])
        #expect(both.status == 64, "\(both.errors)")
    }

    @Test("a form of progress that there is none of is refused")
    func unknownForm() throws {
        let outcome = try place.ctl("verify", store, "--progress", "xml")
        #expect(outcome.status == 64 && outcome.errors.contains("hint: "), "\(outcome.errors)")
    }

    // MARK: Texts that are not UTF-8

    @Test("a text that is not UTF-8 is shown with its bytes, and is told from the text that replaces them")
    func brokenText() throws {
        let sql = "SELECT CAST(X'6162FF' AS TEXT) AS broken, 'ab\u{fffd}' AS sound, X'FF' AS bytes"
        let table = try place.ctl("sql", store, sql)
        #expect(table.output.contains("CAST(X'6162FF' AS TEXT)"), "\(table.output)")
        #expect(table.output.contains("ab\u{fffd}"), "\(table.output)")
        let csv = try place.ctl("sql", store, sql, "--mode", "csv")
        #expect(csv.output.hasSuffix("\r\nCAST(X'6162FF' AS TEXT),ab\u{fffd},X'FF'\r\n"), "\(csv.output)")
        let json = try place.ctl("sql", store, sql, "--json")
        #expect(
            json.output.contains(#"{"broken": {"text": "6162FF"}, "sound": "ab\#u{fffd}", "bytes": {"blob": "FF"}}"#),
            "\(json.output)")
    }

    @Test("the history of a store, which has no place for such bytes, notes that a text may be another one")
    func brokenHistory() throws {
        let recorded = try place.ctl("history", "record", store, "--table", "t", "--keep", "t.text")
        #expect(recorded.status == 0, "\(recorded.errors)")
        let written = try place.ctl(
            "sql", store, "UPDATE t SET text = CAST(X'6162FF' AS TEXT) WHERE id = 1; DELETE FROM t WHERE id = 1",
            "--write")
        #expect(written.status == 0, "\(written.errors)")
        let lines = try place.ctl("history", store)
        #expect(lines.output.contains("text \"ab\u{fffd}\""), "\(lines.output)")
        #expect(lines.errors.contains("bytes that are not UTF-8"), "\(lines.errors)")
        #expect(try place.ctl("history", store, "--limit", "1", "--quiet").errors.isEmpty)
    }
}
