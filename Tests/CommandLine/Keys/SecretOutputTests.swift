import Foundation
import TestKit
import Testing

/// Keys that are printed into files.
///
/// Under umask 022 `key reveal > file` wrote the data key where every user of the machine could read it, without a word; so
/// did the README's own recipe for a recovery key, whose file the program then refused as a key file.
@Suite("cipherctl: keys that are printed into files")
struct SecretOutputTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private static let commands = [["key", "reveal"], ["key", "recovery"], ["key", "reveal", "--json"]]

    /// Runs a command in a shell, with standard output where the shell's redirection leads.
    private func shell(
        _ redirection: String, _ command: [String], _ more: String..., umask: String = "022"
    ) throws -> CommandRun.Outcome {
        let store = [place.path("s.db"), "--raw-key-file", place.key]
        let arguments = Array(command.prefix(2)) + store + Array(command.dropFirst(2)) + more
        return try CommandRun(
            #require(SystemProgram.find("sh")),
            ["-c", "umask \(umask); exec \"$0\" \"$@\" \(redirection)", Workplace.program().path] + arguments,
            directory: place.folder.url.path
        ).finish()
    }

    private func slots() throws -> Int {
        let list = try place.run(["key", "list", place.path("s.db"), "--json"])
        return (list.json["slots"] as? [Any])?.count ?? -1
    }

    @Test(
        "a file that group or others may read is refused before anything is printed, made or logged",
        arguments: commands)
    func refused(command: [String]) throws {
        for mode in [0o644, 0o640, 0o604] {
            try place.write("", to: "out", mode: mode)
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: place.path("out"))
            let events = try place.events()
            let outcome = try shell("> out", command)
            #expect(outcome.status == 64, "\(outcome.errors)")
            #expect(outcome.errors.contains("--output") && outcome.errors.contains(String(mode, radix: 8)))
            #expect(try place.bytes("out").isEmpty)
            #expect(try place.events() == events && slots() == 1)
            try place.remove("out")
        }
    }

    @Test("with --yes it is written there all the same, and into a file of the user's own without", arguments: commands)
    func allowed(command: [String]) throws {
        try place.write("", to: "open", mode: 0o644)
        #expect(try shell("> open", command, "--yes").status == 0)
        #expect(try place.bytes("open").count >= 80)
        try place.write("", to: "own", mode: 0o600)
        #expect(try shell("> own", command).status == 0)
        #expect(try place.bytes("own").count >= 80)
        // A pipe, and what is no file of the disk, are nobody else's.
        let piped = try shell("| cat > piped", command)
        #expect(piped.status == 0, "\(piped.errors)")
        #expect(try place.bytes("piped").count >= 80)
        #expect(try shell("> /dev/null", command).status == 0)
    }

    @Test(
        "--output makes a file of mode 0600 that holds what would have been printed", arguments: ["022", "277", "000"])
    func output(umask: String) throws {
        let printed = try place.ctl("key", "reveal", place.path("s.db")).output
        let reveal = try shell("", ["key", "reveal"], "--output", place.path("open.sql"), umask: umask)
        #expect(reveal.status == 0, "\(reveal.errors)")
        #expect(try String(decoding: place.bytes("open.sql"), as: UTF8.self) == printed)
        #expect(reveal.output == "wrote \(place.path("open.sql"))\n")
        let recovery = try shell(
            "", ["key", "recovery"], "--output", place.path("recovery.txt"), "--json", umask: umask)
        #expect(recovery.status == 0, "\(recovery.errors)")
        #expect(recovery.json["output"] as? String == place.path("recovery.txt"))
        let text = try String(decoding: place.bytes("recovery.txt"), as: UTF8.self)
        #expect(text.contains("\"recovery_key\"") && !(recovery.output + recovery.errors).contains("recovery_key"))
        let lines = try shell("", ["key", "recovery"], "--output", place.path("lines.txt"), umask: umask)
        #expect(lines.status == 0, "\(lines.errors)")
        // It is a key file as it is.
        let test = try place.run(["key", "test", place.path("s.db"), "--key-file", place.path("lines.txt")])
        #expect(test.status == 0, "\(test.errors)")
        for name in ["open.sql", "recovery.txt", "lines.txt"] {
            let attributes = try FileManager.default.attributesOfItem(atPath: place.path(name))
            #expect(attributes[.posixPermissions] as? Int == 0o600, "\(name)")
        }
    }

    @Test("what is there already is not written over, be it a link that leads nowhere", arguments: commands)
    func taken(command: [String]) throws {
        try place.write("mine", to: "taken")
        try FileManager.default.createSymbolicLink(
            atPath: place.path("link"), withDestinationPath: place.path("target"))
        let events = try place.events()
        for name in ["taken", "link"] {
            let outcome = try shell("", command, "--output", place.path(name))
            #expect(outcome.status == 64 && outcome.output.isEmpty, "\(outcome.errors)")
        }
        #expect(try place.bytes("taken") == Array("mine".utf8) && !place.exists("target"))
        #expect(try place.events() == events && slots() == 1)
    }

    @Test("a file that could not be written is removed, and no key is made", .enabled(if: geteuid() == 0))
    func unwritable() throws {
        let before = try place.names()
        let outcome = try shell("", ["key", "recovery"], "--output", place.path("none/key"))
        #expect(outcome.status == 66, "\(outcome.errors)")
        let wrong = try place.run([
            "key", "reveal", place.path("s.db"), "--output", place.path("key.sql"), "--key-env", "NO_SUCH_VARIABLE",
        ])
        #expect(wrong.status != 0)
        #expect(try place.names() == before && slots() == 1)
    }
}
