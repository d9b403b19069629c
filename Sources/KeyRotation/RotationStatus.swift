import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

/// Whether a rotation of a store runs or was interrupted, according to the files next to it.
public struct RotationStatus: Sendable, Equatable {
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// No rotation is pending.
        case none
        /// A new key is pending, and pages are copied.
        case copying
        /// The copy is complete and replaces the database.
        case switching
    }

    public internal(set) var state: State
    /// Whether a process holds the admin lock. A pending rotation without such a process was interrupted.
    public internal(set) var isRunning: Bool
    /// The process that rotates, if the table of holders lists it.
    public internal(set) var process: StoreHolder?
    /// The epoch of the data key in use.
    public internal(set) var epoch: UInt64
    /// Bytes of the database.
    public internal(set) var databaseBytes: Int
    /// Bytes of the copy so far; nil when there is none.
    public internal(set) var copyBytes: Int?
    /// Bytes of the WAL.
    public internal(set) var walBytes: Int

    /// Whether a rotation was interrupted, so that the next opening for writing undoes or completes it.
    public var isInterrupted: Bool { state != .none && !isRunning }
}

extension RotationStatus.State {
    init(_ state: Sidecar.State) {
        self =
            switch state {
            case .creating, .ready: .none
            case .rotating: .copying
            case .switching: .switching
            }
    }
}
