import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing

extension SharedStore {
    /// Makes a backup of the store as it is now, while every process goes on reading and writing.
    ///
    /// The backup is a folder: the database with its log folded in, encrypted as it is; its sidecar; and a manifest with
    /// their hashes. It has the data key and the salt that the store has now, and opens with the keys of now, whatever
    /// becomes of the store: who must not open it any more is kept from it by removing it, not by changing keys. Every
    /// page is authenticated while it is copied, and the whole is read back and opened before it gets its name.
    ///
    /// The log of the store is kept from shrinking meanwhile, as by any long read. A backup that is cut leaves a folder
    /// `<name>.partial-...`, which the next one to the same name removes.
    ///
    /// - Parameters:
    ///   - folder: The folder to make; nothing may be there, and the folder around it must be.
    ///   - progress: Told of every quarter of a megabyte, on any thread.
    ///   - onLongWait: Called when the backup has waited two seconds for the write lock, which it needs for a moment, with
    ///     the process that holds it, where that is known. The wait ends after a minute.
    ///   - isCancelled: Asked as often, and while the write lock is waited for; true ends the backup with
    ///     `CancellationError`.
    /// - Returns: What the backup holds.
    /// - Throws: `StoreError` `alreadyExists`, `pageDamaged` when the store is damaged, `rotationPending` while it is
    ///   switched to a new key, `keyRotated` when a rotation ends long reads; `DatabaseError`; `SystemError` where the system refused, as for a full disk.
    @discardableResult
    public func backup(
        toFolder folder: String, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil, isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> BackupReport {
        try StoreBackup(
            store: self, target: BackupBundle(folder),
            watch: BackupWatch(progress: progress, isCancelled: isCancelled, onLongWait: onLongWait)
        ).run()
    }

    /// Verifies a backup where it lies, and changes nothing there: every hash, seal and page; then SQLite reads its schema.
    ///
    /// - Parameters:
    ///   - folder: The folder of the backup.
    ///   - source: A key that opened the store when the backup was made; asked once.
    /// - Throws: `StoreError` `backupDamaged`, `wrongKey`, `sidecarForged`, `sidecarAhead`, `noSuchStore`;
    ///   `SystemError`.
    public static func verifyBackup(
        at folder: String, unlockedBy source: KeySource, progress: (@Sendable (BackupProgress) -> Void)? = nil,
        isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> BackupReport {
        let start = ContinuousClock.now
        let bundle = BackupBundle(folder)
        _ = try bundle.readManifest()
        let material = try source.read()
        let verified = try BundleVerification(
            bundle: bundle, watch: BackupWatch(progress: progress, isCancelled: isCancelled)
        ).run { try material.unlock($0) }
        try SQLiteLibrary.requireCipher()
        try BundleOpening.check(bundle, verified.keys, pages: verified.manifest.pages)
        return BackupReport(verified.manifest, folder: bundle.folder, since: start)
    }

    /// Makes a store from a backup.
    ///
    /// The backup is verified as a whole first. Then its database is copied beside the place and takes its name in one
    /// step. The store has the data key, the salt and the key slots of the time of the backup.
    ///
    /// - Parameters:
    ///   - folder: The folder of the backup; it is only read.
    ///   - path: The database file to make.
    ///   - source: A key that opened the store when the backup was made; asked once.
    ///   - isReplacing: Whether a store that is there is replaced. Nobody may have it open. Its files are kept in a folder
    ///     beside it, `<path>-replaced-<time>`; remove that yourself when you do not need it any more.
    /// - Throws: `StoreError` `alreadyExists`, `storeInUse`, and what ``verifyBackup(at:unlockedBy:progress:isCancelled:)``
    ///   throws; `SystemError`. The store that was there is as it was then, unless the restoration was cut by a kill:
    ///   run it again in that case.
    @discardableResult
    public static func restore(
        from folder: String, to path: String, unlockedBy source: KeySource, replacing isReplacing: Bool = false,
        progress: (@Sendable (BackupProgress) -> Void)? = nil, isCancelled: @escaping @Sendable () -> Bool = { false }
    ) throws -> RestorationReport {
        let bundle = BackupBundle(folder)
        _ = try bundle.readManifest()
        try SQLiteLibrary.requireCipher()
        let material = try source.read()
        return try StoreRestoration(
            bundle: bundle, paths: StorePaths(path), isReplacing: isReplacing,
            watch: BackupWatch(progress: progress, isCancelled: isCancelled)
        ).run { try material.unlock($0) }
    }
}
