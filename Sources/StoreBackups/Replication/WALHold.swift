import CipherStore
import StoreCrypto
import PageFormat
import StorePlatform
import StoreSharing

/// The locks by which a replica keeps the WAL of a store until its frames are stored. It needs no key and no connection.
///
/// | lock | file | keeps others from |
/// |---|---|---|
/// | lease, shared | lock file | replacing the database, until the replica yields it |
/// | the last SHARED byte, shared | database | removing or truncating the WAL with the last close |
/// | a read mark's byte, shared | index | resetting the WAL (`walRestartLog` needs all of them) |
/// | WAL_CKPT_LOCK, exclusive, for moments | index | copying frames into the database |
///
/// No writer waits for them. A checkpoint copies all frames while the byte of an unused mark is locked.
///
/// **A reset loses nothing**: the byte of the mark is unlocked only while the checkpoint lock is held and every frame that is
/// copied into the database is stored. SQLite resets a WAL only when all of its frames are copied, and none is copied
/// meanwhile. So there is one reset at most, and each frame before it is stored.
/// - SeeAlso: <https://www.sqlite.org/walformat.html#wal_locks>
final class WALHold {
    let paths: StorePaths
    private let lease: ReplicaLease
    private let notifier: YieldNotifier?
    private let database: KeptFile
    private var index: KeptFile?
    /// The read mark whose byte is locked.
    private var mark: Int?
    private var hasCheckpointLock = false
    private var isReleased = false

    /// SQLite's connections lock all of the SHARED bytes; one of them keeps a lock on all of them away.
    private static let sharedByte = SQLiteLockByte.all.upperBound - 1

    /// - Throws: `StoreError` `noSuchStore`, `storeInUse` while the store is switched to a new key for longer than a lease
    ///   waits; `CancellationError`; `SystemError`.
    init(_ paths: StorePaths, isCancelled: @escaping () -> Bool) throws {
        self.paths = paths
        // A lock file beside nothing would be litter.
        guard try Files.kind(paths.database) == .regular else { throw Self.missing(paths) }
        let lease = try ReplicaLease.take(for: paths, isCancelled: isCancelled)
        self.lease = lease
        do {
            notifier = try Files.exists(paths.lock) ? YieldNotifier(path: paths.lock) : nil
            database = try KeptFile.take(paths.database, .readOnly)
        } catch {
            lease.release()
            throw error
        }
        do {
            // A connection that closes holds it for a moment.
            var polling = Polling(
                first: ReplicationLimits.lockPause, until: .now + ReplicationLimits.lockWait, isCancelled: isCancelled)
            while try !database.tryLock(Self.sharedByte, .shared) {
                guard try polling.next() else { throw Self.inUse(paths) }
            }
        } catch {
            database.giveBack()
            lease.release()
            throw error
        }
    }

    deinit { release() }

    /// Releases all locks. A second call does nothing.
    func release() {
        guard !isReleased else { return }
        isReleased = true
        releaseIndex()
        try? database.unlock(Self.sharedByte)
        database.giveBack()
        lease.release()
    }

    private func releaseIndex() {
        if let mark { try? index?.unlock(WALLockByte.readMark(mark)) }
        if hasCheckpointLock { try? index?.unlock(WALLockByte.checkpoint) }
        (mark, hasCheckpointLock) = (nil, false)
        index?.giveBack()
        index = nil
    }

    // MARK: What others do

    /// Whether a process asks the users of the store to yield it.
    var isAsked: Bool { notifier?.isAsked ?? false }

    /// Excludes all other users of the store, after they have yielded it.
    ///
    /// - Returns: Whether nothing is committed until this hold is released.
    func excludeOthers() throws -> Bool { try lease.excludeOthers() }

    /// Whether the path still names the database that is held.
    var isInPlace: Bool { (try? Files.identity(paths.database)) == database.identity }

    /// When the database file last changed, in milliseconds since 1970.
    var databaseModified: UInt64 { get throws { UInt64(try database.status().modified / .milliseconds(1)) } }
    var databaseBytes: Int { get throws { try database.status().byteCount } }

    func readDatabase(at offset: Int, into buffer: UnsafeMutableRawBufferPointer) throws -> Int {
        try database.read(at: offset, into: buffer)
    }

    /// Refuses a file that does not look as a store does: another member of a shared folder can give the name of the database
    /// to a private file, whose bytes would then be in the repository. No key is there to authenticate them.
    ///
    /// - Throws: `StoreError` `notEncrypted`; `SystemError`.
    func requireEncrypted(_ settings: CipherSettings) throws {
        var first = [UInt8](repeating: 0, count: settings.pageBytes)
        let count = try first.withUnsafeMutableBytes { try readDatabase(at: 0, into: $0) }
        let looksRight =
            switch DatabaseHeader.examine(
                Array(first.prefix(count)), fileBytes: try databaseBytes, settings: settings)
            {
            case .empty: true
            case .plaintextHeader: settings.plaintextHeaderBytes > 0
            case .opaque(let file): settings.plaintextHeaderBytes == 0 && file.mayBeStandardSQLCipher
            case .tooShort, .plainSQLite, .damagedHeader: false
            }
        guard !looksRight else { return }
        throw StoreError(
            .notEncrypted, what: "\"\(paths.database)\" cannot be replicated now.",
            why:
                "Its first page is not that of this store: another file has its name, or a checkpoint was interrupted.",
            remedy: "Run cipherctl verify on the store. Opening it for writing completes a checkpoint.")
    }

    /// The header of the index of the WAL, if a connection maintains it: the first one that opens a database makes the index
    /// anew, whatever it holds.
    ///
    /// - Returns: nil where there is none, or where it is being written.
    func liveIndex() throws -> LiveIndex {
        try openIndex()
        guard let index, try index.isLockedElsewhere(WALLockByte.open) else { return .none }
        // The first connection locks it exclusively while it empties the index.
        if try index.isLockedElsewhere(WALLockByte.open, against: .shared) { return .changing }
        let bytes = try index.read(at: 0, byteCount: WALIndex.headerBytes)
        return bytes.withUnsafeBytes { WALIndex($0) }.map(LiveIndex.settled) ?? .changing
    }

    enum LiveIndex {
        /// No connection is open.
        case none
        /// It is being written, or made.
        case changing
        case settled(WALIndex)
    }

    private func openIndex() throws {
        let present = try Files.identity(paths.sharedMemory)
        if present == index?.identity { return }
        releaseIndex()
        if present != nil { index = try KeptFile.take(paths.sharedMemory, .readWrite) }
    }

    // MARK: The read mark

    /// Whether a read mark's byte is locked, so that nobody resets the WAL.
    var keepsRun: Bool { mark != nil }

    /// Locks the byte of a read mark that no reader uses, if one is free: a used one would keep frames after it from being
    /// copied. Gets another one where a used one had to be locked before.
    func keepRun() throws {
        guard let index else { return }
        if let mark, try isUnused(mark) { return }
        let former = mark
        for candidate in (1..<WALIndex.readMarkCount).reversed() where candidate != former {
            guard try isUnused(candidate), try index.tryLock(WALLockByte.readMark(candidate), .shared) else { continue }
            // A reader may have begun to use it in between.
            if try isUnused(candidate) {
                if let former { try index.unlock(WALLockByte.readMark(former)) }
                mark = candidate
                return
            }
            try index.unlock(WALLockByte.readMark(candidate))
        }
        guard former == nil else { return }
        let highest = try (1..<WALIndex.readMarkCount).max { try value(ofMark: $0) < value(ofMark: $1) }
        if let highest, try index.tryLock(WALLockByte.readMark(highest), .shared) { mark = highest }
    }

    /// Lets a writer reset the WAL once.
    ///
    /// - Returns: Whether it may: another process may be in a checkpoint.
    func allowReset(if isStored: () throws -> Bool) throws -> Bool {
        guard let index, let mark, try index.tryLock(WALLockByte.checkpoint, .exclusive) else { return false }
        hasCheckpointLock = true
        // Nobody copies frames from here on.
        guard try isStored() else {
            try allowCheckpoints()
            return false
        }
        try index.unlock(WALLockByte.readMark(mark))
        self.mark = nil
        return true
    }

    /// Keeps every process from copying frames into the database, which then does not change.
    ///
    /// - Throws: `StoreError` `storeInUse` where a checkpoint takes longer than a minute; `CancellationError`.
    func excludeCheckpoints(isCancelled: () -> Bool) throws {
        guard let index, !hasCheckpointLock else { return }
        let deadline = ContinuousClock.now + ReplicationLimits.checkpointWait
        while try !index.tryLock(WALLockByte.checkpoint, .exclusive) {
            if isCancelled() { throw CancellationError() }
            guard ContinuousClock.now < deadline else { throw Self.inUse(paths) }
            Pause.sleep(for: ReplicationLimits.lockPause)
        }
        hasCheckpointLock = true
    }

    /// Holds the checkpoint lock only as long as a connection is open: the first one to be opened needs the lock, to make the
    /// index anew. It may copy frames then, which shows in ``databaseModified``.
    func admitOpeners() throws {
        switch try liveIndex() {
        case .none, .changing: try allowCheckpoints()
        case .settled:
            guard !hasCheckpointLock, let index else { return }
            hasCheckpointLock = try index.tryLock(WALLockByte.checkpoint, .exclusive)
        }
    }

    func allowCheckpoints() throws {
        guard let index, hasCheckpointLock else { return }
        try index.unlock(WALLockByte.checkpoint)
        hasCheckpointLock = false
    }

    private func isUnused(_ mark: Int) throws -> Bool { try value(ofMark: mark) == .max }

    /// The last frame that readers of a mark may see; the largest number if it is unused.
    private func value(ofMark mark: Int) throws -> UInt32 {
        let bytes = try index?.read(at: Self.readMarks + 4 * mark, byteCount: 4) ?? []
        guard bytes.count == 4 else { return 0 }
        return bytes.withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
    }

    /// The offset of the read marks in the index (Docs/Formats/Pages.md).
    private static let readMarks = 100

    private static func missing(_ paths: StorePaths) -> StoreError {
        StoreError(
            .noSuchStore, what: "There is no store at \"\(paths.database)\".",
            why: "There is no regular file of that name.",
            remedy: "Check the path.")
    }

    private static func inUse(_ paths: StorePaths) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(paths.database)\" cannot be replicated now.",
            why: "Another process holds a lock of SQLite on it for longer than \(ReplicationLimits.lockWait).",
            remedy: "Try again. `cipherctl status` names the processes that have the store open.")
    }
}
