import StoreCrypto
import StorePlatform

/// The part of a sidecar that describes the next epoch. It exists exactly while a rotation is pending.
package struct PendingEpoch: Hashable, Sendable {
    /// When the next data key was made, in seconds since 1970.
    let created: UInt64
    /// The number of pages of the complete copy, which identifies it before it replaces the database. 0 in state
    /// `rotating`.
    package internal(set) var pages: UInt32
    package let salt: Salt
    /// The next data key: wrapped under the present one in a direct store, under its master key in a store with slots.
    let wrapped: WrappedKey
    /// The slots of a new master key, which then wraps the next data key; nil when the master key stays.
    ///
    /// Nothing wraps the new master key under the old one: the holder of the old one must not learn the new one.
    package let table: SlotTable?
}

extension Sidecar {
    /// The sidecar after the pending rotation; nil when none is pending.
    ///
    /// The keys of the next epoch are derived from it, as from any sidecar.
    package var successor: Sidecar? {
        guard let pending else { return nil }
        var next = next(.ready)
        next.pending = nil
        next.epoch += 1
        next.salt = pending.salt
        if case .slots(var slotted) = scheme {
            slotted.dataKey = SlottedKeys.Current(created: pending.created, origin: .random, wrapped: pending.wrapped)
            if let table = pending.table { slotted.table = table }
            next.scheme = .slots(slotted)
        }
        return next
    }

    /// The name in the key log of the mode of the pending rotation.
    var pendingModeName: String {
        if slotted == nil { return "new-key" }
        return pending?.table == nil ? "new-data-key" : "compromised"
    }

    /// The keyslots that the pending rotation removes.
    package var slotsDroppedByRotation: [Keyslot] {
        guard let table = pending?.table else { return [] }
        let kept = Set(table.slots.map(\.id))
        return slots.filter { !kept.contains($0.id) }
    }

    /// Whether the next epoch has keys that authenticate the sidecar by themselves: those of a direct store, or a new
    /// master key.
    var successorHasOwnKeys: Bool {
        guard let pending else { return false }
        return slotted == nil || pending.table != nil
    }

    /// The context to which the next data key of a direct store is bound.
    private func successorContext(_ salt: Salt) -> WrappingContext {
        .nextDataKey(epoch: epoch + 1, salt: salt, settings: settings, storeID: storeID)
    }

    /// Wraps the next data key of a direct store under the present one.
    func wrapSuccessor(_ next: DataKey, salt: Salt, under present: DataKey) throws -> WrappedKey {
        let wrappingKey = try present.nextKeyWrappingKey(storeID)
        return try WrappedKey(next.secret, under: wrappingKey, successorContext(salt))
    }

    /// The next data key of a direct store; nil when none is pending or `present` is not the key that wrapped it.
    func unwrapSuccessor(under present: DataKey) throws -> DataKey? {
        guard let pending, slotted == nil else { return nil }
        let wrappingKey = try present.nextKeyWrappingKey(storeID)
        return try pending.wrapped.unwrap(with: wrappingKey, successorContext(pending.salt)).map { try DataKey($0) }
    }
}

extension DataKey {
    static let nextKeyWrappingLabel = "cipherstore next key wrapping v1"

    fileprivate func nextKeyWrappingKey(_ storeID: StoreID) throws(CryptoError) -> SecretBytes {
        try KeyDerivation.hkdf(
            key: secret, salt: storeID.bytes, label: Self.nextKeyWrappingLabel, keyBytes: CipherSettings.keyBytes)
    }
}
