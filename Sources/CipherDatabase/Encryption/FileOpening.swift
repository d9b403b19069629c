import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// The opening of one database file: its paths, the lock that excludes other openers, what ends its waits, the
/// suspension of its connections, and the notices for its owner.
package final class FileOpening: Sendable {
    /// nil for a database without a file.
    package let paths: StorePaths?
    /// The sidecar of the file.
    package let sidecarCache: SidecarCache?
    /// The suspension of every connection to the file.
    package let suspension: DatabaseSuspension
    /// Who its connections are in the history of changes.
    let author: HistoryIdentity
    let isReadonly: Bool
    /// Whether the file cannot change while it is open: a backup, which has one copy of the sidecar and no WAL.
    let isImmutable: Bool
    /// Whether SQLite is to find no rollback journal beside the file.
    private let filtersJournal: Bool
    /// The requested permissions of files that are created.
    private let fileMode: Int
    private let onNotice: (@Sendable (String) -> Void)?
    /// The path as it was given; nil without a file.
    private let path: String?
    private let state: Mutex<State>

    private struct State {
        var lock: HeldLock?
        var notices: [String] = []
        /// Called while waiting for the lock; true ends the wait.
        var isOvertaken: (@Sendable () -> Bool)?
        /// Whether the content of the files beside the database was proved.
        var hasProvedCompanions = false
        /// Whether a suspension has ended the present wait.
        var wasEndedBySuspension = false
        /// The files of the first connection.
        var files: OpenedFiles?
    }

    /// - Parameter path: The database file, or a path that ``MemoryPath`` recognizes as a database without a file.
    init(path: String, configuration: Configuration) {
        paths = MemoryPath.names(path) ? nil : StorePaths(path)
        self.path = MemoryPath.names(path) ? nil : path
        sidecarCache = paths.map { SidecarCache(databasePath: $0.database) }
        isReadonly = configuration.readonly
        isImmutable = configuration.readonly && configuration.isImmutable
        filtersJournal = (configuration.requiresWAL || configuration.ignoresRollbackJournal) && !isImmutable
        fileMode = configuration.fileMode
        onNotice = configuration.onNotice
        suspension = DatabaseSuspension()
        author = HistoryIdentity()
        state = Mutex(State())
        if configuration.observesSuspensionNotifications { SuspensionCenter.shared.add(suspension) }
    }

    /// Another opening of the same file, with the same suspension, author and notices, but without its keys.
    init(after former: FileOpening) {
        paths = former.paths
        path = former.path
        sidecarCache = paths.map { SidecarCache(databasePath: $0.database) }
        suspension = former.suspension
        author = former.author
        isReadonly = former.isReadonly
        isImmutable = former.isImmutable
        filtersJournal = former.filtersJournal
        fileMode = former.fileMode
        onNotice = former.onNotice
        state = Mutex(State(notices: former.notices))
    }

    // MARK: Notices

    /// The notices so far: what was repaired, and what looked risky.
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

    /// Reports notices about the file.
    package func report(_ texts: [String]) {
        for text in texts { notice("\"\(paths?.database ?? "")\": \(text)") }
    }

    // MARK: The opening lock

    package var isLocked: Bool { state.withLock { $0.lock != nil } }

    /// Acquires the opening lock, which excludes every other process that creates, migrates or opens. It is acquired at
    /// most once. An opening that only reads acquires none.
    ///
    /// - Throws: `StoreError` `storeInUse` at the deadline; `SQLITE_ABORT` when a suspension ended the wait,
    ///   `CancellationError` when the opening was overtaken (``endingWaits(when:_:)``).
    package func lock(deadline: ContinuousClock.Instant? = nil) throws {
        guard let paths, !isReadonly, !isLocked else { return }
        if suspension.isSuspended { throw DatabaseError.suspended() }
        try requireUsableName()
        let file = try LockFile(path: paths.lock, likeFile: paths.database, permissions: newFilePermissions())
        let lock = try endingWhenSuspended { isCancelled in
            try file.lock(
                .opening, .exclusive, deadline: deadline ?? .now + DatabaseLimits.openingWait, isCancelled: isCancelled)
        }
        state.withLock { $0.lock = lock }
        sidecarCache?.setGuarded(true)
        CrashPoint.reach(.openingLockTaken)
    }

    package func release() {
        guard let paths, let lock = state.withLock({ $0.lock.take() }) else { return }
        sidecarCache?.setGuarded(false)
        // The lock file may be older than the database, whose mode, owner and group it must have.
        try? LockFile.matchAttributes(of: paths.lock, to: paths.database)
        lock.release()
    }

    /// Runs a block under the opening lock, and restores the former state of the lock.
    func locked<Result>(deadline: ContinuousClock.Instant? = nil, _ body: () throws -> Result) throws -> Result {
        let wasLocked = isLocked
        try lock(deadline: deadline)
        defer { if !wasLocked { release() } }
        return try body()
    }

    /// Runs an opening. Its waits for the opening lock end with `CancellationError` when the opening is no longer
    /// needed.
    package func endingWaits<T>(when isOvertaken: @escaping @Sendable () -> Bool, _ open: () throws -> T) rethrows -> T
    {
        state.withLock { $0.isOvertaken = isOvertaken }
        defer { state.withLock { $0.isOvertaken = nil } }
        return try open()
    }

    /// Runs a wait that a suspension ends, or the caller of the opening.
    ///
    /// The cause of its end is noted at that moment: the suspension may be over when the error arrives.
    /// - Throws: `SQLITE_ABORT` after a suspension, `CancellationError` when the opening was overtaken; what `wait` throws.
    package func endingWhenSuspended<T>(_ wait: (_ isCancelled: @escaping () -> Bool) throws -> T) throws -> T {
        let isOvertaken = state.withLock { $0.isOvertaken }
        state.withLock { $0.wasEndedBySuspension = false }
        do {
            return try wait { [self] in
                if suspension.isSuspended {
                    state.withLock { $0.wasEndedBySuspension = true }
                    return true
                }
                return isOvertaken?() == true
            }
        } catch is CancellationError where state.withLock({ $0.wasEndedBySuspension }) {
            throw DatabaseError.suspended()
        }
    }

    /// Whether a suspension, or the caller of the opening, has ended it.
    var isEnded: Bool { suspension.isSuspended || state.withLock { $0.isOvertaken }?() == true }

    /// Whether a running process rotates or restores the store, or changes its keys.
    var isRotating: Bool {
        guard let paths, Files.exists(paths.lock) else { return false }
        let file = try? LockFile(path: paths.lock, likeFile: paths.database, allowsReadOnly: true)
        return (try? file?.isHeld(.admin)) == true
    }

    // MARK: The file

    /// Refuses a path at which no store can exist, before a lock file is created beside it.
    package func requirePossiblePlace() throws {
        guard let paths, let path else { return }
        try OtherUserLink.refuse(path)
        let directory = try Files.kind(Files.directory(of: paths.database))
        let kind = try Files.kind(paths.database)
        guard kind == .directory || kind == .other || directory != .directory else { return try requireUsableName() }
        if let reason = FileDiagnosis.reasonNotOpened(paths.database, readonly: isReadonly) { throw reason }
    }

    /// Refuses a path that SQLite cannot open, and a new store whose name belongs to another one.
    private func requireUsableName() throws {
        guard let paths else { return }
        try paths.requireShortPath()
        if !isReadonly { try requireFree(paths) }
    }

    private func requireFree(_ paths: StorePaths) throws {
        try paths.requireFreeName()
        if let status = try Files.status(of: paths.database), status.kind == .regular, status.byteCount == 0 {
            try requireOwn(status, paths)
        }
        if try paths.isFreeForStore { try paths.requireFreeCompanions() }
    }

    /// Opens a connection to the file, and distinguishes the causes of SQLite's "unable to open".
    ///
    /// - Parameter hasOthers: Whether other connections have a file open that is, or was, at the path.
    func connect(_ path: String, readonly: Bool, hasOthers: Bool) throws -> ConnectionHandle {
        try paths?.requireShortPath()
        let isFirst = try requireUsableCompanions()
        try requireSameFiles()
        let missing = try provideFile(readonly: readonly, hasOthers: hasOthers)
        do {
            let handle = try ConnectionHandle.open(
                path, readonly: readonly, filtersJournal: filtersJournal, immutable: isImmutable)
            do {
                try requireOpened(handle)
                if filtersJournal { try settleJournal(handle) }
                if isFirst { try requireNoRemovedWAL(handle) }
            } catch {
                handle.close()
                throw error
            }
            // SQLite created the file with the permissions of the umask.
            if let paths, let missing { try? Files.completePermissions(ofEmpty: paths.database, missing) }
            return handle
        } catch {
            guard let paths else { throw error }
            throw refusal(explaining: error) ?? FileDiagnosis.reasonNotOpened(paths.database, readonly: readonly)
                ?? error
        }
    }

    /// - Returns: Whether this is the first connection of the opening.
    private func requireUsableCompanions() throws(StoreError) -> Bool {
        guard let paths, !isImmutable else { return false }
        let companions = CompanionFiles(paths)
        if state.withLock({ $0.hasProvedCompanions }) {
            try companions.requireOwn()
            return false
        }
        try companions.requireUsable()
        state.withLock { $0.hasProvedCompanions = true }
        return true
    }

    /// The reason why SQLite's own opening of the database or a file beside it was refused on this thread; nil for another
    /// error.
    func refusal(explaining error: any Error) -> StoreError? {
        guard let error = error as? DatabaseError, error.resultCode.primaryResultCode == .SQLITE_CANTOPEN, let paths
        else { return nil }
        return SystemOpening.refusal(besides: paths.database)
    }

    /// Refuses a connection whose file SQLite found through a link that was put in the place of the database after its path
    /// had been resolved.
    private func requireOpened(_ handle: ConnectionHandle) throws(SystemError) {
        guard let paths else { return }
        let opened = handle.resolvedPath
        // A filesystem may ignore the case of names.
        guard !opened.isEmpty, opened != paths.database,
            try Files.ownStatus(of: paths.database)?.identity != Files.ownStatus(of: opened)?.identity
        else { return }
        throw SystemError.exchanged("open", paths.database)
    }

    /// Decides on a rollback journal beside the file of a store, before SQLite reads that.
    ///
    /// - Throws: ``StoreError`` `journalUntrusted` where another program has left the store in rollback mode, with a
    ///   journal that cannot be trusted.
    private func settleJournal(_ handle: ConnectionHandle) throws {
        guard let paths, try FileDiagnosis(handle, path: paths.database).isInRollbackMode(),
            let journal = try RollbackJournal(beside: paths.database)
        else { return handle.hideJournal() }
        try journal.requireTrusted()
    }

    /// Notes the files that the first connection has open.
    ///
    /// - Throws: ``StoreError`` `storeMoved` if the connection uses another index than the one that has the name.
    func noteFiles(isWAL: Bool) throws {
        guard let paths, !isImmutable, state.withLock({ $0.files == nil }) else { return }
        let files = try OpenedFiles(paths, isWAL: isWAL)
        state.withLock { state in
            if state.files == nil { state.files = files }
        }
    }

    /// Refuses a later connection where a name leads to another file, or to none.
    ///
    /// - Throws: ``StoreError`` `storeMoved`; `SystemError`.
    package func requireSameFiles() throws { try state.withLock { $0.files }?.requireSame() }

    /// Refuses an opening where the WAL was removed from processes that have the store open.
    private func requireNoRemovedWAL(_ handle: ConnectionHandle) throws {
        guard let paths,
            try FileDiagnosis(handle, path: paths.database).isInWALMode(otherwise: filtersJournal)
        else { return }
        try RemovedWAL(paths).refuse()
    }

    /// Creates the file of a new database before SQLite does, which would let the umask determine its permissions.
    /// Refuses to create one where the database of a store is missing.
    ///
    /// - Returns: The permissions to set on the file that SQLite creates; nil when the file exists now.
    private func provideFile(readonly: Bool, hasOthers: Bool) throws -> UInt32? {
        guard let paths else { return nil }
        let permissions = try newFilePermissions()
        if let status = try Files.status(of: paths.database) {
            if status.kind != .regular || status.byteCount > 0 { return nil }
            if !readonly { try requireOwn(status, paths) }
        }
        if hasOthers, try Files.kind(paths.database) == nil { throw StoreError.moved(paths.database) }
        // Without SharedStore no lock was acquired yet.
        if !readonly, !isLocked { try requireFree(paths) }
        if try MissingDatabase.reason(paths) != nil {
            // Another process may be restoring or destroying the store: the check is repeated after that process has
            // ended.
            if !readonly { try lock() }
            if let reason = try MissingDatabase.reason(paths) { throw reason }
        }
        guard !readonly, try Files.kind(paths.database) == nil else { return nil }
        // If it cannot be created, SQLite reports why, or creates it.
        return Files.makeEmptyUnopened(paths.database, permissions: permissions) ? nil : permissions
    }

    /// Refuses to make a store of an empty file that another user has put there: it would be his.
    private func requireOwn(_ status: FileStatus, _ paths: StorePaths) throws {
        let user = ProcessInspector.effectiveUser
        guard ![0, user].contains(status.owner), try Files.kind(paths.sidecar) == nil,
            try Files.kind(paths.sidecarBackup) == nil
        else { return }
        throw StoreError(
            .alreadyExists, what: "\"\(paths.database)\" is an empty file of another user.",
            why: "User \(status.owner) owns it. A store made of it would be that user's, with the modes of that file.",
            remedy: "Choose another name, or a folder that only you may write. Nothing was changed.")
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
