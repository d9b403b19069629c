import StorePlatform

extension Database {
    /// When a transaction acquires its locks.
    /// - SeeAlso: <https://www.sqlite.org/lang_transaction.html>
    public enum TransactionKind: Sendable {
        /// At its first statements: a read lock, then a write lock.
        case deferred
        /// The write lock at once, so that the transaction cannot fail to get it later.
        case immediate
        /// As immediate; in journal modes other than WAL, readers wait too.
        case exclusive
    }

    /// How a transaction ends.
    public enum TransactionCompletion: Sendable {
        case commit
        case rollback
    }

    // MARK: Blocks

    /// Runs a block in a transaction. An error rolls it back.
    ///
    /// - Parameters:
    ///   - kind: When locks are acquired; nil uses ``Configuration/defaultTransactionKind``.
    ///   - block: Returns whether to commit.
    /// - Throws: The block's error, or ``DatabaseError`` of the transaction itself.
    public func inTransaction(_ kind: TransactionKind? = nil, _ block: () throws -> TransactionCompletion) throws {
        try beginTransaction(kind)
        let outer = access.expectsTransaction
        access.expectsTransaction = true
        defer { access.expectsTransaction = outer }
        do {
            switch try block() {
            case .commit: try commitChecked()
            case .rollback: try rollback()
            }
        } catch {
            rollbackIfNeeded()
            throw error
        }
    }

    /// Runs a block in a deferred transaction unless one is under way, so that all its reads see one snapshot.
    ///
    /// - Parameter readOnly: Whether statements of the block that write throw `SQLITE_READONLY`.
    public func isolated<T>(readOnly: Bool = false, _ block: () throws -> T) throws -> T {
        if readOnly { return try self.readOnly { try isolated(block) } }
        if isInsideTransaction { return try block() }
        var result: T?
        try inTransaction(.deferred) {
            result = try block()
            return .commit
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }

    /// Runs a block in a savepoint, in a transaction where none is under way. An error rolls back to the savepoint.
    ///
    /// - SeeAlso: <https://www.sqlite.org/lang_savepoint.html>
    public func inSavepoint(_ block: () throws -> TransactionCompletion) throws {
        guard isInsideTransaction else { return try inTransaction(nil, block) }
        // GRDB's name: it appears in traces, and programs compare those.
        let name = "grdb"
        try execute(sql: "SAVEPOINT \(name)")
        let outer = access.expectsTransaction
        access.expectsTransaction = true
        defer { access.expectsTransaction = outer }
        do {
            if try block() == .rollback { try execute(sql: "ROLLBACK TRANSACTION TO SAVEPOINT \(name)") }
            try execute(sql: "RELEASE SAVEPOINT \(name)")
        } catch {
            undoSavepoint(name)
            throw error
        }
    }

    /// Rolls back a savepoint that failed. If that is impossible, the whole transaction is rolled back, so that nothing
    /// of the failed block is ever committed.
    private func undoSavepoint(_ name: String) {
        access.expectsTransaction = false
        let isUndone = evenWhenInterrupted {
            // After an error of SQLite the whole transaction may already be rolled back.
            guard isInsideTransaction else { return }
            try execute(sql: "ROLLBACK TRANSACTION TO SAVEPOINT \(name)")
            try execute(sql: "RELEASE SAVEPOINT \(name)")
        }
        if !isUndone { rollbackIfNeeded() }
    }

    /// Runs a block in which statements that write throw `SQLITE_READONLY`.
    public func readOnly<T>(_ block: () throws -> T) rethrows -> T {
        let outer = access.refusesWrites
        access.refusesWrites = true
        defer { access.refusesWrites = outer }
        return try block()
    }

    // MARK: Without a block

    /// Begins a transaction.
    ///
    /// - Parameter kind: When locks are acquired; nil uses ``Configuration/defaultTransactionKind``, and deferred on
    ///   read-only connections.
    public func beginTransaction(_ kind: TransactionKind? = nil) throws {
        switch kind
            ?? (configuration.readonly || access.refusesWrites ? .deferred : configuration.defaultTransactionKind)
        {
        case .deferred: try run(.beginDeferred)
        case .immediate: try run(.beginImmediate)
        case .exclusive: try run(.beginExclusive)
        }
    }

    /// Commits the transaction.
    public func commit() throws { try run(.commit) }

    /// Rolls the transaction back. Does nothing when SQLite has done so already.
    public func rollback() throws {
        if isInsideTransaction { try run(.rollback) }
    }

    /// Commits, unless the task was cancelled or the transaction is gone.
    private func commitChecked() throws {
        if let cancellation = access.cancellation, cancellation.isSet { throw CancellationError() }
        if !passesGate { try requireExpectedTransaction(for: ControlStatements.Kind.commit.sql) }
        try run(.commit)
    }

    /// Ends a transaction that only read. Its results count, even when the task was cancelled since.
    func endReading() {
        guard !handle.isInAutocommit else { return }
        let isEnded = evenWhenInterrupted { try run(.commit) }
        if !isEnded { rollbackIfNeeded() }
    }

    /// Rolls back a transaction that is still open.
    func rollbackIfNeeded() {
        guard !isClosed, isInsideTransaction else { return }
        _ = evenWhenInterrupted { try run(.rollback) }
    }

    /// Runs statements that end a transaction, despite an earlier cancellation or interruption.
    ///
    /// - Returns: Whether they have run.
    func evenWhenInterrupted(_ body: () throws -> Void) -> Bool {
        uncancelled {
            if (try? body()) != nil { return true }
            // An interruption lasts while any statement is between rows, such as one whose cursor still lives.
            gated { handle.resetAllStatements() }
            return (try? body()) != nil
        }
    }

    /// Runs statements that a cancellation of the access does not end, neither an earlier nor a later one.
    func uncancelled<T>(_ body: () throws -> T) rethrows -> T {
        guard let cancelled = access.cancellation else { return try body() }
        access.cancellation = nil
        defer { access.cancellation = cancelled }
        return try cancelled.shielding(body)
    }

    /// Runs a statement that begins or ends a transaction; it is compiled once for the connection.
    func run(_ control: ControlStatements.Kind) throws {
        requireAccess()
        if isClosed { throw closedError }
        if let cancellation = access.cancellation, cancellation.isSet { throw CancellationError() }
        if control.isBegin && !passesGate { try requireExpectedTransaction(for: control.sql) }
        if control.takesWriteLock {
            if access.refusesWrites { throw DatabaseError.readonly(sql: control.sql) }
            if health.hasFailedToSync { throw DatabaseError.syncFailed(sql: control.sql) }
        }
        try connectionKey.willCompile(control.sql, on: self)
        guard passesGate || gating.gatesReads || (gating.usesGate && control.call.isWrite) else {
            return try finish(control, step(control), isSuspended: false)
        }
        guard try enterCall(control.call, sql: control.sql) else {
            // A suspension has already rolled the transaction back.
            if control == .rollback { return try didRun(control, succeeded: true) }
            throw DatabaseError.suspended(sql: control.sql)
        }
        if control.takesWriteLock { try acquireWriteTurnInCall(sql: control.sql) }
        let code = step(control)
        let isWanted = gating.gate.isWanted
        let isUndone = leaveCall()
        try finish(control, code, isSuspended: isWanted || isUndone)
        if isUndone && control != .rollback { throw DatabaseError.suspended(sql: control.sql) }
    }

    private func step(_ control: ControlStatements.Kind) -> ResultCode {
        if control == .commit { CrashPoint.reach(.commitBegun) }
        let code = kept.controls.run(control, on: handle, hooks)
        // The transaction sees this version until it ends: nothing but its own statements changes it there.
        schemaCache.versionOfView = control == .view ? kept.controls.viewedVersion : nil
        if control == .commit && code == .SQLITE_DONE { CrashPoint.reach(.commitDone) }
        return code
    }

    private func finish(_ control: ControlStatements.Kind, _ code: ResultCode, isSuspended: Bool) throws {
        let failure = code == .SQLITE_DONE ? nil : stepError(code, sql: control.sql, isSuspended: isSuspended)
        do {
            try didRun(control, succeeded: failure == nil)
        } catch {
            throw failure ?? error
        }
        guard let failure else { return }
        if health.hasFailedToSync && control != .rollback { rollbackIfNeeded() }
        throw failure
    }

    /// Handles what depends on a transaction that began or ended.
    ///
    /// - Throws: The error of an observer that vetoes the commit of a transaction without changes.
    private func didRun(_ control: ControlStatements.Kind, succeeded: Bool) throws {
        // The effects of these statements are known here; they must not be taken for another statement's.
        if !hooks.effects.isEmpty { hooks.effects = [] }
        // The system clock is read only where the transaction means to write: most reads never use a date.
        let dates = control.isBegin && (!usesDefaultClock || control != .beginDeferred)
        // Nearly every read returns here: each check below costs as much as a tenth of its transaction.
        if pendingCallbacks.isEmpty && !dates { return }
        if pendingCallbacks.contains(.schema) {
            schemaCache.leaveTransaction(committing: control == .commit && succeeded)
        }
        if control.isBegin ? succeeded : handle.isInAutocommit {
            forgetTransaction()
            pendingCallbacks.remove(.schema)
        }
        if control.isBegin && succeeded { didBeginTransaction(dates: dates) }
        try completeTransactionOrThrow()
    }
}

// The transactions around an access.

extension Database {
    /// Runs a read in a deferred transaction, so that it sees one snapshot.
    ///
    /// - Parameter beginsNow: Whether the snapshot is taken at the beginning of the transaction; otherwise by its first
    ///   statement.
    func inReadTransaction<T>(beginsNow: Bool = false, _ body: (Database) throws -> T) throws -> T {
        try run(.beginDeferred)
        let outer = access.expectsTransaction
        access.expectsTransaction = true
        defer { access.expectsTransaction = outer }
        let result: T
        do {
            if beginsNow { try run(.view) }
            result = try body(self)
        } catch {
            rollbackIfNeeded()
            throw error
        }
        endReading()
        return result
    }

    /// Runs a read of the last commit, on the writing connection itself.
    func readOnlyConcurrently(_ value: (Result<Database, any Error>) -> Void) throws {
        requireNoTransaction()
        try readOnly { try inReadTransaction { value(.success($0)) } }
    }

    /// Traps inside a transaction, whose changes a concurrent read or a snapshot could not see.
    func requireNoTransaction() {
        if isInsideTransaction {
            ProgrammerError.trap("a concurrent read or a snapshot must begin outside of a transaction")
        }
    }

    /// Runs a write in a transaction of the default kind.
    func inWriteTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        // The access ends with this transaction.
        writing.endsWithCommit = true
        var result: T?
        try inTransaction(nil) {
            result = try body(self)
            return .commit
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }
}

extension Database {
    /// Runs a write in a transaction that acquires its lock as it begins, and that waits for nothing before it begins.
    ///
    /// - Throws: ``BeginWouldWait`` when it would have to; `body` has not run then.
    func inWriteTransactionWithoutWaiting<T>(_ body: (Database) throws -> T) throws -> T {
        // Without WAL the commit waits for readers.
        if gating.gatesReads { throw BeginWouldWait() }
        waits.refusesToWait = true
        defer { waits.refusesToWait = false }
        do {
            return try inWriteTransaction { db in
                waits.refusesToWait = false
                return try body(db)
            }
        } catch let error as DatabaseError where waits.refusesToWait && error.resultCode == .SQLITE_BUSY {
            throw BeginWouldWait()
        }
    }

    /// Whether the WAL is so long that a checkpoint should follow.
    var isCheckpointDue: Bool { writing.walFrames >= writing.checkpointDueFrames }
}

extension DatabaseError {
    /// The result of an access that did not throw, which always exists.
    @inlinable
    static func require<T>(_ result: T?) throws -> T {
        guard let result else { throw withoutResult() }
        return result
    }

    @usableFromInline
    static func withoutResult() -> any Error { DatabaseError(resultCode: .SQLITE_INTERNAL) }
}
