import Dispatch
import StoreCrypto
import StorePlatform
import Synchronization

/// A new slot with its wrapping key derived: the slow part, done before any lock is taken.
struct PreparedSlot: ~Copyable {
    private let kind: KeySlot.Kind
    private let label: SlotLabel
    private let derivation: SlotDerivation
    private let created: UInt64
    private let salt: Salt
    private let wrappingKey: SecretBytes

    /// - Parameter now: Seconds since 1970.
    init(_ new: NewSlot, now: UInt64 = WallClock.secondsSince1970) throws {
        let salt = try Salt.random()
        let derivation = new.derivation
        wrappingKey = try Self.derive(derivation, salt) { try new.material.withSlotSecret($0) }
        self.salt = salt
        kind = new.kind
        label = new.label
        self.derivation = derivation
        created = now
    }

    /// The same slot with a salt of its own for another master key.
    init(renewing slot: KeySlot, with secret: RotationSecret) throws {
        let salt = try Salt.random()
        let derivation = slot.derivation
        wrappingKey = try Self.derive(derivation, salt) { try secret.material.withSlotSecret($0) }
        self.salt = salt
        kind = slot.kind
        label = slot.label
        self.derivation = derivation
        created = slot.created
    }

    /// The slot with a number of a store, shown to open.
    func slot(_ id: UInt64, of storeID: StoreID, holding master: MasterKey) throws -> KeySlot {
        let context = WrappingContext.slot(id, kind: kind, derivation: derivation, salt: salt, storeID: storeID)
        let wrapped = try master.withSecret { secret throws(CryptoError) in
            try WrappedKey(secret, under: wrappingKey, context)
        }
        let slot = KeySlot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt, wrapped: wrapped)
        // Proved by opening what will be written, before anything old is given up.
        guard let secret = try slot.wrapped.unwrap(with: wrappingKey, slot.context(storeID)),
            MasterKey(secret).isEqual(to: master)
        else { throw Self.unproved() }
        return slot
    }

    /// Derives the wrapping key twice, side by side, and compares: 128 MiB of memory with one wrong bit would make a slot
    /// that its secret never opens again.
    ///
    /// - Parameter lend: Lends the secret to its argument.
    private static func derive(
        _ derivation: SlotDerivation, _ salt: Salt,
        _ lend: @Sendable ((borrowing SecretBytes) throws -> DerivedKey) throws -> DerivedKey
    ) throws -> SecretBytes {
        let results = Mutex<[Result<DerivedKey, any Error>]>([])
        DispatchQueue.concurrentPerform(iterations: 2) { _ in
            let result = Result {
                try lend { secret in DerivedKey(try derivation.wrappingKey(secret: secret, salt: salt)) }
            }
            results.withLock { $0.append(result) }
        }
        let keys = try results.withLock { try $0.map { try $0.get() } }
        guard keys.count == 2, keys[0].secret.isEqual(to: keys[1].secret) else { throw unproved() }
        return keys[0].secret.copy()
    }

    private final class DerivedKey: Sendable {
        let secret: SecretBytes
        init(_ secret: consuming SecretBytes) { self.secret = secret }
    }

    static func unproved() -> StoreError {
        StoreError(
            .invalidKey, what: "The new key slot does not open.",
            why: "Deriving its key twice gave two keys: the memory of this machine cannot be relied on.",
            remedy: "Nothing was changed. Check the machine.")
    }
}
