import KeyCustody
import StoreSharing

/// How far a backup or a restoration has come.
public struct BackupProgress: Sendable, Equatable {
    /// What is being done.
    public enum Phase: String, Sendable, CaseIterable {
        /// Pages are read, authenticated and written.
        case copying
        /// What was written is read back, authenticated and hashed.
        case verifying
    }

    public let phase: Phase
    /// Bytes of the database that the phase is through with.
    public let bytesDone: Int
    /// Bytes of the database.
    public let bytesTotal: Int
}

/// What a backup holds, and what it took to make or verify it.
public struct BackupReport: Sendable {
    /// The folder of the backup.
    public let folder: String
    /// The store's name for life.
    public let storeID: StoreID
    /// The data key under which the backup opens, and its salt: those of the store at that time.
    public let epoch: UInt64
    /// The version of the sidecar in the backup.
    public let generation: UInt64
    /// When the backup was made, in seconds since 1970.
    public let created: UInt64
    /// Bytes of a page.
    public let pageBytes: Int
    /// Pages of the database.
    public let pages: UInt32
    /// How long it took.
    public let duration: Duration
    /// What went well all the same but should be known: plain sentences, for a log.
    public let notices: [String]

    /// Bytes of the database.
    public var bytes: Int { Int(pages) * pageBytes }

    init(
        _ manifest: BackupManifest, folder: String, since start: ContinuousClock.Instant, notices: [String] = []
    ) {
        self.folder = folder
        storeID = manifest.storeID
        epoch = manifest.epoch
        generation = manifest.generation
        created = manifest.created
        pageBytes = manifest.pageBytes
        pages = manifest.pages
        duration = .now - start
        self.notices = notices
    }
}

/// What a restoration did.
public struct RestorationReport: Sendable {
    /// What was restored.
    public let backup: BackupReport
    /// The database file that it is now.
    public let path: String
    /// The folder in which the former files of the store are kept; nil when there were none.
    public let formerFiles: String?
    /// What went well all the same but should be known: plain sentences, for a log.
    public let notices: [String]
}

/// Whom to tell of progress, and whom to ask whether to go on.
struct BackupWatch: Sendable {
    let progress: (@Sendable (BackupProgress) -> Void)?
    let isCancelled: @Sendable () -> Bool
    /// Informed of a long wait for the write lock.
    var onLongWait: (@Sendable (StoreHolder?) -> Void)?

    /// The same for a wait for the write lock.
    var lockWait: LockWaitWatch { LockWaitWatch(isCancelled: isCancelled, onLongWait: onLongWait) }

    func tell(_ phase: BackupProgress.Phase, _ pages: Int, of total: UInt32, pageBytes: Int) {
        progress?(
            BackupProgress(phase: phase, bytesDone: pages * pageBytes, bytesTotal: Int(total) * pageBytes))
    }

    /// The same, which ends for another reason as well.
    func until(_ isOver: @escaping @Sendable () -> Bool) -> BackupWatch {
        BackupWatch(progress: progress) { [isCancelled] in isCancelled() || isOver() }
    }

    func check() throws { if isCancelled() { throw CancellationError() } }
}
