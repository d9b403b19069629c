import COpenSSL

/// AES-256-GCM over short secrets: keys that are wrapped by other keys.
///
/// - SeeAlso: NIST SP 800-38D.
package enum AuthenticatedEncryption {
    /// Bytes of a key.
    package static let keyBytes = 32
    /// Bytes of a nonce. One key must never see the same nonce twice.
    package static let nonceBytes = 12
    /// Bytes that sealing adds at the end.
    package static let tagBytes = 16

    /// Encrypts a secret and authenticates it together with `additionalData`.
    ///
    /// - Returns: The ciphertext, as long as the secret, followed by the tag.
    package static func seal(
        _ secret: SecretBytes, key: SecretBytes, nonce: [UInt8], additionalData: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        let context = try Context(key: key, nonce: nonce, encrypts: true)
        let count = secret.count
        let sealed = [UInt8](unsafeUninitializedCapacity: count + tagBytes) { output, written in
            let succeeded = secret.withBytes { secret in
                context.authenticate(additionalData)
                    && context.process(secret, into: UnsafeMutableRawBufferPointer(output).baseAddress)
                    && context.finish() && context.readTag(into: output.baseAddress.map { $0 + count })
            }
            written = succeeded ? count + tagBytes : 0
        }
        try CryptoError.check(sealed.count == count + tagBytes, "EVP_EncryptUpdate")
        return sealed
    }

    /// Decrypts the result of ``seal(_:key:nonce:additionalData:)``.
    ///
    /// - Returns: The secret, or nil when key, nonce, ciphertext or additional data differ from those of the sealing. A
    ///   secret that is not authentic is never returned, not even in part.
    package static func open(
        _ sealed: [UInt8], key: SecretBytes, nonce: [UInt8], additionalData: [UInt8]
    ) throws(CryptoError) -> SecretBytes? {
        guard sealed.count >= tagBytes else { return nil }
        let context = try Context(key: key, nonce: nonce, encrypts: false)
        let count = sealed.count - tagBytes
        var isProcessed = false
        var isAuthentic = false
        let secret = SecretBytes(count: count) { output in
            sealed.withUnsafeBytes { sealed in
                let tag = UnsafeRawBufferPointer(rebasing: sealed[count...])
                isProcessed =
                    context.authenticate(additionalData)
                    && context.process(UnsafeRawBufferPointer(rebasing: sealed[..<count]), into: output.baseAddress)
                    && context.expectTag(tag)
                isAuthentic = isProcessed && context.finish()
            }
        }
        try CryptoError.check(isProcessed, "EVP_DecryptUpdate")
        guard isAuthentic else {
            // A tag that does not match is a result, not a failure of the library.
            ERR_clear_error()
            return nil
        }
        return secret
    }

    /// One libcrypto operation.
    private struct Context: ~Copyable {
        private let context: OpaquePointer

        init(key: SecretBytes, nonce: [UInt8], encrypts: Bool) throws(CryptoError) {
            guard key.count == keyBytes, nonce.count == nonceBytes else {
                throw CryptoError("EVP_CipherInit_ex2", reason: "the key or nonce has the wrong length")
            }
            let cipher = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil)
            // The context keeps its own reference.
            defer { EVP_CIPHER_free(cipher) }
            try CryptoError.check(cipher != nil, "EVP_CIPHER_fetch")
            guard let context = EVP_CIPHER_CTX_new() else { throw CryptoError.last("EVP_CIPHER_CTX_new") }
            // 12 bytes are GCM's default length of the nonce.
            let status = key.withBytes { EVP_CipherInit_ex2(context, cipher, $0.bytes, nonce, encrypts ? 1 : 0, nil) }
            guard status == 1 else {
                EVP_CIPHER_CTX_free(context)
                throw CryptoError.last("EVP_CipherInit_ex2")
            }
            self.context = context
        }

        deinit { EVP_CIPHER_CTX_free(context) }

        borrowing func authenticate(_ data: [UInt8]) -> Bool {
            guard !data.isEmpty else { return true }
            var written: Int32 = 0
            return EVP_CipherUpdate(context, nil, &written, data, Int32(clamping: data.count)) == 1
        }

        borrowing func process(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawPointer?) -> Bool {
            guard !input.isEmpty else { return true }
            var written: Int32 = 0
            let bytes = output?.assumingMemoryBound(to: UInt8.self)
            let status = EVP_CipherUpdate(context, bytes, &written, input.bytes, Int32(clamping: input.count))
            return status == 1 && Int(written) == input.count
        }

        /// Ends the message; when decrypting, false means that the tag does not match.
        borrowing func finish() -> Bool {
            var written: Int32 = 0
            var rest: UInt8 = 0
            return EVP_CipherFinal_ex(context, &rest, &written) == 1
        }

        borrowing func readTag(into output: UnsafeMutablePointer<UInt8>?) -> Bool {
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tagBytes), output) == 1
        }

        borrowing func expectTag(_ tag: UnsafeRawBufferPointer) -> Bool {
            let bytes = UnsafeMutableRawPointer(mutating: tag.baseAddress)
            return EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tagBytes), bytes) == 1
        }
    }
}
