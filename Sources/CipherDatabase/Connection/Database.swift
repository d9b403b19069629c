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
    /// The busy mode in force: that of the configuration, unless a `PRAGMA busy_timeout` has changed it.
    var busyMode: BusyMode
    /// The keys of this connection: what was set, what was settled, and what SQL may still change.
    let keying: ConnectionKeying
    /// The length of the WAL, in frames, after the last commit of this connection.
    var logFrames = 0
    var isClosed = false
    /// Why a placeholder's connection was not opened.
    var openingFailure: (any Error)?
    /// Whether another connection was opened in the place of this one.
    var wasReplaced = false
    /// Copies the WAL of a writing connection into its file.
    var checkpointer: Checkpointer?
    /// Statements of ``cachedStatement(sql:)``.
    // Unchecked, as the next two: one thread at a time uses them, and Swift's runtime would check that each time.
    @exclusivity(unchecked) var statementCache = StatementCache()
    /// Statements of fetches from SQL text.
    @exclusivity(unchecked) var fetchCache = StatementCache()
    /// Statements of ``execute(sql:arguments:)`` that write rows and have parameters.
    @exclusivity(unchecked) var executionCache = StatementCache()
    /// The kept statements that have arguments or rows of the current access.
    let usedStatements = UsedStatements()
    @exclusivity(unchecked) var controls = ControlStatements()
    /// What the layer of records keeps for this connection: its statements and plans.
    @exclusivity(unchecked) package var recordStorage: AnyObject?
    /// What the layer of changeset sync keeps for this connection: what a commit under way has touched.
    @exclusivity(unchecked) package var syncStorage: (any SyncStorage)?
    /// Whether the access under way refuses statements that write.
    var refusesWrites = false
    /// Whether an fsync has failed: nothing is written any more then.
    var hasFailedToSync = false
    /// Whether an error came after which SQLite may read no further page of the file with this connection.
    @exclusivity(unchecked) var mayBeUnusable = false
    /// Whether a block of the library's own has begun a transaction that it still must end.
    var expectsTransaction = false
    /// Whether foreign keys act outside of the block under way that suspends them and the triggers; nil outside of one.
    var suspendedForeignKeys: Bool?
    /// Whether the task of the access was cancelled.
    var cancellation: CancellationFlag?
    var tracer: ((TraceEvent) -> Void)?
    /// The transaction under way: its date, and the callbacks for its end.
    var transaction = TransactionTracker()
    /// What must be handled when statements run and transactions end.
    var pendingCallbacks: PendingCallbacks = []
    /// Keeps the observer when the connection is replaced by another one.
    var observerKeeper = ObserverKeeper()
    /// Stamps the rows of the history, once it has been asked to.
    var historyStamping: HistoryStamping?
    /// Whether the schema has changed since the triggers of the history were last checked.
    @exclusivity(unchecked) var needsHistoryUpkeep = false
    /// Whether rows may have other rowids since then.
    var hasVacuumed = false
    /// Finds new tables that hide others: SQLite does not compile the statements again that read a hidden table.
    @exclusivity(unchecked) var hiddenTables = HiddenTables()
    /// Keeps full-text tables the same as their content.
    var fullText = FullTextUpkeep()
    /// How many changes one part of a purge of the history has.
    var historyPurgeCount = Int64(Limits.historyPurgeInterval)
    /// Whether statements may change the store's own tables, write the schema as rows, and write shadow tables.
    package var mayChangeStoreTables: Bool {
        get { hooks.mayChangeStoreTables }
        set {
            hooks.mayChangeStoreTables = newValue
            if keying.isKeyed { handle.setDefensive(!newValue) }
        }
    }
    /// Whether the triggers of the history are being checked.
    var isInHistoryUpkeep: Bool {
        get { mayChangeStoreTables }
        set { mayChangeStoreTables = newValue }
    }
    /// Whether statements are reported as they start: to the observer, or to the recording of what an access reads.
    @exclusivity(unchecked) var watchesStatements = false
    /// What the access has read since the recording began; nil while nothing is recorded.
    @exclusivity(unchecked) var recordedReads: RecordedReads?
    var observableReads: ObservableReads?
    /// Whether transactions take their dates from the system clock.
    let usesDefaultClock: Bool
    /// What is known of tables, views, indexes and triggers.
    // Unchecked, as those above: asked for with each record, by the one thread of the access.
    @exclusivity(unchecked) var schemaCache = SchemaCache()
    /// Describes the schema beyond what SQLite knows; nil during migrations.
    public internal(set) var schemaSource: (any DatabaseSchemaSource)?
    /// The write slot; nil for connections that do not write a store's file.
    @exclusivity(unchecked) var writeSlot: WriteSlot?
    /// Whether the write slot outlives the connection, for the one that is opened in its place.
    var keepsWriteSlot = false
    /// How the connection waits for locks at the moment.
    var lockWait = LockWait.never
    /// Until when the statement under way may wait for SQLite's locks, after it has waited for the write slot.
    @exclusivity(unchecked) var lockDeadline: ContinuousClock.Instant? {
        didSet { hasLockDeadline = lockDeadline != nil }
    }
    /// Whether there is one. Comparing the time itself with nil takes 200 instructions: its size is known at run time.
    @exclusivity(unchecked) private(set) var hasLockDeadline = false
    /// Whether the transaction that begins must not wait for locks; a thread of tasks runs it.
    @exclusivity(unchecked) var refusesToWait = false
    /// What ends a wait for the write lock early, and reports one that is long.
    @exclusivity(unchecked) var watchedWait: WatchedLockWait?
    /// Whether what is written at the moment concerns no observer of other processes.
    @exclusivity(unchecked) var isQuiet = false
    /// Whether the access under way ends with its transaction.
    @exclusivity(unchecked) var endsWithCommit = false
    /// The length of the WAL, in frames, at which a checkpoint follows a commit.
    @exclusivity(unchecked) var checkpointDueFrames = Int.max
    /// The label of the write under way, for ``WriteStatistics`` and ``WriteEvent``; nil uses its first statement. It
    /// is reset when the write has ended.
    @exclusivity(unchecked) public var writeLabel: String?
    /// Why the access under way must end, as another thread has set it.
    let withdrawal = AccessWithdrawal()
    /// The thread of the access under way; 0 between accesses.
    let accessThread = Atomic<UInt>(0)

    // MARK: Suspension

    /// Keeps a suspending thread out of calls into SQLite.
    let gate: ConnectionGate
    /// Whether the connection may hold locks that other processes wait for.
    let usesGate: Bool
    /// Whether reading takes such locks: without WAL it does.
    // Unchecked, as the next ones: one thread at a time uses them, with each statement.
    @exclusivity(unchecked) var gatesReads = false
    /// Whether the connection may hold such locks now, so that each call passes the gate.
    @exclusivity(unchecked) @usableFromInline var isGated = false
    /// Calls into SQLite, one inside the other.
    @exclusivity(unchecked) var callDepth = 0
    /// Where the gate rests between calls: `raw` once the program has SQLite's pointer.
    @exclusivity(unchecked) var gateRest = ConnectionGate.Position.idle
    /// Whether a suspension has rolled back and no call has reported it yet.
    @exclusivity(unchecked) var wasRolledBack = false
    /// The rollbacks by suspensions so far, so that no statement continues that was started before the last one.
    @exclusivity(unchecked) var suspensionRollbacks = 0
    /// Identifies the process that opened the connection, by the number of forks before.
    let forkCount = ForkWatch.count
    /// Whether the file must still be at its path when a write transaction begins.
    @exclusivity(unchecked) var checksFile = false

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
    init(path: String, label: String, configuration: Configuration, keyring: Keyring, usesGate: Bool) throws {
        ForkWatch.begin()
        handle = try keyring.opening.connect(
            path, readonly: configuration.readonly, hasOthers: keyring.pageKey != nil)
        gate = ConnectionGate(handle)
        self.usesGate = usesGate
        self.path = path
        self.label = label
        self.configuration = configuration
        busyMode = configuration.busyMode
        usesDefaultClock = configuration.transactionClock is DefaultTransactionClock
        schemaSource = configuration.schemaSource
        keying = ConnectionKeying(handle: handle, keyring: keyring, configuration: configuration)
        hooks.gate = gate
        if usesGate { keying.suspension.add(self) }
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
    var closedError: any Error { openingFailure ?? DatabaseError.connectionIsClosed() }

    /// The most parameters that one statement may have.
    public var maximumStatementArgumentCount: Int { accessedHandle?.parameterLimit ?? 0 }

    /// Interrupts the statements under way: they throw `SQLITE_INTERRUPT`.
    public func interrupt() {
        if isClosed { return }
        handle.interrupt()
        writeSlot?.interrupt()
    }

    // MARK: Accesses

    /// Marks the connection as used by this thread.
    func beginAccess() { accessThread.store(CurrentThread.id, ordering: .relaxed) }

    /// Marks the connection as free, after a check that no transaction is left open.
    func endAccess(allowsOpenTransaction: Bool) {
        if !pendingCallbacks.isEmpty { completeTransactionIfEnded() }
        endsWithCommit = false
        if isGated || wasRolledBack { leaveGate() } else { releaseWriteSlotIfDone(keepingForCheckpoint: false) }
        if !isClosed && !handle.isInAutocommit && !allowsOpenTransaction {
            ProgrammerError.trap(ProgrammerError.transactionLeftOpen)
        }
        usedStatements.clear()
        accessThread.store(0, ordering: .relaxed)
    }

    /// Whether this thread is inside an access of the connection.
    var isAccessedHere: Bool { accessThread.load(ordering: .relaxed) == CurrentThread.id }

    func requireAccess() {
        if !isAccessedHere && !wasReplaced { ProgrammerError.trap(ProgrammerError.wrongThread) }
    }

    /// Called before each statement runs.
    ///
    /// - Parameter needsWriteSlot: Whether it is stepped in the same call, for which it needs the write slot.
    /// - Returns: Whether the statement runs inside a bracketed call, which must be left after it.
    func willRun(_ statement: Statement, needsWriteSlot: Bool = true) throws -> Bool {
        requireAccess()
        if isClosed { throw closedError }
        if let cancellation, cancellation.isSet { throw CancellationError() }
        if withdrawal.isSet, let reason = withdrawal.reason { throw reason }
        if hiddenTables.mayBeElsewhere && !statement.effects.contains(.transaction) { try HiddenTables.compare(self) }
        if statement.effects.contains(.storedSchema) { try willChangeSchema(statement) }
        if statement.effects.contains(.vacuum) { try willVacuum() }
        if watchesStatements { willRunWatched(statement) }
        if refusesWrites && !statement.isReadonly && !statement.asksForJournalMode {
            throw DatabaseError.readonly(sql: statement.sql)
        }
        if hasFailedToSync && !statement.isReadonly && !statement.asksForJournalMode {
            throw DatabaseError.syncFailed(sql: statement.sql)
        }
        if !passesGate {
            try requireExpectedTransaction(for: statement.sql)
            if statement.isReadonly ? !gatesReads : !usesGate { return false }
        }
        guard try enterCall(statement.call, sql: statement.sql) else {
            throw DatabaseError.suspended(sql: statement.sql)
        }
        do {
            try requireExpectedTransaction(for: statement.sql)
            if needsWriteSlot, !statement.isReadonly, let writeSlot { try acquireWriteSlot(writeSlot, for: statement) }
        } catch {
            leaveCall()
            throw error
        }
        return true
    }

    // SQLite may have rolled back on its own; the rest of the block must not run outside of its transaction.
    func requireExpectedTransaction(for sql: @autoclosure () -> String) throws {
        if expectsTransaction && handle.isInAutocommit {
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
        if needsHistoryUpkeep { try keepHistory() }
    }

    /// Called after each statement that failed.
    func didFail(_ statement: Statement) {
        // The row of the author may be gone with the rest of what the statement did.
        hooks.historyStamp = 0
        if hasFailedToSync { rollbackIfNeeded() }
        defer {
            // What is missing now is found when the database is opened again.
            if statement.effects.contains(.storedSchema) { try? keepHistory() }
        }
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
        if let refusal = keying.takeRefusal(), code.primaryResultCode == .SQLITE_AUTH { return refusal }
        if code == .SQLITE_CONSTRAINT_COMMITHOOK, let veto = transaction.veto.take() {
            transaction.isVetoed = true
            return veto
        }
        if code.primaryResultCode == .SQLITE_INTERRUPT {
            if let cancellation, cancellation.isSet { return CancellationError() }
            if let reason = withdrawal.reason { return reason }
        }
        if code.isFailedSync { didFailToSync() }
        if code.mayMeanUnusable { mayBeUnusable = keying.isKeyed }
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
        let observers = observerKeeper
        finalizeOwnStatements()
        gate.disarm()
        let code = handle.closeStrictly()
        guard code == .SQLITE_OK else {
            armGate()
            adoptObserver(of: observers)
            throw error(code, message: "unable to close: a statement is still in use")
        }
        isClosed = true
        if !keepsWriteSlot { observers.observer = nil }
        if keepsWriteSlot { writeSlot?.leave(label: writeLabel) } else { closeWriteSlot() }
        if usesGate { keying.suspension.remove(gate) }
    }

    /// Discards the connection. Statements of the user that are still alive keep it open until they are gone.
    func discard() {
        if isClosed || abandonAfterFork() { return }
        // Cached statements hold their connection: together they would stay forever, and with them the file's locks.
        finalizeOwnStatements()
        gate.disarm()
        handle.close()
        isClosed = true
        if keepsWriteSlot { writeSlot?.leave(label: writeLabel) } else { closeWriteSlot() }
        if usesGate { keying.suspension.remove(gate) }
    }

    /// Discards the connection without closing it in a process that was forked: the parent continues to use its file.
    @discardableResult
    func abandonAfterFork() -> Bool {
        guard ForkWatch.count != forkCount else { return false }
        openingFailure = DatabaseError.connectionOfParent()
        isClosed = true
        return true
    }

    private func finalizeOwnStatements() {
        // Closing rolls back; no code waits for that any more.
        handle.installTransactionHooks(nil)
        handle.installUpdateHook(nil)
        endHistoryStamping()
        transaction = TransactionTracker()
        pendingCallbacks.subtract(.transactionEnd)
        observerKeeper = ObserverKeeper()
        watchesStatements = false
        statementCache.removeAll()
        fetchCache.removeAll()
        executionCache.removeAll()
        recordStorage = nil
        syncStorage = nil
        controls.finalizeAll()
    }

    /// Releases memory that SQLite keeps for speed.
    public func releaseMemory() {
        if isClosed { return }
        usedStatements.clear()
        clearSchemaCache()
        accessedHandle?.releaseMemory()
    }
}

extension Database: CustomStringConvertible {
    /// The name of the connection, as in `CipherStore.DatabasePool.reader.1`.
    public var description: String { label }
}
