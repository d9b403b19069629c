import Foundation
import Testing

@testable import cipherctl

@Suite("History of the shell")
struct ShellHistoryTests {
    private let place: Workplace

    init() throws { place = try Workplace() }

    private func text() -> String { (try? place.bytes("h")).map { String(decoding: $0, as: UTF8.self) } ?? "" }

    @Test(
        "a statement that could hold a key or a password is not kept",
        arguments: [
            "PRAGMA key = 'marker';", "pragma\nrekey='marker';", "PRAGMA main.hexkey='00';",
            "PRAGMA /* */ textkey = 'a';",
            "ATTACH 'x.db' AS x KEY 'marker';", "VACUUM INTO 'file:x?key=marker';", "PRAGMA cipher_salt = \"x'00'\";",
            "SELECT x'000102030405060708090a0b0c0d0e0f';", "UPDATE user SET password = 'marker';",
            "correct horse battery;", "INSERT INTO a VALUES ('my Passphrase: marker');", ".read secret.sql",
        ])
    func secrets(_ statement: String) {
        let history = ShellHistory(path: place.path("h"))
        #expect(!history.add(statement.split(separator: "\n").map(String.init)))
        #expect(!place.exists("h"))
    }

    @Test(
        "other statements are, also those with the word key",
        arguments: [
            "SELECT 1;", "CREATE TABLE a (id INTEGER PRIMARY KEY);", "SELECT value FROM pair WHERE key = 'a';",
            "PRAGMA foreign_keys;", "  -- note\nselect 2;", "WITH a AS (SELECT 1) SELECT * FROM a;", ".tables",
            "EXPLAIN SELECT 1;",
        ])
    func kept(_ statement: String) { #expect(!ShellHistory.mayHoldSecret(statement)) }

    @Test("the file is its owner's alone, keeps lines in their order, and is shortened when it is long")
    func file() throws {
        let history = ShellHistory(path: place.path("new/folder/h"))
        #expect(history.load().isEmpty)
        history.add(["SELECT", "1;"])
        history.add(["SELECT 2;"])
        let mode = try FileManager.default.attributesOfItem(atPath: place.path("new/folder/h"))[.posixPermissions]
        #expect(mode as? Int == 0o600)
        #expect(ShellHistory(path: place.path("new/folder/h")).load() == ["SELECT", "1;", "SELECT 2;"])
        // One that was readable for others is no longer.
        try place.write("SELECT 3;\n", to: "h", mode: 0o644)
        ShellHistory(path: place.path("h")).add(["SELECT 4;"])
        #expect(try FileManager.default.attributesOfItem(atPath: place.path("h"))[.posixPermissions] as? Int == 0o600)
        try place.remove("h")
        try place.write((0..<3000).map { "SELECT \($0);\n" }.joined(), to: "h")
        #expect(ShellHistory(path: place.path("h")).load().count == ShellHistory.keptLines)
        #expect(text().hasPrefix("SELECT 2000;\n") && text().hasSuffix("SELECT 2999;\n"))
    }

    @Test("a link, a second name and a folder are left as they are")
    func foreign() throws {
        try place.write("keep\n", to: "target")
        try FileManager.default.createSymbolicLink(atPath: place.path("h"), withDestinationPath: place.path("target"))
        let link = ShellHistory(path: place.path("h"))
        #expect(link.load().isEmpty)
        link.add(["SELECT 1;"])
        #expect(try place.bytes("target") == Array("keep\n".utf8))
        try FileManager.default.linkItem(atPath: place.path("target"), toPath: place.path("second"))
        ShellHistory(path: place.path("second")).add(["SELECT 1;"])
        #expect(try place.bytes("target") == Array("keep\n".utf8))
        ShellHistory(path: place.folder.url.path).add(["SELECT 1;"])
    }

    @Test("a file of another user is not read, and not written", .enabled(if: getuid() == 0))
    func otherUser() throws {
        try place.write("SELECT 1;\n", to: "h", mode: 0o666)
        try #require(chown(place.path("h"), 65_534, 65_534) == 0)
        let history = ShellHistory(path: place.path("h"))
        #expect(history.load().isEmpty)
        history.add(["SELECT 2;"])
        #expect(text() == "SELECT 1;\n")
    }

    @Test("the environment chooses the place, and control characters of a file are not offered")
    func usualPath() throws {
        func path(_ variables: [String: String]) -> String? {
            ShellHistory.usualPath { variables[$0].map { Array($0.utf8) } }
        }
        #expect(path(["HOME": "/h"]) == "/h/.local/state/cipherstore/history")
        #expect(path(["HOME": "/h", "XDG_STATE_HOME": "/s"]) == "/s/cipherstore/history")
        #expect(path(["HOME": "/h", "XDG_STATE_HOME": "relative"]) == "/h/.local/state/cipherstore/history")
        #expect(path(["HOME": "/h", "CIPHERSTORE_HISTORY": "/x"]) == "/x")
        #expect(path([:]) == nil)
        try place.write("SELECT 1;\n\u{1b}[2J\n", to: "h")
        #expect(ShellHistory(path: place.path("h")).load() == ["SELECT 1;"])
    }
}
