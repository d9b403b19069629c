import COpenSSL

/// An RSA public key with the exponent 65537. Another program or device verifies signatures with it.
///
/// - SeeAlso: RFC 8017, A.1.1; RFC 7468, 13.
package struct RSAPublicKey: Hashable, Sendable {
    /// The lengths of keys that TPMs may have.
    package static let modulusBits: Set<Int> = [2048, 3072, 4096]
    private static let exponent: [UInt8] = [1, 0, 1]

    /// Big-endian, without leading zeros.
    package let modulus: [UInt8]

    /// - Returns: Nil for a modulus of another length than ``modulusBits``, or an even one.
    package init?(modulus: some Collection<UInt8>) {
        let bytes = Array(modulus)
        guard Self.modulusBits.contains(bytes.count * 8), let first = bytes.first, let last = bytes.last,
            first & 0x80 != 0, last & 1 != 0
        else { return nil }
        self.modulus = bytes
    }

    /// Reads the first `PUBLIC KEY` of a file in PEM.
    ///
    /// - Returns: Nil if there is none, or if it is not such a key.
    package init?(pem: [UInt8]) {
        _ = CryptoLibrary.livesUntilTheEnd
        // A file of another kind is a result, not a failure of the library.
        defer { ERR_clear_error() }
        guard let key = Self.read(pem) else { return nil }
        defer { EVP_PKEY_free(key) }
        var (modulus, exponent) = (OpaquePointer?.none, OpaquePointer?.none)
        defer {
            BN_free(modulus)
            BN_free(exponent)
        }
        guard EVP_PKEY_is_a(key, "RSA") == 1, EVP_PKEY_get_bn_param(key, "n", &modulus) == 1,
            EVP_PKEY_get_bn_param(key, "e", &exponent) == 1, BN_is_word(exponent, 65_537) == 1
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: (Int(BN_num_bits(modulus)) + 7) / 8)
        BN_bn2bin(modulus, &bytes)
        self.init(modulus: bytes)
    }

    private static func read(_ pem: [UInt8]) -> OpaquePointer? {
        pem.withUnsafeBytes { bytes in
            guard let memory = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return nil }
            defer { BIO_free(memory) }
            // Without this function libcrypto asks for a password at the terminal.
            return PEM_read_bio_PUBKEY(memory, nil, { _, _, _, _ in -1 }, nil)
        }
    }

    /// SHA-256 of the RSAPublicKey in DER.
    package func fingerprint() throws(CryptoError) -> [UInt8] {
        var sum = try ContentDigest()
        KeyTransport.publicKey(modulus, Self.exponent).withUnsafeBytes { sum.update($0) }
        return try sum.finish()
    }
}
