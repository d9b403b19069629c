import Foundation
import TestKit
import Testing

@Suite("cipherctl: who may use the files of a new store")
struct CommandFileModeTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    /// Runs cipherctl under a umask.
    private func ctl(umask: String, _ arguments: String...) throws -> CommandRun.Outcome {
        let shell = try #require(SystemProgram.find("sh"))
        return try CommandRun(
            shell,
            ["-c", "umask \(umask); exec \"$0\" \"$@\"", Workplace.program().path] + arguments
                + ["--raw-key-file", place.key], directory: place.folder.url.path
        ).finish()
    }

    private func modes(_ store: String = "s.db") throws -> [String: String] {
        var modes: [String: String] = [:]
        for name in try place.names() where name.hasPrefix(store) {
            let attributes = try FileManager.default.attributesOfItem(atPath: place.path(name))
            modes[name] = String(try #require(attributes[.posixPermissions] as? Int), radix: 8)
        }
        return modes
    }

    private func expectAll(_ mode: String, _ store: String = "s.db", at location: SourceLocation = #_sourceLocation)
        throws
    {
        let found = try modes(store)
        #expect(found.count == 7 && Set(found.values) == [mode], "\(found)", sourceLocation: location)
    }

    // Under the usual umask every file came out 0644: the wrapped keys of the sidecar invited every user of the machine to
    // try passphrases at leisure.
    @Test(
        "a new store and every file beside it is its owner's alone, whatever the umask",
        arguments: ["000", "022", "277"])
    func ownerAlone(umask: String) throws {
        #expect(try ctl(umask: umask, "create", place.path("s.db")).status == 0)
        #expect(try ctl(umask: umask, "sql", place.path("s.db"), "CREATE TABLE t (a)", "--write").status == 0)
        let found = try modes()
        let names = ["", "-wal", "-shm", "-sidecar", "-sidecar.bak", "-lock", "-keylog"].map { "s.db" + $0 }
        #expect(Set(found.keys) == Set(names))
        try expectAll("600")
        try place.makePlain("CREATE TABLE t (a)")
        #expect(try ctl(umask: umask, "import", place.path("plain.db"), place.path("i.db")).status == 0)
        try expectAll("600", "i.db")
    }

    @Test(
        "--mode says who may use a new store, and the umask neither narrows nor widens it",
        arguments: ["0600", "0640", "0644", "0660", "664"], ["000", "077"])
    func asked(mode: String, umask: String) throws {
        let expected = String(mode.suffix(3))
        let created = try ctl(umask: umask, "create", place.path("s.db"), "--mode", mode)
        #expect(created.status == 0, "\(created.errors)")
        #expect(try ctl(umask: umask, "sql", place.path("s.db"), "CREATE TABLE t (a)", "--write").status == 0)
        try expectAll(expected)
    }

    @Test("import takes the mode as create does")
    func importing() throws {
        try place.makePlain("CREATE TABLE t (a)")
        let imported = try ctl(umask: "077", "import", place.path("plain.db"), place.path("s.db"), "--mode", "0640")
        #expect(imported.status == 0, "\(imported.errors)")
        try expectAll("640")
    }

    @Test(
        "a mode that lets others write, or the owner not, or that is none, is refused before a key is asked for",
        arguments: ["0666", "0400", "0700", "0606", "0604", "1600", "0620", "rw", "", "0680", "-1"])
    func refused(mode: String) throws {
        let before = try place.names()
        let outcome = try place.run(["create", place.path("s.db"), "--mode=\(mode)", "--json"])
        #expect(outcome.status == 64, "\(outcome.errors)")
        #expect(outcome.errors.contains("--mode"), "\(outcome.errors)")
        #expect(try place.names() == before)
    }

    @Test("the mode of a database that exists goes before every umask and default")
    func existing() throws {
        try place.makeStore()
        for name in try place.names() where name.hasPrefix("s.db") {
            try FileManager.default.setAttributes([.posixPermissions: 0o640], ofItemAtPath: place.path(name))
        }
        try place.write([UInt8](repeating: 7, count: 32), to: "second.key")
        let add = try ctl(
            umask: "077", "key", "add", place.path("s.db"), "--new-raw-key-file", place.path("second.key"))
        #expect(add.status == 0, "\(add.errors)")
        let rotated = try ctl(umask: "077", "rotate", place.path("s.db"), "--no-backup")
        #expect(rotated.status == 0, "\(rotated.errors)")
        try expectAll("640")
    }
}

extension Workplace {
    fileprivate func write(_ bytes: [UInt8], to name: String) throws { try Self.write(bytes, to: path(name)) }
}
