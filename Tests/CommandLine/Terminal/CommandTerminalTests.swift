import Foundation
import TestKit
import Testing

/// Commands at a terminal, answered by a small script; a pseudo-terminal needs nothing but Python.
@Suite("cipherctl at a terminal", .enabled(if: SystemProgram.find("python3") != nil, "needs python3"))
struct CommandTerminalTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private var store: String { place.path("s.db") }
    private var key: [String] { ["--raw-key-file", place.key] }

    /// Runs a command at a terminal. Each answer waits for its question; `LINE` is the line of the recovery key that is
    /// asked for, `WRONG` one that is not.
    private static let player = #"""
        import os, pty, re, sys
        answers, command = sys.argv[1].split("|"), sys.argv[2:]
        process, terminal = pty.fork()
        if process == 0:
            os.execv(command[0], command)
        seen, position = "", 0
        while True:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            seen += piece.decode()
            question = re.compile(r"(passphrase: |same again: |do it: |have it: )$", re.I).search(seen[position:])
            if question and answers:
                answer = answers.pop(0)
                number = re.findall(r"Type line (\d)", seen)
                lines = re.findall(r"^((?:[0-9A-Z]{4}-){3}[0-9A-Z]{4})\r?$", seen, re.M)
                if answer == "LINE":
                    answer = lines[int(number[-1]) - 1].lower().replace("-", " ")
                if answer == "WRONG":
                    answer = lines[int(number[-1]) % 4]
                position = len(seen)
                os.write(terminal, (answer + "\n").encode())
        status = os.waitpid(process, 0)[1]
        sys.stdout.write(seen)
        sys.exit(os.waitstatus_to_exitcode(status))
        """#

    private func play(_ answers: String, _ arguments: [String]) throws -> CommandRun.Outcome {
        try place.write(Self.player, to: "player.py")
        let python = try #require(SystemProgram.find("python3"))
        let program = try Workplace.program().path
        return try CommandRun(python, [place.path("player.py"), answers, program] + arguments).finish()
    }

    private func slots() throws -> Int {
        (try place.run(["key", "list", store, "--json"]).json["slots"] as? [Any])?.count ?? 0
    }

    @Test("a recovery key opens nothing before a line of it was typed back")
    func recovery() throws {
        let refused = try play("WRONG|WRONG|WRONG", ["key", "recovery", store] + key)
        #expect(refused.status == 1 && refused.output.contains("No recovery key was created"), "\(refused.output)")
        #expect(try slots() == 1)
        let made = try play("WRONG|LINE", ["key", "recovery", store] + key)
        #expect(made.status == 0 && made.output.contains("opens with this recovery key"), "\(made.output)")
        #expect(try slots() == 2)
        let quick = try play("", ["key", "recovery", store, "--yes"] + key)
        #expect(quick.status == 0, "\(quick.output)")
        #expect(try slots() == 3)
    }

    // In a process group of its own it would be stopped by the system when it reads from the terminal; in that of its parent
    // nothing ended what it had left.
    @Test("a program that prints the key asks at the terminal, and what it leaves in the background is killed")
    func keyProgram() throws {
        try place.write(
            "#!/bin/sh\nsleep 1000 >/dev/null 2>&1 & echo $! > \"$1\"\n"
                + "printf 'passphrase: ' > /dev/tty; read -r answer < /dev/tty; printf %s \"$answer\"\n", to: "ask",
            mode: 0o700)
        try place.write("typed words", to: "pass")
        let added = try place.ctl("key", "add", store, "--new-key-file", place.path("pass"))
        #expect(added.status == 0, "\(added.errors)")
        let command = "'\(place.path("ask"))' '\(place.path("pid"))'"
        let outcome = try play("typed words", ["sql", store, "SELECT 40 + 2", "--key-command", command])
        #expect(outcome.status == 0 && outcome.output.contains("42"), "\(outcome.output)\(outcome.errors)")
        let text = String(decoding: try place.bytes("pid"), as: UTF8.self)
        let left = try #require(Int32(text.trimmingCharacters(in: .whitespacesAndNewlines)))
        #expect(waitUntil { kill(left, 0) != 0 })
    }

    @Test("a passphrase that is tried on many keyslots is said to be, at a terminal and without --quiet")
    func manyKeyslots() throws {
        for number in 1...3 {
            try place.write("passphrase number \(number)", to: "\(number).pass")
            let added = try place.ctl("key", "add", store, "--new-key-file", place.path("\(number).pass"))
            try #require(added.status == 0, "\(added.errors)")
        }
        // The newest is tried first, and takes longer than the second after which it is said. Nothing opens it any longer.
        for name in ["s.db-sidecar", "s.db-sidecar.bak"] {
            var text = String(decoding: try place.bytes(name), as: UTF8.self)
            let cheap = try #require(text.range(of: #""log2_n":14,"r":8,"p":1"#, options: .backwards))
            text.replaceSubrange(cheap, with: #""log2_n":17,"r":8,"p":4"#)
            try place.write(text, to: name)
        }
        let wrong = ["sql", store, "SELECT 1"]
        let shown = try play("no such passphrase", wrong)
        #expect(shown.status == 77 && shown.output.contains("keyslots: trying keyslot"), "\(shown.output)")
        #expect(shown.output.contains(" of 3\u{1b}[K") && shown.output.contains("\r\u{1b}[K"), "\(shown.output)")
        let quiet = try play("no such passphrase", wrong + ["--quiet"])
        #expect(quiet.status == 77 && !quiet.output.contains("trying keyslot"), "\(quiet.output)")
    }

    // NO_COLOR is about colours: https://no-color.org.
    @Test("progress shows at a terminal, also without colours; --quiet hides it")
    func noColor() throws {
        let env = try #require(SystemProgram.find("env"))
        func verify(_ options: [String]) throws -> String {
            try place.write(Self.player, to: "player.py")
            let python = try #require(SystemProgram.find("python3")).path
            let words = ["NO_COLOR=1", python, place.path("player.py"), "", try Workplace.program().path]
            let outcome = try CommandRun(env, words + ["verify", store] + key + options).finish()
            #expect(outcome.status == 0, "\(outcome.output)")
            return outcome.output
        }
        let shown = try verify([])
        #expect(shown.contains("verifying ["), "\(shown)")
        #expect(!shown.contains("\u{1b}[3"), "a colour: \(shown)")
        #expect(try !verify(["--quiet"]).contains("verifying ["))
    }

    @Test("what cannot be taken back is asked for, and only yes is yes")
    func confirmation() throws {
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
        #expect(try place.ctl("key", "add", store, "--new-raw-key-file", place.path("second.key")).status == 0)
        let remove = ["key", "remove", store, "--slot", "2"] + key
        let declined = try play("y", remove)
        #expect(declined.status == 1 && declined.output.contains("Slot 2 (key-file)"), "\(declined.output)")
        #expect(try slots() == 2)
        #expect(try play("YES", remove).status == 0)
        #expect(try slots() == 1)
    }

    @Test("a new passphrase is asked for twice, is not shown, and differing answers change nothing")
    func prompt() throws {
        let add = ["key", "add", store] + key
        let differing = try play("marker one|marker two", add)
        #expect(differing.status == 77 && differing.output.contains("entries differ"), "\(differing.output)")
        #expect(try slots() == 1)
        let added = try play("marker one|marker one", add)
        #expect(added.status == 0, "\(added.output)")
        #expect(!(differing.output + added.output).contains("marker"))
        #expect(try slots() == 2)
        let test = try play("marker one", ["key", "test", store])
        #expect(test.status == 0 && test.output.contains("opens slot 2"), "\(test.output)")
    }

    // A value set the title of the terminal, or moved its cursor.
    @Test("values in CSV do not control a terminal, and are whole in a file")
    func controls() throws {
        let sql = "SELECT char(27) || ']0;title' || char(7) || 'end' AS a"
        let shown = try play("", ["sql", store, sql, "--mode", "csv"] + key)
        #expect(shown.status == 0 && shown.output.contains("end"), "\(shown.output)")
        #expect(!shown.output.contains("\u{1b}]0") && !shown.output.contains("\u{7}"), "\(shown.output)")
        let written = try place.ctl("sql", store, sql, "--mode", "csv")
        #expect(written.output.contains("\u{1b}]0;title\u{7}end"))
    }
}
