import StoreCrypto
import Testing

struct ScryptVector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var password: Hex
    var salt: Hex
    var log2Rounds: Int
    var blockSize: Int
    var lanes: Int
    var output: Hex

    var testDescription: String { name }
}

struct Argon2Vector: Decodable, Sendable, CustomTestStringConvertible {
    var name: String
    var password: Hex
    var salt: Hex
    var memoryKiB: Int
    var iterations: Int
    var lanes: Int
    var output: Hex

    var testDescription: String { name }
}

@Suite("Derivations that need memory")
struct MemoryHardDerivationTests {
    private func scrypt(_ vector: ScryptVector, memoryLimitBytes: Int = 1 << 28) throws -> [UInt8] {
        try vector.password.bytes.withUnsafeBytes { password in
            let key = try KeyDerivation.scrypt(
                password: password, salt: vector.salt.bytes, log2Rounds: vector.log2Rounds,
                blockSize: vector.blockSize, lanes: vector.lanes, memoryLimitBytes: memoryLimitBytes,
                keyBytes: vector.output.bytes.count)
            return key.withBytes { Array($0) }
        }
    }

    @Test(
        "scrypt gives the values of RFC 7914 and of another implementation",
        arguments: VectorFile<ScryptVector>.load("scrypt.json"))
    func scryptVectors(vector: ScryptVector) throws {
        #expect(Hex(try scrypt(vector)) == vector.output)
    }

    @Test("scrypt that needs more memory than it may take is refused")
    func memoryLimit() throws {
        let vector = try #require(VectorFile<ScryptVector>.load("scrypt.json").first { $0.log2Rounds == 14 })
        let error = #expect(throws: CryptoError.self) { _ = try scrypt(vector, memoryLimitBytes: 16 << 20) }
        #expect(error?.reason.contains("memory limit") == true)
        #expect(Hex(try scrypt(vector, memoryLimitBytes: 17 << 20)) == vector.output)
    }

    @Test(
        "parameters that make no derivation are refused",
        arguments: [(0, 8, 1), (-1, 8, 1), (64, 8, 1), (14, 0, 1), (14, 8, 0), (14, 8, -1), (63, 8, 1)])
    func oddParameters(log2Rounds: Int, blockSize: Int, lanes: Int) throws {
        var vector = try #require(VectorFile<ScryptVector>.load("scrypt.json").first)
        (vector.log2Rounds, vector.blockSize, vector.lanes) = (log2Rounds, blockSize, lanes)
        #expect(throws: CryptoError.self) { _ = try scrypt(vector) }
    }

    private func argon2id(_ vector: Argon2Vector) throws -> [UInt8] {
        try vector.password.bytes.withUnsafeBytes { password in
            let key = try KeyDerivation.argon2id(
                password: password, salt: vector.salt.bytes, memoryKiB: vector.memoryKiB,
                iterations: vector.iterations, lanes: vector.lanes, keyBytes: vector.output.bytes.count)
            return key.withBytes { Array($0) }
        }
    }

    @Test(
        "Argon2id gives the values of another implementation where the library has it, and is refused elsewhere",
        arguments: VectorFile<Argon2Vector>.load("argon2id.json"))
    func argon2Vectors(vector: Argon2Vector) throws {
        if KeyDerivation.hasArgon2id {
            #expect(Hex(try argon2id(vector)) == vector.output)
        } else {
            #expect(throws: CryptoError.self) { _ = try argon2id(vector) }
        }
        var odd = vector
        odd.iterations = 0
        #expect(throws: CryptoError.self) { _ = try argon2id(odd) }
    }
}
