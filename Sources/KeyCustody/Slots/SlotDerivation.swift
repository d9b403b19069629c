import StoreCrypto
import StorePlatform

/// How the secret of a keyslot becomes the key that wraps the master key.
package enum SlotDerivation: Hashable, Sendable {
    /// HKDF alone, for secrets of full strength: it takes no time, so a weak secret could be guessed.
    case hkdf
    /// scrypt (RFC 7914), for secrets that people remember.
    case scrypt(log2Rounds: Int, blockSize: Int, lanes: Int)
    /// Argon2id (RFC 9106), only on request: OpenSSL before 3.2, which Debian 12 has, cannot open such a slot.
    case argon2id(memoryKiB: Int, iterations: Int, lanes: Int)

    /// scrypt with N = 2^17, r = 8, p = 1: 128 MiB and about 300 ms.
    package static let standard = SlotDerivation.scrypt(log2Rounds: standardLog2Rounds, blockSize: 8, lanes: 1)
    /// Argon2id as RFC 9106 recommends it where memory is limited: 64 MiB, three passes, four lanes.
    package static let standardArgon2id = SlotDerivation.argon2id(memoryKiB: 64 * 1024, iterations: 3, lanes: 4)

    private static let standardLog2Rounds: Int = {
        #if DEBUG
            // Tests whose processes take passphrases, and that are not about their cost. Release builds do not contain it.
            if ProcessInspector.environmentValue("CIPHERSTORE_CHEAP_SLOTS") == [UInt8(ascii: "1")] {
                return CustodyLimits.scryptLog2Rounds.lowerBound
            }
        #endif
        return 17
    }()

    static let wrappingLabel = "cipherstore slot wrapping v2"
    static let wrappingKeyBytes = 32

    /// Whether it makes guessing slow.
    var isMemoryHard: Bool { self != .hkdf }

    /// Whether the library of this process can compute it.
    var isAvailable: Bool {
        switch self {
        case .hkdf, .scrypt: true
        case .argon2id: KeyDerivation.hasArgon2id
        }
    }

    /// The name in the sidecar of the first parameter that is out of its bounds; nil when all are within.
    var fieldOutOfBounds: String? {
        switch self {
        case .hkdf: nil
        case .scrypt(let log2Rounds, let blockSize, let lanes):
            if !CustodyLimits.scryptLog2Rounds.contains(log2Rounds) {
                "log2_n"
            } else if blockSize != CustodyLimits.scryptBlockSize {
                "r"
            } else {
                CustodyLimits.scryptLanes.contains(lanes) ? nil : "p"
            }
        case .argon2id(let memoryKiB, let iterations, let lanes):
            if !CustodyLimits.argon2MemoryKiB.contains(memoryKiB) {
                "memory_kib"
            } else if !CustodyLimits.argon2Iterations.contains(iterations) {
                "iterations"
            } else {
                CustodyLimits.argon2Lanes.contains(lanes) ? nil : "lanes"
            }
        }
    }

    /// The memory that one derivation fills, counted once for each lane or pass; the parameters must be within their
    /// bounds.
    var workBytes: Int {
        switch self {
        case .hkdf: 0
        case .scrypt(let log2Rounds, let blockSize, let lanes): (128 * blockSize * lanes) << log2Rounds
        case .argon2id(let memoryKiB, let iterations, _): 1024 * memoryKiB * iterations
        }
    }

    /// Derives the wrapping key of a slot from its secret.
    ///
    /// - Throws: ``StoreError`` `unsupportedLibrary` when the library lacks the algorithm; ``CryptoError``.
    func wrappingKey(secret: SecretBytes, salt: Salt) throws -> SecretBytes {
        switch self {
        case .hkdf: return try Self.expand(secret, salt)
        case .scrypt(let log2Rounds, let blockSize, let lanes):
            let stretched = try secret.withBytes { (bytes) throws(CryptoError) -> SecretBytes in
                // The working memory is 128 bytes for each r and p beyond the large block; libcrypto counts all of it.
                try KeyDerivation.scrypt(
                    password: bytes, salt: salt.bytes, log2Rounds: log2Rounds, blockSize: blockSize, lanes: lanes,
                    memoryLimitBytes: CustodyLimits.slotMemoryBytes + (1 << 20), keyBytes: Self.wrappingKeyBytes)
            }
            return try Self.expand(stretched, salt)
        case .argon2id(let memoryKiB, let iterations, let lanes):
            guard isAvailable else { throw Self.missingArgon2id() }
            let stretched = try secret.withBytes { (bytes) throws(CryptoError) -> SecretBytes in
                try KeyDerivation.argon2id(
                    password: bytes, salt: salt.bytes, memoryKiB: memoryKiB, iterations: iterations, lanes: lanes,
                    keyBytes: Self.wrappingKeyBytes)
            }
            return try Self.expand(stretched, salt)
        }
    }

    private static func expand(_ key: SecretBytes, _ salt: Salt) throws(CryptoError) -> SecretBytes {
        try KeyDerivation.hkdf(key: key, salt: salt.bytes, label: wrappingLabel, keyBytes: wrappingKeyBytes)
    }

    static func missingArgon2id() -> StoreError {
        StoreError(
            .unsupportedLibrary, what: "The keyslot cannot be used on this machine.",
            why: "It is derived with Argon2id, which OpenSSL has only since version 3.2.",
            remedy: "Use another keyslot, or a newer OpenSSL.")
    }
}

extension SlotDerivation: CustomStringConvertible {
    package var description: String {
        switch self {
        case .hkdf: "hkdf"
        case .scrypt(let log2Rounds, let blockSize, let lanes): "scrypt N=2^\(log2Rounds) r=\(blockSize) p=\(lanes)"
        case .argon2id(let memoryKiB, let iterations, let lanes):
            "argon2id \(memoryKiB) KiB, \(iterations) passes, \(lanes) lanes"
        }
    }
}
