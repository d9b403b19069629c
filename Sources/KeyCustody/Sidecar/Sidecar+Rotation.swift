import StoreCrypto
import StorePlatform

/// The versions of a sidecar during a rotation. Each has the generation of the one before plus one.
extension Sidecar {
    /// The version in state `rotating`, with the next data key and salt, and the slots of the next master key if there
    /// is a new one.
    ///
    /// - Parameters:
    ///   - next: The keys of the next epoch.
    ///   - table: The slots of its master key; nil when the master key stays.
    package func rotating(
        to dataKey: DataKey, salt: Salt, keys: SidecarKeys, next: SidecarKeys, table: SlotTable? = nil,
        now: UInt64 = WallClock.secondsSince1970
    ) throws -> Sidecar {
        guard state == .ready else { throw notRotatable() }
        let wrapped: WrappedKey
        switch (scheme, keys, next) {
        case (.direct, .direct(let present), .direct): wrapped = try wrapSuccessor(dataKey, salt: salt, under: present)
        case (.slots, .slots, .slots(let master, _)):
            wrapped = try wrap(dataKey, epoch: epoch + 1, salt: salt, under: master)
        default: throw notRotatable()
        }
        var rotating = self.next(.rotating)
        rotating.pending = PendingEpoch(created: now, pages: 0, salt: salt, wrapped: wrapped, table: table)
        return rotating
    }

    /// The version in state `switching`: the copy is complete and is about to replace the database.
    package func announcingSwitch(pages: UInt32) throws(StoreError) -> Sidecar {
        guard state == .rotating, pages > 0, var pending else { throw notRotatable() }
        pending.pages = pages
        var switching = next(.switching)
        switching.pending = pending
        return switching
    }

    /// The version in state `rotating` again, after the switch could not be announced in both copies.
    func withdrawingSwitch() throws(StoreError) -> Sidecar {
        guard state == .switching, var pending else { throw notRotatable() }
        pending.pages = 0
        var rotating = next(.rotating)
        rotating.pending = pending
        return rotating
    }

    /// The version in state `ready` with the former key: the rotation is abandoned before the switch.
    package func abandoningRotation() throws(StoreError) -> Sidecar {
        guard state == .rotating else { throw notRotatable() }
        var ready = next(.ready)
        ready.pending = nil
        return ready
    }

    private func notRotatable() -> StoreError {
        StoreError(
            .rotationPending, what: "The data key cannot be rotated in this state.",
            why: "The store is in state \(state.rawValue), scheme \(scheme.name).",
            remedy: "Finish or end the rotation that is pending.")
    }
}
