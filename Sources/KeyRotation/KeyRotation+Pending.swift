import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

// Interrupted rotations.
extension KeyRotation {
    /// Resumes an interrupted rotation: copies all pages again, to the pending key. A rotation that was interrupted in
    /// the middle of the switch is completed.
    ///
    /// The store must not be opened before: an opening undoes or completes the interrupted rotation.
    ///
    /// The pending key cannot be changed, so ``Options/mode`` selects nothing here. A direct store requires its new key
    /// again (``Mode/newKey(_:)``): after the switch no other key opens it, and its user would be locked out if the new
    /// key was lost. If it is lost, use ``abandon(path:unlockedBy:isCancelled:onLongWait:)``. If
    /// ``Mode/compromised(dropsOtherSlots:alsoKeeping:)`` is given, the interrupted rotation must have that mode.
    ///
    /// - Parameters:
    ///   - source: The source of the present key; read once.
    ///   - options: A backup is made as in ``run(isCancelled:progress:)``, but not when the switch only has to be
    ///     completed; the report says so.
    /// - Returns: nil when no rotation was pending.
    /// - Throws: As ``run(isCancelled:progress:)`` and `SharedStore.open`; `keyMissing` when a direct store's new key
    ///   is not given, `invalidKey` when it is not the pending key, `modeConflict` when the mode is not that of the
    ///   rotation, `rotationPending` when the key does not unlock both the present data key and the pending one.
    ///   Nothing is changed then.
    @discardableResult
    public static func resume(
        path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        options: Options = Options(), isCancelled: (@Sendable () -> Bool)? = nil,
        progress: (@Sendable (RotationProgress) -> Void)? = nil
    ) throws -> RotationReport? {
        try OtherUserLink.refuse(path)
        let paths = StorePaths(path)
        let (journal, again) = try journal(paths, source)
        var newKey: Secret?
        if case .newKey(let source) = options.mode { newKey = try source.read() }
        return try RotationResumption(
            paths: paths, journal: journal, source: again, newKey: newKey, configuration: configuration,
            options: options, reporter: ProgressReporter(progress), isCancelled: isCancelled ?? { false }
        ).run()
    }

    /// Abandons a rotation that was interrupted before the switch: drops the pending key and removes the copy. A
    /// rotation that was interrupted at the switch is abandoned only if its copy is lost and nothing of the store was
    /// in the copy alone.
    ///
    /// - Parameters:
    ///   - source: The source of the present key.
    ///   - isCancelled: Called while this waits for other processes; true ends the wait, and nothing is changed.
    ///   - onLongWait: Called after two seconds of waiting for the opening lock, with the process that holds it, if
    ///     known.
    /// - Returns: Whether an interrupted rotation, or the copy of one, existed.
    /// - Throws: `StoreError` `storeInUse` while the rotation runs: cancel it there; `rotationPending` when the switch
    ///   has begun and can only be completed, by opening the store, or when copy and WAL are lost; the errors of
    ///   ``status(of:)`` for a file that is no store; `CancellationError`.
    @discardableResult
    public static func abandon(
        path: String, unlockedBy source: KeySource, isCancelled: (@Sendable () -> Bool)? = nil,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil
    ) throws -> Bool {
        try OtherUserLink.refuse(path)
        let paths = StorePaths(path)
        // A file that is no store is refused before a lock file is made beside it.
        if SidecarFiles(databasePath: paths.database).read().areAbsent, try !Files.entryExists(paths.rotationCopy) {
            _ = try status(of: path)
        }
        let (journal, _) = try journal(paths, source)
        let isCancelled = isCancelled ?? { false }
        let admin = try takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        let opening = try takeOpening(paths, LockFileWatch(isCancelled: isCancelled, onLongWait: onLongWait))
        defer { opening.release() }
        return try abandonInterrupted(paths, journal)
    }

    /// Abandons an interrupted rotation. The caller must hold the locks `admin` and `opening`.
    static func abandonInterrupted(_ paths: StorePaths, _ journal: RotationJournal) throws -> Bool {
        guard let rotation = try journal.rotation() else { return try RotationCopy.removeLeftover(of: paths) }
        if rotation.sidecar.state == .switching {
            guard try RotationRecovery.undoSwitch(paths, journal) else {
                throw StoreError.switchPending(paths.database)
            }
        } else {
            try journal.abandon()
            try RotationCopy.removeLeftover(of: paths)
        }
        _ = KeyLog(databasePath: paths.database).note(.rotationAbandoned(from: rotation.sidecar.epoch))
        return true
    }

    /// The progress of a rotation, or whether one was interrupted. Needs no key, and nothing in the result is
    /// authenticated.
    ///
    /// - Throws: `StoreError` `noSuchStore`, `databaseMissing`, `notEncrypted`, `saltMissing`, `sidecarDamaged`; `SystemError`.
    public static func status(of path: String) throws -> RotationStatus {
        let paths = StorePaths(path)
        guard try Files.kind(paths.database) == .regular, let bytes = try Files.byteCount(paths.database) else {
            if let reason = try MissingDatabase.reason(paths) { throw reason }
            let isThere = try Files.kind(paths.database) != nil
            throw StoreError.noStore(
                at: path, why: isThere ? "The path names a folder or a device." : "There is no such file.")
        }
        let copies = SidecarFiles(databasePath: paths.database).read()
        guard let sidecar = copies.newestClaimed else {
            throw try reasonUnreadable(copies, paths)
        }
        var isRunning = false
        if Files.exists(paths.lock) {
            isRunning = try LockFile(path: paths.lock, likeFile: nil, allowsReadOnly: true).isHeld(.admin)
        }
        return RotationStatus(
            state: RotationStatus.State(sidecar.state), isRunning: isRunning, process: rotator(of: paths.database),
            epoch: sidecar.epoch, databaseBytes: bytes,
            copyBytes: try Files.byteCount(paths.rotationCopy),
            walBytes: try Files.byteCount(paths.wal) ?? 0)
    }

    /// Why neither copy of a sidecar can be read.
    private static func reasonUnreadable(_ copies: SidecarCopies, _ paths: StorePaths) throws -> any Error {
        for copy in SidecarCopy.allCases {
            if case .unreadable(let failure) = copies[copy] { return failure }
        }
        if let interrupted = InterruptedRestoration.error(.saltMissing, paths) { return interrupted }
        guard copies.areAbsent else {
            return StoreError(
                .sidecarDamaged, what: "\"\(paths.database)\" has no sidecar that can be read.",
                why: "Both copies are missing or damaged.", remedy: "Restore it from a backup of the store.")
        }
        let file = try LiveFiles.descriptor(of: paths.database)
        var first = [UInt8](repeating: 0, count: 4096)
        let count = try first.withUnsafeMutableBytes { try file.read(at: 0, into: $0) }
        let header = DatabaseHeader.examine(
            Array(first.prefix(count)), fileBytes: try file.status().byteCount, settings: nil)
        guard case .plainSQLite = header else {
            return StoreError(
                .saltMissing, what: "\"\(paths.database)\" has no sidecar.", why: "No copy of it is there.",
                remedy: "Put the sidecar back, from a backup of the store if need be. A file that never was a store is "
                    + "adopted with `cipherctl adopt`.")
        }
        return StoreError(
            .notEncrypted, what: "\"\(paths.database)\" is a plain SQLite database.",
            why: "Its pages are readable without any key.",
            remedy: "Encrypt it into a new store with `cipherctl import`.")
    }

    // MARK: Steps

    /// Acquires the admin lock, of rotations and changes of keys. It is held to the end.
    static func takeAdmin(_ paths: StorePaths, isCancelled: @escaping () -> Bool) throws -> HeldLock {
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        // A change of keyslots takes milliseconds.
        guard
            let lock = try file.tryLock(
                .admin, .exclusive, until: .now + RotationLimits.adminWait, isCancelled: isCancelled)
        else {
            throw StoreError.rotationRuns(
                paths.database, by: rotator(of: paths.database), file.nameOwner(of: .admin))
        }
        return lock
    }

    /// Acquires the opening lock while no process is paused.
    ///
    /// - Throws: `StoreError` `storeInUse`, which names its holder; `CancellationError`.
    static func takeOpening(_ paths: StorePaths, _ watch: LockFileWatch) throws -> HeldLock {
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        return try file.lock(
            .opening, .exclusive, deadline: .now + RotationLimits.openingWait, isCancelled: watch.question(about: file))
    }

    /// The process that rotates a store, if the table of holders lists it and the system shows that it is that process.
    private static func rotator(of database: String) -> StoreHolder? {
        try? StoreHolders(of: database).first { $0.isIdentified && $0.label?.hasPrefix(holderLabel) ?? false }
    }

    /// A journal that uses a key, and a source that returns the same key again.
    private static func journal(_ paths: StorePaths, _ source: KeySource) throws -> (RotationJournal, KeySource) {
        let secret = try source.read()
        let journal = RotationJournal(databasePath: paths.database) { try secret.unlock($0) }
        return (journal, KeySource(giving: secret, name: "the key given"))
    }
}

/// Decides when a wait for a lock of the lock file ends, and reports a long wait.
struct LockFileWatch {
    let isCancelled: @Sendable () -> Bool
    let onLongWait: (@Sendable (StoreHolder?) -> Void)?

    /// The closure that a wait calls between two attempts; it returns whether the wait must end. The wait begins with
    /// this call. The closure reports it once, when it is long.
    func question(about file: LockFile) -> () -> Bool {
        let reportTime = ContinuousClock.now + RotationLimits.waitBeforeReport
        var hasReported = false
        return {
            if isCancelled() { return true }
            if !hasReported, ContinuousClock.now >= reportTime {
                hasReported = true
                onLongWait?(file.otherOwner(of: .opening))
            }
            return false
        }
    }
}
