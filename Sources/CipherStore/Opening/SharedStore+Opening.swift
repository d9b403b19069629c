import CipherDatabase
import Foundation
import KeyCustody
import RotationCore
import StoreCrypto
import StorePlatform
import StoreSharing

extension SharedStore {
    /// Opens a store. The first process creates and migrates it.
    ///
    /// However many processes call it at the same moment, exactly one creates the store and one runs each migration. A
    /// creation that was interrupted anywhere, by a kill or a power failure, is resumed with the same keys by any
    /// process that has the same secret.
    ///
    /// If the WAL is damaged, the first write overwrites the commits behind the damage. So the opening that finds them
    /// first copies the whole WAL to `<database>-wal-damaged`, with a notice, and is refused (`walDamaged`) if it cannot. A
    /// WAL of another database is refused as well.
    ///
    /// - Parameters:
    ///   - path: The database file. Its sidecar and lock file are next to it, with the same name and a suffix. A relative
    ///     path is made absolute here: the process may change its current directory later.
    ///   - source: The source of the key; read once.
    ///   - configuration: Its `readonly` is ignored: see `openReadOnly`.
    ///   - migrator: The migrations that the schema needs; nil accepts the schema as it is.
    /// - Throws: `StoreError` with what happened, why and what to do, `erasureRefused` for a migrator with
    ///   `eraseDatabaseOnSchemaChange`; `SystemError` where the system refused; `DatabaseError` where SQLite did.
    public static func open(
        at path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        migrator: DatabaseMigrator? = nil
    ) throws -> SharedStore {
        let (path, configuration) = (Files.absolute(path), configuration.forSharing(readonly: false))
        try migrator?.requireKeepingRows(in: configuration)
        let fileKey = FileKey(path: path, configuration: configuration)
        try requireOpenable(path, fileKey, configuration)
        let key = KeyOrigin.secret(try source.read(), creatingWith: .plaintextHeader)
        return try open(path, fileKey, key, configuration, migrator)
    }

    /// Opens a store that exists, with the keys of its sidecar, which are known already.
    ///
    /// - Parameter acceptsFormerSidecar: Whether its sidecar may be older than what the store remembers.
    package static func open(
        at path: String, holding keys: SidecarKeys, configuration: Configuration = Configuration(),
        acceptsFormerSidecar: Bool = false
    ) throws -> SharedStore {
        var configuration = configuration
        configuration.requiresStore = true
        let path = Files.absolute(path)
        configuration = configuration.forSharing(readonly: false)
        let fileKey = FileKey(
            path: path, configuration: configuration, holding: keys, acceptsFormerSidecar: acceptsFormerSidecar)
        try requireOpenable(path, fileKey, configuration)
        return try open(path, fileKey, .knownKeys, configuration, nil)
    }

    private static func open(
        _ path: String, _ fileKey: FileKey, _ key: KeyOrigin, _ configuration: Configuration,
        _ migrator: DatabaseMigrator?
    ) throws -> SharedStore {
        defer { fileKey.opening.release() }
        let isCancelled = configuration.isOpeningCancelled ?? { false }
        let (lease, completedEpoch) = try fileKey.opening.endingWaits(when: isCancelled) {
            try takeLocks(fileKey, key, StorePaths(path), isCancelled)
        }
        var pool: DatabasePool?
        do {
            if configuration.requiresStore, try Files.byteCount(path) ?? 0 == 0 { throw noSuchStore(path) }
            let opened = try connect(path, configuration, fileKey, key) { try LostCommits.keep($0, fileKey) }
            pool = opened
            fileKey.logCreation()
            try migrate(opened, with: migrator, path: path)
            CrashPoint.reach(.storeMigrated)
            RollbackGuard.catchUp(opened, fileKey)
            opened.carryOver.setHolderRole(.lease, true)
            return try SharedStore(
                pool: opened, lease: lease, identity: StoreIdentity(fileKey, path: path), fileKey: fileKey)
        } catch {
            try? pool?.close()
            lease?.release()
            if let completedEpoch, let error = error as? StoreError, error.code == .wrongKey {
                throw formerKey(StorePaths(path).database, epoch: completedEpoch)
            }
            throw error
        }
    }

    /// Opens a store. The first process creates and migrates it.
    public static func open(
        at url: URL, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        migrator: DatabaseMigrator? = nil
    ) throws -> SharedStore {
        try open(at: url.path, unlockedBy: source, configuration: configuration, migrator: migrator)
    }

    /// Opens a store for reading only. It changes nothing and needs no right to write file or directory. If the process
    /// may write the lock file, it is listed in the table of holders.
    ///
    /// SQLite reads through the -wal and -shm files, which a shared store keeps. If they are missing, SQLite creates
    /// empty ones if the process may; otherwise the store cannot be read (`StoreError.walMissing`).
    ///
    /// The database of a backup (`<folder>/store.db` next to the manifest) opens in any place, also on a read-only
    /// filesystem: nothing is locked, created or changed there. A -wal or -journal beside it is no part of the backup: it
    /// is not read, and named in ``notices``. A backup whose length has changed is refused (`backupDamaged`).
    ///
    /// - Parameters:
    ///   - path: The database file.
    ///   - source: The source of the key; not read when no store exists.
    ///   - configuration: Its `readonly` is set.
    ///   - migrator: The migrations that the schema must have had, no more and no fewer; nil accepts it as it is.
    /// - Returns: nil when the store is not created yet, or when its schema is older or newer than the migrator's.
    /// - Throws: As `open` when it exists and cannot be opened.
    public static func openReadOnly(
        at path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        migrator: DatabaseMigrator? = nil
    ) throws -> SharedStore? {
        let path = Files.absolute(path)
        let configuration = try configuration.forReading(path)
        guard try isCreated(StorePaths(path)) else { return nil }
        try SQLiteLibrary.requireCipher()
        try requireSafeFilesystem(path, configuration)
        try configuration.forbidDumpsIfAsked()
        let fileKey = FileKey(path: path, configuration: configuration)
        let key = KeyOrigin.secret(try source.read(), creatingWith: .plaintextHeader)
        return try openReadOnly(path, configuration, migrator, fileKey, key)
    }

    /// Opens a store for reading only, with the keys of its sidecar, which are known already.
    package static func openReadOnly(
        at path: String, holding keys: SidecarKeys, configuration: Configuration = Configuration()
    ) throws -> SharedStore? {
        let path = Files.absolute(path)
        let configuration = try configuration.forReading(path)
        guard try isCreated(StorePaths(path)) else { return nil }
        try SQLiteLibrary.requireCipher()
        try requireSafeFilesystem(path, configuration)
        let fileKey = FileKey(path: path, configuration: configuration, holding: keys)
        return try openReadOnly(path, configuration, nil, fileKey, .knownKeys)
    }

    private static func openReadOnly(
        _ path: String, _ configuration: Configuration, _ migrator: DatabaseMigrator?, _ fileKey: FileKey,
        _ key: KeyOrigin
    ) throws -> SharedStore? {
        try fileKey.opening.requirePossiblePlace()
        fileKey.opening.report(BackupBundle(holding: path)?.notices ?? [])
        let paths = StorePaths(path)
        // Acquired before the keys are read from the sidecar. Without a lock file no process can request the store.
        var lease = try Files.identity(paths.lock) == nil ? nil : takeLease(paths, configuration)
        var pool: DatabasePool?
        do {
            let opened = try connect(path, configuration, fileKey, key) { _ in }
            pool = opened
            guard try hasContent(opened, fileKey), try hasExactSchema(opened, migrator) else {
                try opened.close()
                lease?.release()
                return nil
            }
            if lease == nil { lease = try takeLease(paths, configuration) }
            return try SharedStore(
                pool: opened, lease: lease, identity: StoreIdentity(fileKey, path: path), fileKey: fileKey)
        } catch {
            try? pool?.close()
            lease?.release()
            throw error
        }
    }

    /// Opens a store for reading only.
    public static func openReadOnly(
        at url: URL, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        migrator: DatabaseMigrator? = nil
    ) throws -> SharedStore? {
        try openReadOnly(at: url.path, unlockedBy: source, configuration: configuration, migrator: migrator)
    }

    // MARK: Steps

    /// The checks before a key is in memory.
    private static func requireOpenable(
        _ path: String, _ fileKey: FileKey, _ configuration: Configuration
    ) throws {
        // Before a key is derived, or a file is made: a library that fails later would leave an unfinished store.
        try SQLiteLibrary.requireCipher()
        try BackupBundle.refuse(writing: path)
        try requireSafeFilesystem(path, configuration)
        try fileKey.opening.requirePossiblePlace()
        try configuration.forbidDumpsIfAsked()
    }

    /// Acquires the opening lock, and the lease before any connection, so that no process can replace the store's file.
    /// An interrupted rotation is completed or undone under both.
    ///
    /// An opener that meets a switch to a new key holds nothing while it waits, and reads everything again.
    /// - Returns: The lease, and the epoch to which a rotation was completed.
    private static func takeLocks(
        _ fileKey: FileKey, _ key: KeyOrigin, _ paths: StorePaths, _ isCancelled: @escaping @Sendable () -> Bool
    ) throws -> (Lease?, completedEpoch: UInt64?) {
        let deadline = ContinuousClock.now + StoreLimits.switchWait
        while true {
            if try !isReadable(whileSuspended: fileKey) {
                if case .secret(let secret, _) = key {
                    try fileKey.lock(unlocking: secret)
                } else {
                    try fileKey.opening.lock()
                }
            }
            // Nothing is held during this wait, so a suspension need not end it.
            guard case .taken(let lease) = try Lease.attempt(for: paths, label: nil, readonly: false) else {
                fileKey.opening.release()
                try Lease.take(
                    for: paths, label: nil, readonly: false, deadline: deadline, isCancelled: isCancelled)?.release()
                continue
            }
            do {
                if let outcome = try recoverRotation(fileKey, key) {
                    return (lease, outcome.completedEpoch)
                }
            } catch {
                lease?.release()
                throw error
            }
            // The lease is released first: a restoration that holds the opening lock must find no lease.
            lease?.release()
            fileKey.opening.release()
            try RotationRecovery.waitForAdmin(paths, until: deadline, isCancelled: isCancelled)
        }
    }

    private static func takeLease(_ paths: StorePaths, _ configuration: Configuration) throws -> Lease? {
        // No process replaces the files of a backup, and no lock file may be created next to them.
        if configuration.isImmutable { return nil }
        return try Lease.take(for: paths, label: configuration.holderLabel, readonly: true)
    }

    /// Completes or undoes an interrupted rotation, and reports it.
    ///
    /// - Returns: nil when another process holds the admin lock, so that the caller must wait.
    private static func recoverRotation(
        _ fileKey: FileKey, _ key: KeyOrigin
    ) throws -> RotationRecovery.Outcome? {
        guard let paths = fileKey.paths, fileKey.opening.isLocked, let sidecarCache = fileKey.opening.sidecarCache
        else {
            return RotationRecovery.Outcome()
        }
        if let reason = try MissingDatabase.reason(paths) { throw reason }
        let outcome = try fileKey.opening.endingWhenSuspended { isCancelled in
            try RotationRecovery.run(
                paths, sidecarCache.read(), isCancelled: isCancelled, unlock: { try fileKey.keys(of: $0, given: key) })
        }
        // The recovery has written the sidecar only if it reports something.
        if outcome?.notices.isEmpty == false { sidecarCache.reread() }
        fileKey.opening.report(outcome?.notices ?? [])
        return outcome
    }

    /// Opens the connections, unless the WAL is that of another database.
    ///
    /// - Parameter examine: Called before anything is written. If it throws, the WAL is left as it is.
    private static func connect(
        _ path: String, _ configuration: Configuration, _ fileKey: FileKey, _ key: KeyOrigin,
        examine: (DatabasePool) throws -> Void
    ) throws -> DatabasePool {
        let isUnexamined = !configuration.isImmutable && WALOrigin.isUnexamined(path)
        let pool: DatabasePool
        do {
            pool = try DatabasePool(path: path, configuration: configuration, fileKey: fileKey, key: key)
        } catch {
            throw isUnexamined ? WALOrigin.refusal(explaining: error, fileKey) ?? error : error
        }
        do {
            if isUnexamined { try WALOrigin.requireOwn(fileKey) }
            try examine(pool)
            return pool
        } catch {
            // A close copies the WAL into the file, and empties it.
            try? pool.close(isPause: true)
            pool.carryOver.release()
            throw error
        }
    }

    private static func noSuchStore(_ path: String) -> StoreError {
        StoreError.noLongerStore(
            at: path, why: "It was removed while this opening waited for other processes.",
            remedy: "If it should be there, restore a backup: `cipherctl restore`.")
    }

    /// The error for an opener with the former key of a direct store, which has just completed the store's rotation.
    private static func formerKey(_ path: String, epoch: UInt64) -> StoreError {
        StoreError(
            .wrongKey, what: "The key no longer opens \"\(path)\".",
            why: "An interrupted rotation has just been completed: the store has a new key now (epoch \(epoch)), and "
                + "the given key is the former one.",
            remedy: "Give the new key.")
    }

    /// Whether the process is suspended and the store is complete. It is opened without a lock then, because a process
    /// that is about to be stopped must not hold one. A store that must still be created is refused then.
    private static func isReadable(whileSuspended fileKey: FileKey) throws -> Bool {
        guard fileKey.opening.suspension.isSuspended, let sidecarCache = fileKey.opening.sidecarCache else {
            return false
        }
        let claimed = sidecarCache.read().claimed
        return !claimed.isEmpty && !claimed.contains { $0.state == .creating }
    }

    private static func migrate(_ pool: DatabasePool, with migrator: DatabaseMigrator?, path: String) throws {
        guard let migrator else { return }
        if try pool.read(migrator.hasBeenSuperseded) { throw schemaAhead(path) }
        // Only a pending migration acquires the write lock.
        if try !pool.read(migrator.hasCompletedMigrations) { try migrator.migrate(pool) }
    }

    private static func hasExactSchema(_ pool: DatabasePool, _ migrator: DatabaseMigrator?) throws -> Bool {
        guard let migrator else { return true }
        return try pool.read { db in try migrator.hasCompletedMigrations(db) && !migrator.hasBeenSuperseded(db) }
    }

    /// Whether the store is complete, or at least has its content. If the sidecar says that the store is being created,
    /// a database of more than one page was adopted: it was renamed complete, and only the sidecar is not updated yet.
    private static func hasContent(_ pool: DatabasePool, _ fileKey: FileKey) throws -> Bool {
        guard fileKey.sidecar?.state == .creating else { return true }
        guard try pool.read({ try Int.fetchOne($0, sql: "PRAGMA page_count") }) ?? 0 > 1 else { return false }
        fileKey.opening.notice(
            "\"\(pool.path)\": its adoption was interrupted after the file was converted, and is completed by the next "
                + "opening for writing, or by `cipherctl adopt`; all rows are there.")
        return true
    }

    /// Whether a store exists. The creation of an empty file has only begun.
    private static func isCreated(_ paths: StorePaths) throws -> Bool {
        if try Files.byteCount(paths.database) ?? 0 > 0 { return true }
        if try MissingDatabase.reason(paths) != nil {
            // A restoration or a destruction holds this lock: the store does not exist at this moment.
            if isBeingOpened(paths) { return false }
            if let reason = try MissingDatabase.reason(paths) { throw reason }
        }
        guard let bytes = try Files.byteCount(paths.database) else { return false }
        if bytes > 0 { return true }
        // An empty file whose sidecar is complete has lost its content: the opening reports that.
        return SidecarFiles(databasePath: paths.database).read().claimed.contains { $0.state != .creating }
    }

    private static func isBeingOpened(_ paths: StorePaths) -> Bool {
        guard Files.exists(paths.lock) else { return false }
        let file = try? LockFile(path: paths.lock, likeFile: nil, allowsReadOnly: true)
        return (try? file?.isHeld(.opening)) == true
    }

    private static func requireSafeFilesystem(_ path: String, _ configuration: Configuration) throws {
        // A connection without locks and without a WAL is safe on every filesystem.
        if configuration.isImmutable { return }
        let directory = Files.directory(of: path)
        // If the directory is missing, the opening reports that.
        guard let kind = try filesystem(of: directory) else { return }
        try requireSafe(kind, of: directory, configuration)
    }

    /// Refuses a filesystem on which WAL is not safe between processes, unless the configuration accepts the risk.
    static func requireSafe(
        _ kind: FilesystemKind, of directory: String, _ configuration: Configuration
    ) throws(StoreError) {
        guard !kind.isSafeForSharedWAL, !configuration.risksCorruptionOnUnsafeFilesystem else { return }
        throw StoreError(
            .unsupportedFilesystem,
            what: "\"\(directory)\" is on \(kind.name), on which a shared store is not safe.",
            why:
                "SQLite's WAL needs locks and shared memory that work between processes; this filesystem does not "
                + "guarantee them.",
            remedy: "Put the store on a local filesystem. A program can override this with "
                + "risksCorruptionOnUnsafeFilesystem = true, and risks silent corruption.")
    }

    private static func filesystem(of directory: String) throws -> FilesystemKind? {
        guard try Files.kind(directory) != nil else { return nil }
        return try FilesystemKind.of(directory)
    }

    private static func schemaAhead(_ path: String) -> StoreError {
        StoreError(
            .schemaAhead,
            what: "The schema of \"\(path)\" is newer than this program.",
            why: "Migrations were applied to it that this program does not know.",
            remedy: "Update the program. The store was left as it is.")
    }
}

/// The identity of a store, from its sidecar.
struct StoreIdentity {
    let storeID: StoreID
    let epoch: UInt64
    /// Whether the store is direct: its user gives the data key, so a former one does not open a rotated store.
    var isDirect: Bool

    init(_ fileKey: FileKey, path: String) throws(StoreError) {
        guard let sidecar = fileKey.sidecar else {
            throw StoreError(
                .saltMissing, what: "\"\(path)\" has no sidecar.",
                why: "A shared store always has one.", remedy: "Restore it from a backup of the store.")
        }
        storeID = sidecar.storeID
        epoch = sidecar.epoch
        isDirect = sidecar.slotted == nil
    }
}

extension Configuration {
    /// The label of a shared store in the table of holders.
    var holderLabel: String { label ?? "CipherStore.SharedStore" }

    /// The user's configuration, with the settings of a shared store that only reads.
    ///
    /// - Throws: ``StoreError`` `backupDamaged` for the database of a backup that has another length since.
    fileprivate func forReading(_ path: String) throws(StoreError) -> Configuration {
        var configuration = forSharing(readonly: true)
        if let bundle = BackupBundle(holding: path) {
            try bundle.requireLength()
            configuration.isImmutable = true
        }
        return configuration
    }

    /// The user's configuration, with the settings of a shared store.
    fileprivate func forSharing(readonly: Bool) -> Configuration {
        var configuration = self
        configuration.readonly = readonly
        configuration.persistentWAL = true
        configuration.requiresWAL = true
        configuration.isShared = true
        configuration.allowsUnencrypted = false
        configuration.busyMode = chosenBusyMode ?? .timeout(StoreLimits.busyWait)
        return configuration
    }
}
