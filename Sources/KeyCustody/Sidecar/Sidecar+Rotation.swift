import StoreCrypto
import StorePlatform

/// The versions of a sidecar that a rotation of the data key passes. Each counts one generation on; no slot changes.
extension Sidecar {
    /// The version in state `rotating`, with the next data key and salt.
    package func rotating(
        to dataKey: DataKey, salt: Salt, keys: SidecarKeys, now: UInt64 = WallClock.secondsSince1970
    ) throws -> Sidecar {
        guard state == .ready, case .slots(let master, _) = keys, var slotted else { throw notRotatable() }
        let wrapped = try wrap(dataKey, epoch: epoch + 1, salt: salt, under: master)
        slotted.pending = SlottedKeys.Pending(created: now, salt: salt, wrapped: wrapped)
        return next(.rotating, slotted)
    }

    /// The version in state `ready` with the former key still in use: the rotation is given up before the switch.
    package func abandoningRotation() throws(StoreError) -> Sidecar {
        guard state == .rotating, var slotted else { throw notRotatable() }
        slotted.pending = nil
        return next(.ready, slotted)
    }

    /// The version in state `ready` with the next key in use.
    package func completingRotation() throws(StoreError) -> Sidecar {
        guard state == .switching, var slotted, let pending = slotted.pending else { throw notRotatable() }
        slotted.dataKey = SlottedKeys.Current(created: pending.created, origin: .random, wrapped: pending.wrapped)
        slotted.pending = nil
        var rotated = next(.ready, slotted)
        rotated.epoch += 1
        rotated.salt = pending.salt
        return rotated
    }

    private func next(_ state: State, _ slotted: SlottedKeys) -> Sidecar {
        var next = next(state)
        next.scheme = .slots(slotted)
        return next
    }

    private func notRotatable() -> StoreError {
        StoreError(
            .rotationPending, what: "The data key cannot be rotated from here.",
            why: "The store is in state \(state.rawValue), scheme \(scheme.name).",
            remedy: "Finish or end the rotation that is pending.")
    }
}
