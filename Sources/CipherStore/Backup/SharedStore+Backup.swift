import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

extension SharedStore {
    /// Makes a backup of the store as it is now, while every process continues to read and write.
    ///
    /// The backup is a folder: the encrypted database with the pages of its WAL, its sidecar, and a manifest with their
    /// hashes. It has the present data key and salt, and opens with the present keys, whatever happens to the store
    /// later. A change of keys does not change the backup: to end a key holder's access, remove the backup. Every page
    /// is authenticated while it is copied, and the whole backup is read back and opened before it gets its name.
    ///
    /// Meanwhile the WAL of the store cannot be reset, as during any long read. A backup that is interrupted leaves a
    /// folder `<name>.partial-...`, which the next backup to the same name removes.
    ///
    /// - Parameters:
    ///   - folder: The folder to create; nothing may exist at its path, and its parent folder must exist.
    ///   - progress: Called for every 256 KiB of pages, on any thread.
    ///   - onLongWait: Called after two seconds of waiting for the write lock, with the process that holds it, if the
    ///     system shows that. The wait ends after a minute.
    ///   - isCancelled: Called as often, and while waiting for the write lock; true ends the backup with
    ///     `CancellationError`.
    /// - Returns: The content of the backup.
    /// - Throws: `StoreError` `alreadyExists`, `pageDamaged` when the store is damaged, `rotationPending` while it is
    ///   switched to a new key, `keyRotated` when a rotation ends long reads; `DatabaseError`; `SystemError` where the
    ///   system refused, as for a full disk.
    @discardableResult
    public func backup(
        toFolder folder: String, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil, isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> BackupReport {
        try StoreBackup(
            store: self, target: BackupBundle(Files.absolute(folder)),
            watch: BackupWatch(progress: progress, isCancelled: isCancelled, onLongWait: onLongWait)
        ).run()
    }

    /// Verifies a backup in place and changes nothing: every hash, seal and page; then SQLite reads its schema. A -wal or
    /// -journal in the folder is no part of the backup: it is not read, and named in the report.
    ///
    /// - Parameters:
    ///   - folder: The folder of the backup.
    ///   - source: A key that opened the store when the backup was made; it is read once.
    /// - Throws: `StoreError` `backupDamaged`, `wrongKey`, `sidecarForged`, `sidecarAhead`, `noSuchStore`;
    ///   `SystemError`.
    public static func verifyBackup(
        at folder: String, unlockedBy source: KeySource, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> BackupReport {
        let start = ContinuousClock.now
        let bundle = BackupBundle(Files.absolute(folder))
        _ = try bundle.readManifest()
        let material = try source.read()
        try SQLiteLibrary.requireCipher()
        let opened = try bundle.open(BackupWatch(progress: progress, isCancelled: isCancelled)) {
            try material.unlock($0)
        }
        return BackupReport(
            opened.facts, folder: bundle.folder, since: start, notices: bundle.notices,
            foreignFiles: bundle.foreignFiles)
    }

    /// Makes a store from a backup.
    ///
    /// The whole backup is verified first. Then its database is copied beside the target and renamed into place. The
    /// store has the data key, the salt and the keyslots of the time of the backup.
    ///
    /// - Parameters:
    ///   - folder: The folder of the backup; it is only read.
    ///   - path: The database file to create.
    ///   - source: A key that opened the store when the backup was made; it is read once.
    ///   - isReplacing: Whether an existing store is replaced. No process may have it open. Its files are kept in a
    ///     folder beside it, `<path>-replaced-<time>`; remove that yourself when you do not need it.
    ///   - isReplacingAnyFile: Whether a file that is not known to be a store is replaced as well. A store is known by its
    ///     sidecar, lock file or key log, or by its header.
    /// - Throws: `StoreError` `alreadyExists`, `storeInUse`, and what
    ///   ``verifyBackup(at:unlockedBy:progress:isCancelled:)`` throws; `SystemError`. A former store is then unchanged,
    ///   unless the restoration was interrupted by a kill: run it again in that case.
    @discardableResult
    public static func restore(
        from folder: String, to path: String, unlockedBy source: KeySource, replacing isReplacing: Bool = false,
        replacingAnyFile isReplacingAnyFile: Bool = false, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> RestorationReport {
        let bundle = BackupBundle(Files.absolute(folder))
        let path = Files.absolute(path)
        try OtherUserLink.refuse(path)
        _ = try bundle.readManifest()
        return try restore(
            from: bundle, to: path, unlockedBy: source, replacing: isReplacing, replacingAnyFile: isReplacingAnyFile,
            watch: BackupWatch(progress: progress, isCancelled: isCancelled))
    }

    /// Makes a store from a backup of any kind, as ``restore(from:to:unlockedBy:replacing:replacingAnyFile:progress:isCancelled:)``
    /// does from a folder.
    package static func restore(
        from backup: any RestorationSource, to path: String, unlockedBy source: KeySource, replacing isReplacing: Bool,
        replacingAnyFile isReplacingAnyFile: Bool, watch: BackupWatch
    ) throws -> RestorationReport {
        let path = Files.absolute(path)
        try OtherUserLink.refuse(path)
        try SQLiteLibrary.requireCipher()
        let material = try source.read()
        return try StoreRestoration(
            source: backup, paths: StorePaths(path), isReplacing: isReplacing || isReplacingAnyFile,
            isReplacingAnyFile: isReplacingAnyFile, watch: watch
        ).run { try material.unlock($0) }
    }
}

extension SharedStore {
    /// Keeps the present state of the store, page by page, while all processes continue.
    ///
    /// The view is not an access: a switch to a new key does not wait for its end, but is refused while it is open.
    package func makePageSnapshot(_ watch: LockWaitWatch? = nil) throws -> PageSnapshot {
        try access { try $0.makePageSnapshot(watch) }
    }
}
