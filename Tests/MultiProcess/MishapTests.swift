import CipherStore
import Foundation
import TestKit
import Testing

/// Failures of files, clocks and processes around a store that is in use: each ends with a typed error or a wait,
/// without an endless hang and without a loss.
@Suite(.serialized) struct MishapTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private static var isRoot: Bool { geteuid() == 0 }
    private static let needsRoot: Comment = "only root can give files to another user"

    private static let waiters = ProcessInfo.processInfo.environment["CIPHERSTORE_WAITERS"].flatMap { Int($0) } ?? 200
    private static let writersInProcess = 20

    private func open(_ busySeconds: Double = 30) throws -> ActorProcess {
        let process = try ActorProcess()
        let answer = process.ask("open \(path) raw \(busySeconds)") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return process
    }

    private func expectRows(_ count: Int, at location: SourceLocation = #_sourceLocation) {
        let problems = StoreProof.problems(path) { db in
            let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text <> 'migrated'") ?? 0
            return rows == count ? [] : ["\(rows) rows, not \(count)"]
        }
        #expect(problems.isEmpty, "\(problems)", sourceLocation: location)
    }

    // MARK: The lock file

    @Test("a lock file that is deleted in use is made anew; writers still take turns and lose nothing")
    func lockFileDeleted() throws {
        let one = try open()
        #expect(one.ask("mark 1") == "ok")
        try FileManager.default.removeItem(atPath: path + "-lock")
        let two = try open()
        for process in [one, two] { process.send("mark 100") }
        for process in [one, two] { #expect(process.answer() == "ok") }
        #expect(one.ask("close") == "ok")
        // The locks of the old file are lost; opening, migrating and closing use the new file.
        try FileManager.default.removeItem(atPath: path + "-lock")
        #expect(two.ask("mark 1") == "ok")
        #expect(two.ask("close") == "ok")
        expectRows(202)
    }

    @Test(
        "a lock file that a process may not write is named in the error of an opening, and readers go without it",
        .enabled(if: isRoot, needsRoot))
    func lockFileOfAnother() throws {
        #expect(try open().ask("close") == "ok")
        for name in ["", "-wal", "-shm", "-sidecar", "-sidecar.bak"] {
            #expect(chown(path + name, 65534, 65534) == 0)
        }
        #expect(chown(folder.url.path, 65534, 65534) == 0)
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path + "-lock")
        let stranger = try ActorProcess()
        #expect(stranger.ask("become 65534") == "ok")
        let answer = stranger.ask("open \(path) raw") ?? "died"
        #expect(answer.hasPrefix("error SystemError") && answer.contains("app.db-lock"), "\(answer)")
        #expect(stranger.ask("open-read-only \(path) raw")?.hasPrefix("ok ") == true)
        #expect(stranger.ask("total") == "ok 1")
    }

    // MARK: The file

    @Test("a store with a second hard link is opened under neither name, so that two logs never meet it")
    func hardLink() throws {
        let process = try open()
        #expect(process.ask("mark 5") == "ok")
        let other = folder.path("other.db")
        for name in ["", "-sidecar", "-sidecar.bak"] {
            try FileManager.default.linkItem(atPath: path + name, toPath: other + name)
        }
        let stranger = try ActorProcess()
        for place in [path, other] {
            for command in ["open", "open-read-only"] {
                let answer = stranger.ask("\(command) \(place) raw") ?? "died"
                #expect(answer.hasPrefix("error hardLinked"), "\(answer)")
            }
        }
        // A link to the database alone once said that a salt was missing.
        for name in ["-sidecar", "-sidecar.bak"] { try FileManager.default.removeItem(atPath: other + name) }
        #expect(stranger.ask("open \(other) raw")?.hasPrefix("error hardLinked") == true)
        // A process that already has the store open, with its only WAL, is not affected.
        #expect(process.ask("mark 5") == "ok")
        try FileManager.default.removeItem(atPath: other)
        #expect(stranger.ask("open \(path) raw")?.hasPrefix("ok") == true)
        for actor in [process, stranger] { #expect(actor.ask("close") == "ok") }
        expectRows(10)
    }

    // MARK: Clocks

    @Test("no wait goes by the wall clock: with one that jumps by years they end, and in time")
    func clockJumps() throws {
        let holder = try open()
        let waiting = try open(0.3)
        let century = 100 * 365 * 86_400
        for process in [holder, waiting] { #expect(process.ask("jump-clock \(century)") == "ok") }
        #expect(holder.ask("hold-write") == "ok held")
        // It gives up at its timeout, and not at the first jump.
        let start = ContinuousClock.now
        let answer = waiting.ask("mark 1") ?? "died"
        let waited = ContinuousClock.now - start
        #expect(answer.hasPrefix("error SQLite-5"), "\(answer)")
        #expect(waited > .milliseconds(200), "\(waited)")
        #expect(holder.ask("release") == "ok released")
        // Waits until the holder releases the lock.
        let patient = try open()
        #expect(patient.ask("jump-clock \(century)") == "ok")
        #expect(holder.ask("hold-write") == "ok held")
        patient.send("mark 1")
        #expect(waiting.ask("mark 1")?.hasPrefix("error SQLite-5") == true)
        #expect(holder.ask("release") == "ok released")
        #expect(patient.answer() == "ok")
        // Waits for the lock file do not use the wall clock, either: this one would end at the first jump.
        let opening = try ActorProcess()
        #expect(opening.ask("stop-at-call \(path) open 1") == "ok")
        opening.send("open \(path) raw")
        #expect(waitUntil { opening.isStopped })
        #expect(patient.ask("close") == "ok")
        patient.send("open \(path) raw")
        #expect(holder.ask("hold-write") == "ok held")
        #expect(waiting.ask("mark 1")?.hasPrefix("error SQLite-5") == true)
        #expect(holder.ask("release") == "ok released")
        opening.go()
        for process in [opening, patient] { #expect(process.answer()?.hasPrefix("ok") == true) }
        for process in [holder, waiting, patient, opening] {
            #expect(process.ask("mark 1") == "ok")
            #expect(process.ask("checkpoint")?.hasPrefix("ok") == true)
            #expect(process.ask("close") == "ok")
            #expect(process.ask("open \(path) raw")?.hasPrefix("ok") == true)
            process.end()
        }
        expectRows(8)
    }

    // MARK: Waiting

    @Test("a holder that is stopped for longer than others wait costs them an error; they read on, and write after it")
    func stoppedHolder() throws {
        let holder = try open()
        let other = try open(0.3)
        #expect(holder.ask("hold-write") == "ok held")
        holder.stop()
        let answer = other.ask("mark 1") ?? "died"
        #expect(answer.hasPrefix("error SQLite-5"), "\(answer)")
        #expect(other.ask("total") == "ok 1")
        holder.go()
        #expect(holder.ask("release") == "ok released")
        #expect(other.ask("mark 1") == "ok")
        for process in [holder, other] { process.end() }
        expectRows(2)
    }

    @Test("hundreds of writers that wait for one all write when it is done")
    func crowd() throws {
        let holder = try open()
        let count = Self.writersInProcess
        let crowd = try (0..<max(1, Self.waiters / count)).map { _ in
            let process = try ActorProcess()
            process.send("crowd-open \(path) raw \(count) 300")
            return process
        }
        for process in crowd { #expect(process.answer() == "ok") }
        #expect(holder.ask("hold-write") == "ok held")
        for process in crowd { #expect(process.ask("crowd-write") == "ok") }
        #expect(holder.ask("release") == "ok released")
        for process in crowd { process.send("crowd-end") }
        for process in crowd { #expect(process.answer() == "ok \(count)") }
        holder.end()
        for process in crowd { process.end() }
        expectRows(crowd.count * count + 1)
        print("waiting: \(crowd.count * count) writers in \(crowd.count) processes")
    }
}
