import StorePlatform
import StoreSharing
import Synchronization

/// A connection to an SQLite database.
///
/// It is passed to the closure of an access (`read`, `write`, ...) and may be used only until that access ends, on the
/// thread that runs it. Every other use traps.
public final class Database {
    let handle: ConnectionHandle
    let hooks = ConnectionHooks()
    /// The path of the file; ":memory:" for a database in memory.
    let path: String
    /// The name of the connection, as in `CipherStore.DatabasePool.writer`.
    let label: String
    /// The configuration with which the connection was opened.
    public let configuration: Configuration
    /// Whether transactions take their dates from the system clock.
    let usesDefaultClock: Bool
    /// The keys of this connection: what was set, what was settled, and what SQL may still change.
    let connectionKey: ConnectionKey
    /// Finds pages that SQLCipher has refused.
    @usableFromInline let pageReads: PageReads
    var isClosed = false
    /// Why the connection cannot be used, or not for everything.
    let health = ConnectionHealth()
    /// The access under way.
    let access = AccessState()
    /// The compiled statements that are kept for the next time.
    let kept = KeptStatements()
    /// The transaction under way: its date, and the callbacks for its end.
    var transaction = TransactionTracker()
    /// The work when statements run and transactions end.
    var pendingCallbacks: PendingCallbacks = []
    /// How the connection waits for locks.
    let waits: LockWaits
    /// The write turn, and what follows a write.
    let writing = WritingState()
    /// The calls into SQLite, as a suspending thread sees them.
    let gating: GatedCalls
    /// Whether the connection may hold locks that others wait for now, so that each call passes the gate.
    // Unchecked, as those below: one thread at a time uses them, with each statement, and Swift's runtime would check
    // that each time.
    @exclusivity(unchecked) @usableFromInline var isGated = false
    /// The rollbacks by suspensions so far, so that no statement continues that was started before the last one.
    @exclusivity(unchecked) var suspensionRollbacks = 0
    /// The known facts about tables, views, indexes and triggers.
    @exclusivity(unchecked) var schemaCache = SchemaCache()
    /// Describes the schema beyond what SQLite knows; nil during migrations.
    public internal(set) var schemaSource: (any DatabaseSchemaSource)?
    /// The state of the features for this connection, and their moments.
    @exclusivity(unchecked) package var features = FeatureSlots()

    /// Whether statements may change the store's own tables, write the schema as rows, and write shadow tables.
    package var mayChangeStoreTables: Bool {
        get { hooks.mayChangeStoreTables }
        set {
            hooks.mayChangeStoreTables = newValue
            if connectionKey.isKeyed { handle.setDefensive(!newValue) }
        }
    }
    /// Whether the triggers of the history are being checked.
    var isInHistoryUpkeep: Bool {
        get { mayChangeStoreTables }
        set { mayChangeStoreTables = newValue }
    }
    /// The label of the write under way, for ``WriteStatistics`` and ``WriteEvent``; nil uses its first statement. It
    /// is reset when the write has ended.
    public var writeLabel: String? {
        get { writing.writeLabel }
        set { writing.writeLabel = newValue }
    }

    /// The pointer to the connection, for SQLite's C functions.
    ///
    /// The library does not see what C code does with it until the access ends: a suspension interrupts it, and refuses
    /// writes that are compiled afterwards, but rolls an open transaction back only at the library's next call.
    public var sqliteConnection: SQLiteConnection? {
        if isClosed { return nil }
        noteRawUse()
        return handle.pointer
    }

    /// Opens a file or a database in memory, without preparing it.
    init(path: String, label: String, configuration: Configuration, fileKey: FileKey, usesGate: Bool) throws {
        ForkWatch.begin()
        handle = try fileKey.opening.connect(
            path, readonly: configuration.readonly, hasOthers: fileKey.pageKey != nil)
        gating = GatedCalls(handle, usesGate: usesGate)
        pageReads = PageReads(handle)
        self.path = path
        self.label = label
        self.configuration = configuration
        waits = LockWaits(busyMode: configuration.busyMode)
        usesDefaultClock = configuration.transactionClock is DefaultTransactionClock
        schemaSource = configuration.schemaSource
        connectionKey = ConnectionKey(handle: handle, fileKey: fileKey, configuration: configuration)
        hooks.gate = gating.gate
        if usesGate { connectionKey.suspension.add(self) }
    }

    deinit { discard() }

    // MARK: State

    /// Whether a transaction is under way.
    public var isInsideTransaction: Bool { accessedHandle.map { !$0.isInAutocommit } ?? false }

    /// The row id of the last row that this connection inserted.
    public var lastInsertedRowID: Int64 { accessedHandle?.lastInsertedRowID ?? 0 }

    /// How many rows the last statement inserted, changed or deleted.
    public var changesCount: Int { accessedHandle?.changeCount ?? 0 }

    /// How many rows this connection inserted, changed or deleted since it was opened.
    public var totalChangesCount: Int { accessedHandle?.totalChangeCount ?? 0 }

    /// Bounds the length of each text, blob and row in bytes, as for a file that another person has made: a definition of a
    /// few bytes can compute values of a gigabyte (`SQLITE_TOOBIG`).
    package func limitLengths(toBytes limit: Int) { accessedHandle?.limitLengths(toBytes: limit) }

    /// The extended code of the last call to SQLite.
    public var lastErrorCode: ResultCode { accessedHandle?.lastExtendedCode ?? .SQLITE_MISUSE }

    /// SQLite's message for the last call.
    public var lastErrorMessage: String? { accessedHandle?.lastMessage }

    // Outside of its access the connection may be in use on another thread; inside, it may be closed.
    private var accessedHandle: ConnectionHandle? {
        requireAccess()
        return isClosed ? nil : handle
    }

    /// The error of a use of a closed connection.
    var closedError: any Error { health.openingFailure ?? DatabaseError.connectionIsClosed() }

    /// The most parameters that one statement may have.
    public var maximumStatementArgumentCount: Int { accessedHandle?.parameterLimit ?? 0 }

    /// Interrupts the statements under way: they throw `SQLITE_INTERRUPT`.
    public func interrupt() {
        if isClosed { return }
        handle.interrupt()
        writing.writeTurn?.interrupt()
    }

    // MARK: Accesses

    /// Marks the connection as used by this thread.
    func beginAccess() { access.thread.store(CurrentThread.id, ordering: .relaxed) }

    /// Marks the connection as free, after a check that no transaction is left open.
    func endAccess(allowsOpenTransaction: Bool) {
        if !pendingCallbacks.isEmpty { completeTransactionIfEnded() }
        writing.endsWithCommit = false
        if isGated || gating.wasRolledBack { leaveGate() } else { releaseWriteTurnIfDone(keepingForCheckpoint: false) }
        if !isClosed && !handle.isInAutocommit && !allowsOpenTransaction {
            ProgrammerError.trap(ProgrammerError.transactionLeftOpen)
        }
        kept.usedStatements.clear()
        access.thread.store(0, ordering: .relaxed)
    }

    /// Whether this thread is inside an access of the connection.
    var isAccessedHere: Bool { access.isOfThisThread }

    func requireAccess() {
        if !isAccessedHere && !health.wasReplaced { ProgrammerError.trap(ProgrammerError.wrongThread) }
    }

    /// Called before each statement runs.
    ///
    /// - Parameter needsWriteTurn: Whether it is stepped in the same call, for which it needs the write turn.
    /// - Returns: Whether the statement runs inside a bracketed call, which must be left after it.
    func willRun(_ statement: Statement, needsWriteTurn: Bool = true) throws -> Bool {
        requireAccess()
        if isClosed { throw closedError }
        if let cancellation = access.cancellation, cancellation.isSet { throw CancellationError() }
        if let read = access.watchedRead { read.note(statement.sql) }
        if access.withdrawal.isSet, let reason = access.withdrawal.reason { throw reason }
        let moments = features.moments.intersection(statement.moments)
        if !moments.isEmpty { try callFeatures(moments, before: statement) }
        if access.refusesWrites && !statement.isReadonly && !statement.asksForJournalMode {
            throw DatabaseError.readonly(sql: statement.sql)
        }
        // Both processes would commit, and one of them would overwrite the pages of the other.
        if !statement.isReadonly && ForkWatch.count != health.forkCount { throw DatabaseError.connectionOfParent() }
        if health.hasFailedToSync && !statement.isReadonly && !statement.asksForJournalMode {
            throw DatabaseError.syncFailed(sql: statement.sql)
        }
        if !passesGate {
            try requireExpectedTransaction(for: statement.sql)
            if statement.isReadonly ? !gating.gatesReads : !gating.usesGate { return false }
        }
        guard try enterCall(statement.call, sql: statement.sql) else {
            throw DatabaseError.suspended(sql: statement.sql)
        }
        do {
            try requireExpectedTransaction(for: statement.sql)
            if needsWriteTurn, !statement.isReadonly, let writeTurn = writing.writeTurn {
                try acquireWriteTurn(writeTurn, for: statement)
            }
        } catch {
            leaveCall()
            throw error
        }
        return true
    }

    // SQLite may have rolled back on its own; the rest of the block must not run outside of its transaction.
    func requireExpectedTransaction(for sql: @autoclosure () -> String) throws {
        if access.expectsTransaction && handle.isInAutocommit {
            throw DatabaseError(resultCode: .SQLITE_ABORT, message: "Transaction was aborted", sql: sql())
        }
    }

    /// Called after each statement that ran to its end.
    ///
    /// - Throws: The error of an observer that vetoes the commit of a transaction without changes.
    func didRun(_ statement: Statement) throws {
        if !statement.effects.isEmpty { note(statement.effects, savepoint: statement.savepoint) }
        if !pendingCallbacks.isDisjoint(with: .transactionEnd) {
            if !statement.isReadonly { observer?.statementDidEnd(statement, hasFailed: false, on: self) }
            try completeTransactionOrThrow()
        }
        if features.moments.contains(.didRun) { try callFeaturesAfterRun() }
    }

    /// Called after each statement that failed.
    func didFail(_ statement: Statement) {
        // The row of the author may be gone with the rest of what the statement did.
        hooks.history.stamp = 0
        if health.hasFailedToSync { rollbackIfNeeded() }
        defer { if features.moments.contains(.didFail) { callFeatures(didFail: statement) } }
        if pendingCallbacks.isEmpty { return }
        if transaction.isVetoed {
            transaction.isVetoed = false
            // After a RELEASE that was to commit, SQLite has rolled back and still counts a transaction.
            rollbackIfNeeded()
        }
        if !statement.isReadonly { observer?.statementDidEnd(statement, hasFailed: true, on: self) }
        if handle.isInAutocommit { forgetTransaction() }
        completeTransactionIfEnded()
    }

    // MARK: Errors

    /// The error of a failed call, with what is known beyond SQLite's code.
    func error(
        _ code: ResultCode, message: String? = nil, sql: String? = nil, arguments: StatementArguments? = nil
    ) -> any Error {
        // A refusal that C code ignored must not be taken for another error's reason.
        if let refusal = connectionKey.takeRefusal(), code.primaryResultCode == .SQLITE_AUTH { return refusal }
        if hooks.isDeniedBySuspension {
            hooks.isDeniedBySuspension = false
            if code.primaryResultCode == .SQLITE_AUTH { return DatabaseError.suspended(sql: sql) }
        }
        if code == .SQLITE_CONSTRAINT_COMMITHOOK, let veto = transaction.veto.take() {
            transaction.isVetoed = true
            return veto
        }
        if code.primaryResultCode == .SQLITE_INTERRUPT {
            if let cancellation = access.cancellation, cancellation.isSet { return CancellationError() }
            if let reason = access.withdrawal.reason { return reason }
        }
        if code.isFailedSync { didFailToSync() }
        if code.mayMeanUnusable { health.mayBeUnusable = connectionKey.isKeyed }
        if code.mayBeFailedRead, let failure = failedRead(sql, arguments) { return failure }
        // A write that has failed leaves its error number too, which a later read has nothing to do with.
        if code.primaryResultCode == .SQLITE_IOERR { _ = handle.takeReadFailure() }
        var message = message ?? handle.lastMessage
        if let failure = hooks.takeTokenizerFailure(), failure.resultCode == code.primaryResultCode {
            message = failure.message ?? message
        }
        return DatabaseError(
            resultCode: code, message: message, sql: sql, arguments: arguments,
            publicStatementArguments: configuration.publicStatementArguments
        ).causedBySystem(handle.lastSystemErrorNumber)
    }

    /// The error of a failed step.
    ///
    /// - Parameter isSuspended: Whether a suspension came while the step ran.
    func stepError(
        _ code: ResultCode, message: String? = nil, sql: String, arguments: StatementArguments? = nil,
        isSuspended: Bool = false
    ) -> any Error {
        // `integrity_check` reports a page that it cannot get as a general error.
        if code.primaryResultCode == .SQLITE_ERROR, let failure = failedRead(sql, arguments) { return failure }
        // The suspension ended the wait for a lock, not the wait's own limit.
        let hasWaited = hooks.hasWaited
        hooks.hasWaited = false
        let isWait =
            code.primaryResultCode == .SQLITE_BUSY || (code.primaryResultCode == .SQLITE_INTERRUPT && hasWaited)
        if isSuspended && isWait { return DatabaseError.suspended(sql: sql) }
        // An interruption ends the wait for a lock, and SQLite then reports the lock.
        if code.primaryResultCode == .SQLITE_BUSY && handle.isInterrupted {
            return error(.SQLITE_INTERRUPT, message: "interrupted", sql: sql, arguments: arguments)
        }
        if code == .SQLITE_BUSY {
            return error(code, message: busyMessage(message ?? handle.lastMessage), sql: sql, arguments: arguments)
        }
        return error(code, message: message, sql: sql, arguments: arguments)
    }

    func check(_ code: ResultCode, sql: String? = nil) throws {
        guard code == .SQLITE_OK else { throw error(code, sql: sql) }
    }

    // MARK: Closing

    /// Closes the connection.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` while its statements are alive; the connection stays open then.
    func close() throws {
        if isClosed || abandonAfterFork() { return }
        let observers = features[StatementWatch.key]?.keeper ?? ObserverKeeper()
        finalizeOwnStatements()
        gating.gate.disarm()
        decideClosingCheckpoint()
        let code = handle.closeStrictly()
        guard code == .SQLITE_OK else {
            armGate()
            adoptObserver(of: observers)
            throw error(code, message: "unable to close: a statement is still in use")
        }
        isClosed = true
        if !writing.keepsWriteTurn { observers.observer = nil }
        if writing.keepsWriteTurn { writing.writeTurn?.leave(label: writeLabel) } else { closeWriteTurn() }
        if gating.usesGate { connectionKey.suspension.remove(gating.gate) }
    }

    /// Discards the connection. Statements of the user that are still alive keep it open until they are gone.
    func discard() {
        if isClosed || abandonAfterFork() { return }
        // Ends a retain cycle: cached statements keep their connection, which would keep the locks of the file.
        finalizeOwnStatements()
        gating.gate.disarm()
        decideClosingCheckpoint()
        handle.close()
        isClosed = true
        if writing.keepsWriteTurn { writing.writeTurn?.leave(label: writeLabel) } else { closeWriteTurn() }
        if gating.usesGate { connectionKey.suspension.remove(gating.gate) }
    }

    /// Discards the connection without closing it in a process that was forked: the parent continues to use its file.
    @discardableResult
    func abandonAfterFork() -> Bool {
        guard ForkWatch.count != health.forkCount else { return false }
        health.openingFailure = DatabaseError.connectionOfParent()
        isClosed = true
        return true
    }

    private func finalizeOwnStatements() {
        // Closing rolls back; no code waits for that now.
        handle.installTransactionHooks(nil)
        handle.installUpdateHook(nil)
        callFeaturesBeforeClose()
        transaction = TransactionTracker()
        pendingCallbacks.subtract(.transactionEnd)
        kept.removeAll()
        kept.controls.finalizeAll()
        pageReads.end()
    }

    /// Releases memory that SQLite keeps for speed.
    public func releaseMemory() {
        if isClosed { return }
        kept.usedStatements.clear()
        clearSchemaCache()
        accessedHandle?.releaseMemory()
    }
}

extension Database: CustomStringConvertible {
    /// The name of the connection, as in `CipherStore.DatabasePool.reader.1`.
    public var description: String { label }
}

extension Database: CustomDebugStringConvertible {
    /// The name of the connection, as ``description``: no path, no key, no value.
    public var debugDescription: String { "<Database: \(label)>" }
}
