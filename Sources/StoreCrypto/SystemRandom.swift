import COpenSSL

/// Random bytes for public values: salts, initialization vectors, identifiers.
///
/// Secrets come from ``SecretBytes/random(count:)`` instead.
package enum SystemRandom {
    /// Generates `count` bytes with libcrypto's generator, which the kernel seeds.
    package static func bytes(_ count: Int) throws(CryptoError) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: count)
        let status = result.withUnsafeMutableBytes { RAND_bytes($0.bytes, Int32(clamping: $0.count)) }
        try CryptoError.check(count == 0 || status == 1, "RAND_bytes")
        return result
    }
}
