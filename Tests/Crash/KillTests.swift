import CipherStore
import Foundation
import StorePlatform
import TestKit
import Testing

/// Processes killed anywhere: at system calls, at each crash point, at random.
///
/// `CIPHERSTORE_KILLS` is the number of random kills; `make soak` makes it 10,000. One system call in so many is the last of
/// its process, each with `CIPHERSTORE_FAULTS=all`.
@Suite(.serialized) struct KillTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }
    private let seed = Seed()

    private static var randomKills: Int {
        ProcessInfo.processInfo.environment["CIPHERSTORE_KILLS"].flatMap { Int($0) } ?? 40
    }

    /// The commands of a victim: it creates, migrates, commits, checkpoints, closes, and opens once more.
    static let work = [
        "open PATH raw", "mark 2", "fill 20000", "checkpoint", "mark 1", "hold-read", "", "close", "open PATH raw",
        "mark 1", "checkpoint", "mark 1", "close",
    ]

    /// Runs the commands until the victim dies or all are done.
    /// - Returns: The number of rows that the victim has acknowledged, and whether it died.
    private func work(_ victim: ActorProcess, at path: String) -> (acknowledged: Int, isDead: Bool) {
        var acknowledged = 0
        for command in Self.work {
            guard let answer = victim.ask(command.replacingOccurrences(of: "PATH", with: path)) else {
                return (acknowledged, true)
            }
            #expect(answer.hasPrefix("ok"), "\(command): \(answer)")
            if command.hasPrefix("mark") { acknowledged += Int(command.dropFirst(5)) ?? 0 }
            if command.hasPrefix("fill") { acknowledged += 1 }
        }
        return (acknowledged, false)
    }

    /// Expects that the store opens without a repair by the user, is sound, and has at least the acknowledged rows.
    ///
    /// - Parameter isTorn: Whether the process was killed in the middle of a write: the kernel ends the write of a killed
    ///   process between two pages of the system. No commit was acknowledged then, and the notice of it says so.
    private func expectSound(_ path: String, _ acknowledged: Int, _ comment: String, isTorn: Bool = false) {
        guard FileManager.default.fileExists(atPath: path) || acknowledged > 0 else { return }
        let problems = StoreProof.problems(path, afterTornWrite: isTorn) { db in
            guard try db.tableExists("mark") else { return acknowledged == 0 ? [] : ["the table is gone"] }
            let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text <> 'migrated'") ?? 0
            return rows >= acknowledged ? [] : ["\(rows) rows of \(acknowledged)"]
        }
        #expect(problems.isEmpty, "\(comment): \(problems)")
    }

    @Test("a process killed at any of its calls to the system loses nothing", arguments: ["", "torn"])
    func atEveryCall(torn: String) throws {
        let stride = 9
        var number = 1 + Sweep.first(oneIn: stride, offset: torn.isEmpty ? 0 : 4)
        while true {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let victim = try ActorProcess()
            // Kills that tear a write concern only calls that write.
            let kinds = torn.isEmpty ? "all" : "write"
            #expect(victim.ask("die-at-call \(folder.url.path)* \(kinds) \(number) \(torn)") == "ok")
            let (acknowledged, isDead) = work(victim, at: path)
            expectSound(path, acknowledged, "call \(number) \(torn)", isTorn: !torn.isEmpty)
            if !isDead { break }
            number += Sweep.stride(stride)
        }
        #expect(number > 40)
        print("kills: at one in \(Sweep.stride(stride)) of \(number - 1) calls to the system \(torn)")
    }

    @Test(
        "a process killed at any named place loses nothing, whenever it comes there",
        arguments: CrashPoint.ofCreation + CrashPoint.ofMigration + CrashPoint.ofUse, 0..<3)
    func atEveryPlace(_ point: CrashPoint, passes: Int) throws {
        let victim = try ActorProcess()
        #expect(victim.ask("die-at \(point.rawValue) \(passes)") == "ok")
        let (acknowledged, isDead) = work(victim, at: path)
        // Some crash points are passed only once or twice.
        #expect(isDead || passes > 0, "the process did not pass \(point)")
        expectSound(path, acknowledged, "\(point) \(passes)")
    }

    @Test("a process killed at a random moment loses nothing")
    func atRandom() throws {
        var numbers = seed.numbers(0)
        var (kills, rows) = (0, 0)
        while kills < max(1, Self.randomKills) {
            // A new store for every hundred kills: verifying a large store takes longer than a kill.
            let folder = TemporaryFolder()
            let acknowledgements = folder.path("acknowledged")
            for _ in 0..<min(100, Self.randomKills - kills) {
                kills += 1
                let victim = try ActorProcess()
                victim.send("open \(folder.path("app.db")) raw")
                victim.send("mark-for-ever \(acknowledgements)")
                // Half of the kills occur while it opens, the others while it writes and checkpoints.
                if Bool.random(using: &numbers) { _ = victim.answer() }
                victim.kill(after: .microseconds(Int.random(in: 0..<60_000, using: &numbers)))
                #expect(victim.remainingAnswers().allSatisfy { $0.hasPrefix("ok") })
                expectSound(folder.path("app.db"), Bank.length(acknowledgements), "\(seed) kill \(kills)")
            }
            rows += Bank.length(acknowledgements)
        }
        print("kills: \(seed), \(kills) at random, \(rows) rows, none lost")
    }
}
