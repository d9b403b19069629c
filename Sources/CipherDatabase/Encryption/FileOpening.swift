import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The opening of one database file: its place, the lock that excludes other openers, what ends its waits, the suspension of
/// its connections, and what its owner is notified of.
package final class FileOpening: Sendable {
    /// nil for a database without a file.
    package let paths: StorePaths?
    /// What the sidecar of the file keeps.
    package let vault: Vault?
    /// The suspension of every connection to the file.
    package let suspension: DatabaseSuspension
    let isReadonly: Bool
    /// Whether the file cannot change while it is open: a backup, which has one copy of the sidecar, and no WAL.
    let isImmutable: Bool
    /// The permissions of files that are created, as they were asked for.
    private let fileMode: Int
    private let onNotice: (@Sendable (String) -> Void)?
    private let state: Mutex<State>

    private struct State {
        var lock: HeldLock?
        var notices: [String] = []
        /// Asked while the lock is waited for; true ends the wait.
        var isOvertaken: (@Sendable () -> Bool)?
    }

    /// - Parameter path: The database file, or what ``MemoryPath`` knows as a database without one.
    init(path: String, configuration: Configuration) {
        paths = MemoryPath.names(path) ? nil : StorePaths(path)
        vault = paths.map { Vault(databasePath: $0.database) }
        isReadonly = configuration.readonly
        isImmutable = configuration.readonly && configuration.isImmutable
        fileMode = configuration.fileMode
        onNotice = configuration.onNotice
        suspension = DatabaseSuspension()
        state = Mutex(State())
        if configuration.observesSuspensionNotifications { SuspensionCenter.shared.add(suspension) }
    }

    /// Another opening of the same file, with the same suspension and notices, that knows nothing of its keys.
    init(after former: FileOpening) {
        paths = former.paths
        vault = paths.map { Vault(databasePath: $0.database) }
        suspension = former.suspension
        isReadonly = former.isReadonly
        isImmutable = former.isImmutable
        fileMode = former.fileMode
        onNotice = former.onNotice
        state = Mutex(State(notices: former.notices))
    }

    // MARK: Notices

    /// What was mended or looked risky so far.
    package var notices: [String] { state.withLock { $0.notices } }

    /// Keeps a notice, and reports it once.
    package func notice(_ text: String) {
        let isNew = state.withLock { state in
            guard !state.notices.contains(text) else { return false }
            state.notices.append(text)
            return true
        }
        if isNew { onNotice?(text) }
    }

    /// Reports what was done about the file.
    package func report(_ texts: [String]) {
        for text in texts { notice("\"\(paths?.database ?? "")\": \(text)") }
    }

    // MARK: The opening lock

    package var isLocked: Bool { state.withLock { $0.lock != nil } }

    /// Acquires the opening lock, which excludes every other process that creates, migrates or opens; once is enough. An
    /// opening for reading alone takes none.
    ///
    /// - Throws: `StoreError` `storeInUse` at the deadline; `SQLITE_ABORT` when a suspension ended the wait,
    ///   `CancellationError` when it was overtaken (``endingWaits(when:_:)``).
    package func lock(deadline: ContinuousClock.Instant? = nil) throws {
        guard let paths, !isReadonly, !isLocked else { return }
        if suspension.isSuspended { throw DatabaseError.suspended() }
        let isOvertaken = state.withLock { $0.isOvertaken }
        let lock: HeldLock
        do {
            let file = try LockFile(path: paths.lock, likeFile: paths.database, permissions: newFilePermissions())
            lock = try file.lock(
                .opening, .exclusive, deadline: deadline ?? .now + Limits.openingWait,
                isCancelled: { [suspension] in suspension.isSuspended || isOvertaken?() == true })
        } catch is CancellationError where suspension.isSuspended {
            throw DatabaseError.suspended()
        }
        state.withLock { $0.lock = lock }
        vault?.setGuarded(true)
        CrashPoint.reach(.openingLockTaken)
    }

    /// Acquires the opening lock with the keys for the sidecar on record derived already.
    ///
    /// Processes that open a store at the same time derive side by side, and hold the lock only for what must be done
    /// one after another. Where there is no store yet nothing is derived ahead: the one that comes first makes a slot with
    /// a salt of its own, and the others derive the key of that one.
    package func lock(unlocking secret: Secret) throws {
        guard let vault, !isReadonly, !isLocked else { return }
        let deadline = ContinuousClock.now + Limits.openingWait
        while true {
            let copies = vault.read()
            // What is wrong with the sidecar, or with a slot, is reported by the opening itself.
            _ = try? vault.unlock(secret, copies)
            try lock(deadline: deadline)
            // The store may have been created, or its keys changed, while this process waited.
            let present = vault.read()
            if present == copies || !vault.needsDerivation(secret, present) { return }
            release()
        }
    }

    package func release() {
        guard let paths, let lock = state.withLock({ $0.lock.take() }) else { return }
        vault?.setGuarded(false)
        // The lock file may be older than the database, whose mode, owner and group it is to have.
        try? LockFile.matchAttributes(of: paths.lock, to: paths.database)
        lock.release()
    }

    /// Runs a block under the opening lock, and leaves the lock as it was.
    func locked<Result>(_ body: () throws -> Result) throws -> Result {
        let wasLocked = isLocked
        try lock()
        defer { if !wasLocked { release() } }
        return try body()
    }

    /// Runs an opening whose waits for the opening lock end with `CancellationError` when nobody wants it any more.
    package func endingWaits<T>(when isOvertaken: @escaping @Sendable () -> Bool, _ open: () throws -> T) rethrows -> T
    {
        state.withLock { $0.isOvertaken = isOvertaken }
        defer { state.withLock { $0.isOvertaken = nil } }
        return try open()
    }

    /// Whether a suspension, or whoever asked for the opening, has ended it.
    var isEnded: Bool { suspension.isSuspended || state.withLock { $0.isOvertaken }?() == true }

    /// Whether a process is alive that rotates the store or changes its keys.
    var isRotating: Bool {
        guard let paths, Files.exists(paths.lock) else { return false }
        let file = try? LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: true)
        return (try? file?.isHeld(.admin)) == true
    }

    // MARK: The file

    /// Refuses a path at which no store can be, before a lock file is made beside it.
    package func requirePossiblePlace() throws {
        guard let paths else { return }
        let directory = try Files.kind(Files.directory(of: paths.database))
        guard try Files.kind(paths.database) == .directory || directory != .directory else { return }
        if let reason = FileDiagnosis.reasonNotOpened(paths.database, readonly: isReadonly) { throw reason }
    }

    /// Opens a connection to the file, telling apart what SQLite calls "unable to open".
    ///
    /// - Parameter hasOthers: Whether other connections have the file open that is, or was, at the path.
    func connect(_ path: String, readonly: Bool, hasOthers: Bool) throws -> ConnectionHandle {
        let missing = try provideFile(readonly: readonly, hasOthers: hasOthers)
        do {
            let handle = try ConnectionHandle.open(path, readonly: readonly, immutable: isImmutable)
            // SQLite made the file, by the umask.
            if let paths, let missing { try? Files.setPermissions(of: paths.database, missing) }
            return handle
        } catch {
            guard let paths else { throw error }
            throw FileDiagnosis.reasonNotOpened(paths.database, readonly: readonly) ?? error
        }
    }

    /// Makes the file of a new database before SQLite does, which would let the umask decide who may use it; and refuses to
    /// make one in the place of a database that is gone.
    ///
    /// - Returns: The permissions to give to the file that SQLite makes; nil where there is one now.
    private func provideFile(readonly: Bool, hasOthers: Bool) throws -> UInt32? {
        guard let paths else { return nil }
        let permissions = try newFilePermissions()
        if let status = try Files.status(of: paths.database), status.kind != .regular || status.byteCount > 0 {
            return nil
        }
        if hasOthers, try Files.kind(paths.database) == nil { throw StoreError.moved(paths.database) }
        if try MissingDatabase.reason(paths) != nil {
            // Another process may be restoring or destroying the store: what counts is what it leaves behind.
            if !readonly { try lock() }
            if let reason = try MissingDatabase.reason(paths) { throw reason }
        }
        guard !readonly, try Files.kind(paths.database) == nil else { return nil }
        // Where it cannot be made SQLite says why, or makes it.
        return Files.makeEmptyUnopened(paths.database, permissions: permissions) ? nil : permissions
    }

    /// - Throws: ``StoreError`` `settingsConflict` for a mode that no store can have.
    private func newFilePermissions() throws(StoreError) -> UInt32 {
        guard Configuration.fileModes.contains(fileMode) else {
            throw StoreError(
                .settingsConflict, what: "fileMode is not a mode that a store may have: \(String(fileMode, radix: 8)).",
                why:
                    "It may be 0600, 0640, 0644, 0660 or 0664: the owner must read and write, nobody may execute, and "
                    + "others may not write.",
                remedy: "Set one of these; chmod changes the mode of a store that exists.")
        }
        return UInt32(fileMode)
    }
}
