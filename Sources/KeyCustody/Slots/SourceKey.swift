import StoreCrypto
import StorePlatform

/// A key that is derived from the secret of a key source for something beside the keyslots of a store, such as an
/// invitation: by the derivation that a keyslot of this secret would have, and then with a label for its purpose.
package struct SourceKey: Sendable {
    package let derivation: SlotDerivation
    package let salt: Salt
    /// 32 bytes.
    package let key: SecretBytes

    /// Derives the key for something new, with a new salt.
    ///
    /// - Throws: ``StoreError`` `invalidKey` for a device, and where deriving it twice gave two keys; ``CryptoError``.
    package init(of secret: Secret, purpose label: String) throws {
        try secret.requireBytes("An invitation")
        let derivation = try NewSlot(secret).derivation
        let salt = try Salt.random()
        let stretched = try PreparedSlot.derive(derivation, salt, secret.bytes)
        try self.init(derivation, salt, stretched, label)
    }

    /// Derives the key of something that there is.
    ///
    /// - Throws: ``StoreError`` `unsupportedLibrary` when the library lacks the algorithm; ``CryptoError``.
    package init(of secret: Secret, purpose label: String, derivation: SlotDerivation, salt: Salt) throws {
        try secret.requireBytes("An invitation")
        try self.init(derivation, salt, derivation.wrappingKey(secret: secret.bytes, salt: salt), label)
    }

    private init(
        _ derivation: SlotDerivation, _ salt: Salt, _ stretched: SecretBytes, _ label: String
    ) throws(CryptoError) {
        (self.derivation, self.salt) = (derivation, salt)
        key = try KeyDerivation.hkdf(
            key: stretched, salt: salt.bytes, label: label, keyBytes: SlotDerivation.wrappingKeyBytes)
    }
}

extension SlotDerivation {
    /// Bytes of every encoded derivation.
    static let encodedBytes = 13

    /// Its number, and three parameters of 4 bytes, big-endian.
    package var encoded: [UInt8] {
        let (code, parameters) = wrappingCode
        return [code]
            + parameters.flatMap { value in
                stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
            }
    }

    /// - Returns: nil for other bytes, and for parameters out of their bounds.
    package init?(encoded bytes: [UInt8]) {
        guard bytes.count == Self.encodedBytes else { return nil }
        let values = (0..<3).map { index in bytes[(1 + 4 * index)..<(5 + 4 * index)].reduce(0) { $0 << 8 | Int($1) } }
        switch bytes[0] {
        case 1 where values == [0, 0, 0]: self = .hkdf
        case 2: self = .scrypt(log2Rounds: values[0], blockSize: values[1], lanes: values[2])
        case 3: self = .argon2id(memoryKiB: values[0], iterations: values[1], lanes: values[2])
        default: return nil
        }
        guard fieldOutOfBounds == nil, workBytes <= CustodyLimits.slotWorkBytes else { return nil }
    }
}
