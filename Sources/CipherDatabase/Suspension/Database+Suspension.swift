import Foundation
import StorePlatform

extension Database {
    /// Post it before the process is stopped or moves to the background: databases whose configuration has
    /// ``Configuration/observesSuspensionNotifications`` release their locks, and refuse calls that need one.
    ///
    /// Running statements throw `SQLITE_INTERRUPT` and an open transaction is rolled back. Every wait for a lock, a
    /// connection or the write slot throws `SQLITE_ABORT` "Database is suspended", and so does every later write. Reads
    /// continue in WAL mode, and are refused without. A database that is opened afterwards is suspended as well.
    public static var suspendNotification: Notification.Name {
        _ = SuspensionCenter.shared
        return SuspensionCenter.suspendName
    }

    /// Post it when the process continues: databases accept writes again.
    public static var resumeNotification: Notification.Name {
        _ = SuspensionCenter.shared
        return SuspensionCenter.resumeName
    }
}

/// What a call into SQLite is about to do.
enum GatedCall {
    /// It may acquire a lock that others wait for, so it is refused during a suspension.
    case write
    /// It reads: refused during a suspension where reading needs such a lock.
    case read
    /// It ends something, or touches no file: never refused.
    case ending

    var isWrite: Bool { if case .write = self { true } else { false } }
}

extension Database {
    // MARK: The connection's own thread

    /// Whether the next call passes the gate: the connection may hold locks, or has not reported a rollback yet.
    var passesGate: Bool { isGated || wasRolledBack }

    /// Begins a call into SQLite on a connection that writes, or is about to.
    ///
    /// - Returns: Whether the call may continue; false for the end of a transaction that a suspension has already
    ///   ended.
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension has rolled the transaction back or refuses the
    ///   call; `StoreError.storeMoved` when a write transaction would go to a file that is not at its path any more.
    @discardableResult
    @inline(__always)
    func enterCall(_ call: GatedCall, sql: @autoclosure () -> String = "") throws -> Bool {
        // The most frequent case first: the next statement of a transaction, without a suspension.
        if isGated && callDepth == 0 && !wasRolledBack && gate.move(from: gateRest, to: .calling) {
            callDepth = 1
            hooks.hasWaited = false
            if gate.isSuspended { try refuseIfNeeded(call, sql: sql()) }
            return true
        }
        return try enterCallSlowly(call, sql: sql())
    }

    private func enterCallSlowly(_ call: GatedCall, sql: @autoclosure () -> String) throws -> Bool {
        if callDepth > 0 {
            callDepth += 1
            return true
        }
        let begins = !isGated
        if !gate.enter(from: begins ? .off : gateRest) {
            noteRollback()
            return try tellOfRollback(call, sql())
        }
        isGated = true
        callDepth = 1
        hooks.hasWaited = false
        if wasRolledBack {
            leaveCall()
            return try tellOfRollback(call, sql())
        }
        if gate.isSuspended { try refuseIfNeeded(call, sql: sql()) }
        if begins, checksFile, case .write = call { try requireFileInPlace() }
        return true
    }

    /// Ends a call into SQLite.
    ///
    /// - Parameter isMidway: Whether a statement stays between rows, with whatever locks it has.
    /// - Returns: Whether a suspension came meanwhile, so that nothing is left of an open transaction.
    @discardableResult
    func leaveCall(isMidway: Bool = false) -> Bool {
        callDepth -= 1
        if callDepth > 0 { return false }
        // It was of the statement that has just been stepped: the next one waits as long as the busy mode allows.
        if hasLockDeadline { lockDeadline = nil }
        let isInTransaction = isMidway || !handle.isInAutocommit
        let rests = isInTransaction || gateRest == .raw
        if !isInTransaction { releaseWriteSlotIfDone() }
        if gate.move(from: .calling, to: rests ? gateRest : .off) {
            isGated = rests
            return false
        }
        // A suspending thread waits for this moment. It is still kept out, so the rollback is done here.
        let isRolledBack = rollBackForSuspension()
        isGated = gateRest == .raw
        gate.settle(at: isGated ? .raw : .off)
        return isRolledBack
    }

    /// Reports a rollback by a suspension to the first call after it.
    private func tellOfRollback(_ call: GatedCall, _ sql: String) throws -> Bool {
        wasRolledBack = false
        if case .ending = call { return false }
        throw DatabaseError.suspended(sql: sql)
    }

    /// Runs a call that uses a statement's or the connection's own state, kept apart from a suspending thread.
    func gated<T>(_ body: () -> T) -> T {
        guard isGated, callDepth == 0 else { return body() }
        if !gate.enter(from: gateRest) {
            noteRollback()
            wasRolledBack = true
            return body()
        }
        callDepth = 1
        defer { if leaveCall() { wasRolledBack = true } }
        return body()
    }

    /// Called when the program reads SQLite's pointer: from here on its own calls may be under way at any moment.
    func noteRawUse() {
        guard usesGate, gateRest != .raw, isAccessedHere else { return }
        let old = gateRest
        gateRest = .raw
        if callDepth > 0 { return }
        if !gate.enter(from: isGated ? old : .off) {
            noteRollback()
            wasRolledBack = true
        }
        isGated = true
        gate.settle(at: .raw)
    }

    /// Called at the end of an access: does what a suspension has left to do on this thread.
    func leaveGate() {
        wasRolledBack = false
        let rest = gateRest
        gateRest = .idle
        guard isGated else { return }
        if isClosed {
            isGated = false
            gate.settle(at: .off)
        } else if gate.enter(from: rest) {
            callDepth = 1
            if gate.isSuspended { rollBackForSuspension() }
            leaveCall()
        } else {
            noteRollback()
        }
    }

    /// Prepares the gate for the connection's lifetime: from here on a suspending thread can roll back.
    func armGate() {
        guard usesGate else { return }
        let (_, rollback, _) = handle.prepare(ControlStatements.Kind.rollback.sql, persistent: true)
        hooks.effects = []
        gate.arm(handle, rollback: rollback.map { StatementHandle($0) })
    }

    /// Checks whether reading acquires a lock for which writers wait: without WAL it does.
    func noteJournalMode() {
        gatesReads =
            usesGate && configuration.observesSuspensionNotifications && !configuration.isImmutable
            && handle.pragmaValue("PRAGMA journal_mode") != "wal"
    }

    // MARK: Refusing

    private func refuseIfNeeded(_ call: GatedCall, sql: String) throws {
        switch call {
        case .ending: return
        case .read where !gatesReads: return
        case .read, .write: break
        }
        rollBackForSuspension()
        leaveCall()
        let refusal = keying.suspension.refusal
        throw refusal is DatabaseError ? DatabaseError.suspended(sql: sql) : refusal
    }

    /// Refuses a write transaction on a file that was replaced, or whose directory was replaced.
    // SQLite would continue in the old file, with a WAL that belongs to the new one.
    // https://www.sqlite.org/howtocorrupt.html
    private func requireFileInPlace() throws {
        guard handle.hasMoved else { return }
        leaveCall()
        throw StoreError.moved(path)
    }

    /// Rolls an open transaction back, on the connection's own thread and inside a call.
    @discardableResult
    private func rollBackForSuspension() -> Bool {
        guard !handle.isInAutocommit, handle.isWriting || gatesReads else { return false }
        if controls.run(.rollback, on: handle, hooks) != .SQLITE_DONE {
            // An interruption lasts while any statement is between rows.
            handle.resetAllStatements()
            _ = controls.run(.rollback, on: handle, hooks)
        }
        releaseWriteSlotIfDone()
        noteRollback()
        return true
    }

    /// Records a rollback that no statement of this connection's thread requested.
    private func noteRollback() {
        isGated = false
        suspensionRollbacks &+= 1
        forgetTransaction()
        schemaCache.leaveTransaction(committing: false)
        pendingCallbacks.remove(.schema)
        if !pendingCallbacks.isDisjoint(with: .transactionEnd) {
            transaction.progress.sawRollback = true
            completeTransactionIfEnded()
        }
    }
}

extension StoreError {
    /// The path of a database does not name its file any more.
    package static func moved(_ path: String) -> StoreError {
        StoreError(
            .storeMoved,
            what: "\"\(path)\" is not the file that is open.",
            why: "It was renamed, removed or replaced, or a directory on its path was.",
            remedy: "Close it and open it again; what was committed before is in the file that was open.")
    }
}
