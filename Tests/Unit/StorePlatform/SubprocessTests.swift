import Foundation
@testable import StorePlatform
import Testing

@Suite("Processes")
struct SubprocessTests {
    private func run(
        _ arguments: [String], limitBytes: Int = 1000, timeout: Duration = .seconds(60)
    ) throws(Subprocess.Failure) -> String {
        let output = try Subprocess.output(of: arguments, limitBytes: limitBytes, timeout: timeout)
        return output.withBytes { String(decoding: $0, as: UTF8.self) }
    }

    @Test("a program runs with exactly its arguments, and its output is returned")
    func output() throws {
        #expect(try run(["printf", "%s|%s", "a b", "$HOME;'"]) == "a b|$HOME;'")
    }

    @Test("a program reads nothing from the standard input")
    func input() throws { #expect(try run(["cat"]) == "") }

    @Test("a failing program is told apart by its exit status or signal")
    func failures() throws {
        #expect(throws: Subprocess.Failure.exited(status: 3)) { try run(["sh", "-c", "exit 3"]) }
        #expect(throws: Subprocess.Failure.killed(signal: 9)) { try run(["sh", "-c", "kill -9 $$"]) }
        let missing = #expect(throws: Subprocess.Failure.self) { try run(["/no/such/program"]) }
        guard case .cannotRun(let error) = missing else {
            Issue.record("unexpected: \(String(describing: missing))")
            return
        }
        #expect(error.isNotFound && error.path == "/no/such/program")
        #expect(throws: Subprocess.Failure.self) { try run([]) }
    }

    @Test("a program gets the usual dispositions of signals, whatever its parent ignores")
    func dispositions() async {
        await #expect(processExitsWith: .success) {
            signal(SIGPIPE, SIG_IGN)
            signal(SIGXFSZ, SIG_IGN)
            for (name, number) in [("PIPE", SIGPIPE), ("XFSZ", SIGXFSZ)] {
                #expect(throws: Subprocess.Failure.killed(signal: number)) {
                    _ = try Subprocess.output(
                        of: ["sh", "-c", "kill -\(name) $$"], limitBytes: 1000, timeout: .seconds(60))
                }
            }
        }
    }

    @Test("output beyond the limit is an error, output of just that length is not")
    func limit() throws {
        #expect(try run(["printf", "12345"], limitBytes: 5) == "12345")
        #expect(throws: Subprocess.Failure.outputTooLong(limitBytes: 5)) {
            try run(["printf", "123456"], limitBytes: 5)
        }
        #expect(throws: Subprocess.Failure.outputTooLong(limitBytes: 5)) { try run(["yes"], limitBytes: 5) }
    }

    @Test("a program that does not end in time is killed")
    func timeout() throws {
        let folder = try TemporaryFolder()
        let script = "echo $$ > \(folder.file("pid")); exec sleep 1000"
        #expect(throws: Subprocess.Failure.timedOut(.seconds(2))) {
            try run(["sh", "-c", script], timeout: .seconds(2))
        }
        let text = try String(contentsOfFile: folder.file("pid"), encoding: .utf8)
        let process = try #require(Int32(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(!ProcessInspector.isAlive(process))
    }

    // `sh` ended and the program that it had started lived on.
    @Test("what a program has started is killed with it")
    func descendants() throws {
        let folder = try TemporaryFolder()
        let file = folder.file("pids")
        let script = "sleep 1000 & echo $! >> \(file); sh -c 'sleep 1000 & echo $! >> \(file); wait' & wait"
        #expect(throws: Subprocess.Failure.timedOut(.seconds(2))) {
            try run(["sh", "-c", script], timeout: .seconds(2))
        }
        let processes = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").compactMap {
            Int32($0)
        }
        #expect(processes.count == 2)
        for process in processes { #expect(waitUntil { !ProcessInspector.isAlive(process) }, "\(process)") }
    }

    // The output was waited for until its last holder closed it: `sleep 1000 & cat key` gave no key after 30 seconds, and
    // `sleep` lived on.
    @Test("the output of a program that has ended counts, and what it left in the background is killed")
    func background() throws {
        let folder = try TemporaryFolder()
        let script =
            "sleep 1000 & echo $! > \(folder.file("pid")); sleep 1000 >/dev/null 2>&1 & "
            + "echo $! >> \(folder.file("pid")); echo key"
        let start = ContinuousClock.now
        #expect(try run(["sh", "-c", script]) == "key\n")
        #expect(ContinuousClock.now - start < .seconds(20))
        #expect(throws: Subprocess.Failure.exited(status: 3)) { try run(["sh", "-c", script + "; exit 3"]) }
        try expectEnded(folder.file("pid"), count: 2)
    }

    private func expectEnded(_ file: String, count: Int) throws {
        let processes = try String(contentsOfFile: file, encoding: .utf8).split(separator: "\n").compactMap {
            Int32($0)
        }
        #expect(processes.count == count)
        for process in processes { #expect(waitUntil { !ProcessInspector.isAlive(process) }, "\(process)") }
    }

    @Test("a program that has closed its output and ended is killed with all that it left, after a failure too")
    func orphanedGrandchild() throws {
        let folder = try TemporaryFolder()
        let file = folder.file("pids")
        // The parent of the second one has ended: the program has no such descendant.
        let script = "sh -c 'sleep 1000 & echo $! >> \(file)' & wait; sleep 1000"
        #expect(throws: Subprocess.Failure.timedOut(.seconds(2))) {
            try run(["sh", "-c", script], timeout: .seconds(2))
        }
        try expectEnded(file, count: 1)
    }

    @Test("a long output is read to its end when the program has ended")
    func longOutput() throws {
        let text = try run(["sh", "-c", "sleep 1000 & head -c 60000 /dev/zero | tr '\\0' x"], limitBytes: 65_536)
        #expect(text.count == 60_000)
    }

    @Test("a program inherits the three standard descriptors and no other, whatever is open")
    func descriptors() throws {
        let null = try FileDescriptor(opening: "/dev/null", .readOnly)
        let inherited = fcntl(null.number, F_DUPFD, 57)
        defer { close(inherited) }
        #expect(inherited >= 57)
        let script = "for n in 2 3 \(inherited); do test -e /proc/$$/fd/$n && echo $n; done; true"
        #expect(try run(["sh", "-c", script]) == "2\n")
    }

    @Test("a program that closes its output and goes on is killed at the deadline too")
    func closedOutput() {
        #expect(throws: Subprocess.Failure.timedOut(.milliseconds(300))) {
            try run(["sh", "-c", "exec sleep 1000 >&-"], timeout: .milliseconds(300))
        }
    }

    @Test(
        "a command line is split into words without a shell",
        arguments: [
            ("pass show app", ["pass", "show", "app"]), ("  a\t b ", ["a", "b"]), ("", []),
            ("a 'b c' \"d e\"", ["a", "b c", "d e"]), ("a'b'\"c\"d", ["abcd"]), ("'' \"\"", ["", ""]),
            (#"a\ b \'c"#, ["a b", "'c"]), (#""a\"b\\c\d""#, [#"a"b\c\d"#]), (#"'a\b'"#, [#"a\b"#]),
            ("echo $HOME *.db `id` | cat > x", ["echo", "$HOME", "*.db", "`id`", "|", "cat", ">", "x"]),
        ])
    func words(line: String, words: [String]) { #expect(Subprocess.words(of: line) == words) }

    @Test("an open quote or a trailing backslash is refused", arguments: ["a 'b", "a \"b", "a\\", "\"a\\"])
    func brokenWords(line: String) { #expect(Subprocess.words(of: line) == nil) }

    @Test("a process knows itself, its parent and whether others live")
    func inspector() throws {
        #expect(ProcessInspector.currentProcess == getpid())
        #expect(ProcessInspector.isAlive(getppid()))
        #expect(!ProcessInspector.isAlive(2_147_483_646) && !ProcessInspector.isAlive(-1))
        #expect(ProcessInspector.commandName(of: getpid())?.isEmpty == false)
        #expect(ProcessInspector.commandName(of: 2_147_483_646) == nil)
        #expect(
            ProcessInspector.environmentValue("PATH") == Array((getenv("PATH").map { String(cString: $0) } ?? "").utf8))
        #expect(ProcessInspector.environmentValue("NO_SUCH_VARIABLE_HERE") == nil)
    }

    @Test("core dumps can be forbidden")
    func coreDumps() async {
        await #expect(processExitsWith: .success) {
            try ProcessInspector.disableCoreDumps()
            var limit = rlimit()
            guard getrlimit(__rlimit_resource_t(4), &limit) == 0, limit.rlim_cur == 0, limit.rlim_max == 0 else {
                exit(2)
            }
        }
    }
}
