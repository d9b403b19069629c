import StoreCrypto
import StorePlatform

/// The keys that authenticate a sidecar; its seal is derived from them.
package enum SidecarKeys: Sendable {
    // `slots` must be the first case: the pointer of any later case is stored with its highest bit set, which a leak
    // check does not recognize as a pointer, and nothing else refers to the master key.
    /// The keys of a store with slots: the master key, and the slot that opened it; nil when it was known already.
    case slots(MasterKey, openedBy: Keyslot?)
    /// The key of a direct store: the data key alone.
    case direct(DataKey)

    /// The data key of a sidecar that these keys have authenticated; nil when they do not open it.
    package func dataKey(of sidecar: Sidecar) throws -> DataKey? {
        switch (self, sidecar.scheme) {
        case (.direct(let key), .direct): key
        case (.slots(let master, _), .slots): try sidecar.unwrapDataKey(under: master)
        case (.direct, .slots), (.slots, .direct): nil
        }
    }

    /// The keys of the next epoch, if the present ones open them. Nil when no rotation is pending, when the rotation
    /// renews the master key, or when these are not keys of the sidecar.
    func successor(of sidecar: Sidecar) throws -> SidecarKeys? {
        guard let pending = sidecar.pending, let next = sidecar.successor else { return nil }
        switch self {
        case .direct(let present): return try sidecar.unwrapSuccessor(under: present).map { .direct($0) }
        case .slots: return try pending.table == nil && dataKey(of: next) != nil ? self : nil
        }
    }

    /// Whether these are keys for the scheme of a sidecar.
    func fit(_ sidecar: Sidecar) -> Bool {
        switch (self, sidecar.scheme) {
        case (.direct, .direct), (.slots, .slots): true
        case (.direct, .slots), (.slots, .direct): false
        }
    }

    /// The slot that opened the master key.
    package var openedBy: Keyslot? {
        if case .slots(_, let slot) = self { slot } else { nil }
    }

    /// Derives the key of one purpose for a store.
    func derived(
        _ label: (direct: String, slots: String), _ storeID: StoreID, keyBytes: Int
    ) throws(CryptoError) -> SecretBytes {
        switch self {
        case .direct(let key):
            try KeyDerivation.hkdf(key: key.secret, salt: storeID.bytes, label: label.direct, keyBytes: keyBytes)
        case .slots(let master, _): try master.derived(label.slots, storeID, keyBytes: keyBytes)
        }
    }
}
