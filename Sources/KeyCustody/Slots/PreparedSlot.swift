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
        wrappingKey = try Self.derive(new, salt)
        self.salt = salt
        kind = new.kind
        label = new.label
        derivation = new.derivation
        created = now
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
    private static func derive(_ new: NewSlot, _ salt: Salt) throws -> SecretBytes {
        let results = Mutex<[Result<DerivedKey, any Error>]>([])
        DispatchQueue.concurrentPerform(iterations: 2) { _ in
            let result = Result {
                try new.material.withSlotSecret { secret in
                    DerivedKey(try new.derivation.wrappingKey(secret: secret, salt: salt))
                }
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

    private static func unproved() -> StoreError {
        StoreError(
            .invalidKey, what: "The new key slot does not open.",
            why: "Deriving its key twice gave two keys: the memory of this machine cannot be relied on.",
            remedy: "Nothing was changed. Check the machine.")
    }
}
