import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// The write slot of one connection: acquired before its first statement that writes, released when its transaction has
/// ended.
///
/// One thread at a time uses it: the one that uses the connection, or a suspending thread that has acquired the
/// connection's gate. Any thread may call ``interrupt()``, ``setClosing(_:)`` and ``isOwner``.
// Safe because: what changes is used inside bracketed calls or while the gate is off, by the thread of the access, or
// by a thread that keeps it out of both; the rest is atomic.
final class WriteSlot: @unchecked Sendable {
    /// How a wait for the write slot failed.
    enum Failure {
        case busy
        case interrupted
        case closed
    }

    /// nil where no write slot is available: SQLite's locks then keep writers apart.
    let queue: WriterQueue?
    private let lockFile: String
    private let recorder: WriteRecorder
    /// How often another thread ended a wait.
    private let interruptions = Atomic<Int>(0)
    private let isClosing = Atomic<Bool>(false)

    // Unchecked, as the next ones: read before and after each statement, by the one thread of the access.
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
    ///   - onNotice: Called when no write slot is available.
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
        return try HolderSlot.take(path: path, label: configuration.label ?? label, roles: .writer).map {
            WriterQueue($0)
        }
    }

    // MARK: Acquiring

    /// Acquires the write slot if it is free.
    @inline(__always)
    func enterIfFree() -> Bool {
        if let queue, !queue.enterIfFree() { return false }
        begin(waited: 0)
        return true
    }

    /// Acquires the write slot if it is free, or if its holder is dead.
    func tryToEnter() -> Bool {
        if let queue, !queue.tryToEnter() { return false }
        begin(waited: 0)
        return true
    }

    /// Waits for the write slot.
    ///
    /// - Parameter isCancelled: Called before each sleep.
    /// - Returns: nil when the connection has acquired the write slot.
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

    /// Records that a write did not acquire the write slot.
    func recordTimeout() { recorder.recordTimeout() }

    // MARK: Releasing

    /// Releases the write slot.
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

    /// Ends the wait for the write slot that is under way, if there is one: it fails as interrupted.
    func interrupt() {
        interruptions.wrappingAdd(1, ordering: .acquiringAndReleasing)
        queue?.call()
    }

    /// Ends every wait for the write slot from now on, since the connection is about to close; false undoes that.
    func setClosing(_ isClosing: Bool) {
        self.isClosing.store(isClosing, ordering: .releasing)
        if isClosing { queue?.call() }
    }

    /// Releases the slot in the table of holders.
    func release() { queue?.slot.release() }

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

    /// The slot in the table of holders; nil where no write slot is available.
    var holderSlot: HolderSlot? { queue?.slot }

    var statistics: WriteStatistics { recorder.statistics(usesWriterQueue: queue != nil) }

    /// Publishes a role of this connection in the table of holders.
    func setRole(_ role: HolderRoles, _ isOn: Bool) { queue?.slot.setRole(role, isOn) }

    /// Whether this connection holds the write slot, as the shared table shows; for any thread.
    var isOwner: Bool { queue?.isHeld ?? false }

    /// The other holder of the write slot.
    var otherHolder: StoreHolder? { queue?.otherHolder(lockFile: lockFile) }
}

// The write slot of a connection, around its statements. Connections that do not write have no write slot.
extension Database {
    /// Acquires the write slot before a statement that may write.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` that names the holder of the write slot; `.SQLITE_INTERRUPT`, or
    ///   `CancellationError`, when the wait was ended.
    func acquireWriteSlot(_ writeSlot: WriteSlot, for statement: Statement) throws {
        if !writeSlot.isHeld {
            if statement.writesTemporaryTablesOnly || statement.asksForJournalMode { return }
            try acquireWriteSlot(writeSlot, sql: statement.sql)
        }
        // A write is labelled by its first statement that writes, not by the BEGIN of its transaction.
        if writeSlot.isHeld && !statement.effects.contains(.begin) {
            writeSlot.note(statement.sql, isQuiet: writing.isQuiet)
        }
    }

    /// Acquires the write slot, waiting for it as the busy mode says.
    func acquireWriteSlot(_ writeSlot: WriteSlot, sql: @autoclosure () -> String) throws {
        if writeSlot.isHeld { return }
        // The deadline of an earlier wait, which may have failed.
        if waits.hasLockDeadline { waits.lockDeadline = nil }
        if writeSlot.enterIfFree() { return }
        switch handle.mainTransactionState {
        case .writing:
            // C code has acquired SQLite's lock already: the holder of the write slot waits for that.
            return
        case .reading:
            // Waiting would be useless: after the next commit of another connection, this snapshot is not the latest.
            if !writeSlot.tryToEnter() { throw lockedOut(writeSlot, sql: sql()) }
        case .none:
            if waits.refusesToWait { throw BeginWouldWait() }
            try waitForWriteSlot(writeSlot, sql: sql())
        }
    }

    /// Waits for the write slot, as the busy mode says.
    private func waitForWriteSlot(_ writeSlot: WriteSlot, sql: @autoclosure () -> String) throws {
        switch waits.lockWait {
        case .never:
            if !writeSlot.tryToEnter() { throw lockedOut(writeSlot, sql: sql()) }
        case .asking(let callback):
            let before = writeSlot.interruptionCount
            var tries = 0
            while !writeSlot.tryToEnter() {
                if gating.gate.isWanted { throw DatabaseError.suspended(sql: sql()) }
                guard callback(tries) else { throw lockedOut(writeSlot, sql: sql()) }
                if let failure = writeSlot.interruption(since: before) {
                    throw writeSlotError(failure, writeSlot, sql: sql())
                }
                tries += 1
            }
        case .upTo(let limit):
            waits.lockDeadline = .now + limit
            let failure = writeSlot.enter(within: limit) {
                [cancellation = access.cancellation, gate = gating.gate, watchedWait = waits.watchedWait] in
                gate.isWanted || cancellation?.isSet ?? false || watchedWait?.isOver() ?? false
            }
            if let failure { throw writeSlotError(failure, writeSlot, sql: sql()) }
        }
    }

    /// Acquires the write slot inside a bracketed call; leaves the call when that fails.
    func acquireWriteSlotInCall(sql: @autoclosure () -> String) throws {
        if let writeSlot = writing.writeSlot { try leavingCallOnError { try acquireWriteSlot(writeSlot, sql: sql()) } }
    }

    /// Acquires the write slot for the first step of a statement, inside a bracketed call; leaves the call when that
    /// fails.
    func acquireWriteSlotInCall(for statement: Statement) throws {
        if let writeSlot = writing.writeSlot {
            try leavingCallOnError { try acquireWriteSlot(writeSlot, for: statement) }
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

    /// Releases the write slot when no transaction needs it.
    ///
    /// - Parameter keeping: Whether to keep it for a checkpoint that is due, which follows at once.
    @inline(__always)
    func releaseWriteSlotIfDone(keepingForCheckpoint keeping: Bool = true) {
        if let writeSlot = writing.writeSlot, writeSlot.isHeld { releaseWriteSlotIfDone(writeSlot, keeping) }
    }

    private func releaseWriteSlotIfDone(_ writeSlot: WriteSlot, _ keeping: Bool) {
        if waits.hasLockDeadline { waits.lockDeadline = nil }
        if !isClosed && handle.mainTransactionState == .writing { return }
        if keeping && writing.endsWithCommit && writing.logFrames >= writing.checkpointDueFrames && !isClosed { return }
        writeSlot.leave(label: writing.writeLabel)
        writing.writeLabel = nil
    }

    /// Releases the write slot and the slot in the table of holders for good, once the connection is closed.
    func closeWriteSlot() {
        guard let writeSlot = writing.writeSlot else { return }
        writeSlot.leave(label: writing.writeLabel)
        writeSlot.release()
    }

    /// Waits a short time for the write slot for a checkpoint, except during a suspension, which refuses it.
    func acquireWriteSlotForCheckpoint() {
        guard let writeSlot = writing.writeSlot, !writeSlot.isHeld, !gating.gate.isSuspended, !writeSlot.enterIfFree()
        else { return }
        _ = writeSlot.enter(within: Limits.checkpointSlotWait) { false }
    }

    // MARK: Errors

    func writeSlotError(_ failure: WriteSlot.Failure, _ writeSlot: WriteSlot, sql: String) -> any Error {
        switch failure {
        case .busy: lockedOut(writeSlot, sql: sql)
        case .interrupted where gating.gate.isWanted: DatabaseError.suspended(sql: sql)
        case .interrupted: stepError(.SQLITE_INTERRUPT, message: "interrupted", sql: sql)
        case .closed: DatabaseError.connectionIsClosed()
        }
    }

    /// The error of a write that did not acquire the write slot.
    func lockedOut(_ writeSlot: WriteSlot, sql: String) -> any Error {
        writeSlot.recordTimeout()
        let holder = writeSlot.otherHolder.map { holder in
            ": \(holder) is first in the writer queue" + (holder.writingFor.map { " for \(Self.seconds($0))" } ?? "")
        }
        return error(.SQLITE_BUSY, message: "database is locked" + (holder ?? ""), sql: sql)
    }

    /// SQLite's message for a lock that was not acquired, with its holder.
    func busyMessage(_ message: String?) -> String? {
        guard writing.writeSlot != nil, let message, let holders = try? StoreHolders(of: path),
            let holder = holders.first(where: { $0.uses.contains(.writeLock) })
        else { return message }
        return "\(message): \(holder) holds the write lock"
    }

    private static func seconds(_ duration: Duration) -> String {
        String(format: "%.1f s", duration / .seconds(1))
    }
}
