import COpenSSL

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
