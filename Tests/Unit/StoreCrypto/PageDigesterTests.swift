import StoreCrypto
import Testing

@Suite struct PageDigesterTests {
    private func digest(_ content: [UInt8], _ number: UInt32, key: UInt8 = 1) throws -> PageDigester.Digest {
        var digester = try PageDigester(key: SecretBytes(copying: [UInt8](repeating: key, count: 32)))
        // A digester is used for many pages: what came before must not matter.
        _ = try [UInt8](repeating: 3, count: 100).withUnsafeBytes { try digester.digest($0, number: 9) }
        return try content.withUnsafeBytes { try digester.digest($0, number: number) }
    }

    @Test("equal content of one page has one fingerprint; another content, page or key has another")
    func tellsApart() throws {
        let content = [UInt8](repeating: 5, count: 4096)
        let found = try digest(content, 7)
        #expect(try digest(content, 7) == found)
        #expect(try digest(content, 8) != found)
        #expect(try digest(content, 7, key: 2) != found)
        for offset in [0, 15, 16, 2000, 4095] {
            var other = content
            other[offset] ^= 1
            #expect(try digest(other, 7) != found, "a bit at \(offset)")
        }
        #expect(try digest(Array(content.dropLast()), 7) != found)
    }

    @Test("a key of another length is refused")
    func refusesKeys() {
        #expect(throws: CryptoError.self) {
            _ = try PageDigester(key: SecretBytes(copying: [UInt8](repeating: 1, count: 16)))
        }
    }
}
