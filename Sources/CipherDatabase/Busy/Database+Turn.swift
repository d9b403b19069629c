import Foundation
import StorePlatform

/// How a connection waits for locks, as its busy mode says at the moment.
enum LockWait {
    case never
    case upTo(Duration)
    case asking(Database.BusyCallback)
}

// The turn of a connection, around its statements. Connections that do not write have none.
extension Database {
    /// Takes the turn before a statement that may write.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` that names who has the turn; `.SQLITE_INTERRUPT`, or
    ///   `CancellationError`, when the wait was ended.
    func enterTurn(_ turn: WriteTurn, for statement: Statement) throws {
        if !turn.isHeld {
            if statement.writesTemporaryTablesOnly || statement.asksForJournalMode { return }
            try enterTurn(turn, sql: statement.sql)
        }
        // A write is told by what it does, not by how its transaction begins.
        if turn.isHeld && !statement.effects.contains(.begin) { turn.note(statement.sql) }
    }

    /// Takes the turn, waiting for it as the busy mode says.
    func enterTurn(_ turn: WriteTurn, sql: @autoclosure () -> String) throws {
        if turn.isHeld { return }
        // Of an earlier wait, which may have been in vain.
        lockDeadline = nil
        if turn.enterIfFree() { return }
        switch handle.mainTransactionState {
        case .writing:
            // It has SQLite's lock already, by C code: whoever has the turn waits for that.
            return
        case .reading:
            // To wait would be in vain: after the next commit of another, what was read here is no longer the latest.
            if !turn.tryToEnter() { throw lockedOut(turn, sql: sql()) }
        case .none:
            try waitForTurn(turn, sql: sql())
        }
    }

    /// Takes the turn inside a bracketed call, which is left when that fails.
    func enterTurnInCall(sql: @autoclosure () -> String) throws {
        if let turn { try leavingCallOnError { try enterTurn(turn, sql: sql()) } }
    }

    /// Takes the turn for the first step of a statement, inside a bracketed call, which is left when that fails.
    func enterTurnInCall(for statement: Statement) throws {
        if let turn { try leavingCallOnError { try enterTurn(turn, for: statement) } }
    }

    private func leavingCallOnError(_ body: () throws -> Void) throws {
        do {
            try body()
        } catch {
            leaveCall()
            throw error
        }
    }

    private func waitForTurn(_ turn: WriteTurn, sql: @autoclosure () -> String) throws {
        switch lockWait {
        case .never:
            if !turn.tryToEnter() { throw lockedOut(turn, sql: sql()) }
        case .asking(let callback):
            let before = turn.interruptionCount
            var tries = 0
            while !turn.tryToEnter() {
                if gate.isWanted { throw DatabaseError.suspended(sql: sql()) }
                guard callback(tries) else { throw lockedOut(turn, sql: sql()) }
                if let failure = turn.interruption(since: before) { throw turnError(failure, turn, sql: sql()) }
                tries += 1
            }
        case .upTo(let limit):
            lockDeadline = .now + limit
            let failure = turn.enter(within: limit) { [cancellation, gate, watchedWait] in
                gate.isWanted || cancellation?.isSet ?? false || watchedWait?.isOver() ?? false
            }
            if let failure { throw turnError(failure, turn, sql: sql()) }
        }
    }

    /// Gives the turn back when no transaction needs it any more.
    ///
    /// - Parameter keeping: Whether a checkpoint that is due keeps it: it follows at once, in the same turn.
    @inline(__always)
    func leaveTurnIfDone(keepingForCheckpoint keeping: Bool = true) {
        if let turn, turn.isHeld { leaveTurnIfDone(turn, keeping) }
    }

    private func leaveTurnIfDone(_ turn: WriteTurn, _ keeping: Bool) {
        lockDeadline = nil
        if !isClosed && handle.mainTransactionState == .writing { return }
        if keeping && endsWithCommit && logFrames >= checkpointDueFrames && !isClosed { return }
        turn.leave(label: writeLabel)
        writeLabel = nil
    }

    /// Gives turn and slot back for good, once the connection is closed.
    func releaseTurn() {
        guard let turn else { return }
        turn.leave(label: writeLabel)
        turn.release()
    }

    /// Waits for the turn for a checkpoint, for a short time.
    func enterTurnForCheckpoint() {
        guard let turn, !turn.isHeld, !turn.enterIfFree() else { return }
        _ = turn.enter(within: Limits.checkpointTurnWait) { false }
    }

    // MARK: Errors

    private func turnError(_ failure: WriteTurn.Failure, _ turn: WriteTurn, sql: String) -> any Error {
        switch failure {
        case .busy: lockedOut(turn, sql: sql)
        case .interrupted where gate.isWanted: DatabaseError.suspended(sql: sql)
        case .interrupted: stepError(.SQLITE_INTERRUPT, message: "interrupted", sql: sql)
        case .closed: DatabaseError.connectionIsClosed()
        }
    }

    /// The error of a write that did not get the turn.
    private func lockedOut(_ turn: WriteTurn, sql: String) -> any Error {
        turn.recordTimeout()
        let holder = turn.otherHolder.map { holder in
            ": \(holder) has the turn to write" + (holder.writingFor.map { " for \(Self.seconds($0))" } ?? "")
        }
        return error(.SQLITE_BUSY, message: "database is locked" + (holder ?? ""), sql: sql)
    }

    /// SQLite's message for a lock that was not had, with who holds it.
    func busyMessage(_ message: String?) -> String? {
        guard turn != nil, let message, let holders = try? StoreHolders(of: path),
            let holder = holders.first(where: { $0.uses.contains(.writeLock) })
        else { return message }
        return "\(message): \(holder) holds the write lock"
    }

    private static func seconds(_ duration: Duration) -> String {
        String(format: "%.1f s", duration / .seconds(1))
    }
}
