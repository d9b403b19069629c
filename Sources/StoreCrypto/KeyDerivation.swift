import COpenSSL

/// Derives keys: from passphrases (PBKDF2) and from other keys (HKDF).
package enum KeyDerivation {
    /// Derives a key from a passphrase with PBKDF2-HMAC.
    ///
    /// - Parameter rounds: At least 1. SQLCipher uses 256,000 for passphrases and 2 for the MAC key.
    /// - SeeAlso: RFC 8018, section 5.2.
    package static func pbkdf2(
        password: UnsafeRawBufferPointer,
        salt: [UInt8],
        rounds: Int,
        hash: HashAlgorithm,
        keyBytes: Int
    ) throws(CryptoError) -> SecretBytes {
        let operation = "PKCS5_PBKDF2_HMAC"
        guard rounds > 0, keyBytes > 0, let rounds = Int32(exactly: rounds), let keyCount = Int32(exactly: keyBytes),
            let passwordCount = Int32(exactly: password.count), let saltCount = Int32(exactly: salt.count)
        else {
            throw CryptoError(operation, reason: "rounds or lengths out of range")
        }
        // The two rounds of SQLCipher's MAC key are not a slow derivation.
        if rounds > 2 { WorkCount.derivations.add() }
        var status: Int32 = 0
        let key = SecretBytes(count: keyBytes) { output in
            // libcrypto treats a nil password as "not given", which differs from an empty one.
            let start = password.baseAddress ?? UnsafeRawPointer(output.baseAddress)
            status = PKCS5_PBKDF2_HMAC(
                start?.assumingMemoryBound(to: CChar.self), passwordCount, salt, saltCount, rounds,
                hash.digest, keyCount, output.bytes)
        }
        try CryptoError.check(status == 1, operation)
        return key
    }

    /// Derives a key from another key with HKDF-SHA256; each purpose has its own label.
    ///
    /// - SeeAlso: RFC 5869.
    package static func hkdf(
        key: SecretBytes,
        salt: [UInt8],
        label: String,
        keyBytes: Int
    ) throws(CryptoError) -> SecretBytes {
        guard keyBytes > 0 else { throw CryptoError("EVP_KDF_derive", reason: "key length out of range") }
        let algorithm = EVP_KDF_fetch(nil, "HKDF", nil)
        defer { EVP_KDF_free(algorithm) }
        let context = EVP_KDF_CTX_new(algorithm)
        defer { EVP_KDF_CTX_free(context) }
        try CryptoError.check(context != nil, "EVP_KDF_CTX_new")
        let info = Array(label.utf8)
        var status: Int32 = 0
        let derived = key.withBytes { key in
            SecretBytes(count: keyBytes) { output in
                status = copenssl_hkdf_derive(
                    context, HashAlgorithm.sha256.providerName, key.baseAddress, key.count,
                    salt, salt.count, info, info.count, output.bytes, output.count)
            }
        }
        try CryptoError.check(status == 1, "EVP_KDF_derive")
        return derived
    }
}
