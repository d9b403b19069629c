import Foundation
import StorePlatform

extension Database {
    /// Post it before the process is stopped or moves to the background: databases whose configuration has
    /// ``Configuration/observesSuspensionNotifications`` release their locks, and refuse calls that need one.
    ///
    /// Running statements throw `SQLITE_INTERRUPT` and an open transaction is rolled back. Every wait for a lock, a
    /// connection or the write turn throws `SQLITE_ABORT` "Database is suspended", and so does every later write. Reads
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

/// The effect of the next call into SQLite.
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
    var passesGate: Bool { isGated || gating.wasRolledBack }

    /// Begins a call into SQLite on a connection that writes, or is about to.
    ///
    /// - Returns: Whether the call may continue; false for the end of a transaction that a suspension has already
    ///   ended.
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension has rolled the transaction back or refuses the
    ///   call; `StoreError.storeMoved` when a write transaction would go to a file that has lost its path.
    @discardableResult
    @inline(__always)
    func enterCall(_ call: GatedCall, sql: @autoclosure () -> String = "") throws -> Bool {
        // The most frequent case first: the next statement of a transaction, without a suspension.
        if isGated && gating.callDepth == 0 && !gating.wasRolledBack
            && gating.gate.move(from: gating.gateRest, to: .calling)
        {
            gating.callDepth = 1
            hooks.hasWaited = false
            if gating.gate.isSuspended { try refuseIfNeeded(call, sql: sql()) }
            return true
        }
        return try enterCallSlowly(call, sql: sql())
    }

    private func enterCallSlowly(_ call: GatedCall, sql: @autoclosure () -> String) throws -> Bool {
        if gating.callDepth > 0 {
            gating.callDepth += 1
            return true
        }
        let begins = !isGated
        if !gating.gate.enter(from: begins ? .off : gating.gateRest) {
            noteRollback()
            return try tellOfRollback(call, sql())
        }
        isGated = true
        gating.callDepth = 1
        hooks.hasWaited = false
        if gating.wasRolledBack {
            leaveCall()
            return try tellOfRollback(call, sql())
        }
        if gating.gate.isSuspended { try refuseIfNeeded(call, sql: sql()) }
        if begins, gating.checksFile, case .write = call { try requireFileInPlace() }
        return true
    }

    /// Ends a call into SQLite.
    ///
    /// - Parameter isMidway: Whether a statement stays between rows, with whatever locks it has.
    /// - Returns: Whether a suspension came meanwhile, so that nothing is left of an open transaction.
    @discardableResult
    func leaveCall(isMidway: Bool = false) -> Bool {
        gating.callDepth -= 1
        if gating.callDepth > 0 { return false }
        // It was of the statement that has just been stepped: the next one waits as long as the busy mode allows.
        if waits.hasLockDeadline { waits.lockDeadline = nil }
        let isInTransaction = isMidway || !handle.isInAutocommit
        let rests = isInTransaction || gating.gateRest == .raw
        if !isInTransaction { releaseWriteTurnIfDone() }
        if gating.gate.move(from: .calling, to: rests ? gating.gateRest : .off) {
            isGated = rests
            return false
        }
        // A suspending thread waits for this moment. It is still kept out, so the rollback is done here.
        let isRolledBack = rollBackForSuspension()
        isGated = gating.gateRest == .raw
        gating.gate.waitIdle(at: isGated ? .raw : .off)
        return isRolledBack
    }

    /// Reports a rollback by a suspension to the first call after it.
    private func tellOfRollback(_ call: GatedCall, _ sql: String) throws -> Bool {
        gating.wasRolledBack = false
        if case .ending = call { return false }
        throw DatabaseError.suspended(sql: sql)
    }

    /// Runs a call that uses a statement's or the connection's own state, kept apart from a suspending thread.
    func gated<T>(_ body: () -> T) -> T {
        guard isGated, gating.callDepth == 0 else { return body() }
        if !gating.gate.enter(from: gating.gateRest) {
            noteRollback()
            gating.wasRolledBack = true
            return body()
        }
        gating.callDepth = 1
        defer { if leaveCall() { gating.wasRolledBack = true } }
        return body()
    }

    /// Called when the program reads SQLite's pointer: from here on its own calls may be under way at any moment.
    func noteRawUse() {
        guard gating.usesGate, gating.gateRest != .raw, isAccessedHere else { return }
        let old = gating.gateRest
        gating.gateRest = .raw
        if gating.callDepth > 0 { return }
        if !gating.gate.enter(from: isGated ? old : .off) {
            noteRollback()
            gating.wasRolledBack = true
        }
        isGated = true
        gating.gate.waitIdle(at: .raw)
    }

    /// Called at the end of an access: does what a suspension has left to do on this thread.
    func leaveGate() {
        gating.wasRolledBack = false
        let rest = gating.gateRest
        gating.gateRest = .idle
        guard isGated else { return }
        if isClosed {
            isGated = false
            gating.gate.waitIdle(at: .off)
        } else if gating.gate.enter(from: rest) {
            gating.callDepth = 1
            if gating.gate.isSuspended { rollBackForSuspension() }
            leaveCall()
        } else {
            noteRollback()
        }
    }

    /// Prepares the gate for the connection's lifetime: from here on a suspending thread can roll back.
    func armGate() {
        guard gating.usesGate else { return }
        let (_, rollback, _) = handle.prepare(ControlStatements.Kind.rollback.sql, persistent: true)
        hooks.effects = []
        gating.gate.arm(handle, rollback: rollback.map { StatementHandle($0) })
    }

    /// Checks whether reading acquires a lock for which writers wait: without WAL it does.
    func noteJournalMode() {
        guard !configuration.isImmutable else { return }
        let isWAL = handle.pragmaValue("PRAGMA journal_mode") == "wal"
        gating.gatesReads = gating.usesGate && configuration.observesSuspensionNotifications && !isWAL
        gating.wal = isWAL && gating.checksFile ? LiveWAL(database: path) : nil
        // The files of this moment are those that are open.
        _ = gating.wal?.fault(handle, always: true)
    }

    // MARK: Refusing

    private func refuseIfNeeded(_ call: GatedCall, sql: String) throws {
        switch call {
        case .ending: return
        case .read where !gating.gatesReads: return
        case .read, .write: break
        }
        rollBackForSuspension()
        leaveCall()
        let refusal = connectionKey.suspension.refusal
        throw refusal is DatabaseError ? DatabaseError.suspended(sql: sql) : refusal
    }

    /// Refuses a write transaction on a file that was replaced, or whose directory was replaced.
    // SQLite would continue in the old file, with a WAL that belongs to the new one.
    // https://www.sqlite.org/howtocorrupt.html
    private func requireFileInPlace() throws {
        do {
            if handle.hasMoved { throw StoreError.moved(path) }
            try requireWALInPlace()
        } catch {
            leaveCall()
            throw error
        }
    }

    /// Rolls an open transaction back, on the connection's own thread and inside a call.
    @discardableResult
    private func rollBackForSuspension() -> Bool {
        guard !handle.isInAutocommit, handle.isWriting || gating.gatesReads else { return false }
        if kept.controls.run(.rollback, on: handle, hooks) != .SQLITE_DONE {
            // An interruption lasts while any statement is between rows.
            handle.resetAllStatements()
            _ = kept.controls.run(.rollback, on: handle, hooks)
        }
        releaseWriteTurnIfDone()
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
    /// The path of a database names another file now.
    package static func moved(_ path: String) -> StoreError {
        StoreError(
            .storeMoved,
            what: "\"\(path)\" is not the file that is open.",
            why: "It was renamed, removed or replaced, or a directory on its path was.",
            remedy: "Close it and open it again; what was committed before is in the file that was open.")
    }
}
