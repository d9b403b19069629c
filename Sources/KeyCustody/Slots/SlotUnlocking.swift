import StoreCrypto
import StorePlatform
import Synchronization

extension Secret {
    /// Makes the keys of a sidecar from what it claims: by the derivation of a direct store, or by the first slot that
    /// opens.
    ///
    /// - Returns: The keys, or nil when no slot opens. Nothing is authenticated yet.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? {
        switch claimed.scheme {
        case .direct: .direct(try dataKey(salt: claimed.salt, settings: claimed.settings))
        case .slots(let slotted): try unlock(slotted.table.slots, claimed.storeID)
        }
    }

    private func unlock(_ slots: [Keyslot], _ storeID: StoreID) throws -> SidecarKeys? {
        let keys = try unlock(slots, storeID: storeID, first: OpenedSlots.last(of: storeID))
        if let slot = keys?.openedBy, slot.derivation.isMemoryHard { OpenedSlots.note(slot.id, of: storeID) }
        return keys
    }

    /// The slot that this secret opens in a store that another secret has opened; nil when it opens none.
    ///
    /// A slot with a slow derivation opens by the bytes of one passphrase only. For the slot that is open already the
    /// bytes are therefore compared, and nothing is derived.
    ///
    /// - Parameters:
    ///   - known: The secret that opened the store.
    ///   - opened: The slot that it opened.
    package func openedSlot(of sidecar: Sidecar, knowing known: Secret, opened: Keyslot?) throws -> Keyslot? {
        if isEqual(to: known) { return opened }
        return try openedSlot(of: sidecar, among: sidecar.slots.filter { $0 != opened || !$0.derivation.isMemoryHard })
    }

    /// The slot among those given that this secret opens; nil when it opens none of them.
    package func openedSlot(of sidecar: Sidecar, among slots: [Keyslot]) throws -> Keyslot? {
        try unlock(slots, storeID: sidecar.storeID)?.openedBy
    }

    /// Tries the slots that may fit, in this order: those without a slow derivation, the one that is likely, those of the
    /// source's kind, and the newest first within each group.
    ///
    /// A raw key is tried on the slots of key files and recovery keys. A passphrase is tried on all others. When it has
    /// the form of a printed recovery key, it is tried on those slots as well.
    ///
    /// - Parameter first: The number of the slot that is likely.
    private func unlock(_ slots: [Keyslot], storeID: StoreID, first: UInt64? = nil) throws -> SidecarKeys? {
        guard isPassphrase else { return try firstSlot(of: slots.filter(\.kind.isAlwaysRandom), storeID) }
        if let keys = try recoveryKey?.firstSlot(of: slots.filter { $0.kind == .recovery }, storeID) { return keys }
        let candidates = slots.filter { !$0.kind.isAlwaysRandom }.sorted {
            $0.rank(first: first, kind: slotKind) < $1.rank(first: first, kind: slotKind)
        }
        return try firstSlot(of: candidates, storeID)
    }

    /// The first of the slots that the secret opens.
    ///
    /// - Throws: ``StoreError`` `unsupportedLibrary` when none opens and one could not be tried.
    private func firstSlot(of slots: [Keyslot], _ storeID: StoreID) throws -> SidecarKeys? {
        let trials = KeyslotTrials(slots, report: onTrial)
        defer { trials.end() }
        for slot in slots where slot.derivation.isAvailable {
            trials.begin(slot)
            if let master = try slot.open(self, storeID) { return .slots(master, openedBy: slot) }
        }
        if slots.contains(where: { !$0.derivation.isAvailable }) { throw SlotDerivation.missingArgon2id() }
        return nil
    }
}

extension Keyslot {
    /// Its place among the slots on which a passphrase is tried: the lowest is tried first.
    fileprivate func rank(first: UInt64?, kind source: Keyslot.Kind?) -> Rank {
        Rank(
            isSlow: derivation.isMemoryHard, isLikely: id == first, isOfSource: kind == source, created: created, id: id
        )
    }

    fileprivate struct Rank: Comparable {
        let isSlow: Bool
        let isLikely: Bool
        let isOfSource: Bool
        let created: UInt64
        let id: UInt64

        static func < (one: Rank, other: Rank) -> Bool {
            if one.isSlow != other.isSlow { return !one.isSlow }
            if one.isLikely != other.isLikely { return one.isLikely }
            if one.isOfSource != other.isOfSource { return one.isOfSource }
            return (one.created, one.id) > (other.created, other.id)
        }
    }

    /// The master key, or nil when the secret does not belong to this slot.
    func open(_ secret: Secret, _ storeID: StoreID) throws -> MasterKey? {
        let wrappingKey = try derivation.wrappingKey(secret: secret.bytes, salt: salt)
        return try wrapped.unwrap(with: wrappingKey, context(storeID)).map { MasterKey($0) }
    }
}

/// The slot with a slow derivation that opened each store last in this process, by its number: the next opening, as after
/// a rotation, is likely to have the same passphrase. It says nothing of a secret.
private enum OpenedSlots {
    private static let slots = Mutex<[StoreID: UInt64]>([:])

    static func last(of store: StoreID) -> UInt64? { slots.withLock { $0[store] } }

    static func note(_ slot: UInt64, of store: StoreID) {
        slots.withLock { slots in
            if slots.count >= Limits.rememberedSlots { slots.removeAll() }
            slots[store] = slot
        }
    }
}
