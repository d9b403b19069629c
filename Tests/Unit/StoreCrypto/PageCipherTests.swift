import StoreCrypto
import Testing

struct CipherVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var key: Hex
    var vector: Hex
    var plain: Hex
    var encrypted: Hex

    var testDescription: String { name }
}

@Suite("Page cipher")
struct PageCipherTests {
    @Test(
        "AES-256-CBC gives the values of NIST SP 800-38A, again and again with the same contexts",
        arguments: VectorFile<CipherVector>.load("cipher.json"))
    func encryptsAndDecrypts(vector: CipherVector) throws {
        var cipher = try PageCipher(key: SecretBytes(copying: vector.key.bytes))
        for _ in 0..<3 {
            let encrypted = try encrypt(&cipher, vector.plain.bytes, vector.vector.bytes)
            #expect(encrypted == vector.encrypted.bytes)
            let decrypted = try decrypt(&cipher, vector.encrypted.bytes, vector.vector.bytes)
            #expect(decrypted == vector.plain.bytes)
            // Leaves the contexts in the middle of another message.
            _ = try encrypt(&cipher, [UInt8](repeating: 9, count: 16), [UInt8](repeating: 3, count: 16))
        }
    }

    @Test("lengths that are not whole blocks are refused", arguments: [1, 15, 17])
    func refusesPartialBlocks(count: Int) throws {
        var cipher = try PageCipher(key: SecretBytes.random(count: 32))
        #expect(throws: CryptoError.self) {
            _ = try encrypt(&cipher, [UInt8](repeating: 0, count: count), [UInt8](repeating: 0, count: 16))
        }
    }

    @Test("keys of another length than 32 are refused", arguments: [0, 16, 31, 33])
    func refusesOddKeys(count: Int) {
        #expect(throws: CryptoError.self) { _ = try PageCipher(key: SecretBytes.random(count: count)) }
    }

    @Test("an error names the call and the reason, and no bytes")
    func describesErrors() {
        let error = #expect(throws: CryptoError.self) { _ = try PageCipher(key: SecretBytes.random(count: 31)) }
        #expect(
            error?.description
                == "cryptography failed in EVP_CipherInit_ex2: the key has 31 bytes instead of 32")
    }

    private func encrypt(_ cipher: inout PageCipher, _ input: [UInt8], _ vector: [UInt8]) throws -> [UInt8] {
        var output = [UInt8](repeating: 0, count: input.count)
        try output.withUnsafeMutableBytes { output in
            try input.withUnsafeBytes { try cipher.encrypt($0, initializationVector: vector, into: output) }
        }
        return output
    }

    private func decrypt(_ cipher: inout PageCipher, _ input: [UInt8], _ vector: [UInt8]) throws -> [UInt8] {
        var output = [UInt8](repeating: 0, count: input.count)
        try output.withUnsafeMutableBytes { output in
            try input.withUnsafeBytes { try cipher.decrypt($0, initializationVector: vector, into: output) }
        }
        return output
    }
}
