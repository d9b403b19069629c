import StoreCrypto
import StorePlatform

/// The facts that a store must record outside its database: its identifier, its salt and the settings of its pages.
///
/// The bytes on disk are described in `Docs/Formats/Sidecar.md`.
package struct Sidecar: Hashable, Sendable {
    /// The state of the store in its life cycle.
    package enum State: String, Hashable, Sendable, CaseIterable {
        /// The database is being created; it may have no pages yet.
        case creating
        /// The database is complete.
        case ready
        /// A new key is pending and pages are being copied.
        case rotating
        /// The copy is complete and replaces the database: the rotation can only be completed from here.
        case switching
    }

    /// How the data key is kept.
    package enum Scheme: Hashable, Sendable {
        /// SQLCipher derives it from the passphrase, or it is a raw key: nothing is kept.
        case direct
        /// A random data key, wrapped by a master key, which each keyslot wraps.
        case slots(SlottedKeys)

        /// Its name in the sidecar.
        package var name: String {
            switch self {
            case .direct: "direct"
            case .slots: "slots"
            }
        }
    }

    /// The identifier of the store, which never changes.
    package let storeID: StoreID
    package var state: State
    /// The number of the present data key; 1 at first, plus one for each rotation.
    package var epoch: UInt64
    /// The number of this version of the sidecar, plus one for each change.
    package var generation: UInt64
    package var scheme: Scheme
    package var salt: Salt
    package var settings: CipherSettings
    /// The next epoch; set exactly in the states `rotating` and `switching`.
    package internal(set) var pending: PendingEpoch?

    init(
        storeID: StoreID, state: State, epoch: UInt64, generation: UInt64, scheme: Scheme = .direct, salt: Salt,
        settings: CipherSettings
    ) {
        self.storeID = storeID
        self.state = state
        self.epoch = epoch
        self.generation = generation
        self.scheme = scheme
        self.salt = salt
        self.settings = settings
    }

    /// The sidecar of a store that is about to be created, with a new identifier.
    ///
    /// - Parameter salt: The salt to use; a new one when it is nil.
    package static func creating(settings: CipherSettings, salt: Salt? = nil) throws -> Sidecar {
        Sidecar(
            storeID: try .random(), state: .creating, epoch: 1, generation: 1, salt: try salt ?? .random(),
            settings: settings)
    }

    /// The next version, in another state.
    package func next(_ state: State) -> Sidecar {
        var next = self
        next.state = state
        next.generation += 1
        return next
    }
}

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

extension Sidecar {
    /// Whether this version is older than the one that the store has recorded: an older sidecar was restored.
    package func isRolledBack(storeRemembersGeneration generation: UInt64) -> Bool { self.generation < generation }

    /// Refuses a version that is older than the one that the store has recorded.
    ///
    /// - Throws: ``StoreError`` `sidecarRolledBack`.
    package func requireCurrent(storeRemembersGeneration remembered: UInt64, of path: String) throws(StoreError) {
        guard isRolledBack(storeRemembersGeneration: remembered) else { return }
        throw StoreError(
            .sidecarRolledBack, what: "The sidecar of \"\(path)\" is older than the one that the store has recorded.",
            why:
                "Both copies are at generation \(generation), but the store has recorded generation "
                + "\(remembered): keys that were removed or changed since would open it again.",
            remedy: "Restore the newest sidecar from a backup of the store. If this one was put back on purpose "
                + "because newer ones are lost, accept it with `cipherctl key accept` (StoreKeys.acceptSidecar in a "
                + "program).")
    }
}
