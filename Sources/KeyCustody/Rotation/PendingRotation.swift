import StoreCrypto
import StorePlatform

/// A rotation that the sidecar tells of, and how far the keys at hand reach.
///
/// At least one of the two keys is there: it proved the sidecar.
package struct PendingRotation: Sendable {
    /// In state `rotating` or `switching`.
    package let sidecar: Sidecar
    /// The keys of the present epoch; nil for the holder of a new key alone.
    package let present: SidecarKeys?
    /// The keys of the next epoch; nil for the holder of a slot that the rotation drops.
    package let next: SidecarKeys?
    /// Which files disagree; empty when both copies of the sidecar say the same.
    package let notes: [SidecarNote]

    let standing: VerifiedCopies

    /// The data key and salt of the next epoch; nil without its keys.
    package var nextDataKey: DataKey? {
        get throws {
            guard let successor = sidecar.successor else { return nil }
            return try next?.dataKey(of: successor)
        }
    }

    /// Everything for both epochs; nil when one of the keys is missing.
    package var keys: RotationKeys? {
        get throws {
            guard let present, let next else { return nil }
            return try RotationKeys(sidecar, current: present, next: next)
        }
    }
}

/// Everything that a rotation needs to read pages of the present epoch and to write those of the next.
package struct RotationKeys: Sendable {
    package let storeID: StoreID
    package let current: SidecarKeys
    package let currentDataKey: DataKey
    package let currentSalt: Salt
    package let next: SidecarKeys
    package let nextDataKey: DataKey
    package let nextSalt: Salt
    package let settings: CipherSettings
    package let nextEpoch: UInt64

    /// nil when the keys do not open what the sidecar holds, or no rotation is pending.
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
    }

    /// The keys of a sidecar of this store by its epoch: of the present one, or of the next.
    func keys(of sidecar: Sidecar) -> SidecarKeys { sidecar.epoch < nextEpoch ? current : next }
}

extension SidecarFiles {
    /// Finds the rotation that is under way, as far as the key reaches.
    ///
    /// - Parameter unlock: As for ``choose(_:allowsSwitching:unlock:)``; also asked for what the rotation will leave
    ///   (``Sidecar/successor``).
    /// - Returns: nil when none is under way, or there is no sidecar.
    /// - Throws: What choosing a sidecar throws.
    package func pendingRotation(
        _ copies: SidecarCopies, unlock: (Sidecar) throws -> SidecarKeys?
    ) throws -> PendingRotation? {
        var derived = DerivedKeys()
        guard let standing = try examine(copies, &derived, unlock: unlock) else { return nil }
        let best = standing.best
        guard let successor = best.sidecar.successor else {
            // Verified as every opening does, so that a key that is none of this store says so here as well.
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
