import Foundation
import TestKit
import Testing

/// Commands that look at a store, run again and again while `rotate` is running.
@Suite("cipherctl beside a rotation", .serialized)
struct BesideRotationTests {
    private let place: Workplace

    /// The key is a passphrase: its derivation gives a rotation time to end between two readings. Two rotations in `make test`,
    /// eight in `make soak`.
    init() throws {
        place = try Workplace()
        try place.write(Workplace.passphrase, to: "key")
        try #require(try ctl("create").status == 0)
        let rows = """
            CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT);
            WITH RECURSIVE c (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c WHERE i < 40000)
            INSERT INTO t SELECT i, printf('row %d %s', i, hex(randomblob(50))) FROM c;
            """
        try #require(try ctl("sql", rows, "--write").status == 0)
    }

    private func ctl(_ command: String, _ more: String...) throws -> CommandRun.Outcome {
        try place.run([command, place.path("s.db")] + more + ["--key-file", place.path("key")])
    }

    /// Runs a command while the store is rotated several times.
    private func runs(_ command: String) throws -> [CommandRun.Outcome] {
        var outcomes: [CommandRun.Outcome] = []
        for _ in 1...(Sweep.isWhole ? 8 : 2) {
            let rotation = try CommandRun(
                Workplace.program(), ["rotate", place.path("s.db"), "--no-backup", "--key-file", place.path("key")])
            while rotation.isRunning { outcomes.append(try ctl(command, "--json")) }
            let end = rotation.finish()
            #expect(end.status == 0, "\(end.errors)")
        }
        return outcomes
    }

    // Story: it said "pages 1 to 2768 are damaged", and advised to restore the store from a backup.
    @Test("verify never calls a store damaged that is being given another key")
    func verify() throws {
        for outcome in try runs("verify") {
            #expect([0, 75].contains(outcome.status), "\(outcome.output) \(outcome.errors)")
        }
    }

    // Story: they said that page 1 does not fit the key, and that a rotation was interrupted that was running.
    @Test(
        "doctor and status report no problem of a store that is being given another key",
        arguments: ["doctor", "status"])
    func looks(command: String) throws {
        for outcome in try runs(command) {
            #expect([0, 75].contains(outcome.status), "\(outcome.output) \(outcome.errors)")
        }
    }
}
