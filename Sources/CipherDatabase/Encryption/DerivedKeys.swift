import KeyCustody
import StoreCrypto

/// The keys that were made so far, and of what: each derivation is done once for all connections of a file, and again
/// only when its ingredients are others.
struct DerivedKeys {
    private var dataKeys: [DataKeyRecord] = []
    private var opened: [OpenedSlot] = []
    private var refused: [RefusedSlots] = []

    private struct DataKeyRecord {
        let secret: Secret
        let salt: Salt
        let settings: CipherSettings
        let key: DataKey
    }

    /// A slot that a secret opened. While it stands in a table unchanged, it gives the same master key.
    private struct OpenedSlot {
        let secret: Secret
        let storeID: StoreID
        let slot: KeySlot
        let keys: SidecarKeys
    }

    /// Slots of which a secret opens none.
    private struct RefusedSlots {
        let secret: Secret
        let storeID: StoreID
        let slots: [KeySlot]
    }

    /// What is known of the keys for a sidecar.
    enum Known {
        case keys(SidecarKeys)
        /// The secret opens no slot of it.
        case none
        /// They are still to be derived.
        case underived
    }

    /// The data key of a direct store.
    mutating func dataKey(for secret: Secret, salt: Salt, settings: CipherSettings) throws -> DataKey {
        if let known = knownDataKey(for: secret, salt: salt, settings: settings) { return known }
        let key = try secret.dataKey(salt: salt, settings: settings)
        dataKeys.append(DataKeyRecord(secret: secret, salt: salt, settings: settings, key: key))
        return key
    }

    /// The keys of what a sidecar claims; nil when the secret opens no slot of it.
    mutating func keys(for secret: Secret, of claimed: Sidecar) throws -> SidecarKeys? {
        switch known(for: secret, of: claimed) {
        case .keys(let keys): return keys
        case .none: return nil
        case .underived: break
        }
        guard case .slots = claimed.scheme else {
            return .direct(try dataKey(for: secret, salt: claimed.salt, settings: claimed.settings))
        }
        let keys = try secret.unlock(claimed)
        if let keys {
            remember(keys, for: secret, of: claimed.storeID)
        } else {
            refused.append(RefusedSlots(secret: secret, storeID: claimed.storeID, slots: claimed.slots))
        }
        return keys
    }

    /// Keeps in mind that a secret opens a slot.
    mutating func remember(_ keys: SidecarKeys, for secret: Secret, of storeID: StoreID) {
        guard let slot = keys.openedBy else { return }
        opened.append(OpenedSlot(secret: secret, storeID: storeID, slot: slot, keys: keys))
    }

    /// What is known without a derivation.
    func known(for secret: Secret, of claimed: Sidecar) -> Known {
        guard case .slots = claimed.scheme else {
            let key = knownDataKey(for: secret, salt: claimed.salt, settings: claimed.settings)
            return key.map { .keys(.direct($0)) } ?? .underived
        }
        for record in opened where record.storeID == claimed.storeID && record.secret.isEqual(to: secret) {
            if claimed.slots.contains(record.slot) { return .keys(record.keys) }
        }
        let isRefused = refused.contains {
            $0.storeID == claimed.storeID && $0.slots == claimed.slots && $0.secret.isEqual(to: secret)
        }
        return isRefused ? .none : .underived
    }

    private func knownDataKey(for secret: Secret, salt: Salt, settings: CipherSettings) -> DataKey? {
        dataKeys.first { $0.salt == salt && $0.settings.derivesAs(settings) && $0.secret.isEqual(to: secret) }?.key
    }
}

extension CipherSettings {
    /// Whether both derive the same key from the same passphrase and salt.
    fileprivate func derivesAs(_ other: CipherSettings) -> Bool {
        kdfRounds == other.kdfRounds && kdfHash == other.kdfHash
    }
}
