import Foundation
import TestKit
import Testing

/// The command in a hint can be typed, whatever the names are.
@Suite("cipherctl: hints that can be typed")
struct HintTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    private static let names = ["it's here", "a\"b", "$HOME `id`", "two words", "-dash", "new\nline", "plain.name"]

    /// Runs a command line of a hint by the shell.
    private func type(_ line: some StringProtocol) throws -> CommandRun.Outcome {
        let shell = try #require(SystemProgram.find("bash"))
        return try CommandRun(shell, ["-c", String(line)], directory: place.folder.url.path).finish()
    }

    private func mode(_ name: String) throws -> Int? {
        try FileManager.default.attributesOfItem(atPath: place.path(name))[.posixPermissions] as? Int
    }

    // `chmod 600 'it's here'`: the shell waited for the end of the quotes.
    @Test("the chmod of a key file", .enabled(if: SystemProgram.find("bash") != nil), arguments: names)
    func keyFile(name: String) throws {
        try place.makeStore()
        let path = (name == "-dash" ? "./" : "") + name
        try Workplace.write([UInt8](repeating: 0x2a, count: 32), to: place.path(name), mode: 0o644)
        let sql = try place.run(["sql", "s.db", "SELECT 1", "--raw-key-file", path])
        #expect(sql.status == 77, "\(sql.errors)")
        let line = try #require(sql.errors.firstMatch(of: #/Run: (chmod 600 .*)\. If others/#)?.1, "\(sql.errors)")
        #expect(try type(line).status == 0)
        #expect(try mode(name) == 0o600, "\(line)")
        #expect(try place.run(["sql", "s.db", "SELECT 1", "--raw-key-file", path]).status == 0)
    }

    @Test("the chmod of a store's file", .enabled(if: SystemProgram.find("bash") != nil), arguments: names)
    func store(name: String) throws {
        let path = (name == "-dash" ? "./" : "") + name
        let created = try place.run(["create", path, "--raw-key-file", place.key])
        #expect(created.status == 0, "\(created.errors)")
        try FileManager.default.setAttributes([.posixPermissions: 0o606], ofItemAtPath: place.path(name))
        let doctor = try place.run(["doctor", path, "--no-key"])
        let line = try #require(
            doctor.output.firstMatch(of: #/-> (chmod o-w .*)/#)?.1, "\(doctor.output)\(doctor.errors)")
        #expect(try type(line).status == 0, "\(line)")
        #expect(try mode(name) == 0o604, "\(line)")
    }

    @Test("the restoration of a backup", .enabled(if: SystemProgram.find("bash") != nil), arguments: names)
    func backup(name: String) throws {
        try place.makeStore()
        let path = (name == "-dash" ? "./" : "") + name
        #expect(try place.run(["backup", "s.db", path, "--raw-key-file", place.key]).status == 0)
        let refused = try place.run(["sql", path, "DELETE FROM t", "--write", "--raw-key-file", place.key])
        #expect(refused.status == 77, "\(refused.errors)")
        let line = try #require(
            refused.errors.firstMatch(of: #/`cipherctl (restore .*) STORE --raw-key-file .*`/#)?.1, "\(refused.errors)")
        let typed = try type("'\(Workplace.program().path)' \(line) r.db --raw-key-file '\(place.key)'")
        #expect(typed.status == 0, "\(line): \(typed.errors)")
    }

    // MARK: Other hints

    @Test(
        "where a command needs no key, the hint says so",
        arguments: [
            (["status", "s.db"], "--no-key"), (["doctor", "s.db"], "--no-key"), (["hash", "s.db"], "--plain"),
        ])
    func noKey(words: [String], option: String) throws {
        try place.makeStore()
        let outcome = try place.run(words)
        #expect(outcome.status == 64 && outcome.errors.contains(option), "\(outcome.errors)")
        let other = try place.run(["verify", "s.db"])
        #expect(other.status == 64 && !other.errors.contains("--no-key"), "\(other.errors)")
    }

    /// `cipherctl history record` without a store, a key and --all was no command that could be typed.
    @Test("a command in a hint has the store and the key of the command that failed")
    func completed() throws {
        try place.makeStore("it's.db")
        let (store, key) = ("'it'\\''s.db'", "--raw-key-file '\(place.key)'")
        let cases: [([String], String)] = [
            (["history", "it's.db"], "`cipherctl history record \(store) --all \(key)`"),
            (["sync", "status", "it's.db"], "`cipherctl sync init \(store) --all-tables \(key)`"),
            (["sync", "log", "it's.db"], "`cipherctl sync join \(store) FILE --all-tables \(key)`"),
            (["key", "remove", "it's.db", "--slot", "x"], "`cipherctl key list \(store) \(key)`"),
            (["sql", "none.db", "SELECT 1"], "`cipherctl create 'none.db' \(key)`"),
            (["key", "convert", "it's.db", "--to", "slots"], "`cipherctl"),
        ]
        for (words, command) in cases {
            let outcome = try place.run(words + ["--raw-key-file", place.key, "--json"])
            let hint = outcome.errorJSON["hint"] as? String ?? ""
            #expect(hint.contains(command) || words[1] == "convert", "\(words): \(outcome.errors)")
        }
        let hint = try place.run(["history", "it's.db", "--raw-key-file", place.key]).errors
        let line = try #require(hint.firstMatch(of: #/`cipherctl (.*)`/#)?.1)
        let typed = try type("'\(Workplace.program().path)' \(line)")
        #expect(typed.status == 0 && typed.output.contains("recorded: t"), "\(line): \(typed.errors)")
    }

    // MARK: One and several

    @Test("one second is no seconds, and one change no changes")
    func one() throws {
        try place.makeStore()
        let slow = try place.run(
            ["sql", "s.db", "SELECT 1", "--key-command", "sleep 20"],
            environment: ["CIPHERSTORE_KEY_COMMAND_TIMEOUT": "1s"])
        #expect(slow.errors.contains("within 1 second and"), "\(slow.errors)")
        #expect(try place.ctl("history", "record", "s.db", "--table", "t").status == 0)
        // The beginning of the record itself.
        let status = try place.ctl("status", "s.db")
        #expect(status.output.contains("history      1 change, about "), "\(status.output)")
        try Workplace.write([1], to: place.path("short.key"))
        let short = try place.run(["sql", "s.db", "SELECT 1", "--raw-key-file", "short.key"])
        #expect(short.errors.contains("It has 1 byte instead of 32"), "\(short.errors)")
    }

    /// Counts in the messages of the tools that may be one.
    @Test("no message of a tool puts a count before the name of several")
    func sources() throws {
        let nouns = "pages|rows|seconds|changes|frames|lines|problems|keyslots|entries|writes|characters|columns|values"
        let pattern = try Regex(#"\\\([^"]*\) (?:more |committed )?(?:\#(nouns))\b"#)
        let sources = Workplace.repositoryRoot.appendingPathComponent("Sources")
        var found: [String] = []
        for target in ["cipherctl", "StoreTools", "KeyRotation", "KeyCustody", "CipherStore"] {
            let folder = sources.appendingPathComponent(target)
            let files = FileManager.default.enumerator(atPath: folder.path)?.compactMap { $0 as? String } ?? []
            for file in files where file.hasSuffix(".swift") {
                let text = try String(contentsOf: folder.appendingPathComponent(file), encoding: .utf8)
                let lines = text.split(separator: "\n")
                for (index, line) in lines.enumerated() where line.firstMatch(of: pattern) != nil {
                    // The other branch is that of one.
                    let isChosen = lines[max(0, index - 2)...index].contains { $0.contains("== 1") }
                    if !line.contains("//"), !isChosen { found.append("\(file): \(line)") }
                }
            }
        }
        // A list of several, and what is counted each second.
        found.removeAll { $0.contains("commits/s") }
        #expect(found.isEmpty, "\(found.joined(separator: "\n"))")
    }
}
