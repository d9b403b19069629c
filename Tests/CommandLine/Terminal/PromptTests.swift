import Foundation
import TestKit
import Testing

/// A passphrase that is asked for at a terminal with a shell, which stops and continues the command.
@Suite("cipherctl at a prompt", .enabled(if: SystemProgram.find("python3") != nil, "needs python3"))
struct PromptTests {
    private static let secret = "marker-4711"
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    /// Plays a terminal, a shell in it and the person before it. The shell starts the command as its job; when that
    /// stops, it tells whether typing is shown, sets the terminal as it likes it, and continues the job in the
    /// foreground. The person does one thing after each prompt: types a text (`\n` and so on as Python writes them), or
    /// sends the job the signal behind `!`, which nobody at a terminal could do. The output of the terminal comes out.
    private static let player = #"""
        import ast, os, pty, re, signal, sys, termios
        acts, command = sys.argv[1].split("|"), sys.argv[2:]
        # A thread that runs tests blocks signals, and what it starts inherits that.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        shell, terminal = pty.fork()
        if shell == 0:
            signal.signal(signal.SIGTTOU, signal.SIG_IGN)
            def shown():
                return int(termios.tcgetattr(0)[3] & termios.ECHO != 0)
            own = termios.tcgetattr(0)
            job = os.fork()
            if job == 0:
                os.setpgid(0, 0)
                os.tcsetpgrp(0, os.getpid())
                # What is ignored stays so in a program: a shell starts jobs in the background without these.
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP, signal.SIGTTOU):
                    signal.signal(number, signal.SIG_DFL)
                os.execv(command[0], command)
            os.write(1, b"[job %d]\n" % job)
            while True:
                status = os.waitpid(job, os.WUNTRACED)[1]
                os.tcsetpgrp(0, os.getpid())
                if os.WIFSTOPPED(status):
                    os.write(1, b"[stopped, echo %d]\n" % shown())
                    termios.tcsetattr(0, termios.TCSANOW, own)
                    os.tcsetpgrp(0, job)
                    os.killpg(job, signal.SIGCONT)
                else:
                    os.write(1, b"[ended by %d, status %d, echo %d]\n" % (
                        os.WTERMSIG(status), os.WEXITSTATUS(status), shown()))
                    os._exit(0)
        seen, position = "", 0
        # A terminal passes a line on before its end: the last line is here once its end is.
        while not re.search(r"\[ended.*\n", seen):
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            seen += piece.decode()
            prompt = re.search(r"(passphrase|again|do it|of 6): $", seen[position:], re.I)
            if prompt and acts:
                act = acts.pop(0)
                position = len(seen)
                if act[0] == "!":
                    os.kill(int(re.search(r"\[job (\d+)\]", seen)[1]), int(act[1:]))
                else:
                    text = ast.literal_eval("'" + act + "'").encode()
                    while text:
                        text = text[os.write(terminal, text[:1024]):]
        sys.stdout.write(seen.replace("\r", ""))
        """#

    private func play(_ acts: String..., command: [String]? = nil) throws -> String {
        try play(acts: acts, command: command)
    }

    private func play(acts: [String], command: [String]?) throws -> String {
        try place.write(Self.player, to: "player.py")
        let python = try #require(SystemProgram.find("python3"))
        let arguments = [place.path("player.py"), acts.joined(separator: "|"), try Workplace.program().path]
        let played = try CommandRun(python, arguments + (command ?? ["key", "test", place.path("s.db")])).finish()
        #expect(played.status == 0, "\(played.errors)")
        return played.output
    }

    private func prompts(_ shown: String) -> Int { shown.components(separatedBy: "Passphrase: ").count - 1 }

    // About half of the tries once ended with "Interrupted system call", so what was typed next went to the shell.
    @Test(
        "Ctrl-Z stops it with the terminal as it was; when it goes on the prompt comes again",
        arguments: 1...(Sweep.isWhole ? 6 : 3))
    func stop(_: Int) throws {
        let shown = try play("\\x1a", "\\x1a", "\(Self.secret)\\n")
        #expect(prompts(shown) == 3, "\(shown)")
        #expect(shown.components(separatedBy: "[stopped, echo 1]").count == 3, "\(shown)")
        // The store has no slot for passphrases: that the key does not open it shows that the line was read.
        #expect(shown.contains("The key does not open") && shown.contains("status 77, echo 1]"), "\(shown)")
        #expect(!shown.contains(Self.secret))
    }

    @Test("behind a stop of which nobody was told the prompt comes again, and typing is not shown")
    func unnoticedStop() throws {
        let shown = try play("!\(SIGSTOP)", "!\(SIGSTOP)", "\(Self.secret)\\n")
        #expect(prompts(shown) == 3, "\(shown)")
        #expect(shown.contains("The key does not open") && shown.contains("status 77, echo 1]"), "\(shown)")
        #expect(!shown.contains(Self.secret))
    }

    // Swift's runtime once printed a backtrace and waited 30 s for a key.
    @Test(
        "signals end it at once, and the terminal is as it was",
        arguments: [("\\x1c", SIGQUIT), ("\\x03", SIGINT), ("!15", SIGTERM)])
    func ended(act: String, signal: Int32) throws {
        let shown = try play(act)
        if signal == SIGQUIT {
            #expect(shown.hasSuffix("Passphrase: [ended by \(signal), status 0, echo 1]\n"), "\(shown)")
        } else {
            #expect(shown.contains("error: The command was interrupted."), "\(shown)")
            #expect(shown.contains("Passphrase: \n") || shown.contains("Passphrase: \r\n"), "\(shown)")
            #expect(shown.hasSuffix("[ended by 0, status 130, echo 1]\n"), "\(shown)")
        }
    }

    // Commands that change files, and services, were ended by the signal itself: 143 and 129, without a word.
    /// In `make test` each command gets one of the signals, in `make soak` each.
    private static let endings: [(signal: Int32, words: [String])] = commands.enumerated().flatMap { place, words in
        Sweep.sample([SIGTERM, SIGHUP, SIGINT], oneIn: 3, offset: place).map { ($0, words) }
    }
    private static let commands: [[String]] =
        [
            ["create", "new.db"], ["import", "plain.db", "new.db"], ["sql", "s.db", "SELECT 1"],
            ["sql", "s.db", "SELECT 1", "--write"], ["backup", "s.db", "b"], ["salvage", "s.db", "new.db"],
            ["export", "s.db", "out.db", "--insecure-plaintext"], ["key", "add", "s.db", "KEY"],
            ["key", "change", "s.db"], ["key", "recovery", "s.db"], ["key", "remove", "s.db", "--slot", "1", "KEY"],
            ["key", "convert", "s.db", "--to", "direct", "KEY"], ["rotate", "s.db", "--no-backup"], ["watch", "s.db"],
            ["conformance", "s.db"], ["conformance", "s.db", "--canary"], ["history", "record", "s.db", "--all"],
            ["sync", "init", "s.db", "--all-tables"], ["sync", "run", "s.db", "--every", "30s"],
            ["sync", "pull", "s.db"], ["destroy", "s.db"], ["verify", "s.db"], ["status", "s.db"], ["doctor", "s.db"],
            ["restore", "backup", "new.db"],
        ]

    @Test("at each of its prompts every command ends with 130 and a sentence", arguments: endings)
    func endedAnywhere(signal: Int32, words: [String]) throws {
        try place.makePlain("CREATE TABLE t (a)")
        if words.contains("backup") {
            #expect(try place.ctl("backup", place.path("s.db"), place.path("backup")).status == 0)
        }
        let files = Set(["s.db", "plain.db", "new.db", "out.db", "b", "backup"])
        let command =
            [words[0]]
            + words.dropFirst().flatMap { word in
                word == "KEY" ? ["--raw-key-file", place.key] : [files.contains(word) ? place.path(word) : word]
            }
        let before = try place.names()
        let shown = try play("!\(signal)", command: command)
        #expect(shown.contains("error: The command was interrupted."), "\(shown)")
        #expect(shown.hasSuffix("[ended by 0, status 130, echo 1]\n"), "\(shown)")
        #expect(try place.names().subtracting(["player.py"]) == before)
    }

    @Test("the end of input is called so")
    func endOfInput() throws {
        let shown = try play("\\x04")
        #expect(shown.contains("The input ended at the prompt") && shown.contains("status 77, echo 1]"), "\(shown)")
        #expect(!shown.contains("errno"))
        let nothing = try play("\\n")
        #expect(nothing.contains("Nothing was typed.") && nothing.contains("status 77"), "\(nothing)")
    }

    @Test("shares of a recovery key are entered in any order, and each mistake is told at once")
    func shares() throws {
        let made = try place.ctl(
            "key", "recovery", place.path("s.db"), "--shares", "3", "--threshold", "2", "--output-dir",
            place.folder.url.path)
        #expect(made.status == 0, "\(made.errors)")
        let shares = try (1...3).map { number in
            String(decoding: try place.bytes("recovery-share-\(number)-of-3.txt"), as: UTF8.self)
                .split(separator: "\n").filter { !$0.hasPrefix("#") }.map(String.init)
        }
        let command = ["key", "test", place.path("s.db"), "--key-recovery-prompt"]
        let whole = shares[2].joined(separator: " ")
        let typed = [shares[0][1]] + shares[0][..<2] + [shares[0][3]] + shares[0][2...] + [shares[0][0], whole]
        let shown = try play(acts: typed.map { $0 + "\\n" }, command: command)
        #expect(shown.contains("Not accepted: line 1 has a wrong character"), "\(shown)")
        #expect(shown.contains("Not accepted: line 3 has a wrong character"), "\(shown)")
        #expect(shown.contains("Share 1 of 3 is entered: 1 more share is needed."), "\(shown)")
        #expect(shown.contains("Share 1 was given already"), "\(shown)")
        #expect(shown.contains("the key opens slot 2 (recovery)") && shown.contains("status 0, echo 1]"), "\(shown)")
        #expect(shares.allSatisfy { $0.allSatisfy { !shown.contains($0) } })
        let ended = try play(acts: [shares[0][0] + "\\n", "\\x04"], command: command)
        #expect(ended.contains("The recovery shares give no key") && ended.contains("status 77, echo 1]"), "\(ended)")
    }

    // A terminal keeps 4,095 characters of a line and says nothing of the rest.
    @Test("a line that the terminal may have cut is refused, one that it takes is not")
    func longLine() throws {
        for count in [4095, 5000] {
            let cut = try play(String(repeating: "x", count: count) + "\\n")
            #expect(cut.contains("The terminal truncates lines of 4095 bytes") && cut.contains("status 77"), "\(cut)")
        }
        let whole = try play(String(repeating: "x", count: 4094) + "\\n")
        #expect(whole.contains("The key does not open"), "\(whole)")
    }
}
