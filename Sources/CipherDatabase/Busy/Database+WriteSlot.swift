import Foundation
import StorePlatform
import StoreSharing

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
