import COpenSSL

/// Encrypts a key to the public key of another party, which alone decrypts it: RSAES-OAEP.
///
/// - SeeAlso: RFC 8017, 7.1.
package enum KeyTransport {
    /// Bits of an RSA key that is used.
    package static let modulusBits = 2048...8192

    /// Encrypts a secret; the label of OAEP is empty.
    ///
    /// - Parameters:
    ///   - modulus: Big-endian, without leading zeros.
    ///   - exponent: The same.
    ///   - hash: Of the label and of the mask (MGF1).
    /// - Throws: ``CryptoError``, also for a modulus outside of ``modulusBits``.
    package static func encrypt(
        _ secret: SecretBytes, modulus: [UInt8], exponent: [UInt8], hash: HashAlgorithm
    ) throws(CryptoError) -> [UInt8] {
        _ = CryptoLibrary.livesUntilTheEnd
        let bits = modulus.count * 8 - (modulus.first?.leadingZeroBitCount ?? 0)
        guard modulusBits.contains(bits) else {
            throw CryptoError("RSA", reason: "the key has \(bits) bits")
        }
        let encoded = publicKey(modulus, exponent)
        let made = encoded.withUnsafeBufferPointer { buffer in
            var next = buffer.baseAddress
            return d2i_PublicKey(NID_rsaEncryption, nil, &next, buffer.count)
        }
        guard let made else { throw CryptoError.last("d2i_PublicKey") }
        defer { EVP_PKEY_free(made) }
        guard let context = EVP_PKEY_CTX_new(made, nil) else { throw CryptoError.last("EVP_PKEY_CTX_new") }
        defer { EVP_PKEY_CTX_free(context) }
        try CryptoError.check(EVP_PKEY_encrypt_init(context) == 1, "EVP_PKEY_encrypt_init")
        try CryptoError.check(copenssl_use_oaep(context, hash.rawValue) == 1, "EVP_PKEY_CTX_set_params")
        var output = [UInt8](repeating: 0, count: modulus.count)
        var count = output.count
        let succeeded = secret.withBytes { EVP_PKEY_encrypt(context, &output, &count, $0.bytes, $0.count) == 1 }
        try CryptoError.check(succeeded && count == output.count, "EVP_PKEY_encrypt")
        return output
    }

    /// RSAPublicKey in DER (RFC 8017, A.1.1).
    static func publicKey(_ modulus: [UInt8], _ exponent: [UInt8]) -> [UInt8] {
        element(0x30, integer(modulus) + integer(exponent))
    }

    private static func integer(_ bytes: [UInt8]) -> [UInt8] {
        element(0x02, (bytes.first ?? 0) & 0x80 == 0 ? bytes : [0] + bytes)
    }

    private static func element(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
        let count = content.count
        guard count >= 0x80 else { return [tag, UInt8(count)] + content }
        let length = [UInt8(truncatingIfNeeded: count >> 8), UInt8(truncatingIfNeeded: count)].drop { $0 == 0 }
        return [tag, 0x80 | UInt8(length.count)] + length + content
    }
}
