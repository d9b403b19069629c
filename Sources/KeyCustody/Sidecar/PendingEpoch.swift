import StoreCrypto
import StorePlatform

/// What a sidecar keeps of the next epoch, exactly while a rotation is under way.
package struct PendingEpoch: Hashable, Sendable {
    /// When the next data key was made, in seconds since 1970.
    package let created: UInt64
    /// The pages of the complete copy: what takes the database's place is proved by them. 0 in the state `rotating`.
    package internal(set) var pages: UInt32
    package let salt: Salt
    /// The next data key: of a direct store under the present one, of a store with slots under its master key.
    let wrapped: WrappedKey
    /// The slots of a new master key, which wraps the next data key then; nil when the present one stays.
    ///
    /// Nothing wraps the new master key under the old one: whoever knew that must not come to know this.
    package let table: SlotTable?
}

extension Sidecar {
    /// The sidecar that the pending rotation will leave; nil when none is pending.
    ///
    /// Keys of the next epoch are made from it as those of any sidecar.
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

    /// Whether the next epoch has keys that prove the sidecar by themselves: those of a direct store, or a new master key.
    var successorHasOwnKeys: Bool {
        guard let pending else { return false }
        return slotted == nil || pending.table != nil
    }

    /// What the next data key of a direct store is bound to.
    private func successorContext(_ salt: Salt) -> WrappingContext {
        .nextDataKey(epoch: epoch + 1, salt: salt, settings: settings, storeID: storeID)
    }

    /// Wraps the next data key of a direct store under the present one.
    func wrapSuccessor(_ next: DataKey, salt: Salt, under present: DataKey) throws -> WrappedKey {
        let wrappingKey = try present.nextKeyWrappingKey(storeID)
        return try WrappedKey(next.secret, under: wrappingKey, successorContext(salt))
    }

    /// The next data key of a direct store; nil when none is pending or the present one is not that of the wrapping.
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
