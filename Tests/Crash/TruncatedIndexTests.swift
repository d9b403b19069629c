import CipherStore
import Foundation
import TestKit
import Testing

/// Another member of a group truncates SQLite's `-shm` under processes that have it mapped.
///
/// The system ends a process that touches a page behind the end of the file, by SIGBUS. Zeros in place of the mapping, as
/// the lock file gets them, would be a wrong WAL index for one process only: it would see no read marks of the others.
@Suite(.serialized) struct TruncatedIndexTests {
    @Test(
        "a -shm that is truncated ends a process by a signal or an error, and loses no commit",
        arguments: ["mark 1", "total", "checkpoint", "check"])
    func truncated(_ command: String) throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let (actor, other) = (try ActorProcess(), try ActorProcess())
        #expect(actor.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        #expect(actor.ask("mark 5") == "ok")
        #expect(other.ask("total") == "ok 6")
        let index = try FileHandle(forWritingTo: URL(fileURLWithPath: path + "-shm"))
        try index.truncate(atOffset: 0)
        var acknowledged = 5
        for process in [actor, other] {
            // No answer: a signal has ended it.
            guard let answer = process.ask(command) else { continue }
            #expect(answer.hasPrefix("ok") || answer.hasPrefix("error"), "\(answer)")
            if command.hasPrefix("mark"), answer == "ok" { acknowledged += 1 }
            if command == "total", answer.hasPrefix("ok") { #expect(answer == "ok 6", "wrong data: \(answer)") }
            if command == "check", answer.hasPrefix("ok") { #expect(answer == "ok ok", "wrong data: \(answer)") }
        }
        actor.end()
        other.end()
        let expected = acknowledged
        let problems = StoreProof.problems(path) { db in
            let rows = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM mark WHERE text <> 'migrated'") ?? 0
            return rows == expected ? [] : ["\(rows) rows of \(expected)"]
        }
        #expect(problems.isEmpty, "\(problems)")
    }
}
