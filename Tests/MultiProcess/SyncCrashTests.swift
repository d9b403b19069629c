import CipherStore
import Foundation
import TestKit
import Testing

/// A process is killed at each call to the filesystem in turn, of the store's files and of a folder that is the remote; at
/// every one with `CIPHERSTORE_FAULTS=all` in the environment.
@Suite(.serialized) struct SyncCrashTests {
    private static let stride = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all" ? 1 : 13
    private static let calls = "all,folder"

    private let folder = TemporaryFolder()
    private let remote: String
    private let other: ActorProcess

    init() throws {
        remote = folder.path("remote")
        try FileManager.default.createDirectory(atPath: remote, withIntermediateDirectories: true)
        other = try Self.actor(folder.path("b.db"))
        #expect(other.ask("sync-found \(remote)") == "ok")
        #expect(other.ask("sync-invite \(folder.path("first")) \(remote)") == "ok")
        let joiner = try Self.actor(folder.path("a.db"))
        #expect(joiner.ask("sync-join \(folder.path("first")) \(remote)") == "ok")
        #expect(joiner.ask("close") == "ok")
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
        var isEqual = false
        for _ in 0..<3 where !isEqual {
            let answers = [first, other].map { $0.ask("sync \(remote)") ?? "died" }
            isEqual = answers[0] == answers[1] && answers[0].hasSuffix("in-sync")
        }
        #expect(isEqual, comment)
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
    private static let preparations = ["push": [], "fetch": [], "pull": ["fetch"], "compact": []]

    @Test(
        "killed at any call of a step, a store loses nothing, and the next sync completes it",
        arguments: ["push", "fetch", "pull", "compact"])
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

    @Test("killed at calls while it joins, a store joins by the next invitation, and has everything")
    func joining() throws {
        commit(other, "b")
        var (call, stores) = (0, 1)
        while true {
            // Each invitation adds calls to the next join, so a fixed step would never come to the last one.
            call = max(call + 1, Self.stride == 1 ? call * 21 / 20 : call * 2)
            let (path, comment): (String, Comment) = (path("c\(call)"), "killed at call \(call)")
            func command(_ number: Int) -> String {
                let file = folder.path("invitation-\(call)-\(number)")
                #expect(other.ask("sync-invite \(file) \(remote)") == "ok", comment)
                return "sync-join \(file) \(remote)"
            }
            let victim = try Self.actor(path)
            #expect(victim.ask("sync-tables") == "ok")
            let first = command(1)
            #expect(victim.ask("die-at-call \(folder.url.path)/* \(Self.calls) \(call)") == "ok")
            let answer = victim.ask(first)
            #expect(answer == nil || answer == "ok", comment)
            if answer != nil { #expect(victim.ask("end-faults") == "ok") }
            let next = answer == nil ? try Self.actor(path) : victim
            if answer == nil { #expect(next.ask(command(2)) == "ok", comment) }
            commit(next, "c\(call)")
            stores += 1
            expectEqual(next, comment)
            #expect(next.ask("sync-head")?.hasSuffix(" \(2 * stores)") == true, comment)
            #expect(next.ask("close") == "ok", comment)
            if answer != nil { break }
        }
        #expect(call > 5)
        expectWhole(["b", "c\(call)"], items: 2 * stores, "\(call) calls")
    }

    @Test("killed at calls while it joins again, a reader sends its commits once, by the next invitation at the latest")
    func joiningAgain() throws {
        func invite(_ name: String, _ role: String, _ comment: Comment) -> String {
            #expect(other.ask("sync-invite \(folder.path(name)) \(remote) \(role)") == "ok", comment)
            return "sync-join \(folder.path(name)) \(remote)"
        }
        var (call, commits) = (0, 0)
        while true {
            call = max(call + 1, Self.stride == 1 ? call * 21 / 20 : call * 2)
            let (path, comment): (String, Comment) = (path("r\(call)"), "killed at call \(call)")
            let victim = try Self.actor(path)
            #expect(victim.ask("sync-tables") == "ok")
            #expect(victim.ask(invite("reader-\(call)", "reader", comment)) == "ok", comment)
            commit(victim, "r\(call)")
            commit(other, "b\(call)")
            commits += 2
            let first = invite("first-\(call)", "", comment)
            #expect(victim.ask("die-at-call \(folder.url.path)/* \(Self.calls) \(call)") == "ok")
            let answer = victim.ask(first)
            #expect(answer == nil || answer == "ok", comment)
            if answer != nil { #expect(victim.ask("end-faults") == "ok") }
            let next = answer == nil ? try Self.actor(path) : victim
            if answer == nil { #expect(next.ask(invite("second-\(call)", "", comment)) == "ok", comment) }
            expectEqual(next, comment)
            #expect(next.ask("sync-head")?.hasSuffix(" \(2 * commits)") == true, comment)
            #expect(next.ask("close") == "ok", comment)
            if answer != nil { break }
        }
        #expect(call > 5)
        expectWhole(["b", "r\(call)"], items: 2 * commits, "\(call) calls")
    }
}
