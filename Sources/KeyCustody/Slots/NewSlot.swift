import Dispatch
import StoreCrypto
import StorePlatform
import Synchronization

/// A secret that is to open a store, and the kind, label and derivation of its slot.
package struct NewSlot: Sendable {
    let secret: Secret
    package let kind: Keyslot.Kind
    package let label: SlotLabel
    package let derivation: SlotDerivation

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
        let isFitting = kind.isAlwaysRandom ? !secret.isPassphrase : kind != .passphrase || secret.isPassphrase
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

/// A new slot whose wrapping key is derived: the slow part, done before any lock is acquired.
struct PreparedSlot {
    private let kind: Keyslot.Kind
    private let label: SlotLabel
    private let derivation: SlotDerivation
    private let created: UInt64
    private let salt: Salt
    private let wrappingKey: SecretBytes

    /// - Parameter now: Seconds since 1970.
    init(_ new: NewSlot, now: UInt64 = WallClock.secondsSince1970) throws {
        try self.init(new.secret, kind: new.kind, label: new.label, derivation: new.derivation, created: now)
    }

    /// The same slot with a new salt, for another master key.
    init(renewing slot: Keyslot, with secret: Secret) throws {
        try self.init(
            secret, kind: slot.kind, label: slot.label, derivation: slot.derivation, created: slot.created)
    }

    private init(
        _ secret: Secret, kind: Keyslot.Kind, label: SlotLabel, derivation: SlotDerivation, created: UInt64
    ) throws {
        salt = try Salt.random()
        wrappingKey = try Self.derive(derivation, salt, secret.bytes)
        self.kind = kind
        self.label = label
        self.derivation = derivation
        self.created = created
    }

    /// The slot with a number in a store, verified to open.
    func slot(_ id: UInt64, of storeID: StoreID, holding master: MasterKey) throws -> Keyslot {
        let context = WrappingContext.slot(id, kind: kind, derivation: derivation, salt: salt, storeID: storeID)
        let slot = Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt,
            wrapped: try WrappedKey(master.secret, under: wrappingKey, context))
        // The slot is opened as it will be written, before the old one is replaced.
        guard let secret = try slot.wrapped.unwrap(with: wrappingKey, slot.context(storeID)),
            MasterKey(secret).isEqual(to: master)
        else { throw Self.unproved() }
        return slot
    }

    /// Derives the wrapping key twice in parallel and compares the results. One wrong bit in 128 MiB of memory would
    /// make a slot that its secret never opens.
    static func derive(
        _ derivation: SlotDerivation, _ salt: Salt, _ secret: SecretBytes
    ) throws -> SecretBytes {
        let results = Mutex<[Result<SecretBytes, any Error>]>([])
        DispatchQueue.concurrentPerform(iterations: 2) { _ in
            let result = Result { try derivation.wrappingKey(secret: secret, salt: salt) }
            results.withLock { $0.append(result) }
        }
        let keys = try results.withLock { try $0.map { try $0.get() } }
        guard keys.count == 2, keys[0].isEqual(to: keys[1]) else { throw unproved() }
        return keys[0]
    }

    static func unproved() -> StoreError {
        StoreError(
            .invalidKey, what: "The new keyslot does not open.",
            why: "Deriving its key twice gave two keys: the memory of this machine cannot be relied on.",
            remedy: "Nothing was changed. Check the machine.")
    }
}
