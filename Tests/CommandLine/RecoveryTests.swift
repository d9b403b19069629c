import Foundation
import Testing

@testable import cipherctl

@Suite("cipherctl key recovery")
struct RecoveryTests {
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
