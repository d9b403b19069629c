import StoreCrypto
import StorePlatform
import Synchronization

/// A new slot whose wrapping key is derived: the slow part, done before any lock is acquired.
struct PreparedSlot {
    private let kind: Keyslot.Kind
    private let label: SlotLabel
    private let derivation: SlotDerivation
    private let created: UInt64
    private let salt: Salt
    private let wrappingKey: SecretBytes
    private let token: SlotToken?

    /// - Parameters:
    ///   - storeID: The store, for a device that keeps the secret.
    ///   - now: Seconds since 1970.
    init(_ new: NewSlot, for storeID: StoreID, now: UInt64 = WallClock.secondsSince1970) throws {
        try self.init(
            new.secret, storeID, kind: new.kind, label: new.label, derivation: new.derivation, created: now)
    }

    /// The same slot with a new salt, for another master key. A device that keeps the secret gets a new one.
    init(renewing slot: Keyslot, of storeID: StoreID, with secret: Secret) throws {
        try self.init(
            secret, storeID, kind: slot.kind, label: slot.label, derivation: slot.derivation, created: slot.created,
            replacing: slot)
    }

    private init(
        _ secret: Secret, _ storeID: StoreID, kind: Keyslot.Kind, label: SlotLabel, derivation: SlotDerivation,
        created: UInt64, replacing former: Keyslot? = nil
    ) throws {
        salt = try Salt.random()
        let bytes: SecretBytes
        if let session = secret.session {
            (token, bytes) = try session.make(for: storeID, slot: former?.id ?? 0, replacing: former?.token)
        } else {
            (token, bytes) = (nil, secret.bytes)
        }
        wrappingKey = try Self.derive(derivation, salt, bytes)
        self.kind = kind
        self.label = label
        self.derivation = derivation
        self.created = created
    }

    /// The slot with a number in a store, verified to open.
    func slot(_ id: UInt64, of storeID: StoreID, holding master: MasterKey) throws -> Keyslot {
        let context = WrappingContext.slot(
            id, kind: kind, derivation: derivation, salt: salt, token: token, storeID: storeID)
        let slot = Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt,
            wrapped: try WrappedKey(master.secret, under: wrappingKey, context), token: token)
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
        Workers.run(2) { _ in
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
