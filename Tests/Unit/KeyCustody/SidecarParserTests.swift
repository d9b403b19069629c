import Foundation
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Sidecar parser")
struct SidecarParserTests {
    private func text() throws -> String { try Fixture.sidecar().encoded(dataKey: Fixture.dataKey()).text }

    private func error(_ text: String) -> SidecarSyntaxError? {
        #expect(throws: SidecarSyntaxError.self) { try UnauthenticatedSidecar.parse(text.bytes) }
    }

    @Test("a file that is too long is refused before it is read as anything")
    func length() throws {
        let text = try text()
        let long = text + String(repeating: "\n", count: CustodyLimits.sidecarBytes + 1 - text.utf8.count)
        #expect(error(long) == .tooLong(limitBytes: CustodyLimits.sidecarBytes))
        #expect(error(String(long.dropLast())) != .tooLong(limitBytes: CustodyLimits.sidecarBytes))
    }

    // JSON libraries accept most of these, and two readers would then see two values.
    @Test(
        "what JSON allows and the format does not is refused",
        arguments: [
            ("\"epoch\":1", "\"epoch\": 1"), ("\"epoch\":1", "\"epoch\":01"), ("\"epoch\":1", "\"epoch\":1.0"),
            ("\"epoch\":1", "\"epoch\":1e0"), ("\"epoch\":1", "\"epoch\":+1"), ("\"epoch\":1", "\"epoch\":-1"),
            ("\"epoch\":1", "\"epoch\":\"1\""), ("\"epoch\":1", "\"epoch\":1,\"epoch\":1"),
            ("\"epoch\":1", "\"epoch\":null"), ("\"epoch\":1,", ""), ("\"epoch\":1", "\"epoch\":1,\"extra\":1"),
            ("\"epoch\":1,\"generation\":3", "\"generation\":3,\"epoch\":1"), ("ready", "re\\u0061dy"),
            ("ready", "READY"), ("ready", "done"), ("ready", ""), ("\"a0a1", "\"A0A1"), ("\"a0a1", "\"a0a"),
            ("{\"record\":\"store\"", " {\"record\":\"store\""), ("}\n", "}\r\n"), ("}\n", "} \n"), ("}\n", "}\n\n"),
            ("{\"format\"", "\u{FEFF}{\"format\""), ("direct", "indirect"), ("sha512", "md5"), ("sha512", "sha-512"),
            ("cipherstore-sidecar", "other-sidecar"), ("\"version\":1", "\"version\":0"),
            ("\"record\":\"cipher\"", "\"record\":\"stores\""), ("{\"mac\"", "{\"record\":\"note\"}\n{\"mac\""),
        ])
    func strictness(part: String, replacement: String) throws {
        let original = try text()
        let range = try #require(original.range(of: part))
        #expect(error(original.replacingCharacters(in: range, with: replacement))?.isAhead == false)
    }

    @Test(
        "numbers out of their bounds are refused by name",
        arguments: [
            ("\"epoch\":1", "\"epoch\":0", "epoch"), ("\"generation\":3", "\"generation\":0", "generation"),
            ("\"epoch\":1", "\"epoch\":1000000000000000000", "epoch"),
            ("\"epoch\":1", "\"epoch\":99999999999999999999999999", "epoch"),
            ("\"page_bytes\":4096", "\"page_bytes\":256", "page_bytes"),
            ("\"page_bytes\":4096", "\"page_bytes\":4095", "page_bytes"),
            ("\"page_bytes\":4096", "\"page_bytes\":131072", "page_bytes"),
            ("header_bytes\":32", "header_bytes\":16", "plaintext_header_bytes"),
            ("\"kdf_rounds\":256000", "\"kdf_rounds\":0", "kdf_rounds"),
            ("\"kdf_rounds\":256000", "\"kdf_rounds\":10000001", "kdf_rounds"),
        ])
    func bounds(part: String, replacement: String, field: String) throws {
        let changed = try text().replacingOccurrences(of: part, with: replacement)
        guard case .outOfRange(_, field) = error(changed) else {
            Issue.record("\(replacement) was not out of range")
            return
        }
    }

    @Test("an error tells the line and nothing of what stands in it")
    func position() throws {
        let changed = try text().replacingOccurrences(of: "\"salt\":\"0001", with: "\"salt\":\"0z01")
        let found = error(changed)
        guard case .malformed(3, _) = found else {
            Issue.record("unexpected: \(String(describing: found))")
            return
        }
        #expect(!"\(String(describing: found))".contains("0z01"))
    }

    @Test("a later version is recognised by its number and its lines, and not taken for damage")
    func ahead() throws {
        let original = try text()
        for name in ["pending", "pending-slot", "pending-key-check", "slot", "other"] {
            let record = "{\"record\":\"\(name)\",\"id\":1}\n"
            for anchor in ["{\"record\":\"cipher\"", "{\"record\":\"key-check\"", "{\"mac\""] {
                let changed = original.replacingOccurrences(of: anchor, with: record + anchor)
                #expect(error(changed)?.isAhead == false)
            }
        }
        #expect(error(original.replacingOccurrences(of: "direct", with: "slots"))?.isAhead == false)
        let third = original.replacingOccurrences(of: "\"version\":1", with: "\"version\":4")
        #expect(error(third.replacingOccurrences(of: "epoch", with: "era")) == .versionAhead(4))
        #expect(error(third)?.isAhead == false)
        // A sign behind the number that became a digit, in one copy.
        #expect(error(original.replacingOccurrences(of: "\"version\":1}", with: "\"version\":10"))?.isAhead == false)
        // A file of one version under the number of another is damaged; its lines are not taken for the other's.
        let second = original.replacingOccurrences(of: "\"version\":1", with: "\"version\":2")
        #expect(error(second) == .malformed(line: 1, expected: "version 1"))
    }

    @Test(
        "what is no sidecar at all is refused",
        arguments: ["", "\n", "{}", "[]", "SQLite format 3\0", "{\"mac\":\"\"}\n"])
    func foreignContent(text: String) { #expect(error(text)?.isAhead == false) }

    @Test("bytes beyond the limit are refused before they are looked at")
    func limit() throws {
        let long = try text() + String(repeating: " ", count: CustodyLimits.sidecarBytes)
        #expect(error(long) == .tooLong(limitBytes: 65_536))
    }

    @Test("random changes of a direct sidecar never crash the parser, and what it accepts is canonical")
    func fuzz() throws {
        let seed = SeededGenerator.seed()
        var generator = SeededGenerator(seed: seed)
        let original = try text().bytes
        let pool = Array("{}[]\",:\\ \n\r\t0123456789abcdefrecordmacversion\u{0}é".utf8) + [0xff, 0x80]
        let isWhole = ProcessInfo.processInfo.environment["CIPHERSTORE_FAULTS"] == "all"
        for round in 0..<(isWhole ? 20_000 : 8_000) {
            var bytes = original
            for _ in 0..<Int.random(in: 1...4, using: &generator) {
                let position = Int.random(in: 0..<bytes.count, using: &generator)
                let length = min(Int.random(in: 0...6, using: &generator), bytes.count - position)
                let noise = (0..<Int.random(in: 0...6, using: &generator)).map { _ in
                    pool[Int.random(in: 0..<pool.count, using: &generator)]
                }
                bytes.replaceSubrange(position..<(position + length), with: noise)
                if bytes.isEmpty { break }
            }
            guard let parsed = try? UnauthenticatedSidecar.parse(bytes) else { continue }
            let again = parsed.claimed.body(keyCheck: parsed.seal.keyCheck) + Sidecar.macLine(parsed.seal.mac.value)
            #expect(again == bytes, "CIPHERSTORE_SEED=\(seed), round \(round)")
        }
    }
}
