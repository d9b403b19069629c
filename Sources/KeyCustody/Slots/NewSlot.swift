import StoreCrypto
import StorePlatform

/// A secret that is to open a store, and what its slot is called.
package final class NewSlot: Sendable {
    let material: KeyMaterial
    package let kind: KeySlot.Kind
    package let label: SlotLabel
    package let derivation: SlotDerivation

    /// - Parameters:
    ///   - material: The secret.
    ///   - kind: Where it comes from; nil stands for a passphrase or, of a raw key, for a key file.
    ///   - derivation: How it becomes a key; nil leaves raw keys to HKDF and everything else to scrypt, except what a
    ///     command or credential gives in the form of a random key.
    /// - Throws: ``StoreError`` `invalidKey` when these do not go together or are out of their bounds.
    package init(
        _ material: consuming KeyMaterial, kind: KeySlot.Kind? = nil, label: SlotLabel = .none,
        derivation: SlotDerivation? = nil
    ) throws(StoreError) {
        let kind = kind ?? (material.isPassphrase ? .passphrase : .keyFile)
        let derivation = derivation ?? material.derivation(of: kind)
        let isFitting = kind.isAlwaysRandom ? !material.isPassphrase : kind != .passphrase || material.isPassphrase
        guard isFitting, kind.allows(derivation), derivation.fieldOutOfBounds == nil else {
            throw StoreError(
                .invalidKey, what: "The key slot cannot be made.",
                why: "A slot of the kind \(kind.rawValue) does not take this secret with \(derivation).",
                remedy: "Use scrypt for passphrases and HKDF for random keys, within the bounds of the format.")
        }
        self.material = material
        self.kind = kind
        self.label = label
        self.derivation = derivation
    }
}

extension KeyMaterial {
    /// How a secret is derived unless something else is asked for.
    fileprivate borrowing func derivation(of kind: KeySlot.Kind) -> SlotDerivation {
        switch self {
        case .rawKey: .hkdf
        case .passphrase(let passphrase):
            kind != .passphrase && passphrase.secret.withBytes { Self.looksRandom($0) } ? .hkdf : .standard
        }
    }

    /// Whether a text has the form of 32 or more random bytes as tools print them: 64 hexadecimal digits, or 43
    /// characters of base 64. What is taken for a passphrase by mistake costs time and nothing else.
    private static func looksRandom(_ text: UnsafeRawBufferPointer) -> Bool {
        let digits = text.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte | 0x20)
        }
        if digits { return text.count >= 64 }
        let base64 = text.allSatisfy { byte in
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
                || [UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="), UInt8(ascii: "-")].contains(byte)
                || byte == UInt8(ascii: "_")
        }
        let hasDigit = text.contains { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        let hasCapital = text.contains { (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
        return base64 && hasDigit && hasCapital && text.count >= 43
    }

    /// The bytes from which a slot's wrapping key is made.
    borrowing func withSlotSecret<Result: ~Copyable, Failure: Error>(
        _ body: (borrowing SecretBytes) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        switch self {
        case .passphrase(let passphrase): try body(passphrase.secret)
        case .rawKey(let key): try body(key.secret)
        }
    }
}

extension KeySource {
    /// The kind of slot that a secret from this source gets.
    package var slotKind: KeySlot.Kind {
        if let givenSlotKind { return givenSlotKind }
        return switch kind {
        case .rawKey, .rawKeyFile, .customRawKey: .keyFile
        case .command: .command
        case .systemdCredential: .credential
        case .passphrase, .keyFile, .fileDescriptor, .environment, .prompt, .customPassphrase: .passphrase
        }
    }
}
