import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Commands that need the write lock while another program holds it.
@Suite("Waiting for the write lock")
struct LockWaitTests {
    private let place: Workplace
    private let holder: ActorProcess
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        holder = try ActorProcess()
        // A program that knows nothing of this library, in a write transaction.
        #expect(holder.ask("open \(store) raw")?.hasPrefix("ok ") == true)
        #expect(holder.ask("mark 3") == "ok")
        #expect(holder.ask("stock-key")?.hasPrefix("ok") == true)
        #expect(holder.ask("stock-hold \(store)") == "ok")
    }

    private static let commands = [
        ["backup", "STORE", "FOLDER/b"], ["rotate", "STORE", "--no-backup"], ["rotate", "STORE", "--backup", "FOLDER"],
    ]

    private func begin(_ command: [String]) throws -> CommandRun {
        let arguments = command.map {
            $0.replacing("STORE", with: store).replacing("FOLDER", with: place.folder.url.path)
        }
        return try CommandRun(
            Workplace.program(), arguments + ["--raw-key-file", place.key], directory: place.folder.url.path)
    }

    private func waits(_ run: CommandRun) -> Bool {
        waitUntil { run.errorsSoFar.contains("waiting for the write lock of \"\(store)\"") || !run.isRunning }
            && run.isRunning
    }

    /// In `make test` each command gets one of the signals, the next command the other one.
    private static let interruptions: [([String], Int32)] = commands.enumerated().flatMap { number, command in
        Sweep.sample([SIGINT, SIGTERM], oneIn: 2, offset: number).map { (command, $0) }
    }

    // `backup` waited for a minute and `rotate` for half of one, without a word, and Ctrl-C did nothing.
    @Test("a command says for whom it waits, and a signal ends the wait at once", arguments: interruptions)
    func interrupted(_ command: [String], _ signal: Int32) throws {
        let before = Set(try place.names())
        let run = try begin(command)
        #expect(waits(run), "\(run.errorsSoFar)")
        #expect(run.errorsSoFar.contains("process \(holder.processIdentifier) (StoreActor"), "\(run.errorsSoFar)")
        let sent = ContinuousClock.now
        run.send(signal)
        let outcome = run.finish()
        // A second is what is promised; the rest is for a machine that is busy.
        #expect(ContinuousClock.now - sent < .seconds(5))
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.errors)")
        let left = Set(try place.names()).subtracting(before)
        #expect(left.allSatisfy { $0.hasPrefix("s.db-") && $0 != "s.db-rotating" }, "\(left)")
        #expect(holder.ask("stock-close") == "ok")
        #expect(try place.ctl("status", store).status == 0)
    }

    // It waited for the lock for openings for a minute, whatever signals came.
    @Test("a signal ends a rotation that waits to open the store")
    func interruptedOpening() throws {
        #expect(holder.ask("stock-close") == "ok")
        let opening = try #require(
            try LockFile(path: store + "-lock", likeFile: store).tryLock(.opening, .exclusive))
        defer { opening.release() }
        let run = try begin(["rotate", "STORE", "--no-backup"])
        #expect(waitUntil { handles(SIGINT, run) || !run.isRunning })
        // One signal, as soon as there is a handler: it used to be lost when it came right then.
        run.send(SIGINT)
        let sent = ContinuousClock.now
        let outcome = run.finish()
        #expect(ContinuousClock.now - sent < .seconds(5))
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.errors)")
    }

    // The opening created an empty store in its place, with another identity, and a rotation reported success.
    @Test(
        "a store that is destroyed while a command waits to open it is not created again",
        arguments: [
            ["rotate", "STORE", "--no-backup"], ["sql", "STORE", "SELECT 1", "--write"],
            ["backup", "STORE", "FOLDER/b"],
        ])
    func destroyedMeanwhile(_ command: [String]) throws {
        #expect(holder.ask("stock-close") == "ok")
        holder.end()
        let opening = try #require(
            try LockFile(path: store + "-lock", likeFile: store).tryLock(.opening, .exclusive))
        let run = try begin(command)
        #expect(waitUntil { handles(SIGINT, run) || !run.isRunning })
        for name in try place.names() where name.hasPrefix("s.db") && name != "s.db-lock" {
            #expect(unlink(place.path(name)) == 0)
        }
        opening.release()
        let outcome = run.finish()
        // The command may look between two removals: then the database of the sidecar is missing.
        #expect([65, 66].contains(outcome.status), "\(outcome.status) \(outcome.output) \(outcome.errors)")
        #expect(try place.names().filter { $0.hasPrefix("s.db") && $0 != "s.db-lock" } == [])
    }

    // The signal was reported as a disk that had failed after the announcement, with 69.
    @Test("a signal ends the resumption of a switch that waits to open the store, which changes nothing")
    func interruptedResumption() throws {
        try expectSignalEndsWait(
            SIGINT, of: ["rotate", "STORE", "--resume", "--no-backup"], killedAt: "rotationSwitchingWritten")
        let again = try place.run(["rotate", store, "--resume", "--no-backup", "--raw-key-file", place.key])
        #expect(again.status == 0, "\(again.errors)")
    }

    // It waited for half a minute without a word, whatever signals came.
    @Test("giving a rotation up says for whom it waits, and a signal ends the wait", arguments: [SIGINT, SIGTERM])
    func interruptedAbort(_ signal: Int32) throws {
        try expectSignalEndsWait(signal, of: ["rotate", "STORE", "--abort"], killedAt: "rotationCopied")
        #expect(try place.run(["rotate", store, "--status"]).status == 2)
    }

    /// Kills a rotation at a place, lets a command wait for the lock for openings, and sends it a signal.
    private func expectSignalEndsWait(_ signal: Int32, of command: [String], killedAt crashPoint: String) throws {
        #expect(holder.ask("stock-close") == "ok")
        #expect(holder.ask("close") == "ok")
        let killed = try place.run(
            ["rotate", store, "--no-backup", "--raw-key-file", place.key],
            environment: ["CIPHERSTORE_CRASH_AT": crashPoint])
        try #require(killed.status == 128 + SIGKILL, "\(killed.errors)")
        let opening = try #require(
            try LockFile(path: store + "-lock", likeFile: store).tryLock(.opening, .exclusive))
        defer { opening.release() }
        let run = try begin(command)
        let words = "waiting for the lock for openings of \"\(store)\", which process \(getpid())"
        #expect(waitUntil { run.errorsSoFar.contains(words) || !run.isRunning }, "\(run.errorsSoFar)")
        run.send(signal)
        let sent = ContinuousClock.now
        let outcome = run.finish()
        #expect(ContinuousClock.now - sent < .seconds(5))
        #expect(outcome.status == 130 && outcome.errors.contains("interrupted"), "\(outcome.errors)")
    }

    /// Whether the process handles a signal, and no longer dies of it.
    private func handles(_ signal: Int32, _ run: CommandRun) -> Bool {
        let status = (try? Files.contents(of: "/proc/\(run.processIdentifier)/status", limitBytes: 65_536)) ?? []
        let line = String(decoding: status, as: UTF8.self).split(separator: "\n").first { $0.hasPrefix("SigCgt:") }
        let mask = line.flatMap { UInt64($0.split(separator: "\t").last ?? "", radix: 16) } ?? 0
        return mask & 1 << UInt64(signal - 1) != 0
    }

    @Test("the wait ends when the lock is released", arguments: commands)
    func released(_ command: [String]) throws {
        let run = try begin(command)
        #expect(waits(run), "\(run.errorsSoFar)")
        #expect(holder.ask("stock-close") == "ok")
        let outcome = run.finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
    }

    // "locking protocol" was all that was said of it.
    @Test("a reader that holds SQLite's locks of the WAL index is named, after a bounded wait")
    func lockedIndex() throws {
        #expect(holder.ask("stock-close") == "ok")
        #expect(try place.run(["sql", store, "SELECT 1", "--write", "--raw-key-file", place.key]).status == 0)
        let index = try FileDescriptor(opening: store + "-shm", .readOnly, followsLinks: false)
        let isLocked = try index.tryLock(WALLockByte.all, .shared)
        #expect(isLocked)
        let outcome = try place.run(["sql", store, "SELECT 1", "--raw-key-file", place.key])
        #expect(outcome.status == 75 || outcome.status == 69, "\(outcome.status)")
        #expect(outcome.errors.contains("stays locked"), "\(outcome.errors)")
        try index.unlock(WALLockByte.all)
        #expect(try place.run(["sql", store, "SELECT 1", "--raw-key-file", place.key]).status == 0)
    }

    // `in use no` stood above the line with the process that held the lock.
    @Test("status says that a store is in use that only a stock program has open")
    func status() throws {
        let json = try place.run(["status", store, "--no-key", "--json"])
        #expect(json.json["in_use"] as? Bool == true, "\(json.output)")
        #expect((json.json["holders"] as? [[String: Any]])?.first?["pid"] as? Int32 == holder.processIdentifier)
        #expect(try place.run(["status", store, "--no-key"]).output.contains("in use       yes\n"))
        #expect(holder.ask("stock-close") == "ok")
        #expect(try place.run(["status", store, "--no-key"]).output.contains("in use       no\n"))
    }
}
