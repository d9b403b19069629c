import StoreCrypto
import StorePlatform

/// What a store must remember outside its database: who it is, its salt and how its pages are made.
///
/// The bytes on disk are described in `Docs/Formats/Sidecar.md`.
package struct Sidecar: Hashable, Sendable {
    /// How far the life of the store has come.
    package enum State: String, Hashable, Sendable, CaseIterable {
        /// The database is being made; it may have no pages yet.
        case creating
        /// The database is complete.
        case ready
        /// A new key is pending and pages are being copied.
        case rotating
        /// The copy is complete and takes the database's place: from here only forward.
        case switching
    }

    /// How the data key is kept.
    package enum Scheme: Hashable, Sendable {
        /// SQLCipher's own derivation from the passphrase, or a raw key: nothing is kept.
        case direct
        /// A random data key, wrapped by a master key, which each key slot wraps.
        case slots(SlottedKeys)

        /// What the sidecar calls it.
        package var name: String {
            switch self {
            case .direct: "direct"
            case .slots: "slots"
            }
        }
    }

    /// The store's name for life.
    package let storeID: StoreID
    package var state: State
    /// Which data key the store has; 1 at first, one more for each rotation.
    package var epoch: UInt64
    /// Which version of the sidecar this is; one more for every change.
    package var generation: UInt64
    package var scheme: Scheme
    package var salt: Salt
    package var settings: CipherSettings
    /// The next epoch; exactly in the states `rotating` and `switching`.
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

    /// The sidecar of a store that is about to be made, with a new identifier.
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
