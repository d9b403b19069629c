import Foundation
import TestKit
import Testing

/// Sentences of the command line that were wrong, or were about calls of the Swift library.
@Suite("cipherctl: what its sentences say")
struct MessageTests {
    private let place: Workplace
    init() throws { place = try Workplace() }

    /// Words that mean nothing to a user of the commands.
    private static let swiftWords = [
        "allowsUnencrypted", "usePassphrase", "useRawKey", "vacuum(into:)", "backup(to:)", "StoreKeys.", "SharedStore.",
    ]

    private func expectPlain(_ outcome: CommandRun.Outcome, at location: SourceLocation = #_sourceLocation) {
        for word in Self.swiftWords {
            #expect(!(outcome.errors + outcome.output).contains(word), "\(outcome.errors)", sourceLocation: location)
        }
    }

    @Test("no sentence of a command names a call of the library")
    func calls() throws {
        try place.makePlain("CREATE TABLE t (a)")
        expectPlain(try place.ctl("sql", place.path("plain.db"), "SELECT 1"))
        try place.makeStore()
        for statement in ["VACUUM INTO 'x'", "PRAGMA key = 'x'", "PRAGMA rekey = 'x'", "ATTACH 'x' AS y"] {
            expectPlain(try place.ctl("sql", place.path("s.db"), statement, "--write"))
        }
        try place.copy("s.db-sidecar", to: "former")
        try Workplace.write([UInt8](repeating: 7, count: 32), to: place.path("new.key"))
        let changed = try place.ctl("key", "change", place.path("s.db"), "--new-raw-key-file", place.path("new.key"))
        try #require(changed.status == 0, "\(changed.errors)")
        try place.copy("former", to: "s.db-sidecar")
        try place.copy("former", to: "s.db-sidecar.bak")
        let rolledBack = try place.ctl("sql", place.path("s.db"), "SELECT 1")
        #expect(rolledBack.status == 65, "\(rolledBack.errors)")
        expectPlain(rolledBack)
        try place.copy("s.db", to: "s.db-destroying")
        try place.remove("s.db")
        expectPlain(try place.ctl("sql", place.path("s.db"), "SELECT 1"))
    }

    @Test(
        "the help of a group of commands names them",
        arguments: [["help", "key"], ["key", "--help"], ["help", "backup"]])
    func group(words: [String]) throws {
        let outcome = try place.run(words)
        #expect(outcome.status == 0, "\(outcome.errors)")
        for name in words.contains("key") ? ["key list", "key log"] : ["backup verify"] {
            #expect(outcome.output.contains(name), "\(outcome.output)")
        }
        let unknown = try place.run(["key"])
        #expect(unknown.status == 64 && unknown.errors.contains("key list"), "\(unknown.errors)")
    }

    @Test("a chain of one line has one line")
    func oneLine() throws {
        try place.makeStore()
        #expect(try place.run(["key", "log", place.path("s.db")]).output.contains("the chain of 1 line holds"))
    }

    // The typed text is not repeated: it may be a key.
    @Test(
        "a command that there is none of comes with the one that is meant",
        arguments: [["verfy", "s.db"], ["bakup", "s.db"], ["key", "lst", "s.db"], ["correct horse"], ["sq"]])
    func unknownCommand(words: [String]) throws {
        let meant = ["verfy": "`cipherctl verify`?", "bakup": "`cipherctl backup`?", "key": "`cipherctl key list`?"]
        let outcome = try place.run(words)
        #expect(outcome.status == 64 && outcome.errors.contains("There is no such command."), "\(outcome.errors)")
        #expect(outcome.errors.contains(meant[words[0]] ?? "hint: "), "\(outcome.errors)")
        #expect(outcome.errors.contains("Did you mean") == (meant[words[0]] != nil || words == ["sq"]))
    }

    @Test("an export says which file would be readable")
    func exportTarget() throws {
        let outcome = try place.run(["export", place.path("s.db"), place.path("plain2.db")])
        #expect(outcome.status == 64 && outcome.errors.contains("readable in \"\(place.path("plain2.db"))\""))
    }

    // Story: the file was said not to exist.
    @Test("a name that is not UTF-8 is refused as such")
    func nameNotUTF8() throws {
        let shell = URL(fileURLWithPath: "/bin/sh")
        let command = #""$0" verify "$(printf '\377.db')" --raw-key-file "$1""#
        let outcome = try CommandRun(
            shell, ["-c", command, Workplace.program().path, place.key], directory: place.folder.url.path
        ).finish()
        #expect(outcome.status == 64 && outcome.errors.contains("not UTF-8"), "\(outcome.errors)")
    }

    @Test("a folder in the place of a file comes with a hint")
    func folder() throws {
        try place.makeStore()
        let key = try place.run(["verify", place.path("s.db"), "--key-file", "."])
        #expect(key.status != 0 && key.errors.contains("hint: ") && key.errors.contains("folder"), "\(key.errors)")
        try place.remove("s.db-wal")
        try FileManager.default.createDirectory(atPath: place.path("s.db-wal"), withIntermediateDirectories: false)
        for command in [["verify"], ["sql"]] {
            let more = command == ["sql"] ? ["SELECT 1"] : []
            let outcome = try place.run(command + [place.path("s.db")] + more + ["--raw-key-file", place.key])
            #expect(outcome.status != 0 && outcome.errors.contains("folder"), "\(command) \(outcome.errors)")
        }
        let doctor = try place.run(["doctor", place.path("s.db"), "--raw-key-file", place.key])
        #expect(doctor.status == 2 && doctor.output.contains("s.db-wal\" is not a regular file"), "\(doctor.output)")
    }
}
