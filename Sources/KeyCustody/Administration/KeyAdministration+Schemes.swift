import StoreCrypto
import StorePlatform

extension KeyAdministration {
    /// Converts a direct store to one with keyslots. Its data key stays, so no page is encrypted again.
    ///
    /// **The former passphrase still opens the database** with any SQLCipher, with the salt that the sidecar shows,
    /// until the data key is rotated (``SlottedKeys/Origin/direct``).
    /// - Parameter first: The first slots, at least one.
    /// - Returns: The administration of the store with slots.
    /// - Throws: ``StoreError`` `settingsConflict` when it has slots already; what ``add(_:)-(NewSlot)`` throws.
    package func convertToSlots(_ first: [NewSlot]) throws -> KeyAdministration {
        let present = try sidecar()
        guard case .direct(let dataKey) = keys, present.slotted == nil else {
            throw conflict("The store has keyslots already.", "Add a slot instead.")
        }
        let initial = try InitialKeyslots(first, for: present.storeID)
        try change(removesSecrets: false, recording: Self.events) { sidecar in
            guard case .direct = sidecar.scheme else {
                throw conflict("Another process gave it keyslots meanwhile.", "List its keyslots.")
            }
            return (try initial.sidecar(from: sidecar, dataKey: dataKey, origin: .direct), initial.keys)
        }
        return holding(initial.keys)
    }

    /// Converts a store with slots to a direct one. Its data key stays. From then on the key that opens the store is
    /// the data key itself, or the passphrase from which it was once derived.
    ///
    /// - Parameter secret: That key; it is verified before the slots are removed.
    /// - Returns: The administration of the direct store.
    /// - Throws: ``StoreError`` `wrongKey` when it does not give the data key, `settingsConflict` when the store is
    ///   direct already; what changing throws.
    package func convertToDirect(provedBy secret: Secret) throws -> KeyAdministration {
        let present = try choice()
        guard present.sidecar.slotted != nil else {
            throw conflict("The store is direct already.", "Nothing needs to be done.")
        }
        let derived = try secret.dataKey(salt: present.sidecar.salt, settings: present.sidecar.settings)
        let direct = SidecarKeys.direct(derived)
        try change(removesSecrets: true, recording: Self.events) { sidecar in
            try requireDataKey(derived, of: sidecar)
            var next = sidecar
            next.scheme = .direct
            return (next, direct)
        }
        return holding(direct)
    }

    /// Proves that a secret gives the data key of the store, so that it could be the one key of a direct store.
    ///
    /// - Throws: ``StoreError`` `wrongKey`; ``CryptoError``.
    package func requireDataKey(from secret: Secret) throws {
        let sidecar = try choice().sidecar
        try requireDataKey(secret.dataKey(salt: sidecar.salt, settings: sidecar.settings), of: sidecar)
    }

    private func requireDataKey(_ derived: DataKey, of sidecar: Sidecar) throws {
        guard let dataKey = try keys.dataKey(of: sidecar), dataKey.isEqual(to: derived) else {
            throw StoreError(
                .wrongKey, what: "\"\(databasePath)\" was not converted to a direct store.",
                why:
                    "The new key is not the data key, with which its pages are encrypted: a direct store has no "
                    + "other key.",
                remedy: "Give the data key, whose digits `cipherctl key reveal` prints, as a raw key of 32 bytes. "
                    + "Once the store is direct, `cipherctl rotate --backup DIR --new-key-file F` can give it a passphrase."
            )
        }
    }

    /// The change of the scheme, and the slots that were added with it.
    private static func events(_ sidecar: Sidecar) -> [KeyEvent] {
        [.schemeChanged(to: sidecar.scheme.name)] + sidecar.slots.map { .slotAdded(id: $0.id, kind: $0.kind) }
    }

    private func conflict(_ why: String, _ remedy: String) -> StoreError {
        StoreError(
            .settingsConflict, what: "The scheme of \"\(databasePath)\" was not changed.", why: why, remedy: remedy)
    }
}

/// A new master key with the slots that open it, prepared before a sidecar contains them.
struct InitialKeyslots {
    let keys: SidecarKeys
    private let master: MasterKey
    private let prepared: [PreparedSlot]

    /// Derives the keys of the slots.
    ///
    /// - Throws: ``StoreError`` `lastSlot` when there is none, `tooManySlots`; what preparing a slot throws.
    init(_ first: [NewSlot], for storeID: StoreID) throws {
        guard !first.isEmpty else {
            throw StoreError(
                .lastSlot, what: "A store cannot be without a keyslot.", why: "None was given.",
                remedy: "Give at least one key.")
        }
        master = try MasterKey.random()
        keys = .slots(master, openedBy: nil)
        prepared = try first.map { try PreparedSlot($0, for: storeID) }
    }

    /// A copy of the sidecar with these slots, whose master key wraps the data key.
    func sidecar(
        from sidecar: Sidecar, dataKey: DataKey, origin: SlottedKeys.Origin, now: UInt64 = WallClock.secondsSince1970
    ) throws -> Sidecar {
        let wrapped = try sidecar.wrap(dataKey, epoch: sidecar.epoch, salt: sidecar.salt, under: master)
        let current = SlottedKeys.Current(created: now, origin: origin, wrapped: wrapped)
        var table = SlotTable()
        for slot in prepared { try table.add(slot.slot(table.nextID, of: sidecar.storeID, holding: master)) }
        var founded = sidecar
        founded.scheme = .slots(SlottedKeys(table: table, dataKey: current))
        return founded
    }
}

extension Sidecar {
    /// The sidecar of a store with keyslots that is about to be created, with a new identifier, master key and data
    /// key.
    ///
    /// - Parameters:
    ///   - salt: The salt to use; a new one when it is nil.
    ///   - slots: The first slots, at least one; their keys are derived here.
    /// - Returns: The sidecar in state `creating`, and the keys that seal it, which also give the data key.
    package static func creating(
        settings: CipherSettings, salt: Salt? = nil, slots: [NewSlot]
    ) throws -> (sidecar: Sidecar, keys: SidecarKeys) {
        let bare = try Sidecar.creating(settings: settings, salt: salt)
        let initial = try InitialKeyslots(slots, for: bare.storeID)
        let dataKey = try DataKey.random()
        return (try initial.sidecar(from: bare, dataKey: dataKey, origin: .random), initial.keys)
    }
}
