import Foundation
import TestKit
import Testing

/// An operator whose WAL was damaged, who has the messages of the commands and nothing else.
@Suite("cipherctl and a damaged WAL")
struct DamagedWALCommandTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private static let strideBytes = 24 + 4096

    /// Commits that are in the WAL only: each writer is killed before it closes the store.
    private func commit(_ texts: String...) throws {
        for text in texts {
            let killed = try place.run(
                [
                    "sql", store, "INSERT INTO t (id, text) VALUES (\(9000 + text.count), '\(text)')", "--write",
                    "--raw-key-file", place.key,
                ], environment: ["CIPHERSTORE_CRASH_AT": "closingReadersClosed"])
            try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        }
    }

    private func damageSecondFrame() throws {
        try place.flip("s.db-wal", at: 32 + Self.strideBytes + 24 + 700)
    }

    private func rows(_ name: String) throws -> String {
        try place.ctl("sql", place.path(name), "SELECT text FROM t WHERE id > 9000 ORDER BY id").output
    }

    /// The command in backquotes that a message tells to type, with the key.
    private func typed(_ message: String, _ name: String) throws -> CommandRun.Outcome {
        let start = try #require(message.range(of: "`cipherctl \(name)"))
        let command = try #require(message[start.upperBound...].split(separator: "`").first)
        let key = command.contains("--raw-key-file") ? "" : " --raw-key-file '\(place.key)'"
        let words = "\"$0\" \(name)\(command)\(key)".replacing(" NEW", with: " new.db")
        return try CommandRun(
            URL(fileURLWithPath: "/bin/sh"), ["-c", words, Workplace.program().path],
            directory: place.folder.url.path
        ).finish()
    }

    /// The opening printed a notice; the commit after it overwrote what could still have been read.
    @Test("the notice of the opening names the copy, and the command in it reads what the store has lost")
    func typedCommand() throws {
        try commit("a", "bb", "ccc", "dddd")
        try damageSecondFrame()
        let log = try place.bytes("s.db-wal")
        for words in [["status"], ["verify"], ["doctor"], ["sql", "SELECT 1"]] {
            let outcome = try place.run([words[0], store] + words.dropFirst() + ["--raw-key-file", place.key])
            #expect(outcome.status == (words[0] == "sql" ? 0 : 2), "\(words): \(outcome.output)\(outcome.errors)")
            #expect(try place.bytes("s.db-wal") == log && !place.exists("s.db-wal-damaged"))
        }
        let written = try place.ctl("sql", store, "INSERT INTO t (id, text) VALUES (9999, 'new')", "--write")
        #expect(written.status == 0 && written.errors.contains("s.db-wal-damaged"), "\(written.errors)")
        #expect(try place.bytes("s.db-wal-damaged") == log)
        let left = try rows("s.db")
        #expect(!left.contains("dddd") && left.contains("new"), "\(left)")
        let status = try place.ctl("status", store)
        #expect(status.status == 2 && status.output.contains("--wal"), "\(status.output)")
        let salvaged = try typed(written.errors, "salvage")
        #expect([0, 2].contains(salvaged.status), "\(salvaged.output)\(salvaged.errors)")
        #expect(try rows("new.db").contains("dddd"), "\(salvaged.output)")
        try place.remove("s.db-wal-damaged")
        #expect(try place.ctl("status", store).status == 0)
    }

    // An export "verified, same content hash" lacked commits, without a word.
    @Test("each command that reads says that commits are lost, with the command that reads them")
    func readers() throws {
        try commit("a", "bb", "ccc", "dddd")
        try damageSecondFrame()
        for words in [
            ["export", store, place.path("e.db"), "--insecure-plaintext"], ["hash", store], ["sql", store, "SELECT 1"],
        ] {
            let outcome = try place.run(words + ["--raw-key-file", place.key])
            #expect(
                outcome.status == 0 && outcome.errors.contains("the WAL has commits"), "\(words): \(outcome.errors)")
            #expect(outcome.errors.contains("cipherctl salvage"), "\(words): \(outcome.errors)")
        }
    }

    // The hint of a foreign WAL was to restore a backup, or to salvage the pages of the WAL.
    @Test("the hint of verify about the WAL of another state moves the WAL away, and the store is sound")
    func foreignLog() throws {
        try commit("a")
        let log = try place.bytes("s.db-wal")
        #expect(try place.ctl("rotate", store, "--no-backup", "--yes").status == 0)
        try Workplace.write(log, to: place.path("s.db-wal"))
        let outcome = try place.ctl("verify", store, "--json")
        #expect(outcome.status == 65, "\(outcome.errors)")
        let hint = try #require(outcome.errorJSON["hint"] as? String)
        #expect(hint.contains("move it away") && !hint.contains("salvage"), "\(hint)")
        try place.remove("s.db-wal")
        #expect(try place.ctl("verify", store).status == 0)
    }

    /// A rotation gives the store another key and an empty WAL, and a backup and an import are made from what is read.
    @Test(
        "every command that opens the store for writing keeps the WAL first",
        arguments: [
            ["rotate", "--no-backup"], ["key", "label"], ["checkpoint"], ["history", "record"], ["salvage", "itself"],
        ])
    func everyOpening(words: [String]) throws {
        try commit("a", "bb", "ccc")
        try damageSecondFrame()
        let log = try place.bytes("s.db-wal")
        let key = ["--raw-key-file", place.key]
        switch words[0] {
        case "rotate": _ = try place.run(["rotate", store, "--no-backup"] + key)
        case "key": _ = try place.run(["key", "label", store, "1", "mine"] + key)
        case "history": _ = try place.run(["history", "record", store, "--all"] + key)
        case "salvage":
            let outcome = try place.run(["salvage", store, place.path("out.db")] + key)
            #expect(try rows("out.db").contains("ccc"), "\(outcome.output)\(outcome.errors)")
        default: _ = try place.run(["sql", store, "SELECT 1", "--write"] + key)
        }
        let isLeft = try place.bytes("s.db-wal") == log
        let isKept = place.exists("s.db-wal-damaged")
        #expect(isLeft || isKept)
        if isKept { #expect(try place.bytes("s.db-wal-damaged") == log) }
    }

    // Story: a rotation by a timer made the copy unreadable for ever, and `doctor` still named a command that failed.
    @Test("a rotation without a backup is refused while the present key reads a copy of a damaged WAL")
    func rotation() throws {
        try commit("a", "bb", "ccc", "dddd")
        try damageSecondFrame()
        let written = try place.ctl("sql", store, "INSERT INTO t (id, text) VALUES (9999, 'new')", "--write")
        #expect(written.errors.contains("before the key is rotated"), "\(written.errors)")
        let doctor = try place.ctl("doctor", store)
        #expect(doctor.output.contains("before the key is rotated"), "\(doctor.output)")
        let runs: [([String], Int32)] = [(["--dry-run"], 0), (["--dry-run", "--no-backup"], 2), (["--no-backup"], 65)]
        for (words, status) in runs {
            let outcome = try place.run(["rotate", store] + words + ["--raw-key-file", place.key])
            let text = outcome.output + outcome.errors
            #expect(outcome.status == status, "\(words): \(text)")
            #expect(text.contains("s.db-wal-damaged") && text.contains("cipherctl salvage"), "\(words): \(text)")
        }
        #expect(try place.ctl("status", store, "--json").json["epoch"] as? Int == 1)
        let folder = place.path("backups")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let rotated = try place.ctl("rotate", store, "--backup", folder)
        #expect(rotated.status == 0 && rotated.errors.contains("s.db-wal-damaged"), "\(rotated.errors)")
        for name in ["status", "doctor"] {
            let outcome = try place.ctl(name, store)
            #expect(outcome.status == 2 && outcome.output.contains("from before a rotation"), "\(outcome.output)")
            #expect(!outcome.output.contains("before the key is rotated"), "\(outcome.output)")
        }
        let backup = try #require(try FileManager.default.contentsOfDirectory(atPath: folder).first)
        let salvaged = try place.ctl(
            "salvage", "\(folder)/\(backup)", place.path("new.db"), "--wal", place.path("s.db-wal-damaged"))
        #expect([0, 2].contains(salvaged.status), "\(salvaged.output)\(salvaged.errors)")
        // The copy is of a former key: a further rotation takes nothing from it.
        #expect(try place.ctl("rotate", store, "--no-backup").status == 0)
    }

    @Test("of several writers that open the store at once, one keeps the WAL, and all commit")
    func atOnce() throws {
        try commit("a", "bb", "ccc")
        try damageSecondFrame()
        let log = try place.bytes("s.db-wal")
        let runs = try (0..<4).map { number in
            try CommandRun(
                Workplace.program(),
                [
                    "sql", store, "INSERT INTO t (text) VALUES ('at once \(number)')", "--write", "--raw-key-file",
                    place.key,
                ])
        }
        for run in runs {
            let outcome = run.finish()
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try place.names().filter { $0.contains("-wal-damaged") } == ["s.db-wal-damaged"])
        #expect(try place.bytes("s.db-wal-damaged") == log)
        let count = try place.ctl("sql", store, "SELECT count(*) FROM t WHERE text LIKE 'at once%'")
        #expect(count.output.contains("4"), "\(count.output)")
    }

    #if os(Linux)
        @Test(
            "whichever call on the copy fails, the commits are in the WAL or in a whole copy", arguments: [EIO, ENOSPC])
        func faults(error: Int32) throws {
            try commit("a", "bb", "ccc")
            try damageSecondFrame()
            let files = try place.files(of: "s.db")
            let log = try place.bytes("s.db-wal")
            var (refusals, number) = (0, 1)
            while number < 200 {
                for name in try place.names() where name.hasPrefix("s.db") { try place.remove(name) }
                try place.put(files)
                let fault = CallFault(kinds: "open,write,sync,truncate,name", error: error)
                let run = try place.run(
                    [
                        "sql", "s.db", "INSERT INTO t (text) VALUES ('new')", "--write", "--json", "--raw-key-file",
                        place.key,
                    ],
                    failing: fault, at: number, of: "/s.db-wal-damaged*")
                guard run.wasHit else { break }
                let isKept = try place.exists("s.db-wal-damaged") && place.bytes("s.db-wal-damaged") == log
                let tail = 32 + Self.strideBytes
                let isLeft = try place.bytes("s.db-wal").dropFirst(tail).elementsEqual(log.dropFirst(tail))
                #expect(isKept || isLeft, "\(number) \(run.call): \(run.outcome.errors)")
                if run.call.contains("-wal-damaged"), run.outcome.status != 0 {
                    refusals += 1
                    let code = run.outcome.errorJSON["code"] as? String
                    #expect(code == "walDamaged" && run.outcome.status == 65, "\(run.call): \(run.outcome.errors)")
                }
                number += 1
            }
            #expect(refusals > 2)
        }
    #endif

    /// The hint was `cipherctl destroy`, with the only copy of the rows in the WAL.
    @Test("a store whose database is missing is never destroyed by a hint; what its WAL has is salvaged")
    func missingDatabase() throws {
        let killed = try place.run(
            ["sql", store, "VACUUM", "--write", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": "closingReadersClosed"])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let log = try place.bytes("s.db-wal")
        try place.remove("s.db")
        for words in [
            ["status"], ["verify"], ["doctor"], ["sql", "SELECT 1"], ["sql", "SELECT 1", "--write"], ["backup", "b"],
        ] {
            let outcome = try place.run([words[0], store] + words.dropFirst() + ["--raw-key-file", place.key])
            #expect(outcome.status == 65 && outcome.errors.contains("has all "), "\(words): \(outcome.errors)")
            #expect(outcome.errors.contains("cipherctl salvage") && !outcome.errors.contains("destroy"), "\(words)")
            #expect(try place.bytes("s.db-wal") == log && !place.exists("s.db"))
        }
        let hint = try place.ctl("status", store).errors
        let salvaged = try typed(hint, "salvage")
        #expect(salvaged.status == 0, "\(salvaged.output)\(salvaged.errors)")
        let count = try place.ctl("sql", place.path("new.db"), "SELECT count(*) FROM t")
        #expect(count.output.contains("3000"), "\(count.output)")
    }
}
