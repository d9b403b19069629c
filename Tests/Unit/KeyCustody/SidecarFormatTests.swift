import Foundation
import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Sidecar format")
struct SidecarFormatTests {
    @Test("a sidecar without a rotation is read back as it was written, with every setting")
    func roundTrip() throws {
        let key = try Fixture.dataKey()
        for state in [Sidecar.State.creating, .ready] {
            for (kdf, hmac) in [(HashAlgorithm.sha1, HashAlgorithm.sha512), (.sha256, .sha1), (.sha512, .sha256)] {
                for (page, header, rounds) in [(512, 0, 1), (4096, 32, 256_000), (65_536, 32, 10_000_000)] {
                    var sidecar = try Fixture.sidecar(state: state)
                    sidecar.epoch = 999_999_999_999_999_999
                    sidecar.settings = CipherSettings(
                        pageBytes: page, plaintextHeaderBytes: header, kdfRounds: rounds, kdfHash: kdf, hmacHash: hmac)
                    let bytes = try sidecar.encoded(dataKey: key)
                    let parsed = try UnauthenticatedSidecar.parse(bytes)
                    #expect(parsed.claimed == sidecar && parsed.bytes == bytes)
                    #expect(try parsed.authenticate(dataKey: key) == .genuine(sidecar))
                }
            }
        }
    }

    @Test("a sidecar that could not be read back is never written")
    func unreadableValues() throws {
        let key = try Fixture.dataKey()
        for settings in [
            CipherSettings(pageBytes: 1000), CipherSettings(pageBytes: 256), CipherSettings(pageBytes: 131_072),
            CipherSettings(plaintextHeaderBytes: 16), CipherSettings(kdfRounds: 0), CipherSettings(kdfRounds: -1),
            CipherSettings(kdfRounds: 10_000_001),
        ] {
            var sidecar = try Fixture.sidecar()
            sidecar.settings = settings
            let error = #expect(throws: StoreError.self) { try sidecar.encoded(dataKey: key) }
            #expect(error?.code == .settingsConflict)
        }
    }

    @Test("a new sidecar is in its first state, and each version counts one up")
    func versions() throws {
        let first = try Sidecar.creating(settings: .plaintextHeader)
        #expect(first.state == .creating && first.epoch == 1 && first.generation == 1)
        #expect(try Sidecar.creating(settings: .plaintextHeader).salt != first.salt)
        #expect(try Sidecar.creating(settings: .plaintextHeader, salt: Fixture.salt()).salt == Fixture.salt())
        let second = first.next(.ready)
        #expect(second.generation == 2 && second.state == .ready && second.salt == first.salt)
        #expect(first.isRolledBack(storeRemembersGeneration: 2) && !second.isRolledBack(storeRemembersGeneration: 2))
    }

    @Test("the key tells a genuine sidecar, a forged one and another key apart")
    func verdicts() throws {
        let sidecar = try Fixture.sidecar()
        let text = try sidecar.encoded(dataKey: Fixture.dataKey()).text
        let parsed = try UnauthenticatedSidecar.parse(text.bytes)
        #expect(try parsed.authenticate(dataKey: Fixture.dataKey()) == .genuine(sidecar))
        #expect(try parsed.authenticate(dataKey: Fixture.dataKey(1)) == .wrongKey)
    }

    @Test(
        "a field that was changed without the key is never taken for genuine",
        arguments: [
            ("\"state\":\"ready\"", "\"state\":\"creating\""), ("\"epoch\":1", "\"epoch\":2"),
            ("\"generation\":3", "\"generation\":4"), ("\"salt\":\"00", "\"salt\":\"ff"),
            ("\"page_bytes\":4096", "\"page_bytes\":8192"),
            ("\"plaintext_header_bytes\":32", "\"plaintext_header_bytes\":0"),
            ("\"kdf_rounds\":256000", "\"kdf_rounds\":1"), ("\"kdf_hash\":\"sha512", "\"kdf_hash\":\"sha256"),
            ("\"hmac_hash\":\"sha512", "\"hmac_hash\":\"sha1"),
        ])
    func changedField(field: String, replacement: String) throws {
        let text = try Fixture.sidecar().encoded(dataKey: Fixture.dataKey()).text
        let changed = text.replacingOccurrences(of: field, with: replacement)
        #expect(changed != text)
        let parsed = try UnauthenticatedSidecar.parse(changed.bytes)
        #expect(try parsed.authenticate(dataKey: Fixture.dataKey()) == .forged)
    }

    @Test("a changed identifier, key check or code is never taken for genuine")
    func changedSeal() throws {
        let text = try Fixture.sidecar().encoded(dataKey: Fixture.dataKey()).text
        for (key, expected) in [
            ("id", UnauthenticatedSidecar.Verdict.wrongKey), ("value", .wrongKey), ("mac", .forged),
        ] {
            let start = try #require(text.range(of: "\"\(key)\":\"")).upperBound
            var changed = text
            changed.replaceSubrange(start...start, with: text[start] == "0" ? "1" : "0")
            let parsed = try UnauthenticatedSidecar.parse(changed.bytes)
            #expect(try parsed.authenticate(dataKey: Fixture.dataKey()) == expected)
        }
    }

    @Test("whatever bit of a sidecar is flipped, it is never taken for genuine")
    func everyBit() throws {
        let key = try Fixture.dataKey()
        let bytes = try Fixture.sidecar().encoded(dataKey: key)
        for position in bytes.indices {
            for bit in 0..<8 {
                var flipped = bytes
                flipped[position] ^= 1 << bit
                do {
                    let verdict = try UnauthenticatedSidecar.parse(flipped).authenticate(dataKey: key)
                    #expect(verdict == .forged || verdict == .wrongKey, "byte \(position), bit \(bit)")
                } catch let error as SidecarSyntaxError {
                    // A flip is damage; it must not make the file look like one of a later version.
                    #expect(!error.isAhead, "byte \(position), bit \(bit): \(error)")
                }
            }
        }
    }

    @Test("no cut or extended sidecar is read")
    func everyLength() throws {
        let bytes = try Fixture.sidecar().encoded(dataKey: Fixture.dataKey())
        for count in 0..<bytes.count {
            #expect(throws: SidecarSyntaxError.self) { try UnauthenticatedSidecar.parse(Array(bytes[..<count])) }
        }
        for extra in ["\n", " ", "\0", "}", bytes.text] {
            #expect(throws: SidecarSyntaxError.self) { try UnauthenticatedSidecar.parse(bytes + extra.bytes) }
        }
    }

    @Test("the worked example of the document holds, value for value")
    func document() throws {
        let url = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Docs/Formats/Sidecar.md").standardizedFileURL
        let page = try String(contentsOf: url, encoding: .utf8)
        let example = try #require(page.components(separatedBy: "```\n").dropFirst().first)
        let parsed = try UnauthenticatedSidecar.parse(example.bytes)
        let material = Secret.passphrase(try Passphrase("sesame street"))
        let key = try material.dataKey(salt: parsed.claimed.salt, settings: parsed.claimed.settings)
        #expect(page.contains("| data key | `\(key.withBytes { Hex.text(Array($0)) })` |"))
        let macKey = try key.withSecret { secret in
            try KeyDerivation.hkdf(
                key: secret, salt: parsed.claimed.storeID.bytes, label: SidecarSeal.macLabel, keyBytes: 32
            ).withBytes { Hex.text(Array($0)) }
        }
        #expect(page.contains("| mac key | `\(macKey)` |"))
        #expect(page.contains("\"\(SidecarSeal.macLabel)\"") && page.contains("\"\(SidecarSeal.keyCheckLabel)\""))
        #expect(try parsed.authenticate(dataKey: key) == .genuine(parsed.claimed))
        #expect(try parsed.claimed.encoded(dataKey: key).text == example)
        for state in Sidecar.State.allCases { #expect(page.contains("`\"\(state.rawValue)\"`")) }
    }
}
