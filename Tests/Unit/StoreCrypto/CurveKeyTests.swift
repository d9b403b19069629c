import StoreCrypto
import Testing

/// - SeeAlso: RFC 8032, section 7.1; RFC 7748, sections 5.2 and 6.1.
@Suite("Ed25519 and X25519")
struct CurveKeyTests {
    struct SignatureVector: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var secret: Hex
        var verifying: Hex
        var message: Hex
        var signature: Hex

        var testDescription: String { name }
    }

    struct AgreementVector: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var secret: Hex
        var `public`: Hex
        var other: Hex
        var shared: Hex

        var testDescription: String { name }
    }

    @Test("Ed25519 gives the signatures of RFC 8032", arguments: VectorFile<SignatureVector>.load("ed25519.json"))
    func rfc8032(vector: SignatureVector) throws {
        let key = try SigningKey(secret: SecretBytes(copying: vector.secret.bytes))
        #expect(Hex(key.verifyingKey.bytes) == vector.verifying)
        let signature = try key.signature(of: vector.message.bytes)
        #expect(Hex(signature) == vector.signature)
        let verifying = try #require(VerifyingKey(bytes: vector.verifying.bytes))
        #expect(try verifying.isSignature(signature, of: vector.message.bytes))
    }

    @Test("X25519 gives the secrets of RFC 7748", arguments: VectorFile<AgreementVector>.load("x25519.json"))
    func rfc7748(vector: AgreementVector) throws {
        let key = try AgreementKey(secret: SecretBytes(copying: vector.secret.bytes))
        #expect(Hex(key.publicBytes) == vector.public)
        #expect(try content(key.sharedSecret(with: vector.other.bytes)) == vector.shared.bytes)
    }

    private func content(_ secret: SecretBytes?) -> [UInt8]? {
        guard let secret else { return nil }
        return secret.withBytes { Array($0) }
    }

    @Test("two pairs have one secret")
    func keyPairs() throws {
        let (one, other) = (try AgreementKey.random(), try AgreementKey.random())
        let shared = try content(one.sharedSecret(with: other.publicBytes))
        #expect(try shared != nil && shared == content(other.sharedSecret(with: one.publicBytes)))
    }

    @Test("a signature with any bit changed, of another message, or by another key is none")
    func forgedSignatures() throws {
        let key = try SigningKey.random()
        let signature = try key.signature(of: [1, 2, 3])
        for index in signature.indices {
            var forged = signature
            forged[index] ^= 1 << (index % 8)
            #expect(try !key.verifyingKey.isSignature(forged, of: [1, 2, 3]))
        }
        #expect(try !key.verifyingKey.isSignature(signature, of: [1, 2, 4]))
        #expect(try !key.verifyingKey.isSignature(signature.dropLast(), of: [1, 2, 3]))
        #expect(try !SigningKey.random().verifyingKey.isSignature(signature, of: [1, 2, 3]))
        // 0x02 followed by zeros is no point of the curve.
        let none = try #require(VerifyingKey(bytes: [2] + Array(repeating: 0, count: 31)))
        #expect(try !none.isSignature(signature, of: [1, 2, 3]))
    }

    @Test("a public key that gives the secret zero, or has another length, is refused")
    func uselessKeys() throws {
        let key = try AgreementKey.random()
        #expect(try key.sharedSecret(with: Array(repeating: 0, count: 32)) == nil)
        #expect(try key.sharedSecret(with: [1] + Array(repeating: 0, count: 31)) == nil)
        #expect(try key.sharedSecret(with: [9]) == nil)
        #expect(throws: CryptoError.self) { try AgreementKey(secret: SecretBytes(copying: [1, 2])) }
        #expect(throws: CryptoError.self) { try SigningKey(secret: SecretBytes(copying: [1, 2])) }
    }
}
