import StoreCrypto
import StorePlatform

/// What a store must record outside its database: its identifier, its salt and the settings of its pages.
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

    package init(
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
