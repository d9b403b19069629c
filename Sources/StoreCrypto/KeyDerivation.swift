import COpenSSL

/// Derives keys: from passphrases (PBKDF2) and from other keys (HKDF).
package enum KeyDerivation {
    /// Derives a key from a passphrase with PBKDF2-HMAC.
    ///
    /// - Parameter rounds: At least 1. SQLCipher uses 256,000 for passphrases and 2 for the MAC key.
    /// - SeeAlso: RFC 8018, section 5.2.
    static func pbkdf2(
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

/// Memory-hard derivations from passphrases, which make guessing on special hardware expensive.
extension KeyDerivation {
    /// Derives a key from a passphrase with scrypt.
    ///
    /// It takes 128 * `blockSize` * 2^`log2Rounds` bytes of memory: 128 MiB and about 300 ms with 17, 8 and 1.
    ///
    /// - Parameters:
    ///   - log2Rounds: log2 N, 1 or more.
    ///   - blockSize: r, 1 or more.
    ///   - lanes: p, 1 or more; computed one after the other.
    ///   - memoryLimitBytes: A larger memory is refused before anything is allocated.
    /// - SeeAlso: RFC 7914.
    package static func scrypt(
        password: UnsafeRawBufferPointer, salt: [UInt8], log2Rounds: Int, blockSize: Int, lanes: Int,
        memoryLimitBytes: Int, keyBytes: Int
    ) throws(CryptoError) -> SecretBytes {
        let operation = "EVP_PBE_scrypt"
        guard (1...63).contains(log2Rounds), blockSize > 0, lanes > 0, memoryLimitBytes > 0, keyBytes > 0 else {
            throw CryptoError(operation, reason: "parameters out of range")
        }
        WorkCount.derivations.add()
        var status: Int32 = 0
        let key = SecretBytes(count: keyBytes) { output in
            // libcrypto treats a nil password as "not given", which differs from an empty one.
            let start = password.baseAddress ?? UnsafeRawPointer(output.baseAddress)
            status = EVP_PBE_scrypt(
                start?.assumingMemoryBound(to: CChar.self), password.count, salt, salt.count, UInt64(1) << log2Rounds,
                UInt64(blockSize), UInt64(lanes), UInt64(memoryLimitBytes), output.bytes, output.count)
        }
        try CryptoError.check(status == 1, operation)
        return key
    }

    /// Whether libcrypto has Argon2id: OpenSSL does since 3.2.
    package static let hasArgon2id: Bool = {
        let algorithm = EVP_KDF_fetch(nil, "ARGON2ID", nil)
        defer { EVP_KDF_free(algorithm) }
        ERR_clear_error()
        return algorithm != nil
    }()

    /// Derives a key from a passphrase with Argon2id.
    ///
    /// libcrypto allocates the memory from the process's secure heap if another part of the program has set that up
    /// (`CRYPTO_secure_malloc_init`), and fails when the heap is too small. This library does not set it up.
    ///
    /// - Parameters:
    ///   - pepper: A key that is stored apart from the derived key, RFC 9106's secret value K.
    ///   - associatedData: RFC 9106's X.
    ///   - memoryKiB: Memory, at least 8 KiB for each lane.
    ///   - iterations: Passes over that memory, 1 or more.
    ///   - lanes: Independent parts of the memory; computed one after the other, by one thread.
    /// - Throws: ``CryptoError``, also when the library has no Argon2id (``hasArgon2id``).
    /// - SeeAlso: RFC 9106.
    package static func argon2id(
        password: UnsafeRawBufferPointer, salt: [UInt8],
        pepper: UnsafeRawBufferPointer = UnsafeRawBufferPointer(start: nil, count: 0), associatedData: [UInt8] = [],
        memoryKiB: Int, iterations: Int, lanes: Int, keyBytes: Int
    ) throws(CryptoError) -> SecretBytes {
        guard let memory = UInt32(exactly: memoryKiB), let passes = UInt32(exactly: iterations),
            let parts = UInt32(exactly: lanes), memory > 0, passes > 0, parts > 0, keyBytes > 0
        else {
            throw CryptoError("ARGON2ID", reason: "parameters out of range")
        }
        let algorithm = EVP_KDF_fetch(nil, "ARGON2ID", nil)
        defer { EVP_KDF_free(algorithm) }
        try CryptoError.check(algorithm != nil, "EVP_KDF_fetch(ARGON2ID)")
        let context = EVP_KDF_CTX_new(algorithm)
        defer { EVP_KDF_CTX_free(context) }
        try CryptoError.check(context != nil, "EVP_KDF_CTX_new")
        WorkCount.derivations.add()
        var status: Int32 = 0
        let key = SecretBytes(count: keyBytes) { output in
            let start = password.baseAddress ?? UnsafeRawPointer(output.baseAddress)
            status = copenssl_argon2id_derive(
                context, start, password.count, salt, salt.count, pepper.baseAddress, pepper.count,
                associatedData, associatedData.count, memory, passes, parts, output.bytes, output.count)
        }
        if status != 1, CRYPTO_secure_malloc_initialized() == 1 {
            let failure = CryptoError.last(argon2idDerivation)
            throw CryptoError(
                failure.operation,
                reason: failure.reason + "; this program has set up OpenSSL's secure heap (CRYPTO_secure_malloc_init), "
                    + "and Argon2id takes its \(memoryKiB) KiB from there alone")
        }
        try CryptoError.check(status == 1, argon2idDerivation)
        return key
    }

    private static let argon2idDerivation = "EVP_KDF_derive(ARGON2ID)"
}
