import CipherDatabase
import CipherStore
import PageFormat
import StoreCrypto
import StorePlatform

/// Makes a backup of a store in use in a repository:
///
/// 1. Locks the repository against removals.
/// 2. Chooses the newest backup of the store that its present key made: the parent. It gets the next number after the
///    newest one that the key authenticates.
/// 3. Keeps the present moment of the store, and stores the pages that the parent does not have, in packs.
/// 4. Stores sidecar, key log and map.
/// 5. Stores the record, which makes it a backup.
///
/// | interrupted after step | what is left | what removes it |
/// |---|---|---|
/// | 1, 2 | nothing: the system releases the lock | |
/// | 3, 4 | objects that no record names | the next prune |
/// | 5 | the backup | |
struct RepositoryBackup {
    let store: SharedStore
    let repository: BackupRepository
    let watch: BackupWatch

    func run() throws -> RepositoryBackupReport {
        let start = ContinuousClock.now
        let lock = try repository.place.lockForUse(isWriting: true, watch.isCancelled)
        defer { lock.release() }
        CrashPoint.reach(.backupBegun)
        return try store.withBackupKeys { pool, keys in
            try store.withBackupMoment(of: pool, keys, watch) { moment, watch in
                try make(moment, watch, since: start)
            }
        }
    }

    private func make(
        _ moment: BackupMoment, _ watch: BackupWatch, since start: ContinuousClock.Instant
    ) throws -> RepositoryBackupReport {
        let (created, key) = (WallClock.secondsSince1970, moment.view.key)
        let found = try repository.records()
        let earlier = found.backups.filter { $0.storeID == moment.sidecar.storeID }
        let newest = try earlier.last { try $0.record.isAuthentic($0.bytes, key.dataKey) }
        let parent = try earlier.last { backup in
            try backup.epoch == moment.sidecar.epoch && backup.pageBytes == moment.view.pageBytes
                && backup.record.isAuthentic(backup.bytes, key.dataKey)
        }
        let known = try parent.map { try KnownPages($0, in: repository, watch.check) } ?? KnownPages()
        let pages = try PageCollection(
            of: moment.view, at: store.paths.database, known: known, into: repository, watch
        ).run()
        CrashPoint.reach(.backupVerified)
        var logNotices: [String] = []
        let keyLog = try storeKeyLog { logNotices.append($0) }
        let record = BackupRecord(
            facts: BackupFacts(
                storeID: moment.sidecar.storeID, epoch: moment.sidecar.epoch, generation: moment.sidecar.generation,
                created: created, pageBytes: moment.view.pageBytes, pages: moment.view.databasePages),
            sequence: Self.sequence(after: newest ?? earlier.last { !$0.isUnproven }),
            wal: BackupRecord.WALPlace(
                salt1: moment.view.position.salts.first, salt2: moment.view.position.salts.second,
                frame: moment.view.position.frame),
            parent: parent?.id ?? .none, map: try repository.store(.blob, pages.map.encoded),
            sidecar: try repository.store(.blob, moment.sidecarBytes), keyLog: keyLog,
            library: SQLiteLibrary.cipherVersion ?? "unknown", packs: pages.packs)
        CrashPoint.reach(.backupComplete)
        try watch.check()
        let id = try repository.store(.backup, record.sealed(key.dataKey))
        CrashPoint.reach(.backupPublished)
        let others = try othersObjects(of: record)
        let damaged = found.damaged.map { "The object \($0.name) of the repository \($0.why)." }
        return RepositoryBackupReport(
            id: id, parent: parent?.id, facts: record.facts, newPages: pages.newPages, newBytes: pages.newBytes,
            duration: .now - start,
            notices: known.notices + damaged + others + logNotices
                + [KeyLog(databasePath: store.paths.database).note(.backupMade)]
                .compactMap(\.self))
    }

    /// A notice about objects of the backup that another user has stored: in a folder with the sticky bit he may remove
    /// them, and equal bytes are not stored twice.
    private func othersObjects(of record: BackupRecord) throws -> [String] {
        let blobs = [record.map, record.sidecar, record.keyLog].filter { $0 != .none }.map { ObjectKind.blob.name($0) }
        let names = blobs + record.packs.map { ObjectKind.pack.name($0) }
        let others = try names.filter { try repository.place.isUnproven($0) }
        guard let first = others.first else { return [] }
        return [
            "\(CountText.text(others.count, "object")) of the backup may be of another user, such as \(first): that user can "
                + "remove them, and the backup is lost then. For a backup of your own, use a repository that you alone may write."
        ]
    }

    /// The next number in the order of backups.
    ///
    /// - Parameter earlier: The newest backup that the present key authenticates, or else that another user cannot have
    ///   written. A record without a valid code would push the number of each later backup to its end.
    private static func sequence(after earlier: StoredBackup?) -> UInt64 {
        guard let earlier else { return 1 }
        return earlier.sequence == .max ? .max : earlier.sequence + 1
    }

    /// Stores the entries of the key log, for people; nothing is decided by them.
    ///
    /// - Parameter onNotice: Receives a sentence where the file that has its name is none.
    private func storeKeyLog(onNotice: (String) -> Void) throws -> ObjectHash {
        let log = KeyLog(databasePath: store.paths.database)
        guard try Files.kindOfName(log.path) == .regular else { return .none }
        let lines: [UInt8]
        do {
            lines = try log.entryLines()
        } catch let error as SystemError {
            onNotice("The backup has no key log: \(error).")
            return .none
        }
        if lines.isEmpty {
            onNotice("The backup has no key log: \"\(log.path)\" has no entry.")
            return .none
        }
        return try repository.store(.blob, lines)
    }
}

/// The result of a backup into a repository.
public struct RepositoryBackupReport: Sendable {
    /// The SHA-256 of its record.
    public let id: ObjectHash
    /// The earlier backup whose pages it shares; nil for the first one under a data key.
    public let parent: ObjectHash?
    package let facts: BackupFacts
    /// Pages that no earlier backup had.
    public let newPages: Int
    /// Bytes of the packs that were stored for them.
    public let newBytes: Int
    /// How long it took.
    public let duration: Duration
    /// Notices that are not failures: one sentence each, to be logged.
    public let notices: [String]

    /// The number of pages of the database.
    public var pages: UInt32 { facts.pages }
    /// The page size in bytes.
    public var pageBytes: Int { facts.pageBytes }
    /// When it was made, in seconds since 1970.
    public var created: UInt64 { facts.created }
}

extension BackupRepository {
    /// Makes a backup of a store, while every process continues to read and write it.
    ///
    /// A page that the store's last backup here has is not stored again. Every page that is stored is authenticated
    /// before. A backup that is interrupted or fails is none; the next prune removes its objects.
    ///
    /// - Parameters:
    ///   - progress: Called for every 256 KiB of pages, on any thread.
    ///   - onLongWait: Called after two seconds of waiting for the write lock, with the process that holds it, if the
    ///     system shows that. The wait ends after a minute.
    ///   - isCancelled: Called as often; true ends the backup with `CancellationError`.
    /// - Throws: `StoreError` `storeInUse` while the repository is pruned, `pageDamaged` when the store is damaged,
    ///   `rotationPending`, `keyRotated`; `DatabaseError`; `SystemError` where the system refused, as for a full disk.
    @discardableResult
    public func backUp(
        _ store: SharedStore, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil, isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> RepositoryBackupReport {
        try RepositoryBackup(
            store: store, repository: self,
            watch: BackupWatch(progress: progress, isCancelled: isCancelled, onLongWait: onLongWait)
        ).run()
    }

    /// Reads where the pages of a backup are.
    func map(of record: BackupRecord) throws -> PageMap {
        // A map of the record has a run for each page at most; a planted file may be of any length.
        let most = PageMap.Offset.runs + Int(record.facts.pages) * PageMap.runBytes
        let bytes = try object(.blob, record.map, limitBytes: min(most, BackupLimits.mapBytes))
        do {
            return try PageMap(bytes, of: record)
        } catch {
            throw damaged("its object \(ObjectKind.blob.name(record.map)) \(error)")
        }
    }
}
