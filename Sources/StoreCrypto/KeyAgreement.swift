import COpenSSL

/// The private key of an X25519 pair, 32 bytes in locked memory.
///
/// - SeeAlso: RFC 7748.
package struct AgreementKey: Sendable {
    package static let byteCount = 32
    /// For a program that wraps it. It must not be written anywhere in another way.
    package let secret: SecretBytes
    /// 32 bytes.
    package let publicBytes: [UInt8]

    /// - Throws: ``CryptoError`` unless the secret has 32 bytes.
    package init(secret: SecretBytes) throws(CryptoError) {
        let pair = try CurveKey(private: secret, .x25519)
        self.secret = secret
        publicBytes = try pair.publicBytes()
    }

    package static func random() throws(CryptoError) -> AgreementKey {
        try AgreementKey(secret: SecretBytes.random(count: byteCount))
    }

    /// The secret that both pairs have in common.
    ///
    /// - Parameter publicBytes: The public key of the other pair.
    /// - Returns: 32 bytes to derive keys from; nil if the other key has another length, or is one of the few with which
    ///   every pair has the secret zero.
    package func sharedSecret(with publicBytes: [UInt8]) throws(CryptoError) -> SecretBytes? {
        guard publicBytes.count == Self.byteCount else { return nil }
        let own = try CurveKey(private: secret, .x25519)
        let other = try CurveKey(public: publicBytes, .x25519)
        guard let context = EVP_PKEY_CTX_new(own.key, nil) else { throw CryptoError.last("EVP_PKEY_CTX_new") }
        defer { EVP_PKEY_CTX_free(context) }
        let begins = EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_derive_set_peer(context, other.key) == 1
        try CryptoError.check(begins, "EVP_PKEY_derive_set_peer")
        var succeeded = false
        let shared = SecretBytes(count: Self.byteCount) { output in
            var count = output.count
            succeeded = EVP_PKEY_derive(context, output.bytes, &count) == 1 && count == output.count
        }
        // libcrypto refuses the secret zero, as RFC 7748 (section 6.1) advises.
        ERR_clear_error()
        return succeeded ? shared : nil
    }
}
