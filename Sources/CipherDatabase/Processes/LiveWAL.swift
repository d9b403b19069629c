import PageFormat
import StorePlatform

/// The WAL and its index under their names, compared with those that a connection has open.
///
/// SQLite never opens the names again. A process that finds no `-shm` makes another one. From then on two groups of
/// processes write one WAL, each over the commits of the other. So a writer checks them before its transactions, at
/// most once in ``DatabaseLimits/walCheckInterval``. Every connection checks them before frames are copied into the database.
struct LiveWAL {
    /// A fault of one of the files.
    enum Fault: Equatable {
        case missing(String)
        /// - isUnused: Whether nobody has written by the new file, or does so later.
        case replaced(String, isUnused: Bool)
        /// The index has lost its content.
        case indexTruncated(String)
        /// The WAL is shorter than its committed frames.
        /// - isCopied: Whether the database has all of them.
        case walTruncated(String, frames: UInt32, bytes: Int, isCopied: Bool)
    }

    private let database: String
    private var log: FileIdentity?
    private var index: FileIdentity?
    /// When the last check found nothing, by the monotonic clock; 0 before the first one.
    private var checkedAt: UInt64 = 0
    /// The database file at the last check that found nothing.
    private var databaseStatus: FileStatus?

    init(database: String) { self.database = database }

    /// Checks the files.
    ///
    /// - Parameter always: Whether it checks them although it has done so a moment ago.
    mutating func fault(_ handle: ConnectionHandle, always: Bool) -> Fault? {
        let now = MonotonicTime.now
        if !always, checkedAt != 0, now &- checkedAt < DatabaseLimits.walCheckInterval { return nil }
        do {
            if let found = try find(handle) { return found }
        } catch {
            // A status that the system does not give is no fault of the file.
            return nil
        }
        checkedAt = now
        databaseStatus = try? Files.ownStatus(of: database)
        return nil
    }

    /// Notes that this process has copied frames into the database file, after the check that comes before that.
    mutating func didCopyFrames() {
        guard let status = try? Files.ownStatus(of: database), status.identity == databaseStatus?.identity else {
            return
        }
        databaseStatus = status
    }

    /// Whether no process has written or replaced the database file since the last check that found nothing.
    var isDatabaseUnchanged: Bool {
        guard let databaseStatus, let status = try? Files.ownStatus(of: database) else { return false }
        return status.identity == databaseStatus.identity && status.modified == databaseStatus.modified
    }

    /// Whether the WAL that is open still has the name beside the database that is open, wherever both were moved. Then its
    /// commits are found by the next opening.
    var isBesideDatabase: Bool {
        guard let log, let database = databaseStatus?.identity, let place = OpenFolder.path(ofOpen: database) else {
            return false
        }
        return OpenFolder.path(ofOpen: log) == place + "-wal"
    }

    private mutating func find(_ handle: ConnectionHandle) throws(SystemError) -> Fault? {
        let paths = (log: database + "-wal", index: database + "-shm")
        // Without a file there was never an index in it: another locking mode keeps it in memory.
        guard let index = try Files.ownStatus(of: paths.index) else {
            return self.index.map { _ in .missing(paths.index) }
        }
        if let known = self.index {
            if known != index.identity { return .replaced(paths.index, isUnused: try isUnused(paths)) }
            // Before the index is read: behind the end of the file the system would end the process.
            if index.byteCount < WALIndex.regionBytes { return .indexTruncated(paths.index) }
        } else if index.byteCount < WALIndex.regionBytes {
            // It could not be made, as on a full disk.
            return nil
        }
        self.index = index.identity
        // Processes that have a WAL without a name open still share it. A kill of the last one would lose its commits.
        guard let log = try Files.ownStatus(of: paths.log) else { return self.log.map { _ in .missing(paths.log) } }
        if let known = self.log, known != log.identity { return .replaced(paths.log, isUnused: log.byteCount == 0) }
        if let fault = try truncation(handle, paths.log) { return fault }
        self.log = log.identity
        return nil
    }

    /// Whether a new index is what a reader left that has closed the store: each process that uses an index has a lock on
    /// it, and the first commit begins the WAL.
    private func isUnused(_ paths: (log: String, index: String)) throws(SystemError) -> Bool {
        guard let locks = try SystemLocks.posixLocks(on: paths.index), locks.isEmpty else { return false }
        guard let log = try Files.ownStatus(of: paths.log) else { return true }
        return log.byteCount == 0
    }

    /// A checkpoint of another process may cut the WAL at any moment. It first says so in the index.
    private func truncation(_ handle: ConnectionHandle, _ path: String) throws(SystemError) -> Fault? {
        var before = handle.walIndex
        while let header = before {
            guard let bytes = try Files.ownStatus(of: path)?.byteCount else { return nil }
            if header.frames == 0 || bytes >= header.walBytes { return nil }
            let after = handle.walIndex
            if after?.frames == header.frames, after?.salts == header.salts {
                return .walTruncated(
                    path, frames: header.frames, bytes: bytes, isCopied: header.checkpointedFrames >= header.frames)
            }
            before = after
        }
        return nil
    }
}

extension LiveWAL.Fault {
    /// Whether the names lead to nothing that another process has written.
    var hasNoOther: Bool {
        switch self {
        case .missing, .replaced(_, isUnused: true): true
        default: false
        }
    }

    var error: StoreError {
        switch self {
        case .missing(let path):
            StoreError(
                .storeMoved, what: "\"\(path)\" is gone, and this process has the store open.",
                why: "It was removed or renamed. Another process would make a new one, and each of the two would "
                    + "overwrite commits of the other.",
                remedy: Self.reopen)
        case .replaced(let path, _):
            StoreError(
                .storeMoved, what: "\"\(path)\" is not the file that this process has open.",
                why: "It was removed or replaced while the store was open, and another process uses the new one.",
                remedy: Self.reopen)
        case .indexTruncated(let path):
            StoreError(
                .walDamaged, what: "\"\(path)\" was cut while the store was open.",
                why: "It has the place of each page in the WAL, and is shorter than it must be.",
                remedy: Self.reopen)
        case .walTruncated(let path, let frames, let bytes, let isCopied):
            StoreError(
                .walDamaged, what: "\"\(path)\" was cut or removed while the store was open.",
                why: "It has \(CountText.text(bytes, "byte")), and its index lists "
                    + "\(CountText.text(Int(frames), "frame"))\(isCopied ? ", all of which the database has" : "").",
                remedy: isCopied
                    ? Self.reopen
                    : "Close the store in every process: one that still has the removed file copies its commits "
                        + "then. Verify the store: `cipherctl verify`. Commits of a file that was cut are lost: restore a "
                        + "backup if they matter.")
        }
    }

    /// The error of a close that could not copy all commits.
    var unsaved: StoreError {
        StoreError(
            .storeMoved, what: "The store was not closed: commits would be lost.",
            why: "\(error.what) A snapshot, or another process that has the removed file open, reads former commits.",
            remedy: "End every snapshot and every other process that has the store open, then close it again.")
    }

    /// The error of a connection that SQLite gave the removed index of an older connection of this process.
    static func sharedIndex(_ path: String) -> StoreError {
        StoreError(
            .storeMoved, what: "\"\(path)\" is not the file that this process has open.",
            why: "A snapshot or another connection of this process has the removed or replaced one open. SQLite gives "
                + "that to each new connection of the process.",
            remedy: "Close every snapshot and every other connection of this process to the store. Then open it again.")
    }

    private static let reopen =
        "Close the store in every process, and open it again. Never remove the files of a store that is open."
}

extension Database {
    /// The fault of the WAL that made an opening fail; nil for a sound WAL, and for one without an index.
    func walFault(explaining error: any Error) -> StoreError? {
        let codes: [ResultCode] = [.SQLITE_IOERR, .SQLITE_NOTADB, .SQLITE_CORRUPT]
        guard let error = error as? DatabaseError, codes.contains(error.resultCode.primaryResultCode),
            Files.exists(path + "-shm")
        else { return nil }
        var log = LiveWAL(database: path)
        return log.fault(handle, always: true)?.error
    }

    /// Throws where the WAL or its index is not the file that is open, or was cut.
    ///
    /// - Parameter always: Whether it checks them although it has done so a moment ago.
    /// - Throws: ``StoreError`` `storeMoved`, `walDamaged`.
    func requireWALInPlace(always: Bool = false) throws {
        if let fault = gating.wal?.fault(handle, always: always) { throw fault.error }
    }

    /// Copies the commits of a WAL that has lost its name into the database, before the writing connection is closed: no
    /// later opening finds them. A snapshot or another process may keep the close from doing it.
    ///
    /// - Throws: ``StoreError`` `storeMoved` where not all of them could be copied.
    func saveRemovedWAL() throws {
        guard !configuration.readonly, !health.hasFailedToSync, let fault = gating.wal?.fault(handle, always: true),
            fault.hasNoOther, gating.wal?.isDatabaseUnchanged == true, hasLostFrames(fault)
        else { return }
        var result = handle.checkpointPassively()
        // SQLite keeps an interruption by a suspension for the next call, which forgets it at its end.
        for _ in 0..<DatabaseLimits.interruptedCheckpoints where result.code == .SQLITE_INTERRUPT {
            result = handle.checkpointPassively()
        }
        gating.wal?.didCopyFrames()
        guard result.code == .SQLITE_OK, result.checkpointedFrames >= result.walFrames else { throw fault.unsaved }
    }

    /// Decides before the connection is closed whether that may copy the WAL into the database.
    ///
    /// If the names are gone and nobody has written the database, copying keeps the commits that this process still
    /// has. Otherwise it would overwrite what others have committed, or copy what is not there.
    func decideClosingCheckpoint() {
        guard let fault = gating.wal?.fault(handle, always: true) else { return }
        if fault.hasNoOther, gating.wal?.isDatabaseUnchanged == true { return }
        handle.setCheckpointOnClose(false)
        if hasLostFrames(fault) {
            connectionKey.notice(
                "\"\(path)\": commits of a WAL that was removed, replaced or cut are lost. The close did not copy them: that "
                    + "would overwrite later writes of another process, the database was replaced, or they are not complete."
            )
        }
    }

    /// Whether no later opening finds frames that the database lacks.
    private func hasLostFrames(_ fault: LiveWAL.Fault) -> Bool {
        switch fault {
        case .indexTruncated: false
        case .walTruncated(_, _, _, let isCopied): !isCopied
        case .missing, .replaced:
            gating.wal?.isBesideDatabase == false
                && handle.walIndex.map { $0.checkpointedFrames < $0.frames } ?? false
        }
    }
}
