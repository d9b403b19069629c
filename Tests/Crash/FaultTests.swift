import CipherStore
import Foundation
import TestKit
import Testing

/// System calls fail once, and permanently, below SQLite and below the library's own files: one call in so many, each with
/// `CIPHERSTORE_FAULTS=all`.
@Suite(.serialized) struct FaultTests {
    /// How a call fails.
    struct Failure: CustomStringConvertible, Sendable {
        let kinds: String
        let words: String
        var description: String { "\(kinds) \(words)" }
    }

    static let failures = [
        Failure(kinds: "all", words: "once EIO"), Failure(kinds: "all", words: "always EIO"),
        Failure(kinds: "open,write,truncate,name", words: "once ENOSPC"),
        Failure(kinds: "open,write,truncate,name", words: "always ENOSPC"),
        Failure(kinds: "write", words: "once ENOSPC torn"), Failure(kinds: "write", words: "once EIO torn"),
    ]

    private static let stride = 11
    private static let work = [
        "open PATH raw", "mark 1", "fill 20000", "checkpoint", "mark 1", "mark 1", "checkpoint", "mark 1", "close",
        "open PATH raw", "mark 1", "mark 1", "close",
    ]

    @Test("a call that fails is told, loses nothing, and the store goes on", arguments: failures)
    func everyCall(_ failure: Failure) throws {
        let actor = try ActorProcess()
        let ordinal = Self.failures.firstIndex { "\($0)" == "\(failure)" } ?? 0
        var number = 1 + Sweep.first(oneIn: Self.stride, offset: ordinal)
        var (hits, all) = (0, 0)
        while true {
            let folder = TemporaryFolder()
            let path = folder.path("app.db")
            let (once, words) = split(failure.words)
            #expect(
                actor.ask("fail-call \(folder.url.path)* \(failure.kinds) \(number) \(once) \(words)") == "ok")
            var acknowledged = 0
            for command in Self.work {
                acknowledged += try perform(command, at: path, by: actor, "\(failure) \(number)")
            }
            let calls = Int(actor.ask("calls")?.dropFirst(3) ?? "") ?? 0
            all = calls
            if calls < number { break }
            hits += 1
            // The disk works again: the same process can write again, and so can the next one.
            #expect(actor.ask("end-faults") == "ok")
            #expect(actor.ask("close") == "ok", "\(failure) \(number)")
            for command in ["open PATH raw", "mark 1", "checkpoint", "mark 1", "close"] {
                let answer = actor.ask(command.replacingOccurrences(of: "PATH", with: path)) ?? "died"
                #expect(answer.hasPrefix("ok"), "\(failure) \(number): after the fault \(command): \(answer)")
                if command.hasPrefix("mark"), answer == "ok" { acknowledged += 1 }
            }
            let problems = StoreProof.problems(path) { db in
                let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text <> 'migrated'") ?? 0
                return rows >= acknowledged ? [] : ["\(rows) rows of \(acknowledged)"]
            }
            #expect(problems.isEmpty, "\(failure) \(number), \(Sweep.seed): \(problems)")
            number += Sweep.stride(Self.stride)
        }
        #expect(all > 10 && hits > 0)
        print("faults: \(hits) of \(all) calls, \(failure)")
    }

    /// Sends a command that may fail, with an error that says what happened.
    /// - Returns: The number of rows that it has acknowledged.
    private func perform(_ command: String, at path: String, by actor: ActorProcess, _ comment: String) throws -> Int {
        let answer = actor.ask(command.replacingOccurrences(of: "PATH", with: path))
        let text = try #require(answer, "\(comment): the process died of \(command)")
        if text.hasPrefix("ok") { return command.hasPrefix("mark") || command.hasPrefix("fill") ? 1 : 0 }
        // After a failed opening no store is open.
        let isTyped =
            ["error SQLite-", "error SystemError", "error ActorError"].contains { text.hasPrefix($0) }
            || Self.storeErrors.contains { text.hasPrefix("error \($0) ") }
        #expect(isTyped, "\(comment): \(command): \(text)")
        return 0
    }

    /// The errors that an opening may report for a file that cannot be read or written.
    private static let storeErrors = ["sidecarDamaged", "saltMissing", "emptyFile", "storeClosed"]

    private func split(_ words: String) -> (once: Substring, rest: String) {
        let parts = words.split(separator: " ")
        return (parts[0], parts.dropFirst().joined(separator: " "))
    }

    @Test("after a failed fsync a connection writes nothing, does not try again, and reads on until it is opened anew")
    func failedSync() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let actor = try ActorProcess()
        #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 3") == "ok")
        #expect(actor.ask("fail-call \(folder.url.path)* sync 1 once EIO") == "ok")
        #expect(actor.ask("checkpoint")?.hasPrefix("error SQLite-1034") == true)
        #expect(actor.ask("count-calls \(folder.url.path)* sync") == "ok")
        for command in ["mark 1", "checkpoint", "fill 100", "hold-write"] {
            let answer = actor.ask(command) ?? "died"
            #expect(answer.hasPrefix("error SQLite-1034") && answer.contains("an earlier fsync"), "\(answer)")
        }
        #expect(actor.ask("total") == "ok 4")
        #expect(actor.ask("check") == "ok ok")
        let log = FileManager.default.contents(atPath: path + "-wal")
        #expect(actor.ask("close") == "ok")
        #expect(actor.ask("calls") == "ok 0", "the failed fsync was tried again")
        // The close has not checkpointed frames that may not be on disk, either.
        #expect(FileManager.default.contents(atPath: path + "-wal") == log)
        #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 1") == "ok")
        #expect(actor.ask("checkpoint")?.hasPrefix("ok") == true)
        #expect(actor.ask("total") == "ok 5")
        actor.end()
        #expect(StoreProof.problems(path).isEmpty)
    }
}
