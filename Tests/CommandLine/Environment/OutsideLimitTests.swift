import Foundation
import TestKit
import Testing

/// The events around a command that end it: bounds on the length of files, readers that leave.
@Suite("Bounds and pipes around commands")
struct OutsideLimitTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    /// Runs a script of `sh` in which `"$@"` is cipherctl with these arguments and the raw key.
    private func shell(_ script: String, _ arguments: String...) throws -> CommandRun.Outcome {
        let words = try ["-c", script, "sh", Workplace.program().path] + arguments + ["--raw-key-file", place.key]
        return try CommandRun(URL(fileURLWithPath: "/bin/sh"), words, directory: place.folder.url.path).finish()
    }

    /// The exit code that a script left in the file `rc`.
    private func code() throws -> String {
        String(decoding: try place.bytes("rc"), as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }

    private func expectEpoch(_ epoch: Int, at location: SourceLocation = #_sourceLocation) throws {
        let status = try place.run(["rotate", store, "--status"]).output
        #expect(
            status == "\(store): no rotation is pending, epoch \(epoch)\n", "\(status)", sourceLocation: location)
        #expect(try place.ctl("verify", store).status == 0, sourceLocation: location)
    }

    @Test("a file that may not become long enough is an error, and what was begun is taken back")
    func fileLength() throws {
        // Far less than the database has, more than the files beside it.
        let limited = "ulimit -f 200; exec \"$@\""
        let rotated = try shell(limited, "rotate", store, "--no-backup")
        #expect(rotated.status == 74 && rotated.errors.contains("ulimit -f"), "\(rotated.status) \(rotated.errors)")
        #expect(!place.exists("s.db-rotating"))
        try expectEpoch(1)
        let before = try place.names()
        let saved = try shell(limited, "backup", store, place.path("b"))
        #expect(saved.status == 74 && saved.errors.contains("ulimit -f"), "\(saved.status) \(saved.errors)")
        #expect(try place.names() == before)
    }

    /// SQLite's "disk I/O error" came without a cause and without a hint.
    @Test(
        "what SQLite cannot write at the limit is that error too, and nothing of a new store stays",
        arguments: [
            ["import", "plain.db", "new.db"], ["salvage", "s.db", "new.db"], ["backup", "s.db", "folder"],
            ["rotate", "s.db", "--no-backup"], ["export", "s.db", "new.db", "--insecure-plaintext"],
            ["sql", "s.db", "INSERT INTO t (text) SELECT text FROM t", "--write"],
        ])
    func limitOfSQLite(words: [String]) throws {
        try place.makePlain(
            """
            CREATE TABLE t (a);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 9000)
            INSERT INTO t SELECT hex(randomblob(50)) FROM c
            """)
        let before = try place.names()
        let script = ["-c", "ulimit -f 300; exec \"$@\"", "sh", try Workplace.program().path]
        let outcome = try CommandRun(
            URL(fileURLWithPath: "/bin/sh"), script + words + ["--json", "--raw-key-file", place.key],
            directory: place.folder.url.path
        ).finish()
        #expect(outcome.status == 74, "\(words): \(outcome.status) \(outcome.errors)")
        let hint = outcome.errorJSON["hint"] as? String ?? ""
        #expect(hint.contains("ulimit -f"), "\(words): \(outcome.errors)")
        #expect(try place.names() == before, "\(words)")
        #expect(try place.ctl("verify", store).status == 0)
    }

    @Test("a rotation outlives the reader of its progress, and ends what it has begun")
    func readerOfProgress() throws {
        _ = try shell("{ \"$@\" 2>&1 > out; echo $? > rc; } | true", "rotate", store, "--no-backup")
        #expect(try code() == "0")
        try expectEpoch(2)
        // Its report goes where it can be read.
        _ = try shell("{ \"$@\" 2> err; echo $? > rc; } | true", "rotate", store, "--no-backup")
        #expect(try code() == "0")
        #expect(try String(decoding: place.bytes("err"), as: UTF8.self).contains("epoch 2 -> 3"))
        try expectEpoch(3)
        // A program that asked for JSON has not got it.
        _ = try shell("{ \"$@\" 2> err; echo $? > rc; } | true", "rotate", store, "--no-backup", "--json")
        #expect(try code() == "74")
        #expect(try String(decoding: place.bytes("err"), as: UTF8.self).contains("\"code\": \"reportLost\""))
        try expectEpoch(4)
    }

    @Test(
        "a report that standard output cannot take goes to standard error, and the command does not fail",
        .enabled(if: FileManager.default.fileExists(atPath: "/dev/full"), "needs /dev/full"))
    func fullOutput() throws {
        // The story: `backup > /dev/full` ended with 74 and "try again; nothing was lost", the backup was made, and trying
        // again ended with 64.
        let made = try shell("\"$@\" > /dev/full", "backup", store, place.path("b"))
        #expect(made.status == 0, "\(made.errors)")
        #expect(
            made.errors.contains("the command has completed") && made.errors.contains("backed up    "), "\(made.errors)"
        )
        #expect(try place.ctl("backup", "verify", place.path("b")).status == 0)
        let asJSON = try shell("\"$@\" > /dev/full", "backup", store, place.path("c"), "--json")
        #expect(asJSON.status == 74 && asJSON.errorJSON["code"] as? String == "reportLost", "\(asJSON.errors)")
        #expect(asJSON.errors.contains("Do not repeat it"), "\(asJSON.errors)")
        #expect(try place.ctl("backup", "verify", place.path("c")).status == 0)
        // A command that only prints has done nothing else.
        let hash = try shell("\"$@\" > /dev/full", "hash", store)
        #expect(hash.status == 74, "\(hash.errors)")
    }

    @Test("a command that only prints ends quietly with its reader")
    func filter() throws {
        _ = try shell("{ \"$@\" 2> err; echo $? > rc; } | true", "sql", store, "SELECT * FROM t a, t b LIMIT 30000")
        #expect(try code() == "\(128 + SIGPIPE)")
        #expect(try place.bytes("err").isEmpty)
    }

    @Test("a command that gives a key gets the usual dispositions of signals")
    func keyCommand() throws {
        let words = "sh -c 'kill -PIPE $$; cat key'"
        let outcome = try place.run(["rotate", store, "--no-backup", "--key-command", words])
        #expect(outcome.status != 0 && outcome.errors.contains("signal \(SIGPIPE)"), "\(outcome.errors)")
    }
}
