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
