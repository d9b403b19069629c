import Foundation
import StoreCrypto
import Testing

/// Keys of Keys/vectors/tpm2.json.
@Suite("RSA public keys of files")
struct RSAPublicKeyTests {
    struct Vector: Decodable, Sendable, CustomTestStringConvertible {
        var name: String
        var der: Data
        /// Nil for a key that is refused.
        var modulus: Hex?
        var fingerprint: Hex?

        var testDescription: String { name }

        func pem(_ label: String = "PUBLIC KEY") -> String {
            // Written apart: no file of the repository has a key in PEM.
            let (begin, end) = ("-----" + "BEGIN \(label)-----", "-----END \(label)-----")
            return "\(begin)\n\(der.base64EncodedString(options: .lineLength64Characters))\n\(end)\n"
        }
    }

    private struct File: Decodable {
        var keys: [Vector]
    }

    private static let vectors: [Vector] = {
        let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }
        let file = root.appending(path: "Keys/vectors/tpm2.json")
        return try! JSONDecoder().decode(File.self, from: Data(contentsOf: file)).keys
    }()

    @Test("a key in PEM has its modulus and its fingerprint, and others are refused", arguments: vectors)
    func pem(vector: Vector) throws {
        let key = RSAPublicKey(pem: Array(vector.pem().utf8))
        #expect(key?.modulus == vector.modulus?.bytes)
        #expect(try key?.fingerprint() == vector.fingerprint?.bytes)
        if let modulus = vector.modulus { #expect(RSAPublicKey(modulus: modulus.bytes) == key) }
    }

    @Test("text around a key is skipped; another label, a cut and an encrypted block are refused without a question")
    func forms() throws {
        let vector = try #require(Self.vectors.first)
        let text = vector.pem()
        let encrypted = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,\(String(repeating: "0", count: 32))\n"
        #expect(RSAPublicKey(pem: Array("a comment\r\n\(text)more".utf8)) != nil)
        for other in [
            "", "\0", vector.pem("CERTIFICATE"), String(text.dropLast(40)),
            text.replacing("-\nMII", with: "-\n\(encrypted)\nMII"),
        ] { #expect(RSAPublicKey(pem: Array(other.utf8)) == nil, "\(other)") }
    }

    @Test("a modulus that is even, short, or of a length that no TPM has, is refused")
    func modulus() {
        var bytes = [UInt8](repeating: 0xff, count: 256)
        #expect(RSAPublicKey(modulus: bytes) != nil)
        for count in [0, 1, 128, 255, 257, 320, 511, 513] {
            #expect(RSAPublicKey(modulus: [UInt8](repeating: 0xff, count: count)) == nil)
        }
        bytes[255] = 0xfe
        #expect(RSAPublicKey(modulus: bytes) == nil)
        (bytes[0], bytes[255]) = (0x7f, 0xff)
        #expect(RSAPublicKey(modulus: bytes) == nil)
    }
}
