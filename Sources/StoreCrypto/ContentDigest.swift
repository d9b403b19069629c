import COpenSSL

/// A SHA-256 digest of content that arrives in pieces.
// Safe because: the context has one owner and is not shared between values.
package struct ContentDigest: ~Copyable, @unchecked Sendable {
    private let context: OpaquePointer
    /// A failed step, reported by ``finish()``.
    private var failure: CryptoError?

    package init() throws(CryptoError) {
        guard let context = EVP_MD_CTX_new() else { throw CryptoError.last("EVP_MD_CTX_new") }
        guard EVP_DigestInit_ex2(context, EVP_sha256(), nil) == 1 else {
            EVP_MD_CTX_free(context)
            throw CryptoError.last("EVP_DigestInit_ex2")
        }
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds the next piece.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        if EVP_DigestUpdate(context, bytes.baseAddress, bytes.count) != 1 {
            failure = CryptoError.last("EVP_DigestUpdate")
        }
    }

    /// The 32-byte digest of what was added so far; more may be added.
    package borrowing func current() throws(CryptoError) -> [UInt8] {
        if let failure { throw failure }
        let copy = try ContentDigest()
        try CryptoError.check(EVP_MD_CTX_copy_ex(copy.context, context) == 1, "EVP_MD_CTX_copy_ex")
        return try copy.finish()
    }

    /// The 32-byte digest of everything added.
    package consuming func finish() throws(CryptoError) -> [UInt8] {
        if let failure { throw failure }
        var digest = [UInt8](repeating: 0, count: HashAlgorithm.sha256.digestBytes)
        let status = EVP_DigestFinal_ex(context, &digest, nil)
        try CryptoError.check(status == 1, "EVP_DigestFinal_ex")
        return digest
    }
}
