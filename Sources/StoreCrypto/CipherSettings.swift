/// The settings with which SQLCipher derives keys and lays out pages.
///
/// With key and salt they determine whether a file can be read, so a store records them in its sidecar.
/// - SeeAlso: <https://www.zetetic.net/sqlcipher/sqlcipher-api/>
public struct CipherSettings: Hashable, Sendable {
    /// Bytes of one database page: a power of two from 512 to 65,536.
    public var pageBytes: Int
    /// Bytes at the start of the file that stay readable: 0 (they hold the salt) or 32 (the salt is kept elsewhere).
    public var plaintextHeaderBytes: Int
    /// PBKDF2 rounds from passphrase to data key.
    public var kdfRounds: Int
    /// Hash of the PBKDF2 derivation.
    public var kdfHash: HashAlgorithm
    /// Hash of the page authentication code.
    public var hmacHash: HashAlgorithm

    public init(
        pageBytes: Int = 4096,
        plaintextHeaderBytes: Int = 0,
        kdfRounds: Int = 256_000,
        kdfHash: HashAlgorithm = .sha512,
        hmacHash: HashAlgorithm = .sha512
    ) {
        self.pageBytes = pageBytes
        self.plaintextHeaderBytes = plaintextHeaderBytes
        self.kdfRounds = kdfRounds
        self.kdfHash = kdfHash
        self.hmacHash = hmacHash
    }

    /// SQLCipher 4's defaults: the salt is in the first 16 bytes of the file.
    public static let sqlCipher4 = CipherSettings()
    /// SQLCipher 4 with 32 readable header bytes: the settings of a new store.
    public static let plaintextHeader = CipherSettings(plaintextHeaderBytes: 32)
    /// SQLCipher 3's defaults.
    public static let sqlCipher3 = CipherSettings(
        pageBytes: 1024, kdfRounds: 64_000, kdfHash: .sha1, hmacHash: .sha1)

    /// Bytes at the end of every page that hold the initialization vector and the authentication code.
    public var reservedBytes: Int {
        // SQLCipher rounds IV (16) + HMAC up to a multiple of the AES block.
        let used = 16 + hmacHash.digestBytes
        return (used + 15) / 16 * 16
    }
}

/// A hash function that SQLCipher supports.
public enum HashAlgorithm: String, Hashable, Sendable, CaseIterable {
    case sha1
    case sha256
    case sha512

    /// Length of the digest in bytes.
    public var digestBytes: Int {
        switch self {
        case .sha1: 20
        case .sha256: 32
        case .sha512: 64
        }
    }
}

extension CipherSettings {
    /// Bytes of the salt of a SQLCipher file.
    package static let saltBytes = 16
    /// Bytes of the data key, and of the MAC key derived from it.
    package static let keyBytes = 32
    /// SQLCipher derives the MAC key under the salt with this mask XORed to each byte.
    private static let macSaltMask: UInt8 = 0x3a
    /// Rounds from data key to MAC key: the input is a full-strength key already.
    private static let macKeyRounds = 2

    /// Derives the data key that SQLCipher derives from the same passphrase and salt.
    ///
    /// - Throws: ``CryptoError`` when the salt is not 16 bytes long or libcrypto fails.
    package func deriveDataKey(
        passphrase: UnsafeRawBufferPointer, salt: [UInt8]
    ) throws(CryptoError) -> SecretBytes {
        try Self.checkSalt(salt)
        return try KeyDerivation.pbkdf2(
            password: passphrase, salt: salt, rounds: kdfRounds, hash: kdfHash, keyBytes: Self.keyBytes)
    }

    /// Derives the key of the page authentication codes.
    ///
    /// - Throws: ``CryptoError`` when the salt is not 16 bytes long or libcrypto fails.
    package func deriveMacKey(
        dataKey: SecretBytes, salt: [UInt8]
    ) throws(CryptoError) -> SecretBytes {
        try Self.checkSalt(salt)
        let macSalt = salt.map { $0 ^ Self.macSaltMask }
        return try dataKey.withBytes { (bytes) throws(CryptoError) -> SecretBytes in
            try KeyDerivation.pbkdf2(
                password: bytes, salt: macSalt, rounds: Self.macKeyRounds, hash: kdfHash, keyBytes: Self.keyBytes)
        }
    }

    private static func checkSalt(_ salt: [UInt8]) throws(CryptoError) {
        // SQLCipher accepts a malformed salt silently, and such a file opens nowhere else.
        if salt.count != saltBytes {
            throw CryptoError("key derivation", reason: "the salt has \(salt.count) bytes instead of \(saltBytes)")
        }
    }
}
