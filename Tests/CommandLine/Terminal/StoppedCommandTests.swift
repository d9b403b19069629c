import CipherStore
import Foundation
import TestKit
import Testing

/// Commands that are stopped by Ctrl-Z, and continued.
@Suite struct StoppedCommandTests {
    private let place: Workplace
    private var store: String { place.path("app.db") }

    /// Inserts so many rows in one statement that it takes a while.
    private static let longInsert =
        "INSERT INTO t WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000) SELECT i FROM n"

    init() throws {
        place = try Workplace()
        #expect(try place.ctl("create", store).status == 0)
        #expect(try place.ctl("sql", store, "CREATE TABLE t (a)", "--write").status == 0)
    }

    /// Starts a command that writes, and stops it in the middle of that.
    private func stopWhileWriting(_ sql: String) throws -> CommandRun {
        let run = try CommandRun(
            Workplace.program(), ["sql", store, sql, "--write", "--raw-key-file", place.key],
            directory: place.folder.url.path)
        let other = try SharedStore.open(at: store, unlockedBy: TestKeys.source("raw"), configuration: Self.impatient)
        defer { try? other.close() }
        #expect(waitUntil { !canWrite(other) || !run.isRunning })
        run.send(SIGTSTP)
        #expect(waitUntil { ActorProcess.isStopped(run.processIdentifier) })
        #expect(canWrite(other))
        return run
    }

    private static var impatient: Configuration {
        var config = Configuration()
        config.busyMode = .immediateError
        return config
    }

    private func canWrite(_ other: SharedStore) -> Bool {
        (try? other.write { try $0.execute(sql: "INSERT INTO t VALUES (-1); DELETE FROM t WHERE a = -1") }) != nil
    }

    @Test("a statement that is stopped lets others write, and is run again when it goes on")
    func statement() throws {
        let run = try stopWhileWriting(Self.longInsert)
        run.send(SIGCONT)
        let outcome = run.finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.ctl("sql", store, "SELECT COUNT(*) FROM t", "--mode", "csv").output.contains("1500000"))
    }

    @Test("a transaction that is stopped lets others write, and says that it was rolled back")
    func transaction() throws {
        let run = try stopWhileWriting("BEGIN; INSERT INTO t VALUES (0); \(Self.longInsert); COMMIT")
        run.send(SIGCONT)
        let outcome = run.finish()
        #expect(outcome.status == 75, "\(outcome.errors)")
        #expect(outcome.errors.contains("rolled back because the command was stopped"))
        #expect(try place.ctl("sql", store, "SELECT COUNT(*) FROM t", "--mode", "csv").output.contains("0"))
    }

    @Test("an import that is stopped finishes when it goes on")
    func imported() throws {
        let plain = place.path("plain.db")
        var config = Configuration()
        config.allowsUnencrypted = true
        let source = try DatabaseQueue(path: plain, configuration: config)
        try source.write { db in
            try db.execute(
                sql: "CREATE TABLE t (a); \(Self.longInsert.replacingOccurrences(of: "1500000", with: "200000"))")
        }
        try source.close()
        let run = try CommandRun(
            Workplace.program(), ["import", plain, place.path("new.db"), "--raw-key-file", place.key],
            directory: place.folder.url.path)
        let staging = {
            (try? FileManager.default.contentsOfDirectory(atPath: place.folder.url.path))?
                .contains { $0.contains(".importing-") } == true
        }
        #expect(waitUntil { staging() || !run.isRunning })
        run.send(SIGTSTP)
        #expect(waitUntil { ActorProcess.isStopped(run.processIdentifier) })
        run.send(SIGCONT)
        let outcome = run.finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(
            try place.ctl("sql", place.path("new.db"), "SELECT COUNT(*) FROM t", "--mode", "csv").output.contains(
                "200000"))
    }
}
