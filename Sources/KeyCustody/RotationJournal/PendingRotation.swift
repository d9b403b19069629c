import StoreCrypto
import StorePlatform

/// A rotation that is pending in the sidecar, and the keys that could be opened for it.
///
/// At least one of the two keys is known: it authenticated the sidecar.
package struct PendingRotation: Sendable {
    /// In state `rotating` or `switching`.
    package let sidecar: Sidecar
    /// The keys of the present epoch; nil if only a new key was given.
    package let present: SidecarKeys?
    /// The keys of the next epoch; nil if the given key opens a slot that the rotation drops.
    package let next: SidecarKeys?
    /// The findings about the two files; empty when both copies are equal.
    let notes: [SidecarNote]

    let standing: VerifiedCopies

    /// The data key and salt of the next epoch; nil without its keys.
    package var nextDataKey: DataKey? {
        get throws {
            guard let successor = sidecar.successor else { return nil }
            return try next?.dataKey(of: successor)
        }
    }

    /// The keys of both epochs; nil when those of one are missing.
    package var keys: RotationKeys? {
        get throws {
            guard let present, let next else { return nil }
            return try RotationKeys(sidecar, current: present, next: next)
        }
    }
}

/// The keys with which a rotation reads pages of the present epoch and writes those of the next.
package struct RotationKeys: Sendable {
    let storeID: StoreID
    package let current: SidecarKeys
    package let currentDataKey: DataKey
    package let currentSalt: Salt
    package let next: SidecarKeys
    package let nextDataKey: DataKey
    package let nextSalt: Salt
    package let settings: CipherSettings
    package let nextEpoch: UInt64
    /// The name of its mode in the key log: `new-data-key`, `new-key` or `compromised`.
    package let modeName: String
    /// The keyslots that do not open the store once it has the new keys.
    package let droppedSlots: [Keyslot]

    /// nil when the keys do not open the data keys in the sidecar, or no rotation is pending.
    init?(_ sidecar: Sidecar, current: SidecarKeys, next: SidecarKeys) throws {
        guard let successor = sidecar.successor, let currentDataKey = try current.dataKey(of: sidecar),
            let nextDataKey = try next.dataKey(of: successor)
        else { return nil }
        storeID = sidecar.storeID
        self.current = current
        self.currentDataKey = currentDataKey
        currentSalt = sidecar.salt
        self.next = next
        self.nextDataKey = nextDataKey
        nextSalt = successor.salt
        settings = sidecar.settings
        nextEpoch = successor.epoch
        modeName = sidecar.pendingModeName
        droppedSlots = sidecar.slotsDroppedByRotation
    }

    /// The keys for a sidecar of this store by its epoch: those of the present one, or of the next.
    func keys(of sidecar: Sidecar) -> SidecarKeys { sidecar.epoch < nextEpoch ? current : next }
}

extension SidecarFiles {
    /// Finds the pending rotation and the keys that the secret opens for it.
    ///
    /// - Parameter unlock: As for ``choose(_:allowsSwitching:unlock:)``; also called with the sidecar after the
    ///   rotation (``Sidecar/successor``).
    /// - Returns: nil when no rotation is pending, or neither file exists.
    /// - Throws: What choosing a sidecar throws.
    func pendingRotation(
        _ copies: SidecarCopies, unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> PendingRotation? {
        var derived = DerivedKeys()
        guard let standing = try examine(copies, &derived, unlock: unlock) else { return nil }
        let best = standing.best
        guard let successor = best.sidecar.successor else {
            // Verified as every opening does, so that a key of another store is reported here as well.
            _ = try choice(standing, allowsSwitching: true)
            return nil
        }
        guard let keys = best.keys, best.isOpened else { throw slotGone(best) }
        if best.isBySuccessor {
            return PendingRotation(
                sidecar: best.sidecar, present: nil, next: keys, notes: standing.notes, standing: standing)
        }
        var next = try keys.successor(of: best.sidecar)
        if next == nil, best.sidecar.successorHasOwnKeys, let unlocked = try derived.keys(of: successor, unlock) {
            switch try UnauthenticatedSidecar.parse(best.bytes).authenticateSuccessor(unlocked) {
            case .genuine: next = unlocked
            case .wrongKey: break
            case .forged: throw forgedSuccessor()
            }
        }
        return PendingRotation(
            sidecar: best.sidecar, present: keys, next: next, notes: standing.notes, standing: standing)
    }

    private func forgedSuccessor() -> StoreError {
        StoreError(
            .sidecarForged, what: "The pending rotation in the sidecar of \"\(databasePath)\" is forged.",
            why: "The present key fits, but the holder of the next one did not write it.",
            remedy: "Restore the sidecar from a backup of the store, and find out who changed it.")
    }
}
