import Dispatch
import StoreCrypto
import StorePlatform
import Synchronization

/// A secret that is to open a store, or the device that is to keep one, and the kind, label and derivation of its slot.
package struct NewSlot: Sendable {
    let secret: Secret
    let kind: Keyslot.Kind
    let label: SlotLabel
    let derivation: SlotDerivation

    /// - Parameters:
    ///   - kind: The source of the secret; nil uses the kind that its key source states, otherwise a passphrase, or a
    ///     key file for a raw key.
    ///   - derivation: How the secret becomes a key. Nil uses HKDF for raw keys, and for a command or credential whose
    ///     output is a random key as tools print it (``RandomKeyText``); scrypt for everything else.
    /// - Throws: ``StoreError`` `invalidKey` when these do not fit together or are outside their bounds.
    package init(
        _ secret: Secret, kind: Keyslot.Kind? = nil, label: SlotLabel = .none, derivation: SlotDerivation? = nil
    ) throws(StoreError) {
        let kind = kind ?? secret.slotKind ?? (secret.isPassphrase ? .passphrase : .keyFile)
        let derivation = derivation ?? secret.derivation(of: kind)
        let isFitting =
            if kind.isToken || secret.session != nil {
                secret.session?.device.kind == kind
            } else {
                kind.isAlwaysRandom ? !secret.isPassphrase : kind != .passphrase || secret.isPassphrase
            }
        guard isFitting, kind.allows(derivation), derivation.fieldOutOfBounds == nil else {
            throw StoreError(
                .invalidKey, what: "The keyslot cannot be created.",
                why: "A slot of the kind \(kind.rawValue) does not take this secret with \(derivation).",
                remedy: "Use scrypt for passphrases and HKDF for random keys, within the bounds of the format.")
        }
        self.secret = secret
        self.kind = kind
        self.label = label
        self.derivation = derivation
    }
}

extension Secret {
    /// The default derivation of a secret.
    fileprivate func derivation(of kind: Keyslot.Kind) -> SlotDerivation {
        guard isPassphrase else { return .hkdf }
        return kind != .passphrase && withBytes { RandomKeyText.isRandom($0) } ? .hkdf : .standard
    }
}
