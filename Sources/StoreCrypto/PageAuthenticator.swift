import COpenSSL

/// An HMAC keyed once for many messages.
///
/// Each message restarts the keyed context, without a new key schedule.
// Safe because: the context has one owner, and every use of it is mutating.
package struct PageAuthenticator: ~Copyable, @unchecked Sendable {
    /// Bytes of an authentication code.
    let codeBytes: Int
    private let context: OpaquePointer

    package init(hash: HashAlgorithm, key: SecretBytes) throws(CryptoError) {
        context = try MessageAuthentication.keyedContext(hash, key)
        codeBytes = hash.digestBytes
    }

    deinit { EVP_MAC_CTX_free(context) }

    /// Authenticates `message` followed by `number` as a little-endian 32-bit word.
    ///
    /// - Parameter output: A buffer of at least ``codeBytes`` bytes.
    package mutating func authenticate(
        _ message: UnsafeRawBufferPointer, number: UInt32, into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        try CryptoError.check(compute(message, number, output), "EVP_MAC_final")
    }

    /// Whether `code` is the authentication code of `message` and `number`; compares in constant time.
    package mutating func verify(
        _ message: UnsafeRawBufferPointer, number: UInt32, code: UnsafeRawBufferPointer
    ) throws(CryptoError) -> Bool {
        guard code.count == codeBytes, let code = code.baseAddress else { return false }
        let matches: Bool? = withUnsafeTemporaryAllocation(byteCount: codeBytes, alignment: 8) { expected in
            guard compute(message, number, expected) else { return nil }
            return CRYPTO_memcmp(expected.baseAddress, code, codeBytes) == 0
        }
        guard let matches else { throw CryptoError.last("EVP_MAC_final") }
        return matches
    }

    private func compute(
        _ message: UnsafeRawBufferPointer, _ number: UInt32, _ output: UnsafeMutableRawBufferPointer
    ) -> Bool {
        var written = 0
        let succeeded = withUnsafeBytes(of: number.littleEndian) { suffix in
            EVP_MAC_init(context, nil, 0, nil) == 1
                && EVP_MAC_update(context, message.bytes, message.count) == 1
                && EVP_MAC_update(context, suffix.bytes, suffix.count) == 1
                && EVP_MAC_final(context, output.bytes, &written, output.count) == 1
        }
        return succeeded && written == codeBytes
    }
}
