import CipherStore
import Foundation
import TestKit
import Testing

/// Stores that several processes commit to, and exchange through a folder.
@Suite(.serialized) struct SyncProcessTests {
    /// `CIPHERSTORE_KILLS`, of which this test takes one in a hundred.
    private static let kills =
        ProcessInfo.processInfo.environment["CIPHERSTORE_KILLS"].flatMap { Int($0) }.map { max(12, $0 / 100) } ?? 12
    private static let commits = 60

    private let folder = TemporaryFolder()
    private let seed = Seed()
    private let remote: String

    init() throws {
        remote = folder.path("remote")
        try FileManager.default.createDirectory(atPath: remote, withIntermediateDirectories: true)
        let (founder, joiner) = try (actor("a"), actor("b"))
        #expect(founder.ask("sync-found \(remote)") == "ok")
        #expect(founder.ask("sync-invite \(folder.path("invitation")) \(remote)") == "ok")
        #expect(joiner.ask("sync-join \(folder.path("invitation")) \(remote)") == "ok")
        for process in [founder, joiner] { #expect(process.ask("close") == "ok") }
    }

    private func path(_ store: String) -> String { folder.path("\(store).db") }

    private func actor(_ store: String) throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path(store)) raw 60") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return actor
    }

    private func length(_ file: String) -> Int {
        (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int).flatMap { $0 } ?? 0
    }

    // MARK: Kills

    /// One process of a store: it commits, or it syncs.
    private struct Life {
        let process: ActorProcess
        let store: String
        let name: String
        /// Has a byte for each thing that it has done.
        let file: String
    }

    private func begin(_ worker: Int, _ number: Int) throws -> Life {
        let (store, name) = (worker % 2 == 0 ? "a" : "b", "\(worker).\(number)")
        let file = folder.path("done-\(name)")
        let process = try actor(store)
        process.send(
            worker < 4 ? "sync-commit \(file) \(name) \(Self.commits)" : "sync-for-ever \(file) 0 \(remote)")
        return Life(process: process, store: store, name: name, file: file)
    }

    @Test("processes of two stores commit and sync, and are killed again and again: both stores end with every row")
    func kills() throws {
        var numbers = seed.numbers(0)
        var (lives, ended) = ([Life](), [Life]())
        for worker in 0..<6 { lives.append(try begin(worker, 0)) }
        for kill in 1...Self.kills {
            let victim = Int.random(in: 0..<lives.count, using: &numbers)
            let life = lives[victim]
            let hasDone = waitUntil(within: .seconds(60)) { length(life.file) > 0 }
            #expect(hasDone, "\(seed) \(life.name)")
            life.process.kill(within: .milliseconds(30))
            let answers = life.process.remainingAnswers()
            #expect(answers.allSatisfy { $0.hasPrefix("ok") }, "\(seed) \(life.name): \(answers)")
            ended.append(life)
            lives[victim] = try begin(victim, kill)
        }
        for life in lives {
            life.process.kill()
            let answers = life.process.remainingAnswers()
            #expect(answers.allSatisfy { $0.hasPrefix("ok") }, "\(seed) \(life.name): \(answers)")
        }
        try expectEqual(ended + lives)
    }

    /// Lets both stores sync once more, and compares everything.
    private func expectEqual(_ lives: [Life]) throws {
        var answers: [String] = []
        let processes = [try actor("a"), try actor("b")]
        func isEqual() -> Bool { Set(answers).count == 1 && answers[0].hasSuffix("in-sync") }
        for _ in 0..<3 where !isEqual() { answers = processes.map { $0.ask("sync \(remote)") ?? "died" } }
        for process in processes { #expect(process.ask("close") == "ok") }
        #expect(isEqual(), "\(seed) \(answers)")
        var rows: [[String]] = []
        for store in ["a", "b"] {
            let problems = StoreProof.problems(path(store)) { db in
                rows.append(
                    try String.fetchAll(
                        db, sql: "SELECT id FROM item UNION ALL SELECT id || last FROM tally ORDER BY 1"))
                return try unlikely(lives, db)
            }
            #expect(problems.isEmpty, "\(seed) \(store): \(problems)")
        }
        #expect(rows.count == 2 && rows[0] == rows[1] && rows[0].count > 3, "\(seed)")
    }

    /// The lives of which the store has fewer rows than they have acknowledged, or more than one beyond.
    private func unlikely(_ lives: [Life], _ db: Database) throws -> [String] {
        try lives.filter { $0.file.contains("done-") && Int($0.name.prefix(1)) ?? 9 < 4 }.compactMap { life in
            let told = length(life.file)
            let count = try Int.fetchOne(
                db, sql: "SELECT count(*) FROM item WHERE id GLOB ?", arguments: [life.name + "-*"])
            return (told...told + 1).contains(count ?? -1) ? nil : "\(life.name): \(told) told, \(count ?? -1) there"
        }
    }

    // MARK: Full disks

    @Test(
        "loss 7: a full disk in the middle of a commit and of a sync loses nothing; the next sync completes it",
        arguments: zip(["b.db*", "remote/*"], [5, 1]))
    func fullDisk(files: String, step: Int) throws {
        let (first, second) = try (actor("a"), actor("b"))
        var (lives, failures) = ([Life](), 0)
        for number in stride(from: 1, through: 10 * step, by: step) {
            for (worker, process) in [(0, first), (1, second)] {
                let name = "\(worker).\(number)"
                lives.append(Life(process: process, store: "", name: name, file: folder.path("done-\(name)")))
            }
            #expect(first.ask("sync-commit \(lives[lives.count - 2].file) 0.\(number) 2") == "ok")
            #expect(first.ask("sync \(remote)")?.hasPrefix("ok") == true)
            let fault = "\(folder.url.path)/\(files) open,write,truncate,name \(number) always ENOSPC"
            #expect(second.ask("fail-call \(fault)") == "ok")
            let answers = [
                second.ask("sync-commit \(lives[lives.count - 1].file) 1.\(number) 2"), second.ask("sync \(remote)"),
            ]
            #expect(second.ask("end-faults") == "ok")
            #expect(!answers.contains(nil))
            failures += answers.count { $0?.hasPrefix("error") == true }
            let answer = second.ask("sync \(remote)") ?? "died"
            #expect(answer.hasPrefix("ok"), "\(files) \(number): \(answer)")
        }
        #expect(failures > 3)
        for process in [first, second] { #expect(process.ask("close") == "ok") }
        try expectEqual(lives)
    }

    // MARK: One store

    @Test(
        "two processes of one store sync at once, and one of them is killed while it puts: the other one ends its sync")
    func oneStore() throws {
        let (first, second) = try (actor("a"), actor("a"))
        #expect(first.ask("sync-commit \(folder.path("done-0.0")) 0.0 5") == "ok")
        #expect(first.ask("stop-at-call \(remote)/* write 1") == "ok")
        first.send("sync \(remote)")
        #expect(waitUntil { first.isStopped })
        let answer = second.ask("sync \(remote)") ?? "died"
        #expect(answer.hasPrefix("ok") && answer.hasSuffix("in-sync"), "\(answer)")
        first.kill()
        #expect(second.ask("sync \(remote)") == answer)
        let other = try actor("b")
        // The second sync knows that the remote has all that the first one has joined.
        #expect(other.ask("sync \(remote)")?.hasPrefix("ok") == true)
        let received = other.ask("sync \(remote)") ?? "died"
        #expect(received.hasSuffix("in-sync"), "\(received)")
        #expect(other.ask("sync-head")?.hasSuffix(" 5") == true)
    }
}
