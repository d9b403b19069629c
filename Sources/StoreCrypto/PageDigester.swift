import COpenSSL

/// A fast fingerprint of a page's content under a random key that exists only during the comparison: GMAC, keyed once
/// for many pages.
///
/// Equal pages of the same number have equal fingerprints. Different pages have different ones, even when an attacker
/// who does not know the key has chosen them. The page's number is the nonce, so one number may be used with several
/// contents. That would reveal the key to a reader of the fingerprints; they never leave the memory of the process that
/// made them.
/// - SeeAlso: NIST SP 800-38D.
// Safe because: the context has one owner, and every use of it is mutating.
package struct PageDigester: ~Copyable, @unchecked Sendable {
    /// Bytes of the key.
    package static let keyBytes = 32
    /// 16 bytes.
    package typealias Digest = SIMD2<UInt64>

    private let context: OpaquePointer

    /// - Throws: ``CryptoError`` when the key is not 32 bytes long or libcrypto fails.
    package init(key: SecretBytes) throws(CryptoError) {
        guard key.count == Self.keyBytes else {
            throw CryptoError("EVP_CipherInit_ex2", reason: "the key has \(key.count) bytes instead of 32")
        }
        let cipher = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil)
        // The context keeps its own reference.
        defer { EVP_CIPHER_free(cipher) }
        try CryptoError.check(cipher != nil, "EVP_CIPHER_fetch")
        guard let context = EVP_CIPHER_CTX_new() else { throw CryptoError.last("EVP_CIPHER_CTX_new") }
        guard key.withBytes({ EVP_CipherInit_ex2(context, cipher, $0.bytes, nil, 1, nil) }) == 1 else {
            EVP_CIPHER_CTX_free(context)
            throw CryptoError.last("EVP_CipherInit_ex2")
        }
        self.context = context
    }

    deinit { EVP_CIPHER_CTX_free(context) }

    /// The fingerprint of a page's content; needs no allocation.
    package mutating func digest(
        _ content: UnsafeRawBufferPointer, number: UInt32
    ) throws(CryptoError) -> Digest {
        guard let count = Int32(exactly: content.count) else {
            throw CryptoError("EVP_CipherUpdate", reason: "the page is too long")
        }
        // Twelve of these bytes are the nonce, GCM's default length.
        let nonce = SIMD4<UInt32>(number, 0, 0, 0)
        var digest = Digest.zero
        var written: Int32 = 0
        var rest: UInt8 = 0
        let succeeded = withUnsafeBytes(of: nonce) { nonce in
            EVP_CipherInit_ex2(context, nil, nil, nonce.bytes, 1, nil) == 1
                && EVP_CipherUpdate(context, nil, &written, content.bytes, count) == 1
                && EVP_CipherFinal_ex(context, &rest, &written) == 1
                && withUnsafeMutableBytes(of: &digest) {
                    EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, $0.baseAddress) == 1
                }
        }
        try CryptoError.check(succeeded, "EVP_CipherUpdate")
        return digest
    }
}
