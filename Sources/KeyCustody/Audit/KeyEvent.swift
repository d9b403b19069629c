/// An event in the life of a store's keys, as its key log records it: ids and numbers, never a secret or a label.
package enum KeyEvent: Hashable, Sendable {
    /// In each event that begins the log of a store, `store` is the store's identifier; nil where it is not known.
    case storeCreated(scheme: String, store: StoreID? = nil)
    /// A database that existed became a store, under the key that it had.
    case adopted(scheme: String, store: StoreID? = nil)
    case slotAdded(id: UInt64, kind: Keyslot.Kind)
    /// The slot has another secret; the kind is the new one.
    case slotChanged(id: UInt64, kind: Keyslot.Kind)
    case slotRemoved(id: UInt64)
    case slotLabelled(id: UInt64)
    case schemeChanged(to: String)
    /// A sidecar of a former generation was restored, and was accepted though the store has recorded a newer one.
    case sidecarAccepted(generation: UInt64, remembered: UInt64)
    /// The data key was printed.
    case keyRevealed
    /// Numbers are epochs, here and in the next three events.
    /// The mode is `new-data-key`, `new-key` or `compromised`.
    case rotationBegun(from: UInt64, to: UInt64, mode: String)
    case rotationAbandoned(from: UInt64)
    case rotationCompleted(to: UInt64)
    /// An interrupted rotation was completed (`forward`) or undone by the next opener for writing.
    case rotationRecovered(to: UInt64, forward: Bool)
    case backupMade
    case backupVerified
    case restored(store: StoreID? = nil)
    case recoveryKeyMade
    /// Bytes after the last complete line were not a line: a write was interrupted by a power failure, or the file was
    /// damaged in another way.
    case logDamaged(bytes: Int)
    /// A user has examined what is wrong with the log, or missing from it, and accepts it.
    case logAcknowledged(KeyLogAcknowledgement)

    /// Its name in the log.
    package var name: String {
        switch self {
        case .storeCreated: "store-created"
        case .adopted: "adopted"
        case .slotAdded: "slot-added"
        case .slotChanged: "slot-changed"
        case .slotRemoved: "slot-removed"
        case .slotLabelled: "slot-labelled"
        case .schemeChanged: "scheme-changed"
        case .sidecarAccepted: "sidecar-accepted"
        case .keyRevealed: "key-revealed"
        case .rotationBegun: "rotation-begun"
        case .rotationAbandoned: "rotation-abandoned"
        case .rotationCompleted: "rotation-completed"
        case .rotationRecovered: "rotation-recovered"
        case .backupMade: "backup-made"
        case .backupVerified: "backup-verified"
        case .restored: "restored"
        case .recoveryKeyMade: "recovery-key-made"
        case .logDamaged: "log-damaged"
        case .logAcknowledged: KeyLogAcknowledgement.eventName
        }
    }

    /// Its details, in the order in which they are written.
    var details: [KeyLogField] {
        switch self {
        case .storeCreated(let scheme, let store), .adopted(let scheme, let store):
            [.word("scheme", scheme)] + Self.store(store)
        case .restored(let store): Self.store(store)
        case .slotAdded(let id, let kind), .slotChanged(let id, let kind):
            [.number("slot", id), .word("kind", kind.rawValue)]
        case .slotRemoved(let id), .slotLabelled(let id): [.number("slot", id)]
        case .schemeChanged(let scheme): [.word("to", scheme)]
        case .sidecarAccepted(let generation, let remembered):
            [.number("generation", generation), .number("remembered", remembered)]
        case .rotationBegun(let from, let to, let mode):
            [.number("from", from), .number("to", to), .word("mode", mode)]
        case .rotationAbandoned(let from): [.number("from", from)]
        case .rotationCompleted(let to): [.number("to", to)]
        case .rotationRecovered(let to, let forward):
            [.number("to", to), .word("direction", forward ? "forward" : "back")]
        case .logDamaged(let bytes): [.number("bytes", UInt64(max(0, bytes)))]
        case .logAcknowledged(let acknowledgement): acknowledgement.details
        case .keyRevealed, .backupMade, .backupVerified, .recoveryKeyMade: []
        }
    }

    /// The name of the detail that says of which store a log is.
    static let storeDetail = "store"

    private static func store(_ store: StoreID?) -> [KeyLogField] {
        store.map { [.word(storeDetail, "\($0)")] } ?? []
    }
}

/// A detail of an event: a name with a number or a word of lower-case letters, digits and hyphens.
package struct KeyLogField: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        case number(UInt64)
        case word(String)
    }

    package let name: String
    package let value: Value

    package init(name: String, value: Value) {
        self.name = name
        self.value = value
    }

    static func number(_ name: String, _ value: UInt64) -> KeyLogField {
        KeyLogField(name: name, value: .number(value))
    }

    static func word(_ name: String, _ value: String) -> KeyLogField {
        KeyLogField(name: name, value: .word(value))
    }
}
