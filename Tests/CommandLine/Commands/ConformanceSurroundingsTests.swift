import CipherStore
import Foundation
import TestKit
import Testing

/// The surroundings of a store that is checked: its sidecar, other files, the terminal, the folder of temporary files.
@Suite("cipherctl conformance and its surroundings")
struct ConformanceSurroundingsTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    private func conformance(_ more: String..., name: String = "s.db", key: String? = nil) throws -> CommandRun.Outcome
    {
        try place.run(["conformance", place.path(name)] + more + ["--raw-key-file", key ?? place.key])
    }

    private func verdict(_ check: String, _ outcome: CommandRun.Outcome) -> String? {
        let checks = outcome.json["checks"] as? [[String: Any]] ?? []
        return checks.first { $0["name"] as? String == check }?["verdict"] as? String
    }

    @Test("a sidecar that was put back after a key was removed is not conformant, as sql refuses it")
    func rolledBack() throws {
        // Story: the removed key opened the sidecar that was put back, and the report said: conformant.
        try place.makeStore()
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: other)
        try #require(try place.ctl("key", "add", place.path("s.db"), "--new-raw-key-file", other).status == 0)
        try place.copy("s.db-sidecar", to: "old")
        let removed = try place.ctl("key", "remove", place.path("s.db"), "--slot", "2", "--yes")
        try #require(removed.status == 0, "\(removed.errors)")
        try place.copy("old", to: "s.db-sidecar")
        try place.copy("old", to: "s.db-sidecar.bak")
        let outcome = try conformance("--json", key: other)
        #expect(outcome.status == 65 && verdict("sidecar", outcome) == "fail", "\(outcome.status) \(outcome.output)")
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT 1", key: other).status == 65)
    }

    @Test(
        "pages of every size pass: the sample's connections have the settings of the sample", arguments: [8192, 65536])
    func pageSizes(bytes: Int) throws {
        try place.makePlain(
            "PRAGMA page_size = \(bytes); CREATE TABLE t (a); INSERT INTO t VALUES (hex(zeroblob(100000)))")
        let made = try place.ctl("import", place.path("plain.db"), place.path("s.db"))
        try #require(made.status == 0, "\(made.errors)")
        let outcome = try conformance()
        #expect(outcome.status == 0, "\(outcome.output)")
    }

    @Test(
        "a pipe under the name of the rollback journal blocks no command",
        arguments: [["conformance"], ["verify"], ["sql"], ["sql", "--write"], ["status"], ["doctor"]])
    func journalPipe(command: [String]) throws {
        // Story: SQLite looks into a journal before it reads the first page, and waited for a writer of the pipe.
        try place.makeStore()
        try #require(mkfifo(place.path("s.db-journal"), 0o600) == 0)
        let arguments = [command[0], place.path("s.db")] + (command[0] == "sql" ? ["SELECT 1"] : [])
        let run = try CommandRun(
            Workplace.program(), arguments + command.dropFirst() + ["--raw-key-file", place.key],
            directory: place.folder.url.path)
        let hasEnded = waitUntil(within: .seconds(30), { !run.isRunning })
        if !hasEnded { run.send(SIGKILL) }
        let outcome = run.finish()
        #expect(hasEnded, "\(outcome.output) \(outcome.errors)")
        // A status does not open the store.
        if command == ["status"] { return }
        #expect(outcome.status != 0)
        #expect((outcome.output + outcome.errors).contains("s.db-journal"), "\(outcome.output) \(outcome.errors)")
    }

    @Test(
        "a report does not get a name that belongs to the store",
        arguments: [
            "-journal", "-wal", "-shm", "-lock", "-notify", "-sidecar", "-sidecar.bak", "-sidecar.damaged", "-keylog",
            "-rotating", "-destroying", "-restoring", "-replaced-1", ".importing-1",
        ], ["--report", "--junit"])
    func reportNames(ending: String, option: String) throws {
        try place.write("no store at all", to: "s.db")
        let outcome = try conformance(option, place.path("s.db\(ending)"), "--json")
        let reason = "belongs to \\\"\(place.path("s.db"))"
        #expect(outcome.status == 64 && outcome.errors.contains(reason), "\(outcome.errors)")
        #expect(!place.exists("s.db\(ending)"))
    }

    @Test("a report may have a name that begins like the store's")
    func otherNames() throws {
        try place.makeStore()
        #expect(
            try conformance("--report", place.path("s.db.html"), "--junit", place.path("s.db-2026.xml")).status == 0)
        #expect(place.exists("s.db.html") && place.exists("s.db-2026.xml"))
    }

    @Test("no command puts its output at a name that belongs to its source")
    func outputNames() throws {
        // Story: a salvaged store was put at the name of the rotation's copy, and the next opening of the damaged one
        // removed it.
        try place.makeStore()
        try place.makePlain("CREATE TABLE t (a)")
        try #require(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let commands = [["salvage"], ["export", "--insecure-plaintext"], ["backup"]]
        let ends = [
            "-journal", "-wal", "-notify", "-rotating", "-destroying", "-restoring", "-replaced-1", ".importing-1",
        ]
        var runs = commands.flatMap { command in
            ends.map { [command[0], place.path("s.db"), place.path("s.db\($0)")] + command.dropFirst() }
        }
        runs.append(["import", place.path("plain.db"), place.path("plain.db-journal")])
        runs.append(["restore", place.path("b"), place.path("b/store.db-wal")])
        runs.append(["salvage", place.path("b"), place.path("b/store.db-rotating")])
        for arguments in runs {
            let before = Files(of: place)
            let outcome = try place.run(arguments + ["--json", "--raw-key-file", place.key])
            #expect(outcome.status == 64 && outcome.errors.contains("\"storeName\""), "\(arguments) \(outcome.errors)")
            #expect(Files(of: place) == before, "\(arguments)")
        }
        #expect(try place.ctl("salvage", place.path("s.db"), place.path("s.db-2026")).status == 0)
    }

    /// The names in a folder and in that of the backup.
    private struct Files: Equatable {
        let names: Set<String>
        init(of place: Workplace) {
            names = Set((try? FileManager.default.subpathsOfDirectory(atPath: place.folder.url.path)) ?? [])
        }
    }

    @Test("the folder of a backup stays as it was")
    func backup() throws {
        try place.makeStore()
        try #require(try place.ctl("backup", place.path("s.db"), place.path("b")).status == 0)
        let before = try FileManager.default.contentsOfDirectory(atPath: place.path("b")).sorted()
        #expect(try conformance(name: "b").status == 0)
        #expect(try FileManager.default.contentsOfDirectory(atPath: place.path("b")).sorted() == before)
    }

    @Test("a plain database in WAL mode gets no files beside it")
    func plainInWALMode() throws {
        try place.makePlain("PRAGMA journal_mode = WAL; CREATE TABLE t (a)")
        let before = try place.names()
        #expect(try conformance(name: "plain.db").status == 65)
        #expect(try place.names() == before)
    }

    // Story: with --canary the signal ended the process, with no word, until the first check after the sample was made.
    @Test("a signal ends it with 130 from its start, as while it waits for the key", arguments: [[], ["--canary"]])
    func interruptedAtStart(more: [String]) throws {
        try place.makeStore()
        try place.write("#!/bin/sh\ntouch '\(place.path("started"))'; sleep 1; echo key\n", to: "ask", mode: 0o700)
        let run = try CommandRun(
            Workplace.program(), ["conformance", place.path("s.db"), "--key-command", place.path("ask")] + more,
            directory: place.folder.url.path)
        #expect(waitUntil { place.exists("started") || !run.isRunning })
        run.send(SIGTERM)
        if !waitUntil(within: .seconds(20), { !run.isRunning }) { run.send(SIGKILL) }
        let outcome = run.finish()
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.status) \(outcome.errors)")
    }

    @Test("a signal ends it with 130, and the sample store is gone", arguments: [SIGINT, SIGTERM], [[], ["--canary"]])
    func interrupted(signal: Int32, more: [String]) throws {
        try place.makeStore()
        let temporary = place.path("temporary")
        try FileManager.default.createDirectory(atPath: temporary, withIntermediateDirectories: true)
        let run = try CommandRun(
            Workplace.program(), ["conformance", place.path("s.db"), "--raw-key-file", place.key] + more,
            environment: ["TMPDIR": temporary], directory: place.folder.url.path)
        let left = { (try? FileManager.default.contentsOfDirectory(atPath: temporary)) ?? [] }
        #expect(waitUntil { !left().isEmpty || !run.isRunning })
        run.send(signal)
        if !waitUntil(within: .seconds(20), { !run.isRunning }) { run.send(SIGKILL) }
        let outcome = run.finish()
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.status) \(outcome.errors)")
        #expect(left().isEmpty, "\(left())")
    }

    @Test("the right to write a report is tried before anything is checked")
    func unwritableReport() throws {
        // Story: all checks ran, and then nothing was printed, because the report could not be written.
        try place.makeStore()
        let other = place.path("other.key")
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: other)
        let outcome = try conformance("--report", "/proc/report.html", key: other)
        #expect(outcome.errors.contains("/proc/report.html"), "\(outcome.errors)")
        // The attempt leaves nothing.
        #expect(try conformance("--report", place.path("r.html"), key: other).status == 77)
        #expect(!place.exists("r.html"))
    }

    @Test("a report that cannot be written at the end does not take the result with it")
    func lostReport() throws {
        try place.makePlain("CREATE TABLE t (a)")
        try FileManager.default.createDirectory(atPath: place.path("d"), withIntermediateDirectories: true)
        // The key is asked for when the right to write was tried.
        try place.write("#!/bin/sh\nrmdir '\(place.path("d"))'; echo key\n", to: "ask", mode: 0o700)
        let arguments = ["conformance", place.path("plain.db"), "--report", place.path("d/r.html")]
        let outcome = try place.run(arguments + ["--key-command", place.path("ask"), "--json"])
        #expect(outcome.json["conformant"] as? Bool == false, "\(outcome.output)")
        #expect(outcome.status == 66 && outcome.errors.contains("d/r.html"), "\(outcome.status) \(outcome.errors)")
    }

    @Test("without a folder for the sample store nothing is called conformant")
    func noTemporaryFolder() throws {
        try place.makeStore()
        let outcome = try place.run(
            ["conformance", place.path("s.db"), "--json", "--raw-key-file", place.key],
            environment: ["TMPDIR": place.path("nowhere")])
        #expect(outcome.status != 0 && outcome.output.isEmpty, "\(outcome.status) \(outcome.output)")
        #expect(outcome.errors.contains("noSample") && outcome.errors.contains("TMPDIR"), "\(outcome.errors)")
    }

    /// It was "not conformant" with exit code 65, and the dry run was a failed system call.
    @Test(
        "on a read-only mount without a WAL the content is not checked, and a rotation cannot begin",
        .enabled(if: ReadOnlyMount.isPossible, "needs the right to mount"))
    func readOnlyMount() throws {
        let place = try Workplace()
        try place.makeStore()
        for name in ["s.db-wal", "s.db-shm"] where place.exists(name) { try place.remove(name) }
        let mount = try ReadOnlyMount(of: place.folder.url.path)
        let store = mount.folder.path("s.db")
        let checked = try place.ctl("conformance", store, "--json")
        #expect(checked.status == 77, "\(checked.errors)")
        let text = try place.ctl("conformance", store)
        #expect(text.output.contains("not checked: ") && text.output.contains("result  conformant"), "\(text.output)")
        let plan = try place.ctl("rotate", store, "--dry-run", "--no-backup", "--json")
        #expect(plan.status == 2, "\(plan.output)\(plan.errors)")
        let planned = try #require((plan.json["stores"] as? [[String: Any]])?.first)
        #expect(planned["can_begin"] as? Bool == false && plan.output.contains("mounted read-only"), "\(plan.output)")
    }
}
