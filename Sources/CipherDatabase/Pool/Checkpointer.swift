import PageFormat
import StorePlatform
import StoreSharing

/// Copies the WAL into the database file, in the one way that is safe among several processes.
///
/// SQLite before 3.51.3 can lose committed pages when a commit resets the WAL while a checkpoint runs. So a checkpoint
/// runs on a connection of its own while the writer holds the write lock: then no program can commit in between. It
/// waits for readers only for a moment, when the WAL is long; frames that they still need stay in the WAL.
/// - SeeAlso: <https://www.sqlite.org/wal.html#checkpointing>
final class Checkpointer {
    let recorder: CheckpointRecorder
    private let open: () throws -> Database
    private let log: String
    private let sharedMemory: String
    private var second: Database?
    /// The length of the WAL, in frames, after which a commit is followed by a checkpoint.
    private let interval: Int
    /// The length of the WAL, in frames, at which the next checkpoint is due.
    private var dueFrames: Int
    private var lastFrames = 0
    /// The length of the WAL, in frames, from which a checkpoint waits for the readers of the WAL.
    private var waitFrames: Int
    /// The part of its last attempt that this connection published.
    private var published: UInt64 = 0
    /// Frames until the next attempt after a failed one; doubled after each further failure.
    private var retryFrames: Int

    /// - Parameters:
    ///   - paths: The files of the database.
    ///   - recorder: Continues to count; nil starts at zero.
    ///   - open: Opens the connection that checkpoints.
    init(
        paths: StorePaths, configuration: Configuration, recorder: CheckpointRecorder? = nil,
        open: @escaping () throws -> Database
    ) {
        self.open = open
        log = paths.wal
        sharedMemory = paths.sharedMemory
        interval = max(1, configuration.checkpointFrames)
        dueFrames = interval
        retryFrames = min(interval, DatabaseLimits.framesBeforeRetry)
        waitFrames = interval * DatabaseLimits.checkpointsBeforeRestart
        self.recorder = recorder ?? CheckpointRecorder(path: paths.database, configuration: configuration)
    }

    /// Checkpoints when the WAL has grown enough since the last time. After a failure it waits for the next commit.
    func checkpointIfDue(holding writer: Database) {
        let frames = writer.writing.walFrames
        if frames < lastFrames {
            setDueFrames(interval, writer)
            waitFrames = interval * DatabaseLimits.checkpointsBeforeRestart
        }
        lastFrames = frames
        guard frames >= dueFrames, !writer.isClosed, !writer.isInsideTransaction else { return }
        // During a suspension it would be refused, and must not acquire even the write turn: other processes may write.
        if writer.gating.gate.isSuspended { return writer.releaseWriteTurnIfDone(keepingForCheckpoint: false) }
        // The commit before kept the write turn for it, or acquires it soon; other writers never starve a checkpoint.
        writer.acquireWriteTurnForCheckpoint()
        if let others = framesAtOthersCheckpoint(writer), others + interval > frames {
            return setDueFrames(others + interval, writer)
        }
        let former = writer.writing.writeTurn?.checkpointed
        // Before its outcome is known: other processes need not try at the same time.
        tellOthers(writer)
        writer.releaseWriteTurnIfDone(keepingForCheckpoint: false)
        do {
            _ = try writer.withoutWaiting {
                // No other process waits while the connection is opened, once, and the WAL is synced.
                _ = try secondConnection()
                try synchronizeWAL(writer)
                writer.acquireWriteTurnForCheckpoint()
                // It does not wait for SQLite's lock: it is tried again after one of the next commits.
                return try copyWAL(holding: writer)
            }
        } catch {
            recorder.recordPostponed()
            // Where other processes may succeed they try as soon as it is due for them.
            if let former, !Self.isLasting(error) {
                writer.writing.writeTurn?.replaceCheckpointed(published, with: former)
            }
            setDueFrames(frames + retryFrames, writer)
            // Each attempt costs an fsync and a wait for the write turn, on the thread that commits.
            retryFrames = min(interval, 2 * retryFrames)
            return
        }
        retryFrames = min(interval, DatabaseLimits.framesBeforeRetry)
        // If a reader keeps the WAL from being copied completely, trying at each commit would only cost time.
        setDueFrames(frames + interval, writer)
    }

    /// Whether every process is likely to fail in the same way: a full or failing disk, a damaged or replaced file.
    private static func isLasting(_ error: any Error) -> Bool {
        guard let error = error as? DatabaseError else { return error is StoreError }
        return switch error.resultCode {
        case .SQLITE_FULL, .SQLITE_IOERR, .SQLITE_CORRUPT, .SQLITE_NOTADB, .SQLITE_READONLY: true
        default: false
        }
    }

    /// The length of the WAL when another process made or tried the last checkpoint of its present run; nil when none
    /// did.
    ///
    /// Without it each process would checkpoint the same WAL once more when it reaches the limit.
    private func framesAtOthersCheckpoint(_ writer: Database) -> Int? {
        // This connection's own attempt, if it failed, is repeated by `retryFrames`.
        guard let word = writer.writing.writeTurn?.checkpointed, word != published, let index = writer.handle.walIndex,
            UInt32(truncatingIfNeeded: word >> 32) == index.salts.second
        else { return nil }
        let frames = UInt32(truncatingIfNeeded: word)
        return frames <= index.frames ? Int(frames) : nil
    }

    /// Publishes a checkpoint of this process to the others.
    private func tellOthers(_ writer: Database) {
        guard let index = writer.handle.walIndex else { return }
        published = UInt64(index.salts.second) << 32 | UInt64(index.frames)
        writer.writing.writeTurn?.checkpointed = published
    }

    private func setDueFrames(_ frames: Int, _ writer: Database) {
        dueFrames = frames
        writer.writing.checkpointDueFrames = frames
    }

    /// Checkpoints now.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when another connection writes.
    func checkpoint(holding writer: Database) throws -> CheckpointResult {
        try synchronizeWAL(writer)
        return try copyWAL(holding: writer)
    }

    /// Syncs the WAL to disk while other processes continue to write. The checkpoint does so first while nobody writes;
    /// after this there is little left to sync, however long the WAL has grown during a long read.
    private func synchronizeWAL(_ writer: Database) throws {
        guard !writer.health.hasFailedToSync, try Int.fetchOne(writer, sql: "PRAGMA synchronous") != 0,
            let file = try? FileDescriptor(opening: log, .readOnly, followsLinks: false)
        else { return }
        do throws(SystemError) {
            try file.synchronizeContent()
        } catch {
            // Not to be tried again: the second attempt may succeed and hide that frames were lost.
            second?.didFailToSync()
            throw writer.error(.SQLITE_IOERR_FSYNC, message: "\(error)")
        }
        CrashPoint.reach(.checkpointWALSynced)
    }

    private func copyWAL(holding writer: Database) throws -> CheckpointResult {
        let second = try secondConnection()
        // One bracketed call from beginning to end: a suspension interrupts the checkpoint, but must not roll the
        // writer back while it still runs.
        try writer.requireWALInPlace(always: true)
        try writer.enterCall(.write, sql: "PRAGMA wal_checkpoint")
        defer { writer.leaveCall() }
        writer.transaction.isUpkeep = true
        defer { writer.transaction.isUpkeep = false }
        try writer.run(.beginImmediate)
        defer { writer.rollbackIfNeeded() }
        CrashPoint.reach(.checkpointLocked)
        second.beginAccess()
        defer { second.endAccess(allowsOpenTransaction: true) }
        let before = second.handle.walIndex?.checkpointedFrames ?? 0
        tellOthers(writer)
        let start = ContinuousClock.now
        var result = try copyFrames(on: second, holding: writer)
        if result.walFrameCount >= waitFrames { result = try awaitRestart(result, on: second, holding: writer) }
        recorder.record(
            result, copied: max(0, result.checkpointedFrameCount - Int(before)), took: .now - start,
            readers: { second.handle.walIndex.map { WALReader.blocking($0, sharedMemory: sharedMemory) } ?? [] })
        writer.gating.wal?.didCopyFrames()
        CrashPoint.reach(.checkpointEnded)
        return result
    }

    private func copyFrames(on second: Database, holding writer: Database) throws -> CheckpointResult {
        try second.enterCall(.write, sql: "PRAGMA wal_checkpoint")
        let (code, frames, copied) = second.handle.checkpointPassively()
        let message = second.handle.lastMessage
        second.leaveCall()
        guard code == .SQLITE_OK else {
            // Neither connection may write after that, nor repeat what failed, not even as the last to close.
            if code.isFailedSync { second.didFailToSync() }
            throw writer.error(code, message: message)
        }
        return CheckpointResult(walFrameCount: max(0, frames), checkpointedFrameCount: max(0, copied))
    }

    /// Waits a moment for the readers of the WAL to end: SQLite resets a WAL only when nobody reads it, and where reads
    /// overlap without a gap that never happens by itself.
    ///
    /// Nobody can commit meanwhile. So new readers keep no frame from being copied, and once everything is copied they
    /// read the database file alone: only the reads under way must end. If they last longer, the next wait comes when
    /// the WAL is twice as long, and may last twice as long.
    private func awaitRestart(
        _ first: CheckpointResult, on second: Database, holding writer: Database
    ) throws -> CheckpointResult {
        var result = first
        recorder.recordWait()
        // The longer the WAL, the longer the wait: so reads that overlap for ever keep it only as long as they are long.
        let ratio = Double(first.walFrameCount) / Double(interval * DatabaseLimits.checkpointsBeforeRestart)
        let deadline = ContinuousClock.now + min(DatabaseLimits.restartWait * ratio, DatabaseLimits.longestRestartWait)
        var readsWAL = true
        while !writer.gating.gate.isWanted {
            if !result.isComplete { result = try copyFrames(on: second, holding: writer) }
            if result.isComplete && readsWAL {
                guard leaveWAL(writer) else { break }
                // A program that does not use the writer queue may have written in between.
                let frames = result.walFrameCount
                result = try copyFrames(on: second, holding: writer)
                readsWAL = result.walFrameCount != frames
            }
            if result.isComplete && !readsWAL && second.handle.isWALUnread { return result }
            guard ContinuousClock.now < deadline else { break }
            CurrentThread.pause(microseconds: DatabaseLimits.restartPauseMicroseconds)
        }
        waitFrames = 2 * result.walFrameCount
        return result
    }

    /// Restarts the transaction of the writer: the one that it began before the WAL was copied holds a read mark, so
    /// the wait would never succeed. The new one reads the database file alone.
    ///
    /// - Returns: Whether it holds the write lock again.
    private func leaveWAL(_ writer: Database) -> Bool {
        writer.withoutWaiting { (try? writer.run(.rollback)) != nil && (try? writer.run(.beginImmediate)) != nil }
    }

    func close() {
        second?.beginAccess()
        try? second?.close()
        second?.endAccess(allowsOpenTransaction: true)
        second = nil
    }

    private func secondConnection() throws -> Database {
        if let second { return second }
        let connection = try open()
        second = connection
        return connection
    }
}

/// The result of a checkpoint.
public struct CheckpointResult: Sendable, Equatable {
    /// The length of the WAL in frames; 0 without WAL.
    public let walFrameCount: Int
    /// How many of them are in the database file now.
    public let checkpointedFrameCount: Int
    /// Whether the database file holds everything.
    public var isComplete: Bool { walFrameCount == checkpointedFrameCount }
}

extension Database {
    /// The kind of a checkpoint; the raw values are those of SQLite.
    public enum CheckpointMode: CInt, Sendable {
        /// Copies what readers no longer need, without waiting.
        case passive = 0
        /// Fails with `SQLITE_BUSY` unless everything was copied.
        case full = 1
        /// As full: the next commit resets the WAL.
        case restart = 2
        /// As full. The WAL file keeps its length while others are connected: SQLite would truncate it without the
        /// write lock.
        case truncate = 3
    }
}
