import Foundation
import TestKit
import Testing

/// Programs that print a key: `--key-command`.
@Suite("cipherctl and the programs that print its key")
struct KeyProgramTests {
    private let place: Workplace
    private var store: String { place.path("s.db") }

    init() throws {
        place = try Workplace()
        try place.write(Workplace.passphrase, to: "pass")
        let created = try place.run(["create", store, "--scheme", "direct", "--key-file", place.path("pass")])
        try #require(created.status == 0, "\(created.errors)")
    }

    private func process(_ name: String) throws -> Int32 {
        #expect(waitUntil { (try? place.bytes(name).last) == UInt8(ascii: "\n") })
        return try #require(Int32(String(decoding: place.bytes(name), as: UTF8.self).dropLast()))
    }

    /// A process that has ended may wait for a long time until its new parent takes its status.
    private func isAlive(_ process: Int32) -> Bool {
        guard let text = try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8) else {
            return kill(process, 0) == 0
        }
        return !text.contains(") Z ")
    }

    // After 30 seconds it said that `sh` had not ended; `sleep` lived on.
    @Test("a key is used when its program has ended, whatever that left in the background, and that is killed")
    func background() throws {
        let pid = place.path("pid")
        let start = ContinuousClock.now
        let outcome = try place.run([
            "sql", store, "SELECT 1", "--key-command",
            "sh -c 'sleep 1000 & echo $! > \"\(pid)\"; cat \"\(place.path("pass"))\"'",
        ])
        #expect(outcome.status == 0, "\(outcome.errors)")
        #expect(ContinuousClock.now - start < .seconds(25))
        let left = try process("pid")
        #expect(waitUntil { !isAlive(left) })
    }

    @Test(
        "a program that never ends is ended with its parent, whatever ends that",
        arguments: [SIGTERM, SIGINT, SIGHUP, SIGKILL])
    func parent(signal: Int32) throws {
        let script = "sleep 1000 & echo $! > child; echo $$ > pid; exec sleep 1000"
        let run = try CommandRun(
            Workplace.program(), ["sql", store, "SELECT 1", "--key-command", "sh -c '\(script)'"],
            directory: place.folder.url.path)
        let program = try process("pid")
        let child = try process("child")
        run.send(signal)
        let outcome = run.finish()
        #expect(outcome.status == (signal == SIGKILL ? 128 + SIGKILL : 130), "\(outcome.status) \(outcome.errors)")
        #expect(waitUntil { !isAlive(program) })
        // No system call ends a whole group with a process that is killed.
        if signal == SIGKILL { kill(child, SIGKILL) } else { #expect(waitUntil { !isAlive(child) }) }
    }
}
