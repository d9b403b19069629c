import StoreCrypto
import StorePlatform

/// The key material in a sidecar of the slots scheme: the slots, and the data key that their master key wraps.
package struct SlottedKeys: Hashable, Sendable {
    /// The origin of a data key.
    package enum Origin: String, Hashable, Sendable, CaseIterable {
        /// It was generated at random for this store.
        case random
        /// It was the key of a direct store. **Its former passphrase still opens the database**, with the salt of the
        /// sidecar and without any slot, until the data key is rotated.
        case direct
    }

    /// The data key of the present epoch.
    package struct Current: Hashable, Sendable {
        /// In seconds since 1970.
        package let created: UInt64
        package let origin: Origin
        let wrapped: WrappedKey
    }

    package internal(set) var table: SlotTable
    package internal(set) var dataKey: Current
}

extension Sidecar {
    /// The slots and the wrapped data key; nil in a direct store.
    package var slotted: SlottedKeys? {
        if case .slots(let keys) = scheme { keys } else { nil }
    }

    /// The keyslots in the order of their numbers; none in a direct store.
    package var slots: [Keyslot] { slotted?.table.slots ?? [] }

    /// The context to which the data key of an epoch is bound.
    func context(epoch: UInt64, salt: Salt) -> WrappingContext {
        .dataKey(epoch: epoch, salt: salt, settings: settings, storeID: storeID)
    }

    /// Wraps a data key for an epoch and a salt of this store.
    func wrap(_ dataKey: DataKey, epoch: UInt64, salt: Salt, under master: MasterKey) throws -> WrappedKey {
        let wrappingKey = try master.derived(MasterKey.dataKeyWrappingLabel, storeID)
        return try WrappedKey(dataKey.secret, under: wrappingKey, context(epoch: epoch, salt: salt))
    }

    /// The data key that the master key opens; nil when it does not.
    func unwrapDataKey(under master: MasterKey) throws -> DataKey? {
        guard let slotted else { return nil }
        let wrappingKey = try master.derived(MasterKey.dataKeyWrappingLabel, storeID)
        let context = context(epoch: epoch, salt: salt)
        return try slotted.dataKey.wrapped.unwrap(with: wrappingKey, context).map { try DataKey($0) }
    }
}
