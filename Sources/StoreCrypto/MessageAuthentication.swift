import COpenSSL

/// One-shot HMACs and their comparison.
package enum MessageAuthentication {
    /// Authenticates a message; the code is as long as the hash's digest.
    package static func hmac(
        _ hash: HashAlgorithm, key: SecretBytes, _ message: UnsafeRawBufferPointer
    ) throws(CryptoError) -> [UInt8] {
        let code = key.withBytes { computeCode(hash, key: $0, message) }
        try CryptoError.check(code.count == hash.digestBytes, "HMAC")
        return code
    }

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

    /// Compares two authentication codes in constant time.
    package static func isEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
        a.count == b.count && CRYPTO_memcmp(a, b, a.count) == 0
    }
}
