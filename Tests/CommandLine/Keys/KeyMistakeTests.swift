import Foundation
import Testing

/// Mistakes of users with keys, and the answers.
@Suite("Mistakes with keys")
struct KeyMistakeTests {
    private static let secret = "marker-4711-passphrase"
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try Workplace.write([UInt8](repeating: 0x2b, count: 32), to: place.path("second.key"))
    }

    private var store: String { place.path("s.db") }

    private func expect(
        _ status: Int32, _ part: String, _ arguments: [String], at location: SourceLocation = #_sourceLocation
    ) throws {
        let before = try place.bytes("s.db-sidecar")
        let outcome = try place.run(arguments)
        #expect(outcome.status == status, "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.contains(part), "\(outcome.errors)", sourceLocation: location)
        #expect(outcome.errors.contains("\nhint: "), sourceLocation: location)
        #expect(try place.bytes("s.db-sidecar") == before, sourceLocation: location)
    }

    private var key: [String] { ["--raw-key-file", place.key] }
    private var newKey: [String] { ["--new-raw-key-file", place.path("second.key")] }

    @Test("a key that opens the store already, one given twice, and one of the wrong form are refused")
    func newKeys() throws {
        try expect(64, "slot 1", ["key", "add", store, "--new-raw-key-file", place.key] + key)
        try expect(64, "given twice", ["key", "add", store] + key + key + newKey)
        try expect(64, "Several new keys", ["key", "add", store, "--new-key-env", "V"] + key + newKey)
        try expect(64, "Several keys", ["key", "add", store, "--key-env", "V"] + key + newKey)
        try expect(64, "No new key was given", ["key", "add", store] + key)
        try expect(64, "No key was given", ["key", "add", store] + newKey)
        try expect(64, "not stretched", ["key", "add", store, "--kdf", "scrypt"] + key + newKey)
        try Workplace.write([1, 2, 3], to: place.path("short.key"))
        try expect(77, "wrong length", ["key", "add", store, "--new-raw-key-file", place.path("short.key")] + key)
        try place.write("\n", to: "empty")
        try expect(
            77, "an end of line and nothing else", ["key", "add", store, "--new-key-file", place.path("empty")] + key)
        try expect(66, "No such file", ["key", "add", store, "--new-key-file", place.path("none")] + key)
        try place.write(Self.secret, to: "open", mode: 0o644)
        try expect(77, "chmod 600", ["key", "add", store, "--new-key-file", place.path("open")] + key)
        try place.write(Self.secret, to: "pass")
        try expect(
            64, "no such derivation", ["key", "add", store, "--kdf", "md5", "--new-key-file", place.path("pass")] + key)
        try expect(
            64, "a random key that a command",
            ["key", "add", store, "--kdf", "hkdf"] + key
                + ["--new-key-file", place.path("pass")])
        let label = ["--label", String(repeating: "x", count: 65)]
        try expect(64, "The label of the keyslot cannot be used", ["key", "add", store] + label + key + newKey)
        try expect(64, "The label", ["key", "label", store, "--slot", "1", "--label", "a\"b"] + key)
    }

    @Test("a passphrase that opens the store already is refused, the present one of a slot too")
    func samePassphrase() throws {
        try place.write(Self.secret, to: "pass")
        try place.write("other words", to: "other")
        for name in ["pass", "other"] {
            #expect(try place.run(["key", "add", store, "--new-key-file", place.path(name)] + key).status == 0)
        }
        let passphrase = ["--key-file", place.path("pass")]
        for (name, slot) in [("pass", 2), ("other", 3)] {
            let same = ["key", "change", store, "--new-key-file", place.path(name)]
            try expect(64, "that of slot \(slot) (passphrase)", same + passphrase)
            #expect(try place.run(same + ["--json"] + passphrase).errorJSON["code"] as? String == "sameKey")
        }
    }

    @Test("slots that are not there, the last one, and missing numbers are named")
    func slots() throws {
        for command in ["change", "label", "remove"] {
            let more = ["change": newKey, "label": ["--label", "x"], "remove": ["--yes"]][command] ?? []
            try expect(64, "no keyslot 7", ["key", command, store, "--slot", "7"] + more + key)
            try expect(64, "--slot needs the number", ["key", command, store, "--slot", "one"] + more + key)
        }
        try expect(1, "cannot be removed", ["key", "remove", store, "--slot", "1", "--yes"] + key)
        try expect(64, "--slot is missing", ["key", "remove", store, "--yes"] + key)
        try expect(64, "with --slot N. The numbers are", ["key", "remove", store, "--yes"] + key)
        try expect(64, "--label is missing", ["key", "label", store, "--slot", "1"] + key)
        // Without a terminal nobody can be asked.
        #expect(try place.run(["key", "add", store] + key + newKey).status == 0)
        try expect(64, "--yes", ["key", "remove", store, "--slot", "2"] + key)
    }

    @Test("a wrong key ends with 77, a store that is not there with 66, a pending rotation with 69")
    func wrong() throws {
        let wrong = ["--raw-key-file", place.path("second.key")]
        for command in [["list"], ["test"], ["add"] + newKey, ["change"] + newKey, ["recovery"]] {
            try expect(77, "does not open", ["key", command[0], store] + command.dropFirst() + wrong)
            let nowhere = ["key", command[0], place.path("none.db")] + command.dropFirst() + key
            try expect(66, "no store", nowhere)
        }
        #expect(try place.run(["key", "list", place.path("none.db")]).status == 66)
        try place.makePlain("CREATE TABLE t (a)")
        #expect(try place.run(["key", "list", place.path("plain.db")]).status == 65)
    }

    @Test("commands for slots say of a direct store that it has none")
    func direct() throws {
        #expect(try place.ctl("create", place.path("d.db"), "--scheme", "direct").status == 0)
        for command in [
            ["add"] + newKey, ["change"] + newKey, ["recovery"], ["label", "--slot", "1", "--label", "x"],
            ["remove", "--slot", "1", "--yes"],
        ] {
            let outcome = try place.run(
                ["key", command[0], place.path("d.db"), "--json"] + command.dropFirst() + key)
            #expect(outcome.status == 64 && outcome.errorJSON["code"] as? String == "noSlots", "\(outcome.errors)")
            let hint = outcome.errorJSON["hint"] as? String ?? ""
            #expect(hint.contains("key convert"))
            // Story: the rotation of the hint was refused for want of a backup and of a new key.
            #expect(hint.contains("rotate") == (command[0] == "change"), "\(hint)")
            #expect(!hint.contains("rotate") || hint.contains("--backup DIR --new-key-file F"), "\(hint)")
            #expect(outcome.output.isEmpty)
        }
        try expect(64, "has keyslots already", ["key", "convert", store, "--to", "slots"] + key)
        try expect(64, "--to", ["key", "convert", store] + key)
        try expect(64, "--to", ["key", "convert", store, "--to", "both"] + key)
    }

    @Test("keys in the arguments are refused and not repeated")
    func arguments() throws {
        let mistakes = [
            ["key", "add", store, "--new-key", Self.secret], ["key", "add", store, "--new-passphrase=\(Self.secret)"],
            ["key", "change", store, "--new-password", Self.secret], ["key", "test", store, Self.secret],
            ["key", "test", store, "--key=\(Self.secret)"], ["key", "add", store, "--new-key-fd", Self.secret],
            ["key", Self.secret], ["key", "remove", store, "--slot", Self.secret],
            ["rotate", store, "--new-key", Self.secret],
        ]
        for arguments in mistakes {
            let outcome = try place.run(arguments + key)
            #expect(outcome.status == 64, "\(arguments): \(outcome.errors)")
            #expect(!(outcome.output + outcome.errors).contains(Self.secret), "\(arguments)")
        }
    }

    @Test("no command for keys prints a secret, nor does its log")
    func secrecy() throws {
        try place.write(Self.secret + "\n", to: "pass")
        let revealed = try #require(place.ctl("key", "reveal", store, "--json").json["key"] as? String)
        let runs = [
            ["key", "add", store, "--new-key-file", place.path("pass")], ["key", "list", store],
            ["key", "test", store],
            ["key", "add", store, "--new-key-file", place.path("pass")],
            ["key", "change", store, "--slot", "2"] + newKey, ["key", "log", store].filter { _ in true },
        ]
        for arguments in runs {
            for json in [[], ["--json"]] {
                let isWALFile = arguments[1] == "log"
                let outcome = try place.run(arguments + json + (isWALFile ? [] : key))
                for text in [outcome.output, outcome.errors] {
                    #expect(!text.contains(Self.secret) && !text.lowercased().contains(revealed), "\(arguments)")
                    #expect(!text.contains(String(repeating: "2a", count: 32)))
                }
            }
        }
        let log = String(decoding: try place.bytes("s.db-keylog"), as: UTF8.self)
        #expect(!log.contains(Self.secret) && !log.contains(revealed) && !log.contains(place.folder.url.path))
    }
}
