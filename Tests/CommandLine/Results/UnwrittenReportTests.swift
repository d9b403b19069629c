import Foundation
import TestKit
import Testing

/// Reports that standard output does not take.
@Suite("cipherctl on a full standard output", .enabled(if: FileManager.default.fileExists(atPath: "/dev/full")))
struct UnwrittenReportTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private func full(_ arguments: String...) throws -> CommandRun.Outcome {
        try CommandRun(
            #require(SystemProgram.find("sh")),
            ["-c", "exec \"$0\" \"$@\" > /dev/full", Workplace.program().path] + arguments,
            directory: place.folder.url.path
        ).finish()
    }

    /// It said "Free space and try again; nothing was lost" with the file made, and trying again was refused.
    @Test("an export that is made keeps its exit code, and its report goes to standard error")
    func export() throws {
        let words = ["--insecure-plaintext", "--raw-key-file", "raw.key"]
        let outcome = try full("export", "s.db", "p.db", words[0], words[1], words[2])
        #expect(outcome.status == 0 && outcome.errors.contains("exported"), "\(outcome.errors)")
        #expect(place.exists("p.db"))
        let json = try full("export", "s.db", "q.db", words[0], words[1], words[2], "--json")
        #expect(json.status == 74 && json.errorJSON["code"] as? String == "reportLost", "\(json.errors)")
        #expect(place.exists("q.db"))
    }

    /// A script that writes ended in the middle, with exit code 141 and without a word.
    @Test("a script that writes says where it ended when the reader of its rows is gone", arguments: [true, false])
    func readerGone(_ isTransaction: Bool) throws {
        let rows = "INSERT INTO note (text) VALUES (hex(randomblob(100000))) RETURNING text;"
        let (begin, commit) = isTransaction ? ("BEGIN;", "COMMIT;") : ("", "")
        let sql = "\(begin) CREATE TABLE note (text); \(rows) \(rows) \(rows) \(commit)"
        let words = ["sql", "s.db", sql, "--write", "--json", "--raw-key-file", "raw.key"]
        let outcome = try CommandRun(
            #require(SystemProgram.find("bash")),
            ["-c", "\"$0\" \"$@\" | true; exit ${PIPESTATUS[0]}", Workplace.program().path] + words,
            directory: place.folder.url.path
        ).finish()
        #expect(outcome.status == 74, "\(outcome)")
        #expect(outcome.errorJSON["code"] as? String == "outputFailed")
        #expect(outcome.errors.contains("rolled back") == isTransaction, "\(outcome.errors)")
        #expect(outcome.errors.contains("do not run them again") == !isTransaction, "\(outcome.errors)")
        let tables = try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM sqlite_schema WHERE name = 'note'")
        #expect(tables.output.contains(isTransaction ? "0" : "1"))
    }

    /// A checker of a chain of hashes must not accept an answer that was never written.
    @Test("a key log that could not be shown is an error, and one that was acknowledged is not")
    func keyLog() throws {
        let outcome = try full("key", "log", "s.db")
        #expect(outcome.status == 74, "\(outcome.errors)")
        #expect(try full("key", "log", "s.db", "--acknowledge").status == 0)
    }
}
