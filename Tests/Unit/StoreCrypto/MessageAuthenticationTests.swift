@testable import StoreCrypto
import Testing

struct HMACVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var hash: String
    var key: Hex
    var message: Hex
    var code: Hex

    var testDescription: String { "\(hash), \(name)" }
    var algorithm: HashAlgorithm { HashAlgorithm(rawValue: hash)! }
}

@Suite("Message authentication")
struct MessageAuthenticationTests {
    @Test(
        "codes are those of RFC 2202, RFC 4231 and of another implementation",
        arguments: VectorFile<HMACVector>.load("hmac.json"))
    func authenticates(vector: HMACVector) throws {
        let key = SecretBytes(copying: vector.key.bytes)
        let code = try MessageAuthentication.hmac(vector.algorithm, key: key, vector.message.bytes)
        #expect(Hex(code) == vector.code)
    }

    @Test("comparison tells codes apart by every byte and by length")
    func compares() {
        let code: [UInt8] = [1, 2, 3, 4]
        #expect(MessageAuthentication.isEqual(code, [1, 2, 3, 4]))
        #expect(MessageAuthentication.isEqual([], []))
        for index in code.indices {
            var other = code
            other[index] ^= 0x80
            #expect(!MessageAuthentication.isEqual(code, other))
        }
        #expect(!MessageAuthentication.isEqual(code, [1, 2, 3]))
        #expect(!MessageAuthentication.isEqual([1, 2, 3], code))
        #expect(!MessageAuthentication.isEqual([], code))
    }

    @Test("an authenticator used again gives what a fresh one-shot gives", arguments: HashAlgorithm.allCases)
    func reusesItsContext(hash: HashAlgorithm) throws {
        let key = try SecretBytes.random(count: 32)
        var authenticator = try PageAuthenticator(hash: hash, key: key)
        for (round, number) in [1, 2, 0x0102_0304, UInt32.max].enumerated() {
            let message = [UInt8](repeating: UInt8(round), count: 1000 + round)
            let suffix = (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) }
            let expected = try MessageAuthentication.hmac(hash, key: key, message + suffix)
            var code = [UInt8](repeating: 0, count: authenticator.codeBytes)
            try message.withUnsafeBytes { message in
                try code.withUnsafeMutableBytes { try authenticator.authenticate(message, number: number, into: $0) }
            }
            #expect(code == expected)
            let isRight = try verify(&authenticator, message, number, code)
            #expect(isRight)
            let passesElsewhere = try verify(&authenticator, message, number ^ 1, code)
            #expect(!passesElsewhere)
            code[code.count - 1] ^= 1
            let passesChanged = try verify(&authenticator, message, number, code)
            #expect(!passesChanged)
            let passesCut = try verify(&authenticator, message, number, Array(expected.dropLast()))
            #expect(!passesCut)
        }
    }

    private func verify(
        _ authenticator: inout PageAuthenticator, _ message: [UInt8], _ number: UInt32, _ code: [UInt8]
    ) throws -> Bool {
        try message.withUnsafeBytes { message in
            try code.withUnsafeBytes { try authenticator.verify(message, number: number, code: $0) }
        }
    }

    @Test("a digest of pieces is the digest of the whole")
    func digests() throws {
        var digest = try ContentDigest()
        for piece in ["a", "", "bc"] { Array(piece.utf8).withUnsafeBytes { digest.update($0) } }
        // FIPS 180-2, appendix B.1.
        #expect(
            Hex(try digest.finish()).description
                == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }
}

@Suite("Authentication of many messages")
struct MessageAuthenticatorTests {
    @Test("pieces give the code of the whole message, on many threads at once")
    func pieces() async throws {
        let key = SecretBytes(copying: (0..<32).map { UInt8($0) })
        let authenticator = try MessageAuthenticator(hash: .sha256, key: key)
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<64 {
                group.addTask {
                    let message = [UInt8](repeating: UInt8(number), count: number * 5)
                    let expected = try MessageAuthentication.hmac(.sha256, key: key, message)
                    var code = [UInt8](repeating: 0, count: 32)
                    try message.withUnsafeBytes { whole in
                        let (first, rest) = (whole[..<number], whole[number...])
                        try code.withUnsafeMutableBytes {
                            try authenticator.authenticate(
                                UnsafeRawBufferPointer(rebasing: first), UnsafeRawBufferPointer(rebasing: rest),
                                into: $0)
                        }
                    }
                    return code == expected
                }
            }
            for try await isEqual in group { #expect(isEqual) }
        }
    }
}
