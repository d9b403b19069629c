import CipherStore
import Foundation
import TestKit
import Testing

@Suite("cipherctl watch")
struct WatchTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.makeStore()
        #expect(try place.ctl("history", "record", store, "--all").status == 0)
    }

    /// Starts a watch, and waits until it watches.
    private func watch(_ options: String...) throws -> CommandRun {
        let run = try CommandRun(
            Workplace.program(), ["watch", store, "--raw-key-file", place.key] + options,
            directory: place.folder.url.path)
        #expect(waitUntil { run.errorsSoFar.contains("Ctrl-C ends it") || !run.isRunning })
        return run
    }

    private func open() throws -> SharedStore {
        var config = Configuration()
        config.label = "app"
        return try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key), configuration: config)
    }

    private func insert(_ ids: ClosedRange<Int>, _ store: SharedStore) throws {
        for id in ids { try store.write { try $0.execute(sql: "INSERT INTO t VALUES (?, '')", arguments: [id]) } }
    }

    private func lines(_ output: String) throws -> [[String: Any]] {
        try output.split(separator: "\n").map {
            try #require(JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
        }
    }

    private func ids(_ lines: [[String: Any]]) -> [Int] {
        lines.flatMap { $0["changes"] as? [[String: Any]] ?? [] }
            .compactMap { ($0["key"] as? [String: Any])?["id"] as? Int }
    }

    @Test(
        "commits of other processes are printed as they come, once and in order, and Ctrl-C ends with 0",
        arguments: [
            SIGINT, SIGTERM,
        ])
    func commits(signal: Int32) throws {
        let run = try watch("--json")
        let other = try open()
        try insert(9001...9040, other)
        // Without another commit, and before the end.
        #expect(waitUntil { run.outputSoFar.contains("\"id\": 9040") || !run.isRunning })
        run.send(signal)
        let outcome = run.finish()
        try other.close()
        #expect(outcome.status == 0, "\(outcome.errors)")
        let printed = try lines(outcome.output)
        #expect(ids(printed) == Array(9001...9040))
        #expect(printed.dropLast().allSatisfy { $0["author"] as? String == "app" && $0["complete"] as? Bool == true })
        #expect(printed.last?.keys.sorted() == ["token"])
        #expect(printed.dropLast().last?["token"] as? String == printed.last?["token"] as? String)
    }

    @Test("the next run goes on where one has ended, whatever was committed in between; other tables are left out")
    func resuming() throws {
        let first = try watch("--json")
        first.send(SIGINT)
        let token = try #require(lines(first.finish().output).last?["token"] as? String)
        let other = try open()
        try other.write {
            try $0.execute(sql: "CREATE TABLE other (id INTEGER PRIMARY KEY); INSERT INTO other VALUES (1)")
        }
        try insert(9001...9003, other)
        let run = try watch("--json", "--since", token, "--table", "T")
        try insert(9004...9004, other)
        try other.close()
        #expect(waitUntil { run.outputSoFar.contains("\"id\": 9004") || !run.isRunning })
        run.send(SIGINT)
        #expect(try ids(lines(run.finish().output)) == Array(9001...9004))
    }

    @Test("a table whose changes are not recorded is named at the beginning")
    func unrecorded() throws {
        let run = try watch("--table", "t", "--table", "tt")
        run.send(SIGINT)
        let errors = run.finish().errors
        #expect(errors.contains("note: changes of \"tt\" are not recorded; those of t are\n"), "\(errors)")
    }

    @Test("for people there are lines, and the token for the next run on standard error")
    func text() throws {
        let run = try watch()
        let other = try open()
        try insert(9001...9001, other)
        try other.close()
        #expect(waitUntil { run.outputSoFar.contains("id 9001") || !run.isRunning })
        run.send(SIGINT)
        let outcome = run.finish()
        #expect(outcome.output.contains("by \"app\"\n  inserted  t  id 9001\n"), "\(outcome.output)")
        #expect(outcome.errors.contains("to continue from here: --since "))
    }

    @Test("a stopped watch lets others work, and prints what it has missed when it goes on")
    func stopped() throws {
        let run = try watch("--json")
        run.send(SIGTSTP)
        #expect(waitUntil { ActorProcess.isStopped(run.processIdentifier) })
        let other = try open()
        try insert(9001...9003, other)
        try other.close()
        run.send(SIGCONT)
        #expect(waitUntil { run.outputSoFar.contains("\"id\": 9003") || !run.isRunning })
        run.send(SIGINT)
        #expect(try ids(lines(run.finish().output)) == Array(9001...9003))
    }

    @Test("a store that records nothing, and one that is replaced, end a watch with an error")
    func failures() throws {
        #expect(try place.ctl("create", place.path("plain.db")).status == 0)
        let none = try place.ctl("watch", place.path("plain.db"))
        #expect(none.status == 1 && none.errors.contains("cipherctl history record"), "\(none.errors)")
        let run = try watch()
        try FileManager.default.moveItem(atPath: store, toPath: place.path("moved.db"))
        let outcome = run.finish()
        #expect(outcome.status == 75, "\(outcome.status) \(outcome.errors)")
    }
}
