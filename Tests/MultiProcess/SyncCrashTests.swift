import CipherStore
import Foundation
import TestKit
import Testing

/// A process is killed at each call to the filesystem in turn, of the store's files and of a folder that is the remote; at
/// every one with `CIPHERSTORE_FAULTS=all` in the environment.
@Suite(.serialized) struct SyncCrashTests {
    private static let stride = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all" ? 1 : 9
    private static let calls = "all,folder"

    private let folder = TemporaryFolder()
    private let remote: String
    private let other: ActorProcess

    init() throws {
        remote = folder.path("remote")
        try FileManager.default.createDirectory(atPath: remote, withIntermediateDirectories: true)
        for store in ["a", "b"] {
            let founder = try Self.actor(folder.path("\(store).db"))
            #expect(founder.ask("sync-enable \(remote)") == "ok")
            #expect(founder.ask("close") == "ok")
        }
        other = try Self.actor(folder.path("b.db"))
    }

    private static func actor(_ path: String) throws -> ActorProcess {
        let actor = try ActorProcess()
        let answer = actor.ask("open \(path) raw 60") ?? "died"
        #expect(answer.hasPrefix("ok "), "\(answer)")
        return actor
    }

    private func path(_ store: String) -> String { folder.path("\(store).db") }

    private func commit(_ process: ActorProcess, _ name: String) {
        #expect(process.ask("sync-commit \(folder.path("done")) \(name) 2") == "ok")
    }

    /// Lets two stores sync until both have everything, and compares their heads; each compares its rows with the digests.
    private func expectEqual(_ first: ActorProcess, _ comment: Comment) {
        var answers: [String] = []
        for process in [first, other, first, other] { answers.append(process.ask("sync \(remote)") ?? "died") }
        #expect(answers[2].hasSuffix("in-sync") && answers[2] == answers[3], comment)
    }

    /// Everything of both stores is whole, and no item that was committed is missing.
    private func expectWhole(_ stores: [String], items: Int, _ comment: Comment) {
        #expect(other.ask("close") == "ok")
        var rows: [[String]] = []
        for store in stores {
            let problems = StoreProof.problems(path(store)) { db in
                rows.append(
                    try String.fetchAll(
                        db, sql: "SELECT id FROM item UNION ALL SELECT id || last FROM tally ORDER BY 1"))
                let count = try Int.fetchOne(db, sql: "SELECT count(*) FROM item") ?? 0
                return count == items ? [] : ["\(count) items instead of \(items)"]
            }
            #expect(problems.isEmpty, "\(comment) \(store): \(problems)")
        }
        #expect(Set(rows).count == 1, comment)
    }

    /// The work of `sync-step`, and its preparation.
    private static let preparations = [
        "push": [], "fetch": [], "merge": ["fetch"], "pull": ["fetch", "merge"],
    ]

    @Test(
        "killed at any call of a step, a store loses nothing, and the next sync completes it",
        arguments: ["push", "fetch", "merge", "pull"])
    func killed(step: String) throws {
        var (call, commits) = (0, 0)
        while true {
            call += Self.stride
            let victim = try Self.actor(path("a"))
            // Both have something that the other lacks.
            commit(victim, "a\(call)")
            commit(other, "b\(call)")
            commits += 2
            #expect(other.ask("sync-step push \(remote)") == "ok")
            for before in Self.preparations[step] ?? [] { #expect(victim.ask("sync-step \(before) \(remote)") == "ok") }
            #expect(victim.ask("die-at-call \(folder.url.path)/* \(Self.calls) \(call)") == "ok")
            let answer = victim.ask("sync-step \(step) \(remote)")
            let comment: Comment = "\(step), killed at call \(call)"
            #expect(answer == nil || answer == "ok", comment)
            if answer != nil { #expect(victim.ask("end-faults") == "ok") }
            let next = answer == nil ? try Self.actor(path("a")) : victim
            expectEqual(next, comment)
            #expect(next.ask("close") == "ok", comment)
            if answer != nil { break }
        }
        #expect(call > 5, "\(step)")
        expectWhole(["a", "b"], items: 2 * commits, "\(step), \(call) calls")
    }

    /// Lets the other store go on, and replace what both have by a checkpoint, while a store has work that it has not
    /// pushed.
    private func leaveBehind(_ victim: ActorProcess, _ name: String) {
        for process in [victim, other, victim, other] {
            #expect(process.ask("sync \(remote)")?.hasPrefix("ok") == true, "\(name)")
        }
        commit(other, "b\(name)")
        commit(victim, "a\(name)")
        #expect(other.ask("sync \(remote)")?.hasPrefix("ok") == true, "\(name)")
        #expect(other.ask("sync-checkpoint \(remote)") == "ok made", "\(name)")
    }

    @Test("killed at any call while it rejoins, a store has done all of it or nothing, and completes it the next time")
    func rejoining() throws {
        var (call, commits) = (0, 0)
        while true {
            call += Self.stride
            let victim = try Self.actor(path("a"))
            leaveBehind(victim, "\(call)")
            commits += 2
            let before = try #require(victim.ask("sync-head"))
            #expect(before.hasSuffix(" \(2 * commits - 2)"), "\(before)")
            #expect(victim.ask("die-at-call \(folder.url.path)/* \(Self.calls) \(call)") == "ok")
            let answer = victim.ask("sync-step rejoin \(remote)")
            let comment: Comment = "killed at call \(call)"
            #expect(answer == nil || answer == "ok", comment)
            if answer != nil { #expect(victim.ask("end-faults") == "ok") }
            let next = answer == nil ? try Self.actor(path("a")) : victim
            let after = try #require(next.ask("sync-head"), comment)
            // Its rows, and those of the other store: all of them, at another head, or as it was.
            #expect(after == before || after.hasSuffix(" \(2 * commits)"), comment)
            #expect(next.ask("sync-step rejoin \(remote)") == "ok", comment)
            expectEqual(next, comment)
            #expect(next.ask("sync-head")?.hasSuffix(" \(2 * commits)") == true, comment)
            #expect(next.ask("close") == "ok", comment)
            if answer != nil { break }
        }
        #expect(call > 5)
        expectWhole(["a", "b"], items: 2 * commits, "\(call) calls")
    }

    @Test("killed at any call while it joins, a store joins the next time, and has everything")
    func joining() throws {
        commit(other, "b")
        #expect(other.ask("sync \(remote)")?.hasPrefix("ok") == true)
        #expect(other.ask("sync-invite \(folder.path("invitation"))") == "ok")
        let command = "sync-join \(folder.path("invitation")) \(remote)"
        var (call, stores) = (0, ["b"])
        while true {
            call += Self.stride
            stores.append("c\(call)")
            let victim = try Self.actor(path("c\(call)"))
            #expect(victim.ask("sync-tables") == "ok")
            #expect(victim.ask("die-at-call \(folder.url.path)/* \(Self.calls) \(call)") == "ok")
            let answer = victim.ask(command)
            let comment: Comment = "killed at call \(call)"
            #expect(answer == nil || answer == "ok", comment)
            if answer != nil { #expect(victim.ask("end-faults") == "ok") }
            let next = answer == nil ? try Self.actor(path("c\(call)")) : victim
            #expect(next.ask(command) == "ok", comment)
            commit(next, "c\(call)")
            expectEqual(next, comment)
            #expect(next.ask("close") == "ok", comment)
            if answer != nil { break }
        }
        #expect(call > 5)
        let last = try #require(stores.last)
        expectWhole(["b", last], items: 2 * stores.count, "\(call) calls")
    }
}
