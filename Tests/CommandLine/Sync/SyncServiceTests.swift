import CipherStore
import ChangesetSync
import Foundation
import StorePlatform
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl sync run as a service")
struct SyncServiceTests {
    private let place: SyncPlace

    init() throws { place = try SyncPlace() }

    private func service(_ name: String) throws -> CommandRun {
        let run = try place.starting(["run", place.place.path(name), "--every", "1s"])
        #expect(waitUntil { run.errorsSoFar.contains("Ctrl-C ends it") || !run.isRunning })
        return run
    }

    private func open(_ name: String) throws -> SharedStore {
        try SharedStore.open(at: place.place.path(name), unlockedBy: .rawKeyFile(path: place.place.key))
    }

    /// Many commits of a program.
    private func commit(_ numbers: Range<Int>, _ name: String) throws {
        let store = try open(name)
        defer { try? store.close() }
        let repository = try ChangesetRepository(store, tracking: .only(["player"]))
        for number in numbers {
            try repository.commit { db in
                try db.execute(
                    sql: "INSERT INTO player VALUES (?, ?, ?)", arguments: ["\(number)", SyncPlace.canary, number])
            }
        }
    }

    private func count(_ name: String) throws -> Int {
        let store = try open(name)
        defer { try? store.close() }
        return try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM player") } ?? 0
    }

    @Test("two services exchange what programs commit, and a signal ends them with 0", arguments: [SIGTERM, SIGINT])
    func services(signal: Int32) throws {
        try place.makeDevices("a.db", "b.db")
        let runs = [try service("a.db"), try service("b.db")]
        try commit(0..<3, "a.db")
        #expect(waitUntil(within: .seconds(30)) { (try? count("b.db")) == 3 })
        for run in runs {
            run.send(signal)
            let outcome = run.finish()
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        #expect(try place.hash("a.db") == place.hash("b.db"))
    }

    @Test("a run that is killed at a random moment leaves nothing half done: the next ones complete it")
    func killed() throws {
        try place.makeDevices("a.db", "b.db")
        try commit(0..<300, "a.db")
        for name in ["a.db", "b.db", "a.db", "b.db"] {
            let run = try place.starting(["run", place.place.path(name)])
            _ = waitUntil(within: .milliseconds(Int.random(in: 20...400))) { !run.isRunning }
            run.send(SIGKILL)
            _ = run.finish()
        }
        try place.settle("a.db", "b.db")
        try place.expectEqual("a.db", "b.db")
        #expect(try count("b.db") == 300)
        for name in ["a.db", "b.db"] {
            #expect(try place.place.ctl("verify", place.place.path(name)).status == 0)
        }
    }

    @Test("a join that is killed is repeated: the store is a member or not, and loses no row")
    func killedJoin() throws {
        try place.makeDevices("a.db")
        try commit(0..<50, "a.db")
        #expect(try place.sync("run", "a.db").status == 0)
        for delay in [30, 60, 120, 200] {
            let name = "k\(delay).db"
            try place.makeStore(name)
            try place.sql(name, "INSERT INTO player VALUES ('\(name)', 'own', 1)")
            try #require(place.invite("a.db", name + ".invitation").status == 0)
            let run = try CommandRun(
                Workplace.program(),
                ["sync", "join", place.place.path(name), place.place.path(name + ".invitation"), "--table", "player"]
                    + ["--raw-key-file", place.place.key, "--invitation-raw-key-file", place.invitationKey],
                directory: place.place.folder.url.path)
            _ = waitUntil(within: .milliseconds(delay)) { !run.isRunning }
            run.send(SIGKILL)
            _ = run.finish()
            if try place.sync("status", name).code == "noRepository" {
                let joined = try place.join(name, name + ".invitation")
                #expect(joined.status == 0, "\(delay): \(joined.errors)")
            }
            // Tracks the table, if the kill came between membership and that.
            let tracked = try place.sync("init", name, "--table", "player", "--remote", place.remote)
            #expect(tracked.status == 0, "\(delay): \(tracked.errors)")
            try place.settle(name, "a.db", name)
            #expect(try count(name) == count("a.db"), "\(delay)")
        }
    }

    @Test(
        "a signal ends statements that run for long, and none of them has changed anything",
        arguments: [SIGTERM, SIGINT])
    func endedCommit(signal: Int32) throws {
        try place.makeDevices("a.db")
        let statements = """
            INSERT INTO player VALUES ('1', 'Ann', 1);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c) UPDATE player SET score = (SELECT max(i) FROM c)
            """
        let run = try place.starting(["commit", place.place.path("a.db"), statements])
        let wal = place.place.path("a.db-wal")
        #expect(waitUntil { FileManager.default.fileExists(atPath: wal) || !run.isRunning })
        let end = Date(timeIntervalSinceNow: 0.5)
        #expect(waitUntil { Date() > end })
        run.send(signal)
        let outcome = run.finish()
        #expect(outcome.status == 130 && outcome.code == "interrupted", "\(outcome.output)\(outcome.errors)")
        #expect(try count("a.db") == 0)
        #expect((try place.sync("log", "a.db").json["commits"] as? [Any])?.isEmpty == true)
    }

    @Test("a remote that goes away and comes back does not end a service; what was committed meanwhile arrives")
    func awayAndBack() throws {
        try place.makeDevices("a.db", "b.db")
        let run = try service("a.db")
        try FileManager.default.moveItem(atPath: place.place.path("remote"), toPath: place.place.path("away"))
        try commit(0..<1, "a.db")
        #expect(waitUntil(within: .seconds(30)) { run.errorsSoFar.contains("\"error\"") || !run.isRunning })
        try FileManager.default.moveItem(atPath: place.place.path("away"), toPath: place.place.path("remote"))
        #expect(waitUntil(within: .seconds(60)) { run.outputSoFar.contains("\"pushed\": 1") || !run.isRunning })
        run.send(SIGTERM)
        let outcome = run.finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(try place.sync("run", "b.db").json["fetched"] as? Int == 1)
    }

    // MARK: Time

    @Test("after errors the waits become longer up to a limit, half of each is random, and a success ends that")
    func schedule() {
        var schedule = SyncSchedule(every: .seconds(30))
        let pauses = (0..<8).map { _ in schedule.pause(afterFailure: true, part: 1) }
        #expect(pauses == [30, 60, 120, 240, 480, 900, 900, 900].map { Duration.seconds($0) })
        #expect(schedule.pause(afterFailure: true, part: 0) == .seconds(450))
        #expect(schedule.pause(afterFailure: false) == .seconds(30))
        #expect(schedule.pause(afterFailure: true, part: 0) == .seconds(15))
        var rare = SyncSchedule(every: .seconds(3600))
        for _ in 0..<100 { #expect(rare.pause(afterFailure: true, part: 1) == .seconds(3600)) }
        var frequent = SyncSchedule(every: .seconds(1))
        #expect(frequent.pause(afterFailure: true, part: 1) == .seconds(5))
        let drawn = Set((0..<20).map { _ in frequent.pause(afterFailure: true) })
        #expect(drawn.count > 5 && drawn.allSatisfy { $0 <= SyncSchedule.longest })
    }

    /// A lock file that could not be opened for a moment ended the service.
    @Test("a service goes on after errors that pass, and ends with those that no time mends")
    func passingErrors() {
        let passing: [any Error] = [
            SystemError(call: "open", path: "/tmp/app.db-lock", errorNumber: EMFILE),
            DatabaseError(resultCode: .SQLITE_BUSY), EngineError(.betweenSlices),
        ]
        for error in passing { #expect(SyncSchedule.isPassing(error), "\(error)") }
        let lasting: [any Error] = [
            CancellationError(), UsageError("x", hint: "y"), EngineError(.damagedStore), MemberError.notAMember,
        ]
        for error in lasting { #expect(!SyncSchedule.isPassing(error), "\(error)") }
    }

    @Test("rates are shown once there is something to compute them from")
    func rates() {
        let rate = TransferRate(objects: 300, bytes: 3_000_000)
        #expect(TransferRate().text(after: 10).isEmpty)
        #expect(rate.text(after: 0.1) == "300 objects, 3.0 MB")
        #expect(rate.text(after: 2) == "300 objects, 3.0 MB, 1.5 MB/s")
        #expect(TransferRate(objects: 1, bytes: 10_000).text(after: 100) == "1 object, 10.0 kB, 0.1 kB/s")
    }
}
