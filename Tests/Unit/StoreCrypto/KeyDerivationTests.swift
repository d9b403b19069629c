import Foundation
@testable import StoreCrypto
import Testing

struct KDFVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var passphrase: String?
    var salt: Hex
    var rounds: Int?
    var hash: String
    var dataKey: Hex
    var macKey: Hex

    var testDescription: String { name }
    var settings: CipherSettings {
        CipherSettings(kdfRounds: rounds ?? 256_000, kdfHash: HashAlgorithm(rawValue: hash)!)
    }
}

struct HKDFVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var key: Hex
    var salt: Hex
    var label: String
    var output: Hex

    var testDescription: String { name }
}

@Suite("Key derivation")
struct KeyDerivationTests {
    @Test("data and MAC keys are those of SQLCipher", arguments: VectorFile<KDFVector>.load("kdf.json"))
    func derivesSQLCipherKeys(vector: KDFVector) throws {
        if let passphrase = vector.passphrase {
            let key = try Array(passphrase.utf8).withUnsafeBytes { bytes in
                try dataKey(vector.settings, passphrase: bytes, salt: vector.salt.bytes)
            }
            #expect(Hex(key) == vector.dataKey)
        }
        let macKey = try vector.settings.deriveMacKey(
            dataKey: SecretBytes(copying: vector.dataKey.bytes), salt: vector.salt.bytes)
        let macBytes = macKey.withBytes { Array($0) }
        #expect(Hex(macBytes) == vector.macKey)
    }

    private func dataKey(
        _ settings: CipherSettings, passphrase: UnsafeRawBufferPointer, salt: [UInt8]
    ) throws -> [UInt8] {
        let key = try settings.deriveDataKey(passphrase: passphrase, salt: salt)
        return key.withBytes { Array($0) }
    }

    @Test("the published vector of the project's facts is among the vectors")
    func containsKnownVector() throws {
        let vectors = VectorFile<KDFVector>.load("kdf.json")
        let passphrase = try #require(vectors.first { $0.passphrase == "sesame street" && $0.rounds == 256_000 })
        #expect(
            passphrase.dataKey.description == "c4ba9f0666ef1fe24ddfb1f14732c086e58e4e7c2d7904fdb3244b8fa3d18868")
        #expect(passphrase.macKey.description == "87cbb85ed199c187f9f83698640e68901be7925b73317a3c1b4778fc097b3430")
        let raw = try #require(vectors.first { $0.passphrase == nil })
        #expect(raw.macKey.description == "601364baed0dde5a2d291ede302ae7e0540a85b57a281a0d19c344b7d4f382ce")
    }

    @Test("a salt of another length than 16 is refused", arguments: [0, 15, 17, 32])
    func refusesOddSalts(saltBytes: Int) {
        let salt = [UInt8](repeating: 1, count: saltBytes)
        #expect(throws: CryptoError.self) {
            _ = try [1, 2, 3].withUnsafeBytes { try dataKey(.sqlCipher4, passphrase: $0, salt: salt) }
        }
        #expect(throws: CryptoError.self) {
            _ = try CipherSettings.sqlCipher4.deriveMacKey(dataKey: SecretBytes(copying: [1]), salt: salt)
        }
    }

    @Test("rounds and lengths out of range are refused", arguments: [(0, 32), (-1, 32), (Int.max, 32), (1, 0)])
    func refusesOddParameters(rounds: Int, keyBytes: Int) {
        #expect(throws: CryptoError.self) {
            _ = try KeyDerivation.pbkdf2(
                password: UnsafeRawBufferPointer(start: nil, count: 0), salt: [1], rounds: rounds, hash: .sha512,
                keyBytes: keyBytes)
        }
    }

    @Test(
        "HKDF-SHA256 gives the values of RFC 5869 and of another implementation",
        arguments: VectorFile<HKDFVector>.load("hkdf.json"))
    func derivesByLabel(vector: HKDFVector) throws {
        let derived = try KeyDerivation.hkdf(
            key: SecretBytes(copying: vector.key.bytes), salt: vector.salt.bytes, label: vector.label,
            keyBytes: vector.output.bytes.count)
        let output = derived.withBytes { Array($0) }
        #expect(Hex(output) == vector.output)
    }

    @Test("the reserve is the vector and the code, rounded up to whole cipher blocks")
    func reservesAsSQLCipher() {
        let reserves = HashAlgorithm.allCases.map { CipherSettings(hmacHash: $0).reservedBytes }
        #expect(reserves == [48, 48, 80])
    }
}
