import StoreCrypto
import Testing

struct GCMVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var key: Hex
    var nonce: Hex
    var plain: Hex
    var additionalData: Hex
    var sealed: Hex

    var testDescription: String { name }
}

@Suite("Authenticated encryption")
struct AuthenticatedEncryptionTests {
    private func open(_ sealed: [UInt8], key: [UInt8], nonce: [UInt8], data: [UInt8]) throws -> [UInt8]? {
        let secret = try AuthenticatedEncryption.open(
            sealed, key: SecretBytes(copying: key), nonce: nonce, additionalData: data)
        switch secret {
        case .some(let secret): return secret.withBytes { Array($0) }
        case .none: return nil
        }
    }

    @Test(
        "AES-256-GCM gives the published values and those of another implementation",
        arguments: VectorFile<GCMVector>.load("gcm.json"))
    func vectors(vector: GCMVector) throws {
        let sealed = try AuthenticatedEncryption.seal(
            SecretBytes(copying: vector.plain.bytes), key: SecretBytes(copying: vector.key.bytes),
            nonce: vector.nonce.bytes, additionalData: vector.additionalData.bytes)
        #expect(Hex(sealed) == vector.sealed)
        let opened = try open(
            vector.sealed.bytes, key: vector.key.bytes, nonce: vector.nonce.bytes, data: vector.additionalData.bytes)
        #expect(opened == vector.plain.bytes)
    }

    @Test("whatever bit of ciphertext, tag, key, nonce or additional data is flipped, nothing opens")
    func everyBit() throws {
        let vector = try #require(VectorFile<GCMVector>.load("gcm.json").first { $0.additionalData.bytes.count == 72 })
        let parts = [vector.sealed.bytes, vector.key.bytes, vector.nonce.bytes, vector.additionalData.bytes]
        for part in parts.indices {
            for position in parts[part].indices {
                for bit in 0..<8 {
                    var changed = parts
                    changed[part][position] ^= 1 << bit
                    let opened = try open(changed[0], key: changed[1], nonce: changed[2], data: changed[3])
                    #expect(opened == nil, "part \(part), byte \(position), bit \(bit)")
                }
            }
        }
        for count in 0..<parts[0].count {
            #expect(try open(Array(parts[0][..<count]), key: parts[1], nonce: parts[2], data: parts[3]) == nil)
        }
        #expect(try open(parts[0] + [0], key: parts[1], nonce: parts[2], data: parts[3]) == nil)
    }

    @Test("keys and nonces of other lengths are refused", arguments: [(0, 12), (16, 12), (31, 12), (32, 0), (32, 16)])
    func lengths(keyBytes: Int, nonceBytes: Int) {
        let key = [UInt8](repeating: 1, count: keyBytes)
        let nonce = [UInt8](repeating: 2, count: nonceBytes)
        #expect(throws: CryptoError.self) {
            try AuthenticatedEncryption.seal(
                SecretBytes(copying: [1]), key: SecretBytes(copying: key), nonce: nonce, additionalData: [])
        }
        #expect(throws: CryptoError.self) {
            _ = try open([UInt8](repeating: 0, count: 48), key: key, nonce: nonce, data: [])
        }
    }

    @Test("a message in a buffer is sealed to the same bytes, and one that is not authentic leaves zeros")
    func messages() throws {
        let vector = try #require(VectorFile<GCMVector>.load("gcm.json").first { $0.additionalData.bytes.count == 72 })
        let key = SecretBytes(copying: vector.key.bytes)
        var sealed = [UInt8](repeating: 0, count: vector.plain.bytes.count + AuthenticatedEncryption.tagBytes)
        var opened = [UInt8](repeating: 1, count: vector.plain.bytes.count)
        func open() throws -> Bool {
            try sealed.withUnsafeBytes { sealed in
                try vector.additionalData.bytes.withUnsafeBytes { data in
                    try opened.withUnsafeMutableBytes { output in
                        try AuthenticatedEncryption.open(
                            sealed, key: key, nonce: vector.nonce.bytes, additionalData: data, into: output)
                    }
                }
            }
        }
        try vector.plain.bytes.withUnsafeBytes { plain in
            try vector.additionalData.bytes.withUnsafeBytes { data in
                try sealed.withUnsafeMutableBytes { output in
                    try AuthenticatedEncryption.seal(
                        plain, key: key, nonce: vector.nonce.bytes, additionalData: data, into: output)
                }
            }
        }
        #expect(Hex(sealed) == vector.sealed)
        let isAuthentic = try open()
        #expect(isAuthentic && opened == vector.plain.bytes)
        sealed[0] ^= 1
        let isForgedAuthentic = try open()
        #expect(!isForgedAuthentic && opened.allSatisfy { $0 == 0 })
        opened.removeLast()
        #expect(throws: CryptoError.self) { try open() }
    }
}
