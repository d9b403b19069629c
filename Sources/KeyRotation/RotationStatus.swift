import CipherStore

/// Whether a rotation of a store runs or was cut, as the files beside it tell.
public struct RotationStatus: Sendable, Equatable {
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// No rotation is pending.
        case none
        /// A new key is pending, and pages are copied.
        case copying
        /// The copy is complete and takes the database's place.
        case switching
    }

    public internal(set) var state: State
    /// Whether a process holds the lock of rotations. A pending rotation without one was cut.
    public internal(set) var isRunning: Bool
    /// The process that rotates, where the table of holders tells of it.
    public internal(set) var process: StoreHolder?
    /// The epoch of the data key in use.
    public internal(set) var epoch: UInt64
    /// Bytes of the database.
    public internal(set) var databaseBytes: Int
    /// Bytes of the copy so far; nil when there is none.
    public internal(set) var copyBytes: Int?
    /// Bytes of the write-ahead log.
    public internal(set) var logBytes: Int

    /// Whether a rotation was cut, so that the next opening for writing undoes or finishes it.
    public var wasCut: Bool { state != .none && !isRunning }
}
