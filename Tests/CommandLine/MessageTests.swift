import Foundation
import TestKit
import Testing

/// Sentences of the command line that were wrong, or were about calls of the Swift library.
@Suite("cipherctl: what its sentences say")
struct MessageTests {
    private let place: Workplace
    init() throws { place = try Workplace() }

    /// Words that mean nothing to whoever types commands.
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
}
