import CipherStore
import KeyCustody
import StoreSharing

extension KeyRotation {
    /// The purpose of the rotation.
    public enum Mode: Sendable {
        /// A store with keyslots gets a new data key and salt. Slots stay as they are.
        case newDataKey
        /// A store with keyslots gets a new master key as well. Use it when an unauthorized person has opened a
        /// keyslot.
        ///
        /// The slots that the store's own key and the sources in `alsoKeeping` open are kept, with the same numbers.
        /// Other slots cannot be kept, because that needs their secrets. If other slots exist, the rotation is refused
        /// unless `dropsOtherSlots`.
        case compromised(dropsOtherSlots: Bool, alsoKeeping: [KeySource])
        /// A direct store gets a new passphrase or raw key, with a new salt. Its other processes get the error
        /// `keyRotated` and open the store again.
        case newKey(KeySource)
    }

    /// The behaviour when reads or snapshots of other processes last longer than a pause may last.
    public enum LongReads: Hashable, Sendable {
        /// The rotation ends after this time with `storeInUse`; nothing is changed.
        case giveUp(after: Duration)
        /// Long reads are ended after this time, with `keyRotated`.
        case end(after: Duration)

        /// How long the rotation waits for a moment without long reads.
        public var limit: Duration {
            switch self {
            case .giveUp(let limit), .end(let limit): limit
            }
        }
    }

    /// The options of a rotation.
    public struct Options: Sendable {
        /// The purpose of the rotation. An interrupted rotation keeps its mode: `resume` compares this value with it.
        public var mode: Mode
        /// The longest pause of all processes. After this time the request to pause is withdrawn, and repeated later.
        public var pauseBudget: Duration = .milliseconds(250)
        public var longReads: LongReads = .giveUp(after: .seconds(60))
        /// The limit for reading and writing the copy, together; nil for no limit. The later rounds are not throttled.
        public var throttleBytesPerSecond: Int?
        /// The longest WAL allowed during the rotation; nil for half of the space that the copy leaves free.
        public var walLimitBytes: Int?
        /// How many threads re-encrypt; nil for one per core of the machine.
        public var workers: Int?
        /// A folder for a backup that is made and verified before any page is copied; nil for none. `resume` makes it
        /// too.
        ///
        /// Without a backup a rotation is refused (`walDamaged`) while a copy of a damaged WAL is beside the store that
        /// only the present key reads.
        public var backupFolder: String?
        /// Whether the preflight is made before it is known whether there will be a backup.
        package var isBackupUndecided = false
        /// Read right before the switch: it must return the new key, or the rotation ends. This proves that a secret
        /// manager has stored the key.
        public var provesNewKey: KeySource?
        /// Whether the preflight runs `integrity_check`.
        public var checksIntegrity = true

        /// Called when the rotation has waited two seconds for the write lock, outside a pause; with the process that
        /// holds the lock, if known.
        public var onLongWait: (@Sendable (StoreHolder?) -> Void)?

        /// Called when the rotation has waited two seconds for the opening lock, with the process that holds it, if
        /// known.
        public var onLongOpeningWait: (@Sendable (StoreHolder?) -> Void)?

        /// The longest wait for the write lock while no process is paused.
        var busyWait = RotationLimits.busyWait

        public init(mode: Mode = .newDataKey) { self.mode = mode }
    }
}

extension KeyRotation.Options {
    /// The keys of the next epoch. It reads the key sources of the mode, and derives keys.
    ///
    /// - Throws: `StoreError` `modeConflict` where the mode does not fit the store or keyslots would be dropped,
    ///   `invalidKey`, `wrongKey`, `lastSlot`; the errors of the sources.
    func proposal(for store: SharedStore, _ journal: RotationJournal) throws -> RotationProposal {
        switch mode {
        case .newDataKey: return try journal.prepare(.newDataKey)
        case .newKey(let source): return try journal.prepare(.direct(source.read()))
        case .compromised(let dropsOthers, let sources):
            var kept = try sources.map { try $0.read() }
            if let own = try store.rotationSecret() { kept.append(own) }
            let proposal = try journal.prepare(.compromised(kept: kept, provingEach: dropsOthers))
            guard dropsOthers || proposal.droppedSlots.isEmpty else {
                throw StoreError.slotsWouldBeDropped(store.path, proposal.droppedSlots.map(\.id))
            }
            return proposal
        }
    }

    /// Makes the backup, if one is requested. It opens with the present keys, also while another key is pending.
    ///
    /// - Returns: The folder of the backup; nil without one.
    func backUp(
        _ store: SharedStore, _ reporter: ProgressReporter, isCancelled: @escaping @Sendable () -> Bool
    ) throws -> String? {
        guard let folder = backupFolder else { return nil }
        reporter.begin(.backup)
        try store.backup(toFolder: folder, onLongWait: onLongWait, isCancelled: isCancelled)
        return folder
    }
}
