import COpenSSL
import Foundation
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
    var pepper: Hex?
    var associatedData: Hex?
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
            try (vector.pepper?.bytes ?? []).withUnsafeBytes { pepper in
                let key = try KeyDerivation.argon2id(
                    password: password, salt: vector.salt.bytes, pepper: pepper,
                    associatedData: vector.associatedData?.bytes ?? [], memoryKiB: vector.memoryKiB,
                    iterations: vector.iterations, lanes: vector.lanes, keyBytes: vector.output.bytes.count)
                return key.withBytes { Array($0) }
            }
        }
    }

    @Test(
        """
        Argon2id gives the values of RFC 9106 and of other implementations where the library has it, and is refused \
        elsewhere
        """,
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

    /// Skips a test that the machine has nothing for, unless it was set up for it: then that is a failure.
    private static func skip(_ reason: Comment) throws {
        if ProcessInfo.processInfo.environment["CIPHERSTORE_REQUIRES"] == "argon2id" {
            Issue.record(reason)
        } else {
            try Test.cancel(reason)
        }
    }

    @Test("an OpenSSL that has Argon2id is found to have it")
    func found() throws {
        // OpenSSL 3.2 was the first: https://docs.openssl.org/3.2/man7/EVP_KDF-ARGON2/
        if OpenSSL_version_num() >= 0x3020_0000 {
            #expect(KeyDerivation.hasArgon2id)
        } else {
            try Self.skip("this OpenSSL is too old for Argon2id")
        }
    }

    @Test("Argon2id gives what the program of its authors prints, for random values")
    func argon2Program() throws {
        guard KeyDerivation.hasArgon2id else { return try Self.skip("this OpenSSL has no Argon2id") }
        let program = "/usr/bin/argon2"
        guard FileManager.default.isExecutableFile(atPath: program) else {
            return try Self.skip("there is no \(program)")
        }
        for _ in 0..<12 {
            let lanes = Int.random(in: 1...8)
            var vector = try #require(VectorFile<Argon2Vector>.load("argon2id.json").last)
            // The program takes its salt from the command line, where no NUL can stand.
            vector.salt = Hex((0..<Int.random(in: 8...32)).map { _ in UInt8.random(in: 0x21...0x7e) })
            vector.password = Hex((0..<Int.random(in: 1...100)).map { _ in UInt8.random(in: 0...255) })
            (vector.iterations, vector.lanes) = (Int.random(in: 1...3), lanes)
            vector.memoryKiB = Int.random(in: 8 * lanes...20_000)
            vector.output = Hex(try Self.printed(by: program, vector))
            #expect(Hex(try argon2id(vector)) == vector.output, "\(vector)")
        }
    }

    private static func printed(by program: String, _ vector: Argon2Vector) throws -> [UInt8] {
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = [
            String(decoding: vector.salt.bytes, as: UTF8.self), "-id", "-r", "-l", "\(vector.output.bytes.count)",
            "-t", "\(vector.iterations)", "-k", "\(vector.memoryKiB)", "-p", "\(vector.lanes)",
        ]
        let (input, output) = (Pipe(), Pipe())
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: vector.password.bytes)
        try input.fileHandleForWriting.close()
        let printed = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
        // Hexadecimal digits and a line feed.
        return try JSONDecoder().decode(Hex.self, from: Data("\"".utf8) + printed.dropLast() + Data("\"".utf8)).bytes
    }

    // OpenSSL 3.5 refused every slot's Argon2id with "invalid memory size": it takes the memory of the derivation from
    // its secure heap as soon as that is set up, and this library had set it up, with room for keys alone.
    @Test("secrets and derivations leave libcrypto's secure heap as it is: not set up")
    func secureHeap() throws {
        let secret = try SecretBytes.random(count: 32)
        let vector = try #require(VectorFile<ScryptVector>.load("scrypt.json").first)
        #expect(Hex(try scrypt(vector)) == vector.output)
        #expect(CRYPTO_secure_malloc_initialized() == 0)
        let count = secret.count
        #expect(count == 32)
    }

    @Test("Argon2id in a program that has set up a small secure heap names it as the reason")
    func foreignSecureHeap() async throws {
        guard KeyDerivation.hasArgon2id else { return try Self.skip("this OpenSSL has no Argon2id") }
        await #expect(processExitsWith: .success) {
            #expect(CRYPTO_secure_malloc_init(1 << 16, 16) == 1)
            let vector = try #require(VectorFile<Argon2Vector>.load("argon2id.json").last)
            let error = #expect(throws: CryptoError.self) { _ = try Self().argon2id(vector) }
            #expect(error?.reason.contains("CRYPTO_secure_malloc_init") == true, "\(String(describing: error))")
        }
    }
}
