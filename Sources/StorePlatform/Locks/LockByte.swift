/// The bytes of the lock file, each a lock for one purpose (`Docs/Formats/LockFile.md` tabulates them).
///
/// The file's content has no part in these locks: they are locks on positions, which need not exist.
package enum LockByte: Int64, CaseIterable, Sendable {
    /// Creating, migrating and opening a store: one process at a time.
    case opening = 16
    /// Asks newcomers to wait while a switch to a new key is under way.
    case intent = 17
    /// Shared by every process that has the store open; exclusive for the switch to a new key.
    case lease = 18
    /// Changing key slots and rotating keys.
    case admin = 19
    /// `FileCoordinator`, for the use of programs.
    case coordinator = 20
    /// Making the table of holders.
    case table = 21
    /// Appending a line to the key log.
    case keyLog = 22

    /// The first byte of the table of holders: holder n locks the byte `slotBase + n`.
    package static let slotBase: Int64 = 1024
    /// Holders that the table has room for.
    package static let slotCount: Int64 = 1024
    /// Where mapped shared memory may begin; no lock lies at or after it.
    package static let mappedBase: Int64 = 4096

    /// What holders of the byte are doing, for messages.
    package var purpose: String {
        switch self {
        case .opening: "is creating, migrating or opening the store"
        case .intent: "is about to switch the store to a new key"
        case .lease: "has the store open"
        case .admin: "is changing the keys of the store"
        case .coordinator: "is coordinating access to the file"
        case .table: "is making the table of holders"
        case .keyLog: "is writing the key log of the store"
        }
    }
}

/// Whether a lock may be held by several at once.
package enum LockKind: Sendable {
    case shared
    case exclusive
}
