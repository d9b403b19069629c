import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// The write turn of one connection: acquired before its first statement that writes, released when its transaction has
/// ended.
///
/// One thread at a time uses it: the one that uses the connection, or a suspending thread that has acquired the
/// connection's gate. Any thread may call ``interrupt()``, ``setClosing(_:)`` and ``isOwner``.
// Safe because: one thread at a time uses what changes: the thread of the access, or a suspending thread that holds the
// gate. The rest is atomic.
final class WriteTurn: @unchecked Sendable {
    /// How a wait for the write turn failed.
    enum Failure {
        case busy
        case interrupted
        case closed
    }

    /// nil where no write turn is available: SQLite's locks then keep writers apart.
    let queue: WriterQueue?
    private let lockFile: String
    private let recorder: WriteRecorder
    /// How often another thread ended a wait.
    private let interruptions = Atomic<Int>(0)
    private let isClosing = Atomic<Bool>(false)

    // Unchecked, as those below: read before and after each statement, by the one thread of the access.
    @exclusivity(unchecked) private(set) var isHeld = false
    @exclusivity(unchecked) private var since: UInt64 = 0
    @exclusivity(unchecked) private var waited: UInt64 = 0
    @exclusivity(unchecked) private var statement: String?
    @exclusivity(unchecked) var content = WriteContent.unknown

    /// The work of a write so far.
    enum WriteContent: UInt8 {
        /// Nothing, or something that was not a statement.
        case unknown
        /// Nothing that concerns observers of other processes.
        case quiet
        case observable
    }

    /// - Parameters:
    ///   - paths: The files of the database; its lock file is created when there is none.
    ///   - onNotice: Called when no write turn is available.
    init(for paths: StorePaths, label: String, configuration: Configuration, onNotice: (String) -> Void) {
        lockFile = paths.lock
        recorder = WriteRecorder(connection: label, configuration: configuration)
        do {
            queue = try Self.queue(paths, label, configuration)
        } catch {
            onNotice(
                "\"\(paths.database)\": this connection does not use the writer queue of the other processes: "
                    + "\(error)")
            queue = nil
        }
    }

    private static func queue(_ paths: StorePaths, _ label: String, _ configuration: Configuration) throws
        -> WriterQueue?
    {
        guard configuration.usesWriterQueue else { return nil }
        let path = try LockFile(path: paths.lock, likeFile: paths.database).path
        return try HolderRow.take(path: path, label: configuration.label ?? label, roles: .writer).map {
            WriterQueue($0)
        }
    }

    // MARK: Acquiring

    /// Acquires the write turn if it is free.
    @inline(__always)
    func enterIfFree() -> Bool {
        if let queue, !queue.enterIfFree() { return false }
        begin(waited: 0)
        return true
    }

    /// Acquires the write turn if it is free, or if its holder is dead.
    func tryToEnter() -> Bool {
        if let queue, !queue.tryToEnter() { return false }
        begin(waited: 0)
        return true
    }

    /// Waits for the write turn.
    ///
    /// - Parameter isCancelled: Called before each sleep.
    /// - Returns: nil when the connection has acquired the write turn.
    func enter(within limit: Duration, isCancelled: () -> Bool) -> Failure? {
        guard let queue else {
            begin(waited: 0)
            return nil
        }
        let before = interruptionCount
        let start = MonotonicTime.now
        let deadline = start.addingReportingOverflow(limit.wholeNanoseconds)
        let outcome = queue.enter(until: deadline.overflow ? MonotonicTime.never : deadline.partialValue) {
            interruption(since: before) != nil || isCancelled()
        }
        switch outcome {
        case .entered:
            begin(waited: max(1, MonotonicTime.now &- start))
            return nil
        case .timedOut: return .busy
        case .interrupted: return interruption(since: before) ?? .interrupted
        }
    }

    /// How often a wait was to be ended so far.
    var interruptionCount: Int { interruptions.load(ordering: .acquiring) }

    /// Why a wait must end; nil while it may continue.
    func interruption(since count: Int) -> Failure? {
        if isClosing.load(ordering: .acquiring) { return .closed }
        return interruptionCount != count ? .interrupted : nil
    }

    @inline(__always)
    private func begin(waited: UInt64) {
        isHeld = true
        self.waited = waited
        since = MonotonicTime.now
        queue?.showBegin(at: since)
    }

    /// Records the first statement that writes, for the statistics.
    ///
    /// - Parameter isQuiet: Whether what it writes concerns no observer.
    @inline(__always)
    func note(_ sql: String, isQuiet: Bool) {
        if statement == nil { statement = sql }
        if isQuiet { if content == .unknown { content = .quiet } } else { content = .observable }
    }

    /// Records that a write did not acquire the write turn.
    func recordTimeout() { recorder.recordTimeout() }

    // MARK: Releasing

    /// Releases the write turn.
    ///
    /// - Parameters:
    ///   - label: What the write was, for the statistics; by default its first statement.
    ///   - reporting: Whether the callbacks for writes are called.
    func leave(label: String?, reporting: Bool = true) {
        guard isHeld else { return }
        isHeld = false
        let held = MonotonicTime.now &- since
        let label = label ?? statement ?? "BEGIN"
        statement = nil
        content = .unknown
        let figures = recorder.record(held: held, waited: waited, label: label)
        if let queue {
            queue.showEnd(figures)
            queue.leave()
        }
        if reporting { recorder.report(held: held, waited: waited, label: label) }
    }

    // MARK: From other threads

    /// Ends the wait for the write turn that is under way, if there is one: it fails as interrupted.
    func interrupt() {
        interruptions.wrappingAdd(1, ordering: .acquiringAndReleasing)
        queue?.call()
    }

    /// Ends every wait for the write turn from now on, since the connection is about to close; false undoes that.
    func setClosing(_ isClosing: Bool) {
        self.isClosing.store(isClosing, ordering: .releasing)
        if isClosing { queue?.call() }
    }

    /// Releases the row in the table of holders.
    func release() { queue?.holderRow.release() }

    // MARK: What is shared

    /// The WAL at the last checkpoint of any process, as one word; 0 where none is known.
    var checkpointed: UInt64 {
        get { queue?.checkpointed ?? 0 }
        set { queue?.checkpointed = newValue }
    }

    /// Replaces that word, unless another process has written its own since.
    func replaceCheckpointed(_ expected: UInt64, with word: UInt64) {
        queue?.replaceCheckpointed(expected, with: word)
    }

    /// The row in the table of holders; nil where no write turn is available.
    var holderRow: HolderRow? { queue?.holderRow }

    var statistics: WriteStatistics { recorder.statistics(usesWriterQueue: queue != nil) }

    /// Publishes a role of this connection in the table of holders.
    func setRole(_ role: HolderRoles, _ isOn: Bool) { queue?.holderRow.setRole(role, isOn) }

    /// Whether this connection holds the write turn, as the shared table shows; for any thread.
    var isOwner: Bool { queue?.isHeld ?? false }

    /// The other holder of the write turn.
    var otherHolder: StoreHolder? { queue?.otherHolder(lockFile: lockFile) }
}

// The write turn of a connection, around its statements. Connections that do not write have no write turn.
extension Database {
    /// Acquires the write turn before a statement that may write.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` that names the holder of the write turn; `.SQLITE_INTERRUPT`, or
    ///   `CancellationError`, when the wait was ended.
    func acquireWriteTurn(_ writeTurn: WriteTurn, for statement: Statement) throws {
        if !writeTurn.isHeld {
            if statement.writesTemporaryTablesOnly || statement.asksForJournalMode { return }
            try acquireWriteTurn(writeTurn, sql: statement.sql)
        }
        // A write is labelled by its first statement that writes, not by the BEGIN of its transaction.
        if writeTurn.isHeld && !statement.effects.contains(.begin) {
            writeTurn.note(statement.sql, isQuiet: writing.isQuiet)
        }
    }

    /// Acquires the write turn, waiting for it as the busy mode says.
    func acquireWriteTurn(_ writeTurn: WriteTurn, sql: @autoclosure () -> String) throws {
        if writeTurn.isHeld { return }
        // The deadline of an earlier wait, which may have failed.
        if waits.hasLockDeadline { waits.lockDeadline = nil }
        if writeTurn.enterIfFree() { return }
        switch handle.mainTransactionState {
        case .writing:
            // C code has acquired SQLite's lock already: the holder of the write turn waits for that.
            return
        case .reading:
            // Waiting would be useless: after the next commit of another connection, this snapshot is not the latest.
            if !writeTurn.tryToEnter() { throw lockedOut(writeTurn, sql: sql()) }
        case .none:
            if waits.refusesToWait { throw BeginWouldWait() }
            try waitForWriteTurn(writeTurn, sql: sql())
        }
    }

    /// Waits for the write turn, as the busy mode says.
    private func waitForWriteTurn(_ writeTurn: WriteTurn, sql: @autoclosure () -> String) throws {
        switch waits.lockWait {
        case .never:
            if !writeTurn.tryToEnter() { throw lockedOut(writeTurn, sql: sql()) }
        case .asking(let callback):
            let before = writeTurn.interruptionCount
            var tries = 0
            while !writeTurn.tryToEnter() {
                if gating.gate.isWanted { throw DatabaseError.suspended(sql: sql()) }
                guard callback(tries) else { throw lockedOut(writeTurn, sql: sql()) }
                if let failure = writeTurn.interruption(since: before) {
                    throw writeTurnError(failure, writeTurn, sql: sql())
                }
                tries += 1
            }
        case .upTo(let limit):
            waits.lockDeadline = .now + limit
            let failure = writeTurn.enter(within: limit) {
                [cancellation = access.cancellation, gate = gating.gate, watchedWait = waits.watchedWait] in
                gate.isWanted || cancellation?.isSet ?? false || watchedWait?.isOver() ?? false
            }
            if let failure { throw writeTurnError(failure, writeTurn, sql: sql()) }
        }
    }

    /// Acquires the write turn inside a bracketed call; leaves the call when that fails.
    func acquireWriteTurnInCall(sql: @autoclosure () -> String) throws {
        if let writeTurn = writing.writeTurn { try leavingCallOnError { try acquireWriteTurn(writeTurn, sql: sql()) } }
    }

    /// Acquires the write turn for the first step of a statement, inside a bracketed call; leaves the call when that
    /// fails.
    func acquireWriteTurnInCall(for statement: Statement) throws {
        if let writeTurn = writing.writeTurn {
            try leavingCallOnError { try acquireWriteTurn(writeTurn, for: statement) }
        }
    }

    private func leavingCallOnError(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            leaveCall()
            throw error
        }
    }

    /// Releases the write turn when no transaction needs it.
    ///
    /// - Parameter keeping: Whether to keep it for a checkpoint that is due, which follows at once.
    @inline(__always)
    func releaseWriteTurnIfDone(keepingForCheckpoint keeping: Bool = true) {
        if let writeTurn = writing.writeTurn, writeTurn.isHeld { releaseWriteTurnIfDone(writeTurn, keeping) }
    }

    private func releaseWriteTurnIfDone(_ writeTurn: WriteTurn, _ keeping: Bool) {
        if waits.hasLockDeadline { waits.lockDeadline = nil }
        if !isClosed && handle.mainTransactionState == .writing { return }
        if keeping && writing.endsWithCommit && writing.walFrames >= writing.checkpointDueFrames && !isClosed { return }
        writeTurn.leave(label: writing.writeLabel)
        writing.writeLabel = nil
    }

    /// Releases the write turn and the row in the table of holders for good, once the connection is closed.
    func closeWriteTurn() {
        guard let writeTurn = writing.writeTurn else { return }
        writeTurn.leave(label: writing.writeLabel)
        writeTurn.release()
    }

    /// Waits a short time for the write turn for a checkpoint, except during a suspension, which refuses it.
    func acquireWriteTurnForCheckpoint() {
        guard let writeTurn = writing.writeTurn, !writeTurn.isHeld, !gating.gate.isSuspended, !writeTurn.enterIfFree()
        else { return }
        _ = writeTurn.enter(within: DatabaseLimits.checkpointTurnWait) { false }
    }

    // MARK: Errors

    func writeTurnError(_ failure: WriteTurn.Failure, _ writeTurn: WriteTurn, sql: String) -> any Error {
        switch failure {
        case .busy: lockedOut(writeTurn, sql: sql)
        case .interrupted where gating.gate.isWanted: DatabaseError.suspended(sql: sql)
        case .interrupted: stepError(.SQLITE_INTERRUPT, message: "interrupted", sql: sql)
        case .closed: DatabaseError.connectionIsClosed()
        }
    }

    /// The error of a write that did not acquire the write turn.
    func lockedOut(_ writeTurn: WriteTurn, sql: String) -> any Error {
        writeTurn.recordTimeout()
        let holder = writeTurn.otherHolder.map { holder in
            ": \(holder) is writing" + (holder.writingFor.map { " for \(CountText.shortSeconds($0))" } ?? "")
        }
        return error(.SQLITE_BUSY, message: "database is locked" + (holder ?? ""), sql: sql)
    }

    /// SQLite's message for a lock that was not acquired, with its holder.
    func busyMessage(_ message: String?) -> String? {
        guard writing.writeTurn != nil, let message, let holders = try? StoreHolders(of: path),
            let holder = holders.first(where: { $0.uses.contains(.writeLock) })
        else { return message }
        return "\(message): \(holder) holds the write lock"
    }

}

extension WriteTurn {
    /// Wakes the other processes that watch commits, after one that may concern them.
    ///
    /// - Parameter always: Whether it counts as one that does.
    @inline(__always)
    func noticeCommit(always: Bool = false) {
        if content != .quiet || always { queue?.holderRow.noticeCommit() }
        content = .unknown
    }
}
