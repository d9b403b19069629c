import CipherStore
import StoreSharing

extension KeyRotation {
    /// What the rotation is for.
    public enum Mode: Sendable {
        /// A store with key slots gets a new data key and salt. Slots stay as they are.
        case newDataKey
        /// A store with key slots gets a new master key as well, for when somebody has opened a slot who should not have.
        ///
        /// The slots that the store's own key and `alsoKeeping` open are kept, with the same numbers; others cannot be kept,
        /// since their secrets are needed for that. Unless `dropsOtherSlots`, the rotation is refused when there are any.
        case compromised(dropsOtherSlots: Bool, alsoKeeping: [KeySource])
        /// A direct store gets a new passphrase or raw key, with a new salt. Its other processes are told `keyRotated` and
        /// open it again.
        case newKey(KeySource)
    }

    /// What happens when reads or snapshots of other processes last longer than a pause may.
    public enum LongReads: Hashable, Sendable {
        /// The rotation ends after this time with `storeInUse`; nothing is changed.
        case giveUp(after: Duration)
        /// The reads are ended after this time, with `keyRotated`.
        case end(after: Duration)

        /// How long the rotation tries to find a moment without them.
        public var limit: Duration {
            switch self {
            case .giveUp(let limit), .end(let limit): limit
            }
        }
    }

    /// How a rotation is done.
    public struct Options: Sendable {
        /// What the rotation is for. One that was cut has its mode: `resume` compares this one with it.
        public var mode: Mode
        /// How long all processes may be asked to pause before the request is withdrawn, to be made again later.
        public var pauseBudget: Duration = .milliseconds(250)
        public var longReads: LongReads = .giveUp(after: .seconds(60))
        /// How fast the copy may be read and written, together; nil for no bound. The rounds that follow are not slowed.
        public var throttleBytesPerSecond: Int?
        /// To what length the write-ahead log may grow meanwhile; nil for half of the space that the copy leaves free.
        public var logLimitBytes: Int?
        /// How many threads re-encrypt; nil for as many as the machine has cores.
        public var workers: Int?
        /// A folder for a backup that is made and verified before a page is copied; nil for none. `resume` makes it too.
        public var backupFolder: String?
        /// Asked right before the switch: it must give the new key, or the rotation ends. So a secret manager proves that
        /// it keeps the key.
        public var provesNewKey: KeySource?
        /// Whether the preflight runs `integrity_check`.
        public var checksIntegrity = true

        /// Called when the rotation has waited two seconds for the write lock while nobody pauses for it, with the process that
        /// holds it, where that is known.
        public var onLongWait: (@Sendable (StoreHolder?) -> Void)?

        /// Called when the rotation has waited two seconds for the lock of openings, with the process that holds it, where that
        /// is known.
        public var onLongOpeningWait: (@Sendable (StoreHolder?) -> Void)?

        /// How long the write lock is waited for where nobody is kept waiting meanwhile.
        var busyWait = Limits.busyWait

        public init(mode: Mode = .newDataKey) { self.mode = mode }
    }
}
