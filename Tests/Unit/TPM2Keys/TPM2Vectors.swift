import Foundation
import KeyCustody
import StoreCrypto
import Testing

@testable import TPM2Keys

/// The output of Keys/generators/make_tpm2.py, made from Docs/Formats/SealedSecret.md alone.
struct TPM2Vectors: Decodable {
    struct Secret: Decodable, Sendable, CustomTestStringConvertible {
        struct Content: Decodable, Sendable {
            var pcrs: [Int]
            var pin: Bool
            var signedPCRs: [Int]
            var modulus: String
            var salt: String
            var parent: String
            var machine: String
            var publicPart: String
            var privatePart: String
            var values: [String]
        }

        var name: String
        var blob: String
        /// Nil for a blob that is refused.
        var content: Content?

        var testDescription: String { name }
    }

    /// A policy under PCRs of the value zero.
    struct Policy: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var pcrs: [Int]
        var signedPCRs: [Int]
        var modulus: String?
        var pin: Bool
        var signedPolicy: String?
        var policy: String

        var testDescription: String { name }

        func signed() throws -> SignedPolicy? {
            try modulus.map { try #require(try SignedPolicy(key: TPM2Vectors.key($0), pcrs: signedPCRs)) }
        }
    }

    struct Signature: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var file: String
        var modulus: String
        var pcrs: [Int]
        var values: [String]
        /// `ok`, or the case of the error.
        var verdict: String
        var signature: String

        var testDescription: String { name }
    }

    struct PIN: Decodable, Sendable {
        var pin: String
        var salt: String
        var authorization: String
    }

    var secrets: [Secret]
    var policies: [Policy]
    var signatures: [Signature]
    var pins: [PIN]

    static let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

    static let all: TPM2Vectors = {
        let file = root.appending(path: "Keys/vectors/tpm2.json")
        return try! JSONDecoder().decode(TPM2Vectors.self, from: Data(contentsOf: file))
    }()

    static func key(_ modulus: String) throws -> RSAPublicKey {
        try #require(try RSAPublicKey(modulus: modulus.hexBytes))
    }
}

extension String {
    /// The bytes that hexadecimal text stands for.
    var hexBytes: [UInt8] { get throws { try #require(Hex.bytes(utf8)) } }
}
