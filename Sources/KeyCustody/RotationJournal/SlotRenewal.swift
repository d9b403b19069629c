import StoreCrypto
import StorePlatform

/// The slots of a new master key, for the secrets that are kept.
struct SlotRenewal {
    let table: SlotTable
    /// The kept slots, as they are under the former master key.
    let kept: [Keyslot]
    let dropped: [Keyslot]

    /// Finds every slot that the secrets open, and makes one for the new master key to replace it. Number, kind, label,
    /// time and derivation stay; the salt is new. A device gets a new secret: it is asked here, before the rotation
    /// begins, unless the token of a slot lets it wrap one alone.
    ///
    /// - Parameter provingEach: Whether each device must open the slots that are kept: the others are to be removed.
    /// - Throws: ``StoreError`` `wrongKey` when a secret opens no slot, `lastSlot` when there is none to keep; what
    ///   preparing a slot throws.
    init(
        of sidecar: Sidecar, holding former: MasterKey, keeping secrets: [Secret], provingEach: Bool = false,
        master: MasterKey, databasePath: String
    ) throws {
        var renewed: [UInt64: Keyslot] = [:]
        for secret in secrets {
            if let session = secret.session {
                let made = try Self.renew(sidecar, session, holding: former, secret, provingEach: provingEach, master)
                guard !made.isEmpty else { throw Self.opensNothing(databasePath) }
                renewed.merge(made) { first, _ in first }
                continue
            }
            var opensOne = false
            for form in secret.forms {
                for slot in sidecar.slots where form.mayOpen(slot) {
                    guard let found = try slot.open(form, sidecar.storeID), found.isEqual(to: former) else { continue }
                    opensOne = true
                    if renewed[slot.id] != nil { continue }
                    let prepared = try PreparedSlot(renewing: slot, of: sidecar.storeID, with: form)
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

    /// The slots of a device, by their numbers.
    ///
    /// - Throws: ``StoreError`` with the code of the device's first error, for slots that it could not renew: their owner
    ///   has asked to keep them.
    private static func renew(
        _ sidecar: Sidecar, _ session: TokenSession, holding former: MasterKey, _ secret: Secret, provingEach: Bool,
        _ master: MasterKey
    ) throws -> [UInt64: Keyslot] {
        var renewed: [UInt64: Keyslot] = [:]
        var failures: [(slot: Keyslot, error: StoreError, isOfOther: Bool)] = []
        for slot in sidecar.slots where session.mayOpen(slot) {
            do {
                // The present master key authenticates the token, so its public key is that of the owner.
                let isAlone = !provingEach && slot.token.map(session.device.wrapsAlone) ?? false
                let opens = try isAlone || session.master(in: slot, sidecar.storeID)?.isEqual(to: former) ?? false
                guard opens else { continue }
                let prepared = try PreparedSlot(renewing: slot, of: sidecar.storeID, with: secret)
                renewed[slot.id] = try prepared.slot(slot.id, of: sidecar.storeID, holding: master)
            } catch let other as OtherDevice {
                failures.append((slot, other.error, true))
            } catch let error as StoreError {
                failures.append((slot, error, false))
                // A wrong PIN would be counted again for another slot of the same token.
                if error.code == .wrongKey { break }
            }
        }
        if provingEach, !renewed.isEmpty, failures.allSatisfy({ $0.isOfOther }) { return renewed }
        guard let first = failures.first?.error else { return renewed }
        let numbers = failures.map { String($0.slot.id) }.joined(separator: ", ")
        throw StoreError(
            first.code, what: "The master key was not renewed: these keyslots cannot be kept: \(numbers).",
            why: "\(first.what) \(first.why)",
            remedy: "\(first.remedy) Or remove these slots first: cipherctl key remove.")
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
        slot.kind.isAlwaysRandom != isPassphrase && !slot.kind.isToken && slot.derivation.isAvailable
    }
}
