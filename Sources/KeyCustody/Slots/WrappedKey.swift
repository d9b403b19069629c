import StoreCrypto

/// A key of 32 bytes, encrypted and authenticated by another key (AES-256-GCM).
struct WrappedKey: Hashable, Sendable {
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

extension Keyslot.Kind {
    var wrappingCode: UInt8 {
        switch self {
        case .passphrase: 1
        case .keyFile: 2
        case .command: 3
        case .credential: 4
        case .recovery: 5
        case .plugin: 6
        case .pkcs11: 7
        case .tpm2: 8
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
    var wrappingCode: UInt8 {
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
        .slot(id, kind: kind, derivation: derivation, salt: salt, token: token, storeID: storeID)
    }
}
