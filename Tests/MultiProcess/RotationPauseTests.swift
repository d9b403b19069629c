import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Accesses of other programs to a store while a rotation pauses all processes. The rotating process is held in its
/// pause meanwhile.
@Suite(.serialized) struct RotationPauseTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func opened() throws -> ActorProcess {
        let process = try ActorProcess()
        #expect(process.ask("open \(path) raw 30")?.hasPrefix("ok") == true)
        return process
    }

    /// Makes a process rotate the store up to a crash point.
    private func rotate(_ process: ActorProcess, until point: CrashPoint) -> StandingPlace {
        let place = StandingPlace(folder.path("standing"))
        #expect(process.ask("stand-at \(point.rawValue) \(place.path)") == "ok")
        process.send("rotate")
        #expect(waitUntil { place.isReached }, "the process did not come to \(point)")
        return place
    }

    // A shell or a plain pool does not know of the pause. After the last check of the WAL its commit would be lost with
    // the old file.
    @Test(
        "what a program that does not pause commits behind the last look at the log is in the rotated store",
        arguments: [CrashPoint.rotationLastDelta, .rotationCopySynced])
    func stranger(place: CrashPoint) throws {
        let (rotator, stranger) = (try opened(), try opened())
        #expect(rotator.ask("fill 300000") == "ok")
        #expect(stranger.ask("stock-key") == "ok")
        let standing = rotate(rotator, until: place)
        #expect(stranger.ask("stock-write \(path) stranger") == "ok")
        standing.leave()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(rotator.ask("count stranger") == "ok 1")
        rotator.end()
        #expect(StoreProof.problems(path).isEmpty)
    }

    // It holds no lock before its first read, so it cannot be detected. Its writes would then go to the new store's
    // WAL, under the former key, and a checkpoint would write them into the new database.
    @Test(
        "a connection that was opened in the pause and reads behind it fails, and harms nothing",
        arguments: [CrashPoint.rotationYieldAsked, .rotationBytesLocked, .rotationWALReplaced])
    func latecomer(place: CrashPoint) throws {
        let (rotator, peer, stranger) = (try opened(), try opened(), try opened())
        #expect(rotator.ask("fill 300000") == "ok")
        #expect(rotator.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(stranger.ask("stock-key") == "ok")
        let standing = rotate(rotator, until: place)
        #expect(stranger.ask("stock-open \(path)") == "ok")
        standing.leave()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        let before = Int((peer.ask("total") ?? "").dropFirst(3)) ?? 0
        for _ in 0..<2 {
            // If the WAL has nothing that it must read, it finds all its pages in the former database.
            #expect(rotator.ask("checkpoint")?.hasPrefix("ok") == true)
            let refusal = stranger.ask("stock-insert stranger") ?? "died"
            #expect(!refusal.hasPrefix("ok"), "\(refusal)")
            #expect(peer.ask("mark 3") == "ok")
        }
        #expect(stranger.ask("stock-close") == "ok")
        #expect(rotator.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(rotator.ask("count stranger") == "ok 0")
        for process in [rotator, peer] { process.end() }
        let problems = StoreProof.problems(path) { db in
            try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") == before + 6 ? [] : ["rows are missing"]
        }
        #expect(problems.isEmpty, "\(problems)")
    }

    // The WAL has no frames before the commit and none after it: only its salts show that it was written and reset.
    @Test(
        "a program that does not pause may take its commit out of the log again: it is in the rotated store all the same"
    )
    func emptyLog() throws {
        let founder = try opened()
        #expect(founder.ask("fill 300000") == "ok")
        // The last process to close empties the WAL.
        founder.end()
        let stranger = try opened()
        #expect(stranger.ask("stock-key") == "ok")
        let rotator = try opened()
        let standing = rotate(rotator, until: .rotationCopySynced)
        #expect(stranger.ask("stock-write \(path) stranger emptying") == "ok")
        #expect(try Data(contentsOf: folder.url.appendingPathComponent("app.db-wal")).isEmpty)
        standing.leave()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        #expect(rotator.ask("count stranger") == "ok 1")
        rotator.end()
        #expect(StoreProof.problems(path).isEmpty)
    }

    private func file(_ path: String) throws -> Int {
        try #require(FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber] as? Int)
    }

    @Test("a file that takes the database's place in the pause ends the rotation, and neither of the two is lost")
    func moved() throws {
        let (rotator, peer) = (try opened(), try opened())
        #expect(rotator.ask("fill 300000") == "ok")
        let standing = rotate(rotator, until: .rotationBytesLocked)
        let (kept, other) = (folder.path("kept.db"), folder.path("other.db"))
        try FileManager.default.linkItem(atPath: path, toPath: kept)
        try FileManager.default.copyItem(atPath: path, toPath: other)
        let (bytes, number) = (FileManager.default.contents(atPath: other), try file(other))
        #expect(rename(other, path) == 0)
        standing.leave()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("error storeMoved"), "\(answer)")
        #expect(try file(path) == number)
        #expect(FileManager.default.contents(atPath: path) == bytes)
        #expect(FileManager.default.contents(atPath: kept) == bytes)
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(peer.ask("mark 1")?.hasPrefix("error storeMoved") == true)
        for process in [rotator, peer] { process.end() }
        #expect(rename(kept, path) == 0)
        let problems = StoreProof.problems(path) { db in
            try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark") == 2 ? [] : ["rows are missing"]
        }
        #expect(problems.isEmpty, "\(problems)")
    }

    @Test(
        "^Z in the pause waits until everybody may go on; the process stops then, and ends its rotation when continued",
        arguments: [CrashPoint.rotationCopySynced, .rotationWALReplaced], [false, true])
    func stop(place: CrashPoint, hasJobControl: Bool) throws {
        let (rotator, peer) = (try opened(), try opened())
        if hasJobControl { #expect(rotator.ask("job-control") == "ok") }
        #expect(peer.ask("bank-fill \(Bank.accounts) \(Bank.balance)") == "ok")
        let acknowledgements = folder.path("acknowledged")
        #expect(peer.ask("load-write \(acknowledgements)") == "ok")
        let standing = rotate(rotator, until: place)
        kill(rotator.processIdentifier, SIGTSTP)
        standing.leave()
        #expect(waitUntil { rotator.isStopped })
        // The switch is complete.
        #expect(!FileManager.default.fileExists(atPath: path + "-rotating"))
        #expect(try String(contentsOfFile: path + "-sidecar", encoding: .utf8).contains("\"state\":\"ready\""))
        // Without job control its own connections may be in an access when it is stopped.
        if hasJobControl {
            let before = Bank.length(acknowledgements)
            #expect(waitUntil { Bank.length(acknowledgements) > before + 5 }, "a stopped process keeps others waiting")
        }
        rotator.go()
        let answer = rotator.answer() ?? "died"
        #expect(answer.hasPrefix("ok 1 2 "), "\(answer)")
        let work = peer.ask("load-end") ?? "died"
        #expect(work.split(separator: " ").dropFirst(2).first == "0", "\(work)")
        for process in [rotator, peer] { process.end() }
        #expect(StoreProof.problems(path).isEmpty)
    }
}
