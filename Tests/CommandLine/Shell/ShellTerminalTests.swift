import Foundation
import TestKit
import Testing

@testable import cipherctl

/// The shell at a pseudo-terminal, typed at by a small script; it needs nothing but Python.
@Suite("cipherctl shell at a terminal", .enabled(if: SystemProgram.find("python3") != nil, "needs python3"))
struct ShellTerminalTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    /// Types each text once the output has what comes before it, and kills what does not end in time. `SIGNAL n` sends a
    /// signal, `REPEAT n` sends it until the next output is there, and `SIZE columns` changes the terminal.
    private static let player = #"""
        import fcntl, json, os, pty, re, select, signal, struct, sys, termios, time
        steps, columns, command = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
        process, terminal = pty.fork()
        if process == 0:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_DFL)
            os.execv(command[0], command)
        def resize(columns):
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        resize(columns)
        seen, position, end, repeated = "", 0, time.time() + 60, 0
        while time.time() < end:
            while steps and re.search(steps[0][0], seen[position:]):
                match = re.search(steps[0][0], seen[position:])
                position += match.end()
                text = steps.pop(0)[1]
                repeated = int(text[7:]) if text.startswith("REPEAT ") else 0
                if text.startswith("SIGNAL "):
                    os.kill(process, int(text[7:]))
                elif text.startswith("SIZE "):
                    resize(int(text[5:]))
                elif not repeated:
                    os.write(terminal, text.encode())
            if not select.select([terminal], [], [], 0.2)[0]:
                if repeated:
                    os.kill(process, repeated)
                continue
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece.decode(errors="replace")
        else:
            os.kill(process, signal.SIGKILL)
            seen += "\nTIMEOUT waiting for " + json.dumps(steps[:1])
        status = os.waitpid(process, 0)[1]
        sys.stdout.write(seen)
        sys.exit(os.waitstatus_to_exitcode(status) & 255)
        """#

    private func play(
        _ steps: [[String]], _ options: [String] = [], columns: Int = 80, environment: [String: String] = [:]
    ) throws -> CommandRun.Outcome {
        try place.write(Self.player, to: "player.py")
        let python = try #require(SystemProgram.find("python3"))
        let json = String(decoding: try JSONSerialization.data(withJSONObject: steps), as: UTF8.self)
        let shell = ["shell", place.path("s.db"), "--raw-key-file", place.key] + options
        let variables = [
            "TERM": "xterm", "LC_ALL": "C.UTF-8", "HOME": place.folder.url.path, "PAGER": "",
            "CIPHERSTORE_HISTORY": place.path("history"),
        ]
        return try CommandRun(
            python, [place.path("player.py"), json, String(columns), try Workplace.program().path] + shell,
            environment: variables.merging(environment) { $1 }
        ).finish()
    }

    private func history() -> String { (try? place.bytes("history")).map { String(decoding: $0, as: UTF8.self) } ?? "" }

    private static let readOnly = #"s\.db \(read-only\)> "#

    @Test("statements of several lines run at their semicolons, errors do not end the shell, and the history is kept")
    func statements() throws {
        let outcome = try play([
            [Self.readOnly, "SELECT 40 + 2\n"], [#"\.\.\.> "#, "AS answer;\n"],
            [#"answer\r?\n-+\r?\n +42\r?\n[^>]*> "#, "SELEC 1;\n"],
            [#"syntax error[^>]*> "#, "DELETE FROM t;\n"], [#"Start the shell with --write[^>]*> "#, ".mode list\n"],
            ["> ", "PRAGMA key = 'marker';\n"], ["error[^>]*> ", "SELECT 'ünïcode' AS w;\n"],
            [#"w\r?\nünïcode\r?\n[^>]*> "#, "\u{4}"],
        ])
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output)")
        #expect(history() == "SELECT 40 + 2\nAS answer;\nDELETE FROM t;\n.mode list\nSELECT 'ünïcode' AS w;\n")
        let again = try play([[Self.readOnly, "\u{1b}[A\n"], [#"w\r?\n[^>]*> "#, "\u{4}"]])
        #expect(again.status == 0 && again.output.contains("ünïcode"), "\(again.output)")
        let without = try play([[Self.readOnly, "SELECT 5;\n"], [#"5\r?\n"#, ".quit\n"]], ["--no-history"])
        #expect(without.status == 0 && !history().contains("SELECT 5"), "\(without.output)")
    }

    @Test("the prompt shows a transaction, rows that changed are counted, and leaving rolls back")
    func writing() throws {
        let outcome = try play(
            [
                [#"s\.db \(write\)> "#, "BEGIN; DELETE FROM t WHERE id <= 5;\n"],
                [#"5 rows affected\r?\ns\.db \(write, in transaction\)> "#, ".timer on\n"],
                ["> ", "SELECT count(*) AS n FROM t;\n"], [#"2995\r?\ntime [0-9.]+"#, ".quit\n"],
            ], ["--write"])
        #expect(outcome.status == 0 && outcome.output.contains("was rolled back"), "\(outcome.output)")
        #expect(
            try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM t", "--mode", "csv").output.contains("3000"))
    }

    @Test("Ctrl-C ends a statement that prints without end, one that computes, and a line, and not the shell")
    func interrupt() throws {
        let endless = "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT "
        let outcome = try play([
            [Self.readOnly, ".mode list\n"], ["> ", "\(endless)i FROM c;\n"], [#"\n20000\r"#, "\u{3}"],
            ["statement was interrupted[^>]*> ", "\(endless)max(i) FROM c; SELECT 'never';\n"],
            ["'never';", "REPEAT 2"],
            ["statement was interrupted[^>]*> ", "SELECT 'half"], ["half", "\u{3}"],
            [Self.readOnly, "SELECT 'who' || 'le';\n"], ["whole[^>]*> ", "\u{4}"],
        ])
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output.suffix(2000))")
        #expect(!outcome.output.contains("\nnever"))
    }

    @Test("SIGTERM ends the shell with 130, and an open transaction is rolled back")
    func terminate() throws {
        let outcome = try play(
            [[#"\(write\)> "#, "BEGIN; DELETE FROM t;\n"], [#"transaction\)> "#, "SIGNAL 15"]], ["--write"])
        #expect(outcome.status == 130, "\(outcome.output)")
        #expect(
            try place.ctl("sql", place.path("s.db"), "SELECT count(*) FROM t", "--mode", "csv").output.contains("3000"))
    }

    @Test("a narrow terminal has a short prompt, and long lines can be edited there")
    func narrow() throws {
        let outcome = try play(
            [
                ["ro> ", "SELECT 'a long text that does not fit' || ' the line' AS x\u{7f}y;\n"],
                [#"y\r?\n-+\r?\n(a long text that does not fit the line)"#, "SIZE 80"], ["> ", "\n"],
                [Self.readOnly, "\u{4}"],
            ], columns: 20)
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output)")
    }

    @Test("the Tab key completes names of the schema and instructions, and lists several")
    func completion() throws {
        let outcome = try play([
            [Self.readOnly, "SELECT count(te\t"], [#"temp +text\r?\n"#, "x\t"],
            ["(?s)tex.{0,12}t ", ") AS n FROM t;\n"],
            [#"\n3000\r?\n"#, ".ta\t\n"], [#"\nt\r?\n[^>]*> "#, "\u{4}"],
        ])
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output)")
    }

    @Test("values cannot control the terminal in any mode")
    func controls() throws {
        let sql = "SELECT char(27) || ']0;title' || char(7) || char(155) || '2J' AS a, 'e' || 'nd' AS b;"
        let steps = ResultMode.allCases.flatMap { [["> ", ".mode \($0)\n"], ["> ", sql + "\n"], ["end", ""]] }
        let outcome = try play(steps + [["> ", "\u{4}"]], columns: 200)
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output)")
        for part in ["\u{1b}]0;", "\u{7}", "\u{9b}"] { #expect(!outcome.output.contains(part)) }
    }

    @Test("a long result goes to the pager, which may end before it, and the shell continues")
    func pager() throws {
        try place.write("#!/bin/sh\necho PAGER BEGINS; head -n 3; echo PAGER ENDS\n", to: "pager", mode: 0o700)
        let endless = "WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c;"
        let outcome = try play(
            [
                [Self.readOnly, "SELECT 1 AS few;\n"], [#"few\r?\n"#, endless + "\n"],
                ["PAGER ENDS[^>]*> ", ".pager off\n"],
                ["> ", "SELECT id FROM t LIMIT 100;\n"], [#"\n100\r?\n[^>]*> "#, "\u{4}"],
            ], environment: ["PAGER": place.path("pager")])
        #expect(outcome.status == 0 && !outcome.output.contains("TIMEOUT"), "\(outcome.output.suffix(2000))")
        #expect(outcome.output.components(separatedBy: "PAGER BEGINS").count == 2)
    }
}
