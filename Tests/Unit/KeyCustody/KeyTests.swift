import StoreCrypto
import StorePlatform
import Testing

@testable import KeyCustody

@Suite("Salts and keys")
struct KeyTests {
    static let hex = "000102030405060708090a0b0c0d0e0f"

    @Test("a salt is read from bytes, hexadecimal text and SQLCipher's literal")
    func saltForms() throws {
        let salt = try Salt(bytes: Array(0..<16))
        #expect(try Salt(hex: Self.hex) == salt)
        #expect(try Salt(hex: Self.hex.uppercased()) == salt)
        #expect(try Salt(sqlCipherLiteral: "x'\(Self.hex)'") == salt)
        #expect(try Salt(sqlCipherLiteral: "X'\(Self.hex.uppercased())'") == salt)
        #expect(salt.hex == Self.hex)
    }

    // SQLCipher ignores a salt of the wrong length and reads other characters as zeros: the file opens never again.
    @Test(
        "a malformed salt is refused",
        arguments: [
            "", "00", "\(hex)0", "\(hex)00", String(hex.dropLast()), String(hex.dropLast(2)), "g\(hex.dropFirst())",
            " \(hex.dropFirst())", "\(hex)\n", "x'\(hex)'", "0x\(hex.dropFirst(2))", "é\(hex.dropFirst(2))",
        ])
    func malformedSalt(text: String) {
        let error = #expect(throws: StoreError.self) { try Salt(hex: text) }
        #expect(error?.code == .invalidKey)
    }

    @Test(
        "a malformed salt literal is refused",
        arguments: [
            hex, "x'\(hex)", "'\(hex)'", "x\(hex)'", "x'\(hex)0'", "x'\(hex)' ", " x'\(hex)'", "x''", "x'", "y'\(hex)'",
            "x'\(hex.dropLast())z'", "\"x'\(hex)'\"",
        ])
    func malformedLiteral(text: String) {
        let error = #expect(throws: StoreError.self) { try Salt(sqlCipherLiteral: text) }
        #expect(error?.code == .invalidKey)
    }

    @Test("descriptions and reflection show no byte of a salt or key")
    func descriptions() throws {
        let salt = try Salt(hex: Self.hex)
        var dumped = ""
        dump(salt, to: &dumped)
        dump(try Fixture.dataKey(), to: &dumped)
        dump(KeySource.passphrase("hidden words"), to: &dumped)
        dump(KeySource.passphrase(bytes: Array("hidden words".utf8)), to: &dumped)
        #expect("\(salt)" == "Salt(16 bytes)" && String(reflecting: salt) == "Salt(16 bytes)")
        #expect(!dumped.contains("15") && !dumped.contains("0f") && !dumped.contains("hidden"))
        #expect(try RawKey(bytes: Fixture.keyBytes).description == "RawKey(32 bytes)")
        #expect(try Passphrase("hidden words").description == "Passphrase(hidden)")
        #expect("\(try Fixture.dataKey())" == "DataKey(32 bytes)")
    }

    @Test("random salts, keys and identifiers differ")
    func random() throws {
        #expect(try Salt.random() != Salt.random())
        #expect(try StoreID.random() != StoreID.random())
        let first = try RawKey.random()
        let second = try RawKey.random()
        let isSame = first.bytes.isEqual(to: second.bytes)
        #expect(!isSame)
    }

    @Test("a raw key has exactly 32 bytes", arguments: [0, 16, 31, 33, 64])
    func rawKeyLength(count: Int) {
        let error = #expect(throws: StoreError.self) {
            _ = try RawKey(bytes: [UInt8](repeating: 1, count: count))
        }
        #expect(error?.code == .invalidKey)
    }

    // SQLCipher takes such a passphrase for a raw key specification, so another program would open another file.
    @Test(
        "a passphrase that SQLCipher would take for something else is refused, and so are empty and endless ones",
        arguments: ["", "x'", "x'abc'", "X'00'", String(repeating: "a", count: 65_537)])
    func refusedPassphrase(text: String) {
        let error = #expect(throws: StoreError.self) { _ = try Passphrase(text) }
        #expect(error?.code == .invalidKey)
        if !text.isEmpty { #expect(error.map { "\($0)".contains(text) } == false || text == "x'") }
    }

    @Test("other passphrases are taken byte for byte", arguments: ["x", "x ", " x'", "y'", "'", "x\"", "pä ß\n"])
    func passphrase(text: String) throws {
        let passphrase = try Passphrase(text)
        #expect(passphrase.bytes.withBytes { Array($0) } == Array(text.utf8))
    }

    @Test("a passphrase gives the data key that SQLCipher derives, a raw key gives itself")
    func dataKey() throws {
        let salt = try Salt(hex: Self.hex)
        let derived = try Secret.passphrase(Passphrase("sesame street")).dataKey(
            salt: salt, settings: .plaintextHeader)
        let expected = "c4ba9f0666ef1fe24ddfb1f14732c086e58e4e7c2d7904fdb3244b8fa3d18868"
        #expect(derived.withBytes { Hex.text(Array($0)) } == expected)
        let raw = try Secret.rawKey(RawKey(bytes: Fixture.keyBytes)).dataKey(
            salt: salt, settings: .plaintextHeader)
        #expect(raw.isEqual(to: try Fixture.dataKey()))
        #expect(!raw.isEqual(to: derived))
    }

    @Test("hexadecimal text is read strictly")
    func hexadecimal() {
        #expect(Hex.text([0, 0x0f, 0xf0, 0xff]) == "000ff0ff")
        #expect(Hex.bytes("000FF0ff".utf8) == [0, 0x0f, 0xf0, 0xff])
        for text in ["0", "0g", "+1", "0x", "½½"] { #expect(Hex.bytes(text.utf8) == nil) }
    }
}
