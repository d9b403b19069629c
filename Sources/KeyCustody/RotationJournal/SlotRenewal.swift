import StoreCrypto
import StorePlatform

/// The slots of a new master key, for the secrets that are kept.
struct SlotRenewal {
    let table: SlotTable
    /// The kept slots, as they are under the former master key.
    let kept: [Keyslot]
    let dropped: [Keyslot]

    /// Finds every slot that the secrets open, and makes one for the new master key to replace it. Number, kind, label,
    /// time and derivation stay; the salt is new.
    ///
    /// - Throws: ``StoreError`` `wrongKey` when a secret opens no slot, `lastSlot` when there is none to keep; what
    ///   preparing a slot throws.
    init(
        of sidecar: Sidecar, holding former: MasterKey, keeping secrets: [Secret], master: MasterKey,
        databasePath: String
    ) throws {
        var renewed: [UInt64: Keyslot] = [:]
        for secret in secrets {
            var opensOne = false
            for form in secret.forms {
                for slot in sidecar.slots where form.mayOpen(slot) {
                    guard let found = try slot.open(form, sidecar.storeID), found.isEqual(to: former) else { continue }
                    opensOne = true
                    if renewed[slot.id] != nil { continue }
                    let prepared = try PreparedSlot(renewing: slot, with: form)
                    renewed[slot.id] = try prepared.slot(slot.id, of: sidecar.storeID, holding: master)
                }
            }
            guard opensOne else { throw Self.opensNothing(databasePath) }
        }
        kept = sidecar.slots.filter { renewed[$0.id] != nil }
        dropped = sidecar.slots.filter { renewed[$0.id] == nil }
        let nextID = sidecar.slotted?.table.nextID ?? 1
        guard let table = SlotTable(slots: kept.compactMap { renewed[$0.id] }, nextID: nextID) else {
            throw StoreError(
                .lastSlot, what: "The master key of \"\(databasePath)\" was not renewed.",
                why: "No slot would be kept: no key would open the store.",
                remedy: "Give the key of at least one slot.")
        }
        self.table = table
    }

    private static func opensNothing(_ databasePath: String) -> StoreError {
        StoreError(
            .wrongKey, what: "The master key of \"\(databasePath)\" was not renewed.",
            why: "A key whose slot is to be kept opens no slot.", remedy: "Check that key, or leave it out.")
    }
}

extension Secret {
    /// The ways to read the secret: as it is, and also as a printed recovery key if it has that form.
    fileprivate var forms: [Secret] { [self] + (recoveryKey.map { [$0] } ?? []) }

    fileprivate func mayOpen(_ slot: Keyslot) -> Bool {
        slot.kind.isAlwaysRandom != isPassphrase && slot.derivation.isAvailable
    }
}
