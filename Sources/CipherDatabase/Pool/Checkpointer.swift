/// Copies the write-ahead log into the database file, in the one way that is safe among several processes.
///
/// SQLite before 3.51.3 can lose committed pages when a commit restarts the log while a checkpoint runs. So a
/// checkpoint runs on a connection of its own while the writer holds the write lock: then no commit can come between,
/// whatever program it belongs to. It waits for nobody; what readers still need stays in the log.
/// - SeeAlso: <https://www.sqlite.org/wal.html#checkpointing>
final class Checkpointer {
    private let open: () throws -> Database
    private var second: Database?
    /// The length of the log, in frames, at which the next checkpoint is due.
    private var dueFrames = Limits.framesBeforeCheckpoint
    private var lastFrames = 0

    /// - Parameter open: Opens the connection that checkpoints.
    init(open: @escaping () throws -> Database) { self.open = open }

    /// Checkpoints when the log has grown enough since the last time. A failure waits for the next commit.
    func checkpointIfDue(holding writer: Database) {
        let frames = writer.logFrames
        if frames < lastFrames { dueFrames = Limits.framesBeforeCheckpoint }
        lastFrames = frames
        guard frames >= dueFrames, !writer.isInsideTransaction, !writer.isClosed else { return }
        // Nobody waits for this one: while another process writes, it comes with one of the next commits.
        let result = try? writer.withoutWaiting { try checkpoint(holding: writer) }
        // Where a reader keeps the log from being copied whole, trying at each commit would only cost time.
        dueFrames = frames + (result == nil ? Limits.framesBeforeRetry : Limits.framesBeforeCheckpoint)
    }

    /// Checkpoints now.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when another connection writes.
    func checkpoint(holding writer: Database) throws -> CheckpointResult {
        let second = try secondConnection()
        // One call from beginning to end: a suspension interrupts the checkpoint, but must not roll the writer back while
        // it still runs.
        try writer.enterCall(.write, sql: "PRAGMA wal_checkpoint")
        defer { writer.leaveCall() }
        try writer.run(.beginImmediate)
        defer { writer.rollbackIfNeeded() }
        second.beginAccess()
        defer { second.endAccess(allowsOpenTransaction: true) }
        try second.enterCall(.write, sql: "PRAGMA wal_checkpoint")
        let (code, frames, copied) = second.handle.checkpointPassively()
        let message = second.handle.lastMessage
        second.leaveCall()
        guard code == .SQLITE_OK else { throw DatabaseError(resultCode: code, message: message) }
        return CheckpointResult(walFrameCount: max(0, frames), checkpointedFrameCount: max(0, copied))
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

/// What a checkpoint did.
public struct CheckpointResult: Sendable, Equatable {
    /// Frames in the write-ahead log; 0 without WAL.
    public let walFrameCount: Int
    /// How many of them are in the database file now.
    public let checkpointedFrameCount: Int
    /// Whether the database file holds everything.
    public var isComplete: Bool { walFrameCount == checkpointedFrameCount }
}

extension Database {
    /// What a checkpoint is to achieve.
    public enum CheckpointMode: Sendable {
        /// Copies what readers no longer need, and waits for nobody.
        case passive
        /// Fails with `SQLITE_BUSY` unless everything was copied.
        case full
        /// As full: the log starts anew with the next commit.
        case restart
        /// As full. The log keeps its length while others are connected: SQLite would cut it without the write lock.
        case truncate
    }
}
