import StoreCrypto
import StorePlatform

extension KeyAdministration {
    /// Adds a slot.
    ///
    /// - Returns: The slot with its number.
    /// - Throws: ``StoreError`` `tooManySlots`, `slotNotFound` when the store has no slots at all, `rotationPending`,
    ///   `storeInUse`, `unsupportedLibrary`; ``SystemError``.
    @discardableResult
    package func add(_ new: NewSlot) throws -> Keyslot {
        // Thrown before a derivation whose result could not be used.
        _ = try slotted(sidecar())
        let prepared = try PreparedSlot(new)
        return try changeSlots(removesSecrets: false, recording: Self.added) { table, master, storeID in
            let slot = try prepared.slot(table.nextID, of: storeID, holding: master)
            try table.add(slot)
            return slot
        }
    }

    private static func added(_ sidecar: Sidecar) -> [KeyEvent] {
        guard let slot = sidecar.slots.last else { return [] }
        return [.slotAdded(id: slot.id, kind: slot.kind)] + (slot.kind == .recovery ? [.recoveryKeyMade] : [])
    }

    /// Adds a slot for a recovery key. The key must have been shown before: it cannot be shown again.
    @discardableResult
    package func add(_ recovery: RecoveryKey, label: SlotLabel = .none) throws -> Keyslot {
        // The slot is made from the text that was printed, so that this text is proved to open it.
        let printed = recovery.text()
        let read = try printed.withBytes { try RecoveryKey(reading: $0) }
        return try add(NewSlot(.rawKey(read.key), kind: .recovery, label: label))
    }

    /// Gives a slot another secret. Its number stays; its label stays unless the new slot has one.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`, and what ``add(_:)-(NewSlot)`` throws.
    @discardableResult
    package func change(_ id: UInt64, to new: NewSlot) throws -> Keyslot {
        _ = try slotted(sidecar()).table.find(id)
        let prepared = try PreparedSlot(new)
        let event = KeyEvent.slotChanged(id: id, kind: new.kind)
        return try changeSlots(removesSecrets: true, recording: { _ in [event] }) { table, master, storeID in
            let former = try table.find(id)
            var slot = try prepared.slot(id, of: storeID, holding: master)
            if new.label == .none { slot = slot.labelled(former.label) }
            try table.replace(slot)
            return slot
        }
    }

    /// Gives a slot another label.
    ///
    /// - Throws: ``StoreError`` `slotNotFound`, and what changing throws.
    package func label(_ id: UInt64, _ label: SlotLabel) throws {
        try changeSlots(removesSecrets: false, recording: { _ in [.slotLabelled(id: id)] }) { table, _, _ in
            try table.replace(table.find(id).labelled(label))
        }
    }

    /// Removes a slot. When this returns, its secret opens no file that the library keeps beside the store.
    ///
    /// Copies of sidecar and database that were made before still open with it, and a process that opened the slot may
    /// know the master key. Rotate the keys when a secret has leaked.
    /// - Throws: ``StoreError`` `lastSlot`, `slotNotFound`, and what changing throws.
    package func remove(_ id: UInt64) throws {
        try changeSlots(removesSecrets: true, recording: { _ in [.slotRemoved(id: id)] }) { table, _, _ in
            try table.remove(id)
        }
    }

    private func changeSlots<Result>(
        removesSecrets: Bool, recording events: (Sidecar) -> [KeyEvent],
        _ edit: (inout SlotTable, MasterKey, StoreID) throws -> Result
    ) throws -> Result {
        var result: Result?
        try change(removesSecrets: removesSecrets, recording: events) { sidecar in
            var next = sidecar
            var slotted = try slotted(sidecar)
            guard case .slots(let master, _) = keys else { throw noSlots() }
            result = try edit(&slotted.table, master, sidecar.storeID)
            next.scheme = .slots(slotted)
            return (next, keys)
        }
        guard let result else { throw noSlots() }
        return result
    }

    private func slotted(_ sidecar: Sidecar) throws(StoreError) -> SlottedKeys {
        guard let slotted = sidecar.slotted else { throw noSlots() }
        return slotted
    }

    private func noSlots() -> StoreError {
        StoreError(
            .slotNotFound, what: "\"\(databasePath)\" has no keyslots.",
            why: "Its key is derived from its passphrase directly, as SQLCipher does.",
            remedy: "Convert it to a store with keyslots first (`cipherctl key convert`).")
    }
}

extension Keyslot {
    fileprivate func labelled(_ label: SlotLabel) -> Keyslot {
        Keyslot(
            id: id, kind: kind, created: created, label: label, derivation: derivation, salt: salt, wrapped: wrapped)
    }
}
