import StoreCrypto

/// A key of 32 bytes, encrypted and authenticated by another key (AES-256-GCM).
package struct WrappedKey: Hashable, Sendable {
    static let nonceBytes = AuthenticatedEncryption.nonceBytes
    /// Ciphertext and tag.
    static let sealedBytes = CipherSettings.keyBytes + AuthenticatedEncryption.tagBytes

    let nonce: [UInt8]
    let sealed: [UInt8]

    init(nonce: [UInt8], sealed: [UInt8]) {
        self.nonce = nonce
        self.sealed = sealed
    }

    /// Wraps a key under a fresh nonce.
    init(
        _ secret: SecretBytes, under key: SecretBytes, _ context: WrappingContext
    ) throws(CryptoError) {
        nonce = try SystemRandom.bytes(Self.nonceBytes)
        sealed = try AuthenticatedEncryption.seal(
            secret, key: key, nonce: nonce, additionalData: context.additionalData)
    }

    /// The key, or nil when the other key or the context is not the one that wrapped it.
    func unwrap(with key: SecretBytes, _ context: WrappingContext) throws(CryptoError) -> SecretBytes? {
        try AuthenticatedEncryption.open(sealed, key: key, nonce: nonce, additionalData: context.additionalData)
    }
}

extension WrappedKey: CustomStringConvertible, CustomReflectable {
    package var description: String { "WrappedKey(\(sealed.count) bytes)" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

/// The context to which a wrapped key is bound: it opens in no other store, slot or epoch, and under no other
/// parameters.
///
/// Every value has a fixed length, so different contexts never have the same bytes. `Docs/Formats/Sidecar.md` tabulates
/// them. The salt of the pages is not part of a slot's context: a rotation changes it and changes no slot.
struct WrappingContext: Hashable, Sendable {
    static let magic = "cipherstore-wrap"
    static let byteCount = 72

    let additionalData: [UInt8]

    private enum Purpose: UInt8 {
        case masterKeyInSlot = 1
        case dataKey = 2
        case nextDataKey = 3
    }

    /// The context of the master key in a keyslot.
    static func slot(
        _ id: UInt64, kind: Keyslot.Kind, derivation: SlotDerivation, salt: Salt, storeID: StoreID
    ) -> WrappingContext {
        var writer = FieldWriter(.masterKeyInSlot, storeID)
        writer.number(id)
        writer.byte(kind.wrappingCode)
        let (code, parameters) = derivation.wrappingCode
        writer.byte(code)
        parameters.forEach { writer.word($0) }
        writer.bytes(salt.bytes)
        return WrappingContext(additionalData: writer.output)
    }

    /// The context of the data key of an epoch, under the master key.
    static func dataKey(epoch: UInt64, salt: Salt, settings: CipherSettings, storeID: StoreID) -> WrappingContext {
        WrappingContext(FieldWriter(.dataKey, storeID), epoch, salt, settings)
    }

    /// The context of the data key of the next epoch of a direct store, under the present one.
    static func nextDataKey(
        epoch: UInt64, salt: Salt, settings: CipherSettings, storeID: StoreID
    ) -> WrappingContext {
        WrappingContext(FieldWriter(.nextDataKey, storeID), epoch, salt, settings)
    }

    private init(additionalData: [UInt8]) { self.additionalData = additionalData }

    private init(_ start: FieldWriter, _ epoch: UInt64, _ salt: Salt, _ settings: CipherSettings) {
        var writer = start
        writer.number(epoch)
        writer.bytes(salt.bytes)
        writer.word(settings.pageBytes)
        writer.word(settings.plaintextHeaderBytes)
        writer.word(settings.kdfRounds)
        writer.byte(settings.kdfHash.wrappingCode)
        writer.byte(settings.hmacHash.wrappingCode)
        additionalData = writer.output
    }

    private struct FieldWriter {
        private(set) var output: [UInt8]

        init(_ purpose: Purpose, _ storeID: StoreID) {
            let version = purpose == .nextDataKey ? Sidecar.directVersion : Sidecar.slotsVersion
            output = Array(magic.utf8) + [UInt8(version), purpose.rawValue] + storeID.bytes
        }

        mutating func byte(_ value: UInt8) { output.append(value) }
        mutating func bytes(_ value: [UInt8]) { output += value }

        /// 8 bytes, big-endian.
        mutating func number(_ value: UInt64) {
            output += stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> UInt64($0)) }
        }

        /// 4 bytes, big-endian.
        mutating func word(_ value: Int) {
            output += stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
        }
    }
}

extension Keyslot.Kind {
    fileprivate var wrappingCode: UInt8 {
        switch self {
        case .passphrase: 1
        case .keyFile: 2
        case .command: 3
        case .credential: 4
        case .recovery: 5
        }
    }
}

extension SlotDerivation {
    /// Its number and its parameters, as they are bound to a wrapped key.
    var wrappingCode: (code: UInt8, parameters: [Int]) {
        switch self {
        case .hkdf: (1, [0, 0, 0])
        case .scrypt(let log2Rounds, let blockSize, let lanes): (2, [log2Rounds, blockSize, lanes])
        case .argon2id(let memoryKiB, let iterations, let lanes): (3, [memoryKiB, iterations, lanes])
        }
    }
}

extension HashAlgorithm {
    fileprivate var wrappingCode: UInt8 {
        switch self {
        case .sha1: 1
        case .sha256: 2
        case .sha512: 3
        }
    }
}

extension Keyslot {
    /// The context to which its wrapped master key is bound.
    func context(_ storeID: StoreID) -> WrappingContext {
        .slot(id, kind: kind, derivation: derivation, salt: salt, storeID: storeID)
    }
}
