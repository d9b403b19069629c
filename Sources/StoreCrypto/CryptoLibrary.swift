import COpenSSL

/// The lifetime of libcrypto in this process.
package enum CryptoLibrary {
    /// Keeps libcrypto initialised until the process ends; evaluated before any other use of it.
    ///
    /// By default libcrypto frees its state when the process calls `exit`, while other threads still run. A store that
    /// reopens its connections at that moment, after a rotation, would crash in it. If the program has used libcrypto
    /// before, this has no effect.
    package static let livesUntilTheEnd = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) == 1
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
