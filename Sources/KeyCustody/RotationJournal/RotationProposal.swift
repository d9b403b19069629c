import StoreCrypto
import StorePlatform

/// The next epoch of a store. It is made without a lock, because keys are derived for it.
/// ``RotationJournal/begin(_:)-(RotationProposal)`` records it.
package struct RotationProposal: Sendable {
    /// The slots that are kept under a new master key; all of them when the master key stays, none in a direct store.
    let keptSlots: [Keyslot]
    /// The slots whose secrets open nothing after the rotation is complete.
    package let droppedSlots: [Keyslot]

    /// The sidecar from which it was made.
    let origin: Sidecar
    let current: SidecarKeys
    let next: SidecarKeys
    let dataKey: DataKey
    let salt: Salt
    let table: SlotTable?

    /// The version of a sidecar that records the pending key. The sidecar may differ from `origin` only in its
    /// generation.
    func rotating(_ sidecar: Sidecar) throws -> Sidecar {
        var expected = origin
        expected.generation = sidecar.generation
        guard sidecar == expected else {
            throw StoreError(
                .storeInUse, what: "The rotation was not started.",
                why: "The keys of the store were changed while those of the next epoch were made.",
                remedy: "Try again.")
        }
        return try sidecar.rotating(to: dataKey, salt: salt, keys: current, next: next, table: table)
    }
}

extension RotationProposal {
    /// Makes new keys for a store.
    ///
    /// - Throws: ``StoreError`` `modeConflict` when the mode does not fit the scheme, `invalidKey` when the new key is
    ///   the old one, `wrongKey` when a secret that is to be kept opens no slot, `lastSlot` when none is kept.
    init(_ mode: RotationMode, for choice: AuthenticatedSidecar, databasePath: String) throws {
        let sidecar = choice.sidecar
        let salt = try Salt.random()
        switch (mode, choice.keys) {
        case (.newDataKey, .slots):
            self.init(
                keptSlots: sidecar.slots, droppedSlots: [], origin: sidecar, current: choice.keys, next: choice.keys,
                dataKey: try .random(), salt: salt, table: nil)
        case (.compromised(let secrets, let provingEach), .slots(let former, _)):
            let master = try MasterKey.random()
            let renewal = try SlotRenewal(
                of: sidecar, holding: former, keeping: secrets, provingEach: provingEach, master: master,
                databasePath: databasePath)
            self.init(
                keptSlots: renewal.kept, droppedSlots: renewal.dropped, origin: sidecar, current: choice.keys,
                next: .slots(master, openedBy: nil), dataKey: try .random(), salt: salt, table: renewal.table)
        case (.direct(let secret), .direct(let former)):
            let dataKey = try Self.newKey(secret, salt, sidecar.settings)
            let isFormer = try secret.dataKey(salt: sidecar.salt, settings: sidecar.settings)
                .isEqual(to: former)
            guard !isFormer, !dataKey.isEqual(to: former) else {
                throw StoreError(
                    .invalidKey, what: "\"\(databasePath)\" was not rotated.", why: "The new key is the present one.",
                    remedy: "Give another passphrase or key.")
            }
            self.init(
                keptSlots: [], droppedSlots: [], origin: sidecar, current: choice.keys, next: .direct(dataKey),
                dataKey: dataKey, salt: salt, table: nil)
        case (.direct, .slots):
            throw Self.conflict(
                databasePath, "It has keyslots, so its data key is generated and cannot be given.",
                "Change its slots instead, or rotate it without a new key.")
        case (.newDataKey, .direct), (.compromised, .direct):
            throw Self.conflict(
                databasePath, "It has no keyslots: its key is derived from its passphrase, or given raw.",
                "Give the new key, or give the store keyslots first.")
        }
    }

    /// The data key of a new passphrase, derived twice and compared: a bit flip during the derivation would make a
    /// database that cannot be opened.
    private static func newKey(_ secret: Secret, _ salt: Salt, _ settings: CipherSettings) throws -> DataKey {
        let key = try secret.dataKey(salt: salt, settings: settings)
        let again = try secret.dataKey(salt: salt, settings: settings)
        guard key.isEqual(to: again) else { throw PreparedSlot.unproved() }
        return key
    }

    private static func conflict(_ databasePath: String, _ why: String, _ remedy: String) -> StoreError {
        StoreError(.modeConflict, what: "\"\(databasePath)\" was not rotated.", why: why, remedy: remedy)
    }
}

/// The keys that a rotation renews.
package enum RotationMode: Sendable {
    /// A store with slots: data key and salt, under the same master key. No slot changes.
    case newDataKey
    /// A store with slots: master key, data key and salt. The slots that these secrets open are kept, each with its
    /// number; the others are removed (``RotationProposal/droppedSlots``). A device that wraps secrets alone, as with a
    /// public key, keeps its slots without opening them, unless `provingEach`.
    case compromised(kept: [Secret], provingEach: Bool = false)
    /// A direct store: its passphrase or raw key, the data key made from it, and the salt.
    case direct(Secret)
}
