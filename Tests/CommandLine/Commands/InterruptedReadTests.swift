import Foundation
import TestKit
import Testing

/// Commands that only read ended by the signal itself, without a word and without the documented exit code.
@Suite("cipherctl, commands that read and are interrupted")
struct InterruptedReadTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private static let endless =
        "WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c"

    /// Starts a command and sends a signal when it is at work.
    private func interrupt(
        _ arguments: [String], _ signal: Int32, json: Bool = false, isAtWork: (Int32) throws -> Bool
    ) throws -> CommandRun.Outcome {
        let run = try CommandRun(
            Workplace.program(), arguments + ["--raw-key-file", place.key] + (json ? ["--json"] : []),
            directory: place.folder.url.path)
        #expect(try waitUntil { try isAtWork(run.processIdentifier) || !run.isRunning })
        run.send(signal)
        if !waitUntil(within: .seconds(20), { !run.isRunning }) { run.send(SIGKILL) }
        return run.finish()
    }

    private func count() throws -> String {
        try place.ctl("sql", place.path("s.db"), "SELECT count(*) AS n FROM t", "--mode", "csv").output
    }

    private func holds(_ process: Int32) -> Bool {
        let folder = "/proc/\(process)/fd"
        let files = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
        return files.contains {
            (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)"))?.hasSuffix("s.db-shm")
                == true
        }
    }

    @Test(
        "a query ends with 130 and a sentence, reading or writing",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/fd")),
        arguments: [SIGINT, SIGTERM, SIGHUP])
    func query(signal: Int32) throws {
        let read = try interrupt(["sql", place.path("s.db"), Self.endless], signal, isAtWork: holds)
        #expect(read.status == 130 && read.errors.contains("interrupted"), "\(read.status) \(read.errors)")
        let write = try interrupt(
            ["sql", place.path("s.db"), "DELETE FROM t; \(Self.endless)", "--write"], signal, json: true
        ) { _ in try count().contains("\n0") }
        #expect(
            write.status == 130 && write.errorJSON["code"] as? String == "interrupted",
            "\(write.status) \(write.errors)")
        // Statements before the interrupted one have run, and the write lock is free.
        #expect(try place.ctl("sql", place.path("s.db"), "INSERT INTO t VALUES (1, 'a')", "--write").status == 0)
        #expect(try count().contains("\n1"))
    }

    // A view that takes for ever would not do for a verification: only tables are read. So the store is large, and made once.
    private static let large = Result {
        let place = try Workplace()
        try place.makeStore()
        let filled = try place.ctl(
            "sql", place.path("s.db"),
            """
            CREATE TABLE large (a, b); CREATE INDEX i ON large (b, a);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 200000)
            INSERT INTO large SELECT i, i * 7919 % 1000003 FROM c
            """, "--write")
        try #require(filled.status == 0, "\(filled.errors)")
        return try place.files(of: "s.db")
    }

    @Test(
        "so do a verification and a hash, also within one statement of SQLite",
        .enabled(if: FileManager.default.fileExists(atPath: "/proc/self/fd")), arguments: ["verify", "hash"])
    func checks(command: String) throws {
        try place.put(Self.large.get())
        let outcome = try interrupt([command, place.path("s.db")], SIGTERM, isAtWork: holds)
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.status) \(outcome.errors)")
        #expect(outcome.output.isEmpty)
    }
}
