import COpenSSL

/// The private key of an Ed25519 pair, 32 bytes in locked memory.
///
/// - SeeAlso: RFC 8032.
package struct SigningKey: Sendable {
    static let byteCount = 32
    /// For a program that wraps it. It must not be written anywhere in another way.
    package let secret: SecretBytes
    package let verifyingKey: VerifyingKey

    /// - Throws: ``CryptoError`` unless the secret has 32 bytes.
    package init(secret: SecretBytes) throws(CryptoError) {
        let pair = try CurveKey(private: secret, .ed25519)
        self.secret = secret
        verifyingKey = VerifyingKey(valid: try pair.publicBytes())
    }

    package static func random() throws(CryptoError) -> SigningKey {
        try SigningKey(secret: SecretBytes.random(count: byteCount))
    }

    /// Signs a message; the same message has the same signature.
    ///
    /// - Returns: ``VerifyingKey/signatureBytes`` bytes.
    package func signature(of message: [UInt8]) throws(CryptoError) -> [UInt8] {
        let pair = try CurveKey(private: secret, .ed25519)
        guard let context = EVP_MD_CTX_new() else { throw CryptoError.last("EVP_MD_CTX_new") }
        defer { EVP_MD_CTX_free(context) }
        let begins = EVP_DigestSignInit(context, nil, nil, nil, pair.key) == 1
        try CryptoError.check(begins, "EVP_DigestSignInit")
        var signature = [UInt8](repeating: 0, count: VerifyingKey.signatureBytes)
        var count = signature.count
        let succeeded = EVP_DigestSign(context, &signature, &count, message, message.count) == 1
        try CryptoError.check(succeeded && count == signature.count, "EVP_DigestSign")
        return signature
    }
}

/// The public key of an Ed25519 pair, 32 bytes.
package struct VerifyingKey: Hashable, Sendable {
    package static let byteCount = 32
    package static let signatureBytes = 64
    package let bytes: [UInt8]

    fileprivate init(valid bytes: [UInt8]) { self.bytes = bytes }

    /// - Returns: nil unless there are 32 bytes. Whether they are a point of the curve shows at a verification.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = Array(bytes)
    }

    /// Whether the signature is that of the message by the private key. A key that is no point of the curve has none.
    package func isSignature(_ signature: [UInt8], of message: [UInt8]) throws(CryptoError) -> Bool {
        guard signature.count == Self.signatureBytes else { return false }
        let pair: CurveKey
        do throws(CryptoError) {
            pair = try CurveKey(public: bytes, .ed25519)
        } catch {
            if error.isOutOfMemory { throw error }
            return false
        }
        guard let context = EVP_MD_CTX_new() else { throw CryptoError.last("EVP_MD_CTX_new") }
        defer { EVP_MD_CTX_free(context) }
        let begins = EVP_DigestVerifyInit(context, nil, nil, nil, pair.key) == 1
        try CryptoError.check(begins, "EVP_DigestVerifyInit")
        let outcome = EVP_DigestVerify(context, signature, signature.count, message, message.count)
        // A signature that does not match is a result, not a failure of the library.
        ERR_clear_error()
        return outcome == 1
    }
}

/// A key of a curve in libcrypto, for one operation. libcrypto wipes its copy of a private key.
struct CurveKey: ~Copyable {
    enum Curve {
        case ed25519
        case x25519

        fileprivate var number: Int32 { self == .ed25519 ? NID_ED25519 : NID_X25519 }
    }

    static let byteCount = 32
    let key: OpaquePointer

    init(private secret: SecretBytes, _ curve: Curve) throws(CryptoError) {
        _ = CryptoLibrary.livesUntilTheEnd
        guard secret.count == Self.byteCount else {
            throw CryptoError(
                "EVP_PKEY_new_raw_private_key", reason: "the key has \(secret.count) bytes instead of \(Self.byteCount)"
            )
        }
        let made = secret.withBytes { EVP_PKEY_new_raw_private_key(curve.number, nil, $0.bytes, $0.count) }
        guard let made else { throw CryptoError.last("EVP_PKEY_new_raw_private_key") }
        key = made
    }

    init(public bytes: [UInt8], _ curve: Curve) throws(CryptoError) {
        _ = CryptoLibrary.livesUntilTheEnd
        guard let made = EVP_PKEY_new_raw_public_key(curve.number, nil, bytes, bytes.count) else {
            throw CryptoError.last("EVP_PKEY_new_raw_public_key")
        }
        key = made
    }

    deinit { EVP_PKEY_free(key) }

    borrowing func publicBytes() throws(CryptoError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Self.byteCount)
        var count = bytes.count
        let succeeded = EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1
        try CryptoError.check(succeeded && count == Self.byteCount, "EVP_PKEY_get_raw_public_key")
        return bytes
    }
}
