import CipherStore
import Foundation
import KeyCustody
import TestKit
import Testing

@testable import cipherctl

@Suite("cipherctl key recovery")
struct RecoveryCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
    }

    private var store: String { place.path("s.db") }

    @Test("four lines and nothing else come out, and open the store as they are, in any spelling")
    func use() throws {
        let made = try place.ctl("key", "recovery", store, "--label", "safe")
        #expect(made.status == 0, "\(made.errors)")
        let lines = made.output.split(separator: "\n", omittingEmptySubsequences: false)
        #expect(lines.count == 5 && lines.dropLast().allSatisfy { $0.count == 19 } && lines.last == "")
        #expect(made.errors.contains("slot 2 (recovery \"safe\")") && !made.errors.contains(lines[0]))
        for text in [made.output, made.output.lowercased(), made.output.replacing("-", with: " ")] {
            try place.write(text, to: "recovery.txt")
            let test = try place.run(["key", "test", store, "--key-file", place.path("recovery.txt"), "--json"])
            #expect(test.status == 0, "\(test.errors)")
            #expect((test.json["slot"] as? [String: Any])?["kind"] as? String == "recovery")
        }
        let rows = try place.run(["sql", store, "SELECT count(*) FROM t", "--key-file", place.path("recovery.txt")])
        #expect(rows.status == 0, "\(rows.errors)")
        let events = try place.run(["key", "log", store]).output
        #expect(events.contains("recovery-key-made") && !events.contains(lines[1]))
        #expect(try !String(decoding: place.bytes("s.db-keylog"), as: UTF8.self).contains(lines[2]))
    }

    @Test("as JSON it is an array of four lines")
    func json() throws {
        let made = try place.ctl("key", "recovery", store, "--json")
        #expect(made.status == 0, "\(made.errors)")
        let lines = try #require(made.json["recovery_key"] as? [String])
        #expect(lines.count == 4 && made.json["expected_slot"] as? Int == 2)
        try place.write(lines.joined(separator: "\n"), to: "recovery.txt")
        #expect(try place.run(["key", "test", store, "--key-file", place.path("recovery.txt")]).status == 0)
    }

    @Test("a wrong line is told by its number, without showing it")
    func typo() throws {
        let made = try place.ctl("key", "recovery", store)
        var lines = made.output.split(separator: "\n").map(String.init)
        lines[2] = String(lines[2].reversed())
        try place.write(lines.joined(separator: "\n"), to: "recovery.txt")
        let test = try place.run(["key", "test", store, "--key-file", place.path("recovery.txt")])
        #expect(test.status == 77 && test.errors.contains("line 3 has a wrong character"), "\(test.errors)")
        #expect(!test.errors.contains(lines[2]))
    }

    // "It opens no key slot" was all that was said.
    @Test("what else may be wrong with a recovery key is told by its line, whatever command it is given to")
    func mistakes() throws {
        let made = try place.ctl("key", "recovery", store)
        let lines = made.output.split(separator: "\n").map(String.init)
        let second = lines[1]
        let cases: [([String], String)] = [
            ([lines[0], String(second.dropLast()), lines[2], lines[3]], "line 2 has 15 characters instead of 16"),
            ([lines[0], second + "7", lines[2], lines[3]], "line 2 has 17 characters instead of 16"),
            (
                [lines[0], "U" + second.dropFirst(), lines[2], lines[3]],
                "line 2 has a character that no recovery key has"
            ),
            (
                [lines[0], "*" + second.dropFirst(), lines[2], lines[3]],
                "line 2 has a character that no recovery key has"
            ),
            ([lines[0], lines[2], lines[3]], "line 2 is missing"),
            ([lines[0], second] + lines[1...], "line 2 is there twice"),
        ]
        for (changed, reason) in cases {
            try place.write(changed.joined(separator: "\n"), to: "recovery.txt")
            let key = ["--key-file", place.path("recovery.txt")]
            for command in [["key", "test", store], ["sql", store, "SELECT 1"], ["status", store]] {
                let refused = try place.run(command + key)
                #expect(refused.status == 77 && refused.errors.contains("reads like a recovery key, but \(reason)"))
                #expect(!refused.errors.contains(second.prefix(9)), "\(refused.errors)")
            }
        }
        let numbered = lines.enumerated().map { "\($0 + 1). \($1.replacing("-", with: "\u{2011}"))" }
        try place.write("\u{feff}" + numbered.joined(separator: "\r\n"), to: "recovery.txt")
        #expect(try place.run(["key", "test", store, "--key-file", place.path("recovery.txt")]).status == 0)
    }

    @Test("a passphrase that reads like a recovery key, or like one with a fault, is a passphrase all the same")
    func likePassphrase() throws {
        let other = try RecoveryKey.random().text().withBytes { String(decoding: $0, as: UTF8.self) }
        let opened = try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key))
        for text in [other, String(other.dropFirst(2)), "1. " + other] {
            try opened.keys.add(.passphrase(text), derivation: TestKeys.cheap)
        }
        try opened.close()
        for (slot, text) in zip(2..., [other, String(other.dropFirst(2)), "1. " + other]) {
            try place.write(text + "\n", to: "like.txt")
            let test = try place.run(["key", "test", store, "--key-file", place.path("like.txt")])
            #expect(test.status == 0 && test.output.contains("opens slot \(slot)"), "\(test.errors)")
        }
    }

    // The key was printed, and then the store had no room for it.
    @Test("no recovery key is shown where the store has no room for one")
    func full() throws {
        let opened = try SharedStore.open(at: store, unlockedBy: .rawKeyFile(path: place.key))
        for number in 2...32 { try opened.keys.add(.rawKey([UInt8](repeating: UInt8(number), count: 32))) }
        try opened.close()
        for json in [[], ["--json"]] {
            let refused = try place.run(["key", "recovery", store, "--raw-key-file", place.key] + json)
            #expect(
                refused.status == 1 && refused.output.isEmpty && refused.errors.contains("32 slots"),
                "\(refused.errors)")
        }
    }

    @Test("a line is typed back as it reads, not as it is spelled")
    func spelling() {
        let line = "0009-0014-R1MS-Q4VF"
        for typed in [line, "0009 0014 r1ms q4vf", "OOO9-0O14-RlMS-Q4VF", "00090014R1MSQ4VF\r", " 0009-0014-riMS-q4vf"]
        {
            #expect(RecoverySheet.symbols(typed) == RecoverySheet.symbols(line), "\(typed)")
        }
        #expect(RecoverySheet.symbols("0009-0014-R1MS-Q4VG") != RecoverySheet.symbols(line))
    }
}
