import COpenSSL
import Synchronization

/// One-shot HMACs and their comparison.
package enum MessageAuthentication {
    /// Authenticates a message; the code is as long as the hash's digest.
    package static func hmac(
        _ hash: HashAlgorithm, key: SecretBytes, _ message: [UInt8]
    ) throws(CryptoError) -> [UInt8] {
        let code = key.withBytes { key in message.withUnsafeBytes { computeCode(hash, key: key, $0) } }
        try CryptoError.check(code.count == hash.digestBytes, "HMAC")
        return code
    }

    /// The code; empty when libcrypto failed.
    private static func computeCode(
        _ hash: HashAlgorithm, key: UnsafeRawBufferPointer, _ message: UnsafeRawBufferPointer
    ) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: hash.digestBytes) { output, count in
            var written: UInt32 = 0
            let result = HMAC(
                hash.digest, key.baseAddress, Int32(clamping: key.count), message.bytes, message.count,
                output.baseAddress, &written)
            count = result == nil ? 0 : Int(written)
        }
    }

    /// A context of libcrypto with the key of an HMAC, which each message restarts. The caller frees it.
    static func keyedContext(_ hash: HashAlgorithm, _ key: SecretBytes) throws(CryptoError) -> OpaquePointer {
        let algorithm = EVP_MAC_fetch(nil, "HMAC", nil)
        // The context keeps its own reference.
        defer { EVP_MAC_free(algorithm) }
        try CryptoError.check(algorithm != nil, "EVP_MAC_fetch")
        guard let context = EVP_MAC_CTX_new(algorithm) else { throw CryptoError.last("EVP_MAC_CTX_new") }
        let status = key.withBytes { copenssl_hmac_set_key(context, hash.providerName, $0.bytes, $0.count) }
        guard status == 1 else {
            EVP_MAC_CTX_free(context)
            throw CryptoError.last("EVP_MAC_init")
        }
        return context
    }

    /// Compares two authentication codes in constant time.
    package static func isEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        a.count == b.count && CRYPTO_memcmp(a, b, a.count) == 0
    }
}

/// An HMAC keyed once for many messages of many threads.
///
/// A message takes a keyed context that no other thread uses, and makes a copy of one where all are in use. libcrypto
/// keeps the key in its contexts and wipes them when they are freed.
package final class MessageAuthenticator: Sendable {
    // Safe because: a context has one user at a time: it is in the list, or taken from it.
    private struct Context: @unchecked Sendable {
        let pointer: OpaquePointer
    }

    /// Bytes of an authentication code.
    let codeBytes: Int
    private let idle: Mutex<[Context]>
    /// Never used for a message, so that it can be copied at any time.
    private let model: Context

    package init(hash: HashAlgorithm, key: SecretBytes) throws(CryptoError) {
        _ = CryptoLibrary.livesUntilTheEnd
        model = Context(pointer: try MessageAuthentication.keyedContext(hash, key))
        idle = Mutex([])
        codeBytes = hash.digestBytes
    }

    deinit {
        EVP_MAC_CTX_free(model.pointer)
        idle.withLock { for context in $0 { EVP_MAC_CTX_free(context.pointer) } }
    }

    /// Authenticates the concatenation of up to three pieces.
    ///
    /// - Parameter output: ``codeBytes`` bytes.
    package func authenticate(
        _ first: UnsafeRawBufferPointer, _ second: UnsafeRawBufferPointer = .empty,
        _ third: UnsafeRawBufferPointer = .empty, into output: UnsafeMutableRawBufferPointer
    ) throws(CryptoError) {
        guard let context = idle.withLock({ $0.popLast() })?.pointer ?? EVP_MAC_CTX_dup(model.pointer) else {
            throw CryptoError.last("EVP_MAC_CTX_dup")
        }
        var written = 0
        let succeeded =
            EVP_MAC_init(context, nil, 0, nil) == 1 && add(first, to: context) && add(second, to: context)
            && add(third, to: context) && EVP_MAC_final(context, output.bytes, &written, output.count) == 1
            && written == codeBytes
        idle.withLock { $0.append(Context(pointer: context)) }
        try CryptoError.check(succeeded, "EVP_MAC_final")
    }

    private func add(_ piece: UnsafeRawBufferPointer, to context: OpaquePointer) -> Bool {
        piece.isEmpty || EVP_MAC_update(context, piece.bytes, piece.count) == 1
    }
}

extension UnsafeRawBufferPointer {
    /// No bytes.
    package static var empty: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
