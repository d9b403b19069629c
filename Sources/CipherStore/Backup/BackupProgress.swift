import KeyCustody
import StoreSharing

/// The progress of a backup or a restoration.
public struct BackupProgress: Sendable, Equatable {
    /// A phase of a backup or a restoration.
    public enum Phase: String, Sendable, CaseIterable {
        /// Pages are read, authenticated and written.
        case copying
        /// The written files are read back, authenticated and hashed.
        case verifying
    }

    public let phase: Phase
    /// Bytes of the database that the phase has finished.
    public let bytesDone: Int
    /// Size of the database in bytes.
    public let bytesTotal: Int
}

/// The content of a backup, and the time to make or verify it.
public struct BackupReport: Sendable {
    /// The folder of the backup.
    public let folder: String
    /// The store's identifier, which never changes.
    public let storeID: StoreID
    /// The epoch of the data key under which the backup opens: that of the store at that time.
    public let epoch: UInt64
    /// The version of the sidecar in the backup.
    public let generation: UInt64
    /// When the backup was made, in seconds since 1970.
    public let created: UInt64
    /// The page size in bytes.
    public let pageBytes: Int
    /// The number of pages of the database.
    public let pages: UInt32
    /// How long it took.
    public let duration: Duration
    /// Notices that are not failures: one sentence each, to be logged.
    public let notices: [String]

    /// Files of SQLite in the folder that are no part of the backup and may hold writes made since: their paths. A notice
    /// names each of them.
    public let foreignFiles: [String]

    /// Size of the database in bytes.
    public var bytes: Int { Int(pages) * pageBytes }

    init(
        _ facts: BackupFacts, folder: String, since start: ContinuousClock.Instant, notices: [String],
        foreignFiles: [String]
    ) {
        self.folder = folder
        storeID = facts.storeID
        epoch = facts.epoch
        generation = facts.generation
        created = facts.created
        pageBytes = facts.pageBytes
        pages = facts.pages
        duration = .now - start
        self.foreignFiles = foreignFiles
        self.notices = notices
    }

    /// The report about a folder.
    init(
        _ manifest: BackupManifest, folder: String, since start: ContinuousClock.Instant, notices: [String] = []
    ) {
        let bundle = BackupBundle(folder)
        self.init(
            manifest.facts, folder: folder, since: start, notices: notices + bundle.notices,
            foreignFiles: bundle.foreignFiles)
    }
}

/// The result of a restoration.
public struct RestorationReport: Sendable {
    /// The restored backup.
    public let backup: BackupReport
    /// The database file of the restored store.
    public let path: String
    /// The folder in which the former files of the store are kept; nil when there were none.
    public let formerFiles: String?
    /// Notices that are not failures: one sentence each, to be logged.
    public let notices: [String]
}

/// The callbacks of a backup: progress, cancellation and a long wait for the write lock.
package struct BackupWatch: Sendable {
    let progress: (@Sendable (BackupProgress) -> Void)?
    package let isCancelled: @Sendable () -> Bool
    /// Called after a long wait for the write lock.
    var onLongWait: (@Sendable (StoreHolder?) -> Void)?

    package init(
        progress: (@Sendable (BackupProgress) -> Void)?, isCancelled: @escaping @Sendable () -> Bool,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil
    ) {
        self.progress = progress
        self.isCancelled = isCancelled
        self.onLongWait = onLongWait
    }

    /// The same callbacks for a wait for the write lock.
    var lockWait: LockWaitWatch { LockWaitWatch(isCancelled: isCancelled, onLongWait: onLongWait) }

    package func tell(_ phase: BackupProgress.Phase, _ pages: Int, of total: UInt32, pageBytes: Int) {
        progress?(
            BackupProgress(phase: phase, bytesDone: pages * pageBytes, bytesTotal: Int(total) * pageBytes))
    }

    /// The same callbacks, with another condition that ends the work.
    func until(_ isOver: @escaping @Sendable () -> Bool) -> BackupWatch {
        BackupWatch(progress: progress) { [isCancelled] in isCancelled() || isOver() }
    }

    package func check() throws { if isCancelled() { throw CancellationError() } }
}
