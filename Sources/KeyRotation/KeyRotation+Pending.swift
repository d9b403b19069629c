import CipherDatabase
import CipherStore
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

// Rotations that were cut.
extension KeyRotation {
    /// Goes on with a rotation that was cut: copies anew, to the key that is pending. One that was cut in the middle of
    /// the switch is finished.
    ///
    /// The store must not be opened before: an opening undoes or finishes what was cut.
    ///
    /// What is pending cannot be changed, so ``Options/mode`` chooses nothing here. A direct store demands its new key again
    /// (``Mode/newKey(_:)``): behind the switch nothing else opens it, and who has lost it meanwhile would be locked out.
    /// ``abandon(path:unlockedBy:isCancelled:onLongWait:)`` is the way back then. Where
    /// ``Mode/compromised(dropsOtherSlots:alsoKeeping:)`` is given, the rotation that was cut must have been such a one.
    ///
    /// - Parameters:
    ///   - source: Where the present key comes from; asked once.
    ///   - options: A backup is made as by ``run(isCancelled:progress:)``, but none where the switch had only to be finished;
    ///     the report says so.
    /// - Returns: nil when no rotation was pending.
    /// - Throws: As ``run(isCancelled:progress:)`` and `SharedStore.open`; `keyMissing` when a direct store's new key is not
    ///   given, `invalidKey` when it is another one than the pending, `modeConflict` when the mode is not that of the
    ///   rotation, `rotationPending` when the key does not reach both the present data key and the pending one. Nothing is
    ///   changed then.
    @discardableResult
    public static func resume(
        path: String, unlockedBy source: KeySource, configuration: Configuration = Configuration(),
        options: Options = Options(), isCancelled: (@Sendable () -> Bool)? = nil,
        progress: (@Sendable (RotationProgress) -> Void)? = nil
    ) throws -> RotationReport? {
        let paths = StorePaths(path)
        let (journal, again) = try journal(paths, source)
        var newKey: Secret?
        if case .newKey(let source) = options.mode { newKey = try source.read() }
        return try RotationResumption(
            paths: paths, journal: journal, source: again, newKey: newKey, configuration: configuration,
            options: options, reporter: ProgressReporter(progress), isCancelled: isCancelled ?? { false }
        ).run()
    }

    /// Ends a rotation that was cut before the switch: drops the pending key and removes the copy. One that was cut at the
    /// switch is ended only where its copy is lost and nothing of the store was in it alone.
    ///
    /// - Parameters:
    ///   - source: Where the present key comes from.
    ///   - isCancelled: Asked while other processes are waited for; true ends the wait, and nothing is changed.
    ///   - onLongWait: Called when the lock of openings was waited for for two seconds, with the process that holds it, where
    ///     that is known.
    /// - Returns: Whether there was one.
    /// - Throws: `StoreError` `storeInUse` while the rotation runs: cancel it there; `rotationPending` when the switch was
    ///   begun and can only be finished, by opening the store, or when copy and log are lost; `CancellationError`.
    @discardableResult
    public static func abandon(
        path: String, unlockedBy source: KeySource, isCancelled: (@Sendable () -> Bool)? = nil,
        onLongWait: (@Sendable (StoreHolder?) -> Void)? = nil
    ) throws -> Bool {
        let paths = StorePaths(path)
        let (journal, _) = try journal(paths, source)
        let isCancelled = isCancelled ?? { false }
        let admin = try takeAdmin(paths, isCancelled: isCancelled)
        defer { admin.release() }
        let opening = try takeOpening(paths, LockFileWatch(isCancelled: isCancelled, onLongWait: onLongWait))
        defer { opening.release() }
        return try abandonInterrupted(paths, journal)
    }

    /// Ends a rotation that was cut before the switch. The caller holds the locks `admin` and `opening`.
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

    /// How far a rotation is, or whether one was cut; needs no key, and nothing of what it tells is authenticated.
    ///
    /// - Throws: `StoreError` `noSuchStore`, `databaseMissing`, `notEncrypted`, `saltMissing`, `sidecarDamaged`; `SystemError`.
    public static func status(of path: String) throws -> RotationStatus {
        let paths = StorePaths(path)
        guard try Files.kind(paths.database) == .regular, let bytes = try Files.byteCount(paths.database) else {
            if let reason = try MissingDatabase.reason(paths) { throw reason }
            let isThere = try Files.kind(paths.database) != nil
            throw StoreError(
                .noSuchStore, what: "There is no store at \"\(path)\".",
                why: isThere ? "What is there is no file." : "There is no such file.", remedy: "Check the path.")
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
            logBytes: try Files.byteCount(paths.wal) ?? 0)
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

    /// Takes the lock of rotations and changes of keys, which is held from here to the end.
    static func takeAdmin(_ paths: StorePaths, isCancelled: @escaping () -> Bool) throws -> HeldLock {
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        // A change of slots takes milliseconds.
        guard
            let lock = try file.tryLock(
                .admin, .exclusive, until: .now + Limits.adminWait, isCancelled: isCancelled)
        else {
            throw StoreError.rotationRuns(
                paths.database, by: rotator(of: paths.database), file.nameOwner(of: .admin))
        }
        return lock
    }

    /// Takes the lock of openings where nobody is kept waiting meanwhile.
    ///
    /// - Throws: `StoreError` `storeInUse`, which names who holds it; `CancellationError`.
    static func takeOpening(_ paths: StorePaths, _ watch: LockFileWatch) throws -> HeldLock {
        let file = try LockFile(path: paths.lock, likeFile: paths.database)
        return try file.lock(
            .opening, .exclusive, deadline: .now + Limits.openingWait, isCancelled: watch.question(about: file))
    }

    /// The process that rotates a store, where the table of holders tells of it.
    private static func rotator(of database: String) -> StoreHolder? {
        try? StoreHolders(of: database).first { $0.label?.hasPrefix(holderLabel) ?? false }
    }

    /// A journal by a key, and a source that gives the same key again.
    private static func journal(_ paths: StorePaths, _ source: KeySource) throws -> (RotationJournal, KeySource) {
        let secret = try source.read()
        let journal = RotationJournal(databasePath: paths.database) { try secret.unlock($0) }
        return (journal, KeySource(giving: secret, name: "the key given"))
    }
}

/// Whether a rotation of a store runs or was cut, as the files beside it tell.
public struct RotationStatus: Sendable, Equatable {
    public enum State: String, Hashable, Sendable, CaseIterable {
        /// No rotation is pending.
        case none
        /// A new key is pending, and pages are copied.
        case copying
        /// The copy is complete and takes the database's place.
        case switching
    }

    public internal(set) var state: State
    /// Whether a process holds the lock of rotations. A pending rotation without one was cut.
    public internal(set) var isRunning: Bool
    /// The process that rotates, where the table of holders tells of it.
    public internal(set) var process: StoreHolder?
    /// The epoch of the data key in use.
    public internal(set) var epoch: UInt64
    /// Bytes of the database.
    public internal(set) var databaseBytes: Int
    /// Bytes of the copy so far; nil when there is none.
    public internal(set) var copyBytes: Int?
    /// Bytes of the write-ahead log.
    public internal(set) var logBytes: Int

    /// Whether a rotation was cut, so that the next opening for writing undoes or finishes it.
    public var isInterrupted: Bool { state != .none && !isRunning }
}

/// Who decides how long a lock of the lock file is waited for, and is informed of a long wait.
struct LockFileWatch {
    let isCancelled: @Sendable () -> Bool
    let onLongWait: (@Sendable (StoreHolder?) -> Void)?

    /// What a wait that begins now asks between two attempts: whether it is to end. It reports the wait once it is long.
    func question(about file: LockFile) -> () -> Bool {
        let reportTime = ContinuousClock.now + Limits.waitBeforeReport
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

extension RotationStatus.State {
    fileprivate init(_ state: Sidecar.State) {
        self =
            switch state {
            case .creating, .ready: .none
            case .rotating: .copying
            case .switching: .switching
            }
    }
}
