import COpenSSL

/// AES-256-GCM: over keys that are wrapped by other keys, and over messages of any length.
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
        var outcome: Result<Void, CryptoError> = .success(())
        let count = secret.count + tagBytes
        let sealed = [UInt8](unsafeUninitializedCapacity: count) { output, written in
            output.initialize(repeating: 0)
            let output = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(output)[..<count])
            outcome = secret.withBytes { secret in
                additionalData.withUnsafeBytes { data in
                    Result { () throws(CryptoError) in
                        try seal(secret, key: key, nonce: nonce, additionalData: data, into: output)
                    }
                }
            }
            written = count
        }
        try outcome.get()
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
        var outcome: Result<Bool, CryptoError> = .success(false)
        let secret = SecretBytes(count: sealed.count - tagBytes) { output in
            outcome = sealed.withUnsafeBytes { sealed in
                additionalData.withUnsafeBytes { data in
                    Result { () throws(CryptoError) in
                        try open(sealed, key: key, nonce: nonce, additionalData: data, into: output)
                    }
                }
            }
        }
        return try outcome.get() ? secret : nil
    }

    /// Encrypts a message and authenticates it together with `additionalData`.
    ///
    /// - Parameter output: ``tagBytes`` longer than the message: the ciphertext, then the tag. It may begin where the
    ///   message begins.
    package static func seal(
        _ message: UnsafeRawBufferPointer, key: SecretBytes, nonce: [UInt8], additionalData: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        guard output.count == message.count + tagBytes, let start = output.baseAddress else {
            throw CryptoError("EVP_EncryptUpdate", reason: "the output has the wrong length")
        }
        let context = try Context(key: key, nonce: nonce, encrypts: true)
        let succeeded =
            context.authenticate(additionalData) && context.process(message, into: start) && context.finish()
            && context.readTag(into: start + message.count)
        try CryptoError.check(succeeded, "EVP_EncryptUpdate")
    }

    /// Decrypts the result of ``seal(_:key:nonce:additionalData:into:)``.
    ///
    /// - Parameter output: ``tagBytes`` shorter than `sealed`. Filled with zeros where the message is not authentic.
    /// - Returns: Whether key, nonce, ciphertext and additional data are those of the sealing.
    package static func open(
        _ sealed: UnsafeRawBufferPointer, key: SecretBytes, nonce: [UInt8], additionalData: UnsafeRawBufferPointer,
        into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) -> Bool {
        guard sealed.count >= tagBytes else { return false }
        let count = sealed.count - tagBytes
        guard output.count == count else {
            throw CryptoError("EVP_DecryptUpdate", reason: "the output has the wrong length")
        }
        let context = try Context(key: key, nonce: nonce, encrypts: false)
        let isProcessed =
            context.authenticate(additionalData)
            && context.process(UnsafeRawBufferPointer(rebasing: sealed[..<count]), into: output.baseAddress)
            && context.expectTag(UnsafeRawBufferPointer(rebasing: sealed[count...]))
        if isProcessed, context.finish() { return true }
        if count > 0 { OPENSSL_cleanse(output.baseAddress, count) }
        try CryptoError.check(isProcessed, "EVP_DecryptUpdate")
        // A tag that does not match is a result, not a failure of the library.
        ERR_clear_error()
        return false
    }

    /// libcrypto's implementation, looked up once: the look-up takes as long as sealing a short message.
    // Safe because: libcrypto counts its references atomically, and this one is never released.
    private struct Cipher: @unchecked Sendable {
        let algorithm: OpaquePointer

        static let shared = Result { () throws(CryptoError) -> Cipher in
            _ = CryptoLibrary.livesUntilTheEnd
            guard let found = EVP_CIPHER_fetch(nil, "AES-256-GCM", nil) else {
                throw CryptoError.last("EVP_CIPHER_fetch")
            }
            return Cipher(algorithm: found)
        }
    }

    /// One libcrypto operation.
    private struct Context: ~Copyable {
        private let context: OpaquePointer

        init(key: SecretBytes, nonce: [UInt8], encrypts: Bool) throws(CryptoError) {
            guard key.count == keyBytes, nonce.count == nonceBytes else {
                throw CryptoError("EVP_CipherInit_ex2", reason: "the key or nonce has the wrong length")
            }
            let cipher = try Cipher.shared.get().algorithm
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

        borrowing func authenticate(_ data: UnsafeRawBufferPointer) -> Bool {
            guard !data.isEmpty else { return true }
            guard let count = Int32(exactly: data.count) else { return false }
            var written: Int32 = 0
            return EVP_CipherUpdate(context, nil, &written, data.bytes, count) == 1
        }

        borrowing func process(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawPointer?) -> Bool {
            guard !input.isEmpty else { return true }
            guard let count = Int32(exactly: input.count) else { return false }
            var written: Int32 = 0
            let bytes = output?.assumingMemoryBound(to: UInt8.self)
            return EVP_CipherUpdate(context, bytes, &written, input.bytes, count) == 1 && written == count
        }

        /// Ends the message; when decrypting, false means that the tag does not match.
        borrowing func finish() -> Bool {
            var written: Int32 = 0
            var rest: UInt8 = 0
            return EVP_CipherFinal_ex(context, &rest, &written) == 1
        }

        borrowing func readTag(into output: UnsafeMutableRawPointer) -> Bool {
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tagBytes), output) == 1
        }

        borrowing func expectTag(_ tag: UnsafeRawBufferPointer) -> Bool {
            let bytes = UnsafeMutableRawPointer(mutating: tag.baseAddress)
            return EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, Int32(tagBytes), bytes) == 1
        }
    }
}
