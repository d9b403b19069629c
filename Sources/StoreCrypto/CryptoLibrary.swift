import COpenSSL

/// The lifetime of libcrypto in this process.
package enum CryptoLibrary {
    /// Keeps libcrypto initialised until the process ends; evaluated before any other use of it.
    ///
    /// By default libcrypto frees its state when the process calls `exit`, while other threads still run. A store that
    /// reopens its connections meanwhile, after a rotation, would crash. If the program has used libcrypto before, this
    /// has no effect.
    package static let livesUntilTheEnd = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1

    /// The first algorithm that stores need and libcrypto does not offer in this process; nil if it offers all.
    ///
    /// The configuration of libcrypto may leave the default provider inactive, or limit the algorithms to those of FIPS
    /// 140. Scrypt is not one of these. Examined once in a process.
    /// - SeeAlso: <https://docs.openssl.org/master/man5/config/>
    package static let missingAlgorithm = findMissingAlgorithm()

    /// Whether algorithms are limited to those of FIPS 140, by `default_properties = fips=yes` or by the system.
    package static var isLimitedToFIPS: Bool { EVP_default_properties_is_fips_enabled(nil) == 1 }

    private static func findMissingAlgorithm() -> String? {
        _ = livesUntilTheEnd
        // The failures are the answer: they must not be taken for those of a later call.
        defer { ERR_clear_error() }
        for name in ["AES-256-CBC", "AES-256-GCM"] {
            guard let cipher = EVP_CIPHER_fetch(nil, name, nil) else { return name }
            EVP_CIPHER_free(cipher)
        }
        for name in ["SHA1", "SHA256", "SHA512"] {
            guard let digest = EVP_MD_fetch(nil, name, nil) else { return name }
            EVP_MD_free(digest)
        }
        guard let code = EVP_MAC_fetch(nil, "HMAC", nil) else { return "HMAC" }
        EVP_MAC_free(code)
        for name in ["PBKDF2", "HKDF", "SCRYPT"] {
            guard let derivation = EVP_KDF_fetch(nil, name, nil) else { return name }
            EVP_KDF_free(derivation)
        }
        return nil
    }
}

extension HashAlgorithm {
    /// libcrypto's description of the hash; it lives as long as the process.
    var digest: OpaquePointer? {
        switch self {
        case .sha1: EVP_sha1()
        case .sha256: EVP_sha256()
        case .sha512: EVP_sha512()
        }
    }

    /// The name of the hash in libcrypto's providers.
    var providerName: String {
        switch self {
        case .sha1: "SHA1"
        case .sha256: "SHA256"
        case .sha512: "SHA512"
        }
    }
}
