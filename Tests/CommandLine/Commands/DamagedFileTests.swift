import Foundation
import TestKit
import Testing

/// The sentences of commands about a database, or a log, of which parts are gone.
@Suite("cipherctl and files of which parts are gone")
struct DamagedFileTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    /// Writing commands said "There is no store ... make the store with cipherctl create".
    @Test("every command says the same of a database without a byte")
    func empty() throws {
        try place.truncate("s.db", to: 0)
        let store = place.path("s.db")
        let commands = [
            ["sql", store, "SELECT 1"], ["sql", store, "SELECT 1", "--write"], ["backup", store, place.path("b")],
            ["rotate", store, "--no-backup"], ["rotate", store, "--dry-run"], ["verify", store], ["hash", store],
        ]
        for command in commands {
            let outcome = try place.run(command + ["--raw-key-file", place.key, "--json"])
            let error = command[0] == "rotate" ? outcome.errors : outcome.errorJSON["code"] as? String ?? ""
            #expect(
                outcome.status == 65 && error.contains("emptyFile"), "\(command): \(outcome.errors)\(outcome.output)")
            #expect(!outcome.errors.contains("cipherctl create"), "\(command): \(outcome.errors)")
        }
    }

    /// "Its content is gone", and "the WAL does not contain the rest", were said of a store of which no row was lost.
    @Test("a database that is shorter than a page, whose WAL has every page, is salvaged whole", arguments: [0, 100])
    func allInLog(bytes: Int) throws {
        let killed = try place.run(
            ["sql", place.path("s.db"), "VACUUM", "--write", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": "closingReadersClosed"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let store = place.path("s.db")
        try place.truncate("s.db", to: bytes)
        for command in [["sql", store, "SELECT 1"], ["sql", store, "SELECT 1", "--write"], ["hash", store]] {
            let outcome = try place.run(command + ["--raw-key-file", place.key])
            #expect(outcome.status == 65 && outcome.errors.contains("pages of it"), "\(outcome.errors)")
            #expect(outcome.errors.contains("cipherctl salvage"), "\(outcome.errors)")
            #expect(!outcome.errors.contains("gone") && !outcome.errors.contains("the rest"), "\(outcome.errors)")
        }
        for command in ["status", "doctor", "verify"] {
            let outcome = try place.ctl(command, store)
            let text = outcome.output + outcome.errors
            #expect([2, 65].contains(outcome.status), "\(text)")
            #expect(!text.contains("gone") && !text.contains("the rest"), "\(text)")
        }
        #expect(try !place.bytes("s.db-wal").isEmpty)
        let salvage = try place.ctl("salvage", store, place.path("new.db"))
        #expect(salvage.status == 0, "\(salvage.output)\(salvage.errors)")
        let rows = try place.ctl("sql", place.path("new.db"), "SELECT count(*) || '/' || count(DISTINCT text) FROM t")
        #expect(rows.output.contains("3000/3000"), "\(rows.output)")
    }

    /// Opening refuses such a store, and `status` and `doctor` ended with 0.
    @Test("status and doctor see that a database is cut off", arguments: [5000, 4096, 40_960])
    func truncated(bytes: Int) throws {
        let length = try place.bytes("s.db").count
        try place.truncate("s.db", to: length - bytes)
        #expect(
            try place.ctl("sql", place.path("s.db"), "SELECT 1", "--json").errorJSON["code"] as? String == "truncated")
        for key in [["--no-key"], ["--raw-key-file", place.key]] {
            for command in ["status", "doctor"] {
                let outcome = try place.run([command, place.path("s.db")] + key)
                #expect(outcome.status == 2 && outcome.output.contains("missing from the end"), "\(outcome.output)")
            }
        }
    }

    @Test("a store in use, whose last pages are in the log, is not taken for one")
    func longLog() throws {
        let killed = try place.run(
            [
                "sql", place.path("s.db"), "INSERT INTO t SELECT id + 10000, hex(randomblob(400)) FROM t", "--write",
                "--raw-key-file", place.key,
            ],
            environment: ["CIPHERSTORE_CRASH_AT": "closingReadersClosed"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        try #require(try !place.bytes("s.db-wal").isEmpty)
        for command in ["status", "doctor", "verify"] {
            let outcome = try place.ctl(command, place.path("s.db"))
            #expect(outcome.status == 0, "\(outcome.output)\(outcome.errors)")
            #expect(!(outcome.output + outcome.errors).contains("none of which counts"))
        }
    }

    /// A damaged log lost acknowledged commits without a word.
    @Test("a log with bytes of which none counts gets a note", arguments: [8, 40, 100])
    func damagedLog(offset: Int) throws {
        let killed = try place.run(
            [
                "sql", place.path("s.db"), "INSERT INTO t SELECT id + 10000, text FROM t", "--write", "--raw-key-file",
                place.key,
            ],
            environment: ["CIPHERSTORE_CRASH_AT": "closingReadersClosed"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let byte = try place.bytes("s.db-wal")[offset]
        try place.poke("s.db-wal", at: offset, [byte ^ 1])
        for command in ["status", "doctor", "verify"] {
            let outcome = try place.ctl(command, place.path("s.db"))
            // If the header of the log is valid, its frames show its former content.
            let note = offset < 32 ? "none of which counts" : "commits that do not count, because frame 1"
            #expect((outcome.output + outcome.errors).contains(note), "\(outcome.output)\(outcome.errors)")
            #expect(outcome.status == 2, "\(outcome.output)\(outcome.errors)")
            // Story: doctor had the sentence of a frame twice, as a problem and as a risk.
            #expect((outcome.output + outcome.errors).split(separator: note).count == 2, "\(outcome.output)")
            if command == "doctor" { #expect(outcome.output.contains("risk     the WAL has"), "\(outcome.output)") }
        }
    }

    @Test("a key log that is garbage is one line in status, not one for each of its lines")
    func garbageLog() throws {
        try place.write((0..<40).map { "garbage \($0)\n" }.joined(), to: "s.db-keylog")
        let status = try place.run(["status", place.path("s.db"), "--no-key", "--json"])
        let about = (status.json["attention"] as? [String] ?? []).filter {
            $0.contains("key log") || $0.contains("keylog")
        }
        #expect(status.status == 2 && about.count == 1, "\(about)")
        #expect((about.first?.count ?? 0) < 400, "\(about)")
    }

    @Test("doctor does not promise that an opening mends a sidecar of which no copy is left")
    func noCopy() throws {
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        for words in [["doctor"], ["status"]] {
            let outcome = try place.run(words + [place.path("s.db"), "--no-key"])
            #expect(
                outcome.status == 2 && !outcome.output.contains("repairs what can be repaired"), "\(outcome.output)")
        }
    }
}
