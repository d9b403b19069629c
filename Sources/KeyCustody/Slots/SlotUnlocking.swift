import StoreCrypto
import StorePlatform

extension Secret {
    /// Makes the keys of a sidecar from what it claims: by the derivation of a direct store, or by the first slot that
    /// opens.
    ///
    /// - Returns: The keys, or nil when no slot opens. Nothing is authenticated yet.
    package func unlock(_ claimed: Sidecar) throws -> SidecarKeys? {
        switch claimed.scheme {
        case .direct: .direct(try dataKey(salt: claimed.salt, settings: claimed.settings))
        case .slots(let slotted): try unlock(slotted.table.slots, storeID: claimed.storeID)
        }
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

    /// Tries the slots that may fit: those without a slow derivation first, then the newest first.
    ///
    /// A raw key is tried on the slots of key files and recovery keys. A passphrase is tried on all others. When it has
    /// the form of a printed recovery key, it is tried on those slots as well.
    private func unlock(_ slots: [Keyslot], storeID: StoreID) throws -> SidecarKeys? {
        guard isPassphrase else { return try firstSlot(of: slots.filter(\.kind.isAlwaysRandom), storeID) }
        if let keys = try recoveryKey?.firstSlot(of: slots.filter { $0.kind == .recovery }, storeID) { return keys }
        let candidates = slots.filter { !$0.kind.isAlwaysRandom }.sorted { $0.isTried(before: $1) }
        return try firstSlot(of: candidates, storeID)
    }

    /// The first of the slots that the secret opens.
    ///
    /// - Throws: ``StoreError`` `unsupportedLibrary` when none opens and one could not be tried.
    private func firstSlot(of slots: [Keyslot], _ storeID: StoreID) throws -> SidecarKeys? {
        for slot in slots where slot.derivation.isAvailable {
            if let master = try slot.open(self, storeID) { return .slots(master, openedBy: slot) }
        }
        if slots.contains(where: { !$0.derivation.isAvailable }) { throw SlotDerivation.missingArgon2id() }
        return nil
    }
}

extension Keyslot {
    fileprivate func isTried(before other: Keyslot) -> Bool {
        if derivation.isMemoryHard != other.derivation.isMemoryHard { return !derivation.isMemoryHard }
        return (created, id) > (other.created, other.id)
    }

    /// The master key, or nil when the secret does not belong to this slot.
    func open(_ secret: Secret, _ storeID: StoreID) throws -> MasterKey? {
        let wrappingKey = try derivation.wrappingKey(secret: secret.bytes, salt: salt)
        return try wrapped.unwrap(with: wrappingKey, context(storeID)).map { MasterKey($0) }
    }
}
