import StoreCrypto
import StorePlatform

/// A finding about the two files of a sidecar, for the owner of the store.
package enum SidecarNote: Hashable, Sendable {
    /// The main copy could not be used; the backup replaced it.
    case restoredFromBackup
    case missing(SidecarCopy)
    case unreadable(SidecarCopy, SystemError)
    case damaged(SidecarCopy, SidecarSyntaxError)
    /// The copy was changed without the key.
    case forged(SidecarCopy)
    /// The copy belongs to another key: an older or newer one, one of another store, or its salt was changed.
    case otherKey(SidecarCopy)
    /// The copy is an older version. An interrupted change explains an old backup; nothing explains an old main copy.
    case stale(SidecarCopy, generation: UInt64, current: UInt64)
    /// Both copies are genuine and have the same generation, but differ; the main copy is valid.
    case differing
}

extension SidecarNote: CustomStringConvertible {
    package var description: String {
        switch self {
        case .restoredFromBackup: "the store was opened with the backup of its sidecar"
        case .missing(let copy): "the \(copy.rawValue) copy of the sidecar is missing"
        case .unreadable(let copy, let error): "the \(copy.rawValue) copy of the sidecar cannot be read: \(error)"
        case .damaged(let copy, let error): "the \(copy.rawValue) copy of the sidecar is damaged: \(error)"
        case .forged(let copy): "the \(copy.rawValue) copy of the sidecar was changed by somebody without the key"
        case .otherKey(let copy): "the \(copy.rawValue) copy of the sidecar fits another key"
        case .stale(let copy, let generation, let current):
            "the \(copy.rawValue) copy of the sidecar is an older version (generation \(generation) of \(current))"
        case .differing: "the two copies of the sidecar differ though both are genuine"
        }
    }
}

/// The valid sidecar, and the keys that authenticated it.
package struct AuthenticatedSidecar: Sendable {
    package let sidecar: Sidecar
    package let keys: SidecarKeys
    /// The page key that connections of the store need.
    package let pageKey: PageKey
    /// The file from which it was read.
    let copy: SidecarCopy
    package let notes: [SidecarNote]
    let standing: VerifiedCopies

    package var dataKey: DataKey { pageKey.dataKey }
}
