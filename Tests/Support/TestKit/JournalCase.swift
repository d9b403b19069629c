import KeyCustody
import StoreCrypto

/// A sidecar to rotate, one of each mode. It opens with raw keys of 32 times one byte, so that nothing is derived.
package enum JournalCase: String, CaseIterable, Sendable {
    /// Slots 1 and 2 have the raw keys 0 and 1.
    case newDataKey
    /// The same slots; only that of the raw key 0 is kept.
    case compromised
    /// The raw key 0 becomes the raw key 7.
    case direct

    /// Raw keys that open it before, and those that open it afterwards.
    package var before: Set<UInt8> { self == .direct ? [0] : [0, 1] }
    package var after: Set<UInt8> {
        switch self {
        case .newDataKey: [0, 1]
        case .compromised: [0]
        case .direct: [7]
        }
    }

    package static func material(_ key: UInt8) throws -> Secret {
        .rawKey(try RawKey(bytes: [UInt8](repeating: key, count: 32)))
    }

    package static func journal(_ path: String, key: UInt8) throws -> RotationJournal {
        let secret = try material(key)
        return RotationJournal(databasePath: path) { try secret.unlock($0) }
    }

    package func mode() throws -> RotationMode {
        switch self {
        case .newDataKey: .newDataKey
        case .compromised: .compromised(kept: [try Self.material(0)])
        case .direct: .direct(try Self.material(7))
        }
    }

    /// Writes the sidecar of a store that is ready.
    package func make(_ path: String) throws {
        let files = SidecarFiles(databasePath: path)
        if self == .direct {
            let sidecar = try Sidecar.creating(settings: .plaintextHeader).next(.ready)
            try files.write(
                sidecar, keys: .direct(try DataKey(SecretBytes(copying: [UInt8](repeating: 0, count: 32)))))
        } else {
            let made = try Sidecar.creating(
                settings: .plaintextHeader, slots: [0, 1].map { try NewSlot(Self.material($0)) })
            try files.write(made.sidecar.next(.ready), keys: made.keys)
        }
    }
}
