import Foundation
import TestKit
import Testing

/// A descriptor of the program's own once took the number of a closed standard stream: `sql <&-` then read the pipe of the
/// program's job control, and waited for ever. So did `--key-fd 3` where nobody had opened descriptor 3.
@Suite("cipherctl with closed descriptors")
struct StandardDescriptorTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try place.write(Workplace.passphrase, to: "key")
    }

    /// Runs cipherctl by a shell, with redirections; nil when it does not end.
    private func shell(_ redirections: String, _ arguments: String...) throws -> CommandRun.Outcome? {
        let run = try CommandRun(
            #require(SystemProgram.find("sh")),
            ["-c", "exec \"$0\" \"$@\" \(redirections)", Workplace.program().path] + arguments,
            directory: place.folder.url.path)
        guard waitUntil(within: .seconds(30), { !run.isRunning }) else {
            run.send(SIGKILL)
            return nil
        }
        return run.finish()
    }

    @Test("SQL from a closed standard input is an error at once")
    func input() throws {
        let outcome = try #require(try shell("<&-", "sql", "s.db", "--raw-key-file", "raw.key"), "it did not end")
        #expect(outcome.status == 74 && outcome.errors.contains("Bad file descriptor"), "\(outcome.errors)")
    }

    @Test(
        "a key is not read from a descriptor that nobody gave to the program",
        arguments: [("0", "<&-"), ("3", "</dev/null"), ("4", "3</dev/null"), ("9", "<&- >&- 2>&-")])
    func key(number: String, redirections: String) throws {
        let run = try shell(redirections, "sql", "s.db", "SELECT 1", "--key-fd", number)
        let outcome = try #require(run, "it did not end")
        #expect(outcome.status == 74, "\(outcome.errors)")
        if !redirections.contains("2>&-") {
            #expect(outcome.errors.contains("Bad file descriptor"), "\(outcome.errors)")
        }
    }

    @Test("nothing is made with such a key")
    func creation() throws {
        let outcome = try #require(try shell("</dev/null", "create", "new.db", "--key-fd", "3"), "it did not end")
        #expect(outcome.status == 74 && !place.exists("new.db"), "\(outcome.errors)")
    }

    @Test("a key file that is the closed standard input gives no key")
    func keyFile() throws {
        let run = try shell("<&-", "sql", "s.db", "SELECT 1", "--key-file", "/dev/stdin")
        let outcome = try #require(run, "it did not end")
        #expect(outcome.status == 77, "\(outcome.errors)")
    }

    @Test("a descriptor that the program was given works, also while the standard streams are closed")
    func given() throws {
        #expect(try shell("7< key", "create", "other.db", "--key-fd", "7")?.status == 0)
        #expect(try shell("<&- 7< key", "key", "test", "other.db", "--key-fd", "7")?.status == 0)
        // A lock file once got the number of standard error: what the command said was written into it.
        #expect(try shell("2>&- 7< key", "sql", "other.db", "SELECT", "--write", "--key-fd", "7")?.status == 1)
        #expect(try place.ctl("sql", place.path("s.db"), "SELECT 1").status == 0)
    }

    @Test("results that a closed standard output does not take are an error")
    func output() throws {
        let outcome = try #require(try shell(">&-", "sql", "s.db", "SELECT 1", "--raw-key-file", "raw.key"))
        #expect(outcome.status == 74 && outcome.errors.contains("standard output"), "\(outcome.errors)")
    }
}
