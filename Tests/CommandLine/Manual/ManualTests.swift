import Foundation
import TestKit
import Testing

@testable import cipherctl

@Suite("Completions and manual page")
struct ManualTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    // MARK: bash

    /// The offers of bash for the last of some words.
    private func complete(_ words: String...) throws -> [String] {
        let list = words.map { "'\($0)'" }.joined(separator: " ")
        let script = """
            source completions
            COMP_WORDS=(\(list)); COMP_CWORD=\(words.count - 1)
            _cipherctl
            printf '%s\\n' "${COMPREPLY[@]}"
            """
        try place.write(BashCompletion.script, to: "completions")
        let bash = try #require(SystemProgram.find("bash"))
        let outcome = try CommandRun(bash, ["-c", script], directory: place.folder.url.path).finish()
        #expect(outcome.status == 0, "\(outcome.errors)")
        return outcome.output.split(separator: "\n").map(String.init)
    }

    @Test("bash completes commands, also those of two words", .enabled(if: SystemProgram.find("bash") != nil))
    func commands() throws {
        #expect(try complete("cipherctl", "cre") == ["create"])
        let all = try complete("cipherctl", "")
        for command in Catalogue.all {
            #expect(all.contains(String(command.syntax.name.prefix { $0 != " " })), "\(command.syntax.name)")
        }
        #expect(try complete("cipherctl", "key", "rev") == ["reveal"])
        #expect(try complete("cipherctl", "help", "exit") == ["exit-codes"])
        // A command with operands that is also the first word of another one.
        try place.write("", to: "verona.db")
        #expect(try complete("cipherctl", "backup", "ver") == ["verify", "verona.db"])
        #expect(try complete("cipherctl", "backup", "verify", "verona") == ["verona.db"])
    }

    @Test("bash completes every option of every command", .enabled(if: SystemProgram.find("bash") != nil))
    func options() throws {
        for command in Catalogue.all {
            let syntax = command.syntax
            let words = syntax.name.split(separator: " ").map(String.init)
            let offered =
                words.count == 1
                ? try complete("cipherctl", words[0], "--") : try complete("cipherctl", words[0], words[1], "--")
            #expect(Set(offered) == Set(syntax.options.map(\.name) + ["--help"]), "\(syntax.name)")
        }
    }

    @Test(
        "bash completes values: files with blanks in their names, choices, variables",
        .enabled(if: SystemProgram.find("bash") != nil))
    func values() throws {
        try place.write("", to: "two words.key")
        #expect(try complete("cipherctl", "create", "s.db", "--key-file", "two") == ["two words.key"])
        #expect(try complete("cipherctl", "sql", "raw") == ["raw.key"])
        #expect(try complete("cipherctl", "sql", "s.db", "--mode", "c") == ["csv"])
        #expect(try complete("cipherctl", "adopt", "s.db", "--compatibility", "") == ["1", "2", "3", "4"])
        #expect(try complete("cipherctl", "completions", "") == ["bash", "zsh", "fish"])
        #expect(try complete("cipherctl", "status", "s.db", "--key-env", "PAT").contains("PATH"))
    }

    // MARK: zsh and fish

    @Test(
        "the scripts for zsh and fish name every command and option, and every quote in them is closed",
        arguments: ["zsh", "fish"])
    func others(_ shell: String) throws {
        let outcome = try place.run(["completions", shell])
        #expect(outcome.status == 0)
        for command in Catalogue.all {
            for option in command.syntax.options {
                // An option that may be given several times has a star in zsh.
                let form = shell == "fish" ? "-l \(option.name.dropFirst(2)) " : "\(option.name)["
                #expect(outcome.output.contains(form), "\(option.name)")
            }
        }
        if let program = SystemProgram.find(shell) {
            try place.write(outcome.output, to: "script")
            #expect(try CommandRun(program, ["-n", place.path("script")]).finish().status == 0)
        }
    }

    @Test("a shell that is not known is refused")
    func unknownShell() throws {
        let outcome = try place.run(["completions", "csh"])
        #expect(outcome.status == 64)
        #expect(outcome.errors.contains("hint: Give bash, zsh or fish"))
    }

    // MARK: Manual page

    @Test("the manual page tells of every command, option and exit code")
    func page() throws {
        let page = try place.run(["man"]).output
        for command in Catalogue.all {
            #expect(page.contains("\n.SS \(ManualPage.text(command.syntax.usage))\n"))
            for option in command.syntax.options {
                #expect(page.contains("\\fB\(ManualPage.text(option.form))\\fR"), "\(option.name)")
            }
        }
        for code in ExitCode.allCases { #expect(page.contains("\n\\fB\(code.rawValue)\\fR\n")) }
    }

    @Test("no line of the manual page is taken for a macro, and groff has nothing to say against it")
    func roff() throws {
        let page = ManualPage.roff
        let macros: Set = [".TH", ".SH", ".SS", ".TP", ".PP", ".nf", ".fi", ".RS", ".RE", ".B", ".I", ".BR", ".\\\""]
        for line in page.split(separator: "\n") where line.hasPrefix(".") || line.hasPrefix("'") {
            #expect(macros.contains(String(line.prefix { $0 != " " })), "\(line)")
        }
        guard let groff = SystemProgram.find("groff") else { return }
        let outcome = try CommandRun(groff, ["-man", "-ww", "-z", "-Tutf8", "-"], input: page).finish()
        #expect(outcome.status == 0)
        #expect(outcome.errors.isEmpty, "\(outcome.errors)")
    }

    @Test("the installation puts program, manual page and completions in their places")
    func install() throws {
        let script = Workplace.repositoryRoot.appendingPathComponent(".ci/install")
        let run = { try CommandRun(script, [Workplace.program().path, place.path("root/usr")]).finish() }
        for _ in 0..<2 {
            let outcome = try run()
            #expect(outcome.status == 0, "\(outcome.errors)")
        }
        let expected = [
            "bin/cipherctl", "share/man/man1/cipherctl.1", "share/bash-completion/completions/cipherctl",
            "share/zsh/site-functions/_cipherctl", "share/fish/vendor_completions.d/cipherctl.fish",
            "lib/cipherstore/plugins/cipherctl-key-age", "lib/cipherstore/plugins/cipherctl-key-transit",
        ]
        let prefix = place.path("root/usr") + "/"
        let found = FolderSnapshot(path: prefix).names.filter { name in
            var isDirectory: ObjCBool = false
            return FileManager.default.fileExists(atPath: prefix + name, isDirectory: &isDirectory)
                && !isDirectory.boolValue
        }
        #expect(Set(found) == Set(expected))
        #expect(try place.bytes("root/usr/share/man/man1/cipherctl.1") == Array(ManualPage.roff.utf8))
        let installed = try CommandRun(URL(fileURLWithPath: prefix + "bin/cipherctl"), ["--version"]).finish()
        #expect(installed.status == 0)
    }

    // MARK: systemd credentials

    @Test("a systemd credential is found in its directory, and a missing one says which")
    func credential() throws {
        try place.makeStore()
        try FileManager.default.createDirectory(atPath: place.path("credentials"), withIntermediateDirectories: false)
        try place.write(Workplace.passphrase + "\n", to: "credentials/store-key", mode: 0o440)
        let environment = ["CREDENTIALS_DIRECTORY": place.path("credentials")]
        let create = ["create", place.path("c.db"), "--key-credential"]
        #expect(try place.run(create + ["store-key"], environment: environment).status == 0)
        try place.write(Workplace.passphrase, to: "pass")
        let opened = try place.run(["sql", place.path("c.db"), "SELECT 1", "--key-file", place.path("pass")])
        #expect(opened.status == 0, "\(opened.errors)")
        for (name, variables) in [("other-key", environment), ("../pass", environment), ("store-key", [:])] {
            let outcome = try place.run(
                ["sql", place.path("c.db"), "SELECT 1", "--key-credential", name], environment: variables)
            #expect(outcome.status == 77 || outcome.status == 66, "\(name): \(outcome.errors)")
            #expect(outcome.errors.contains("hint: "), "\(outcome.errors)")
        }
    }
}
