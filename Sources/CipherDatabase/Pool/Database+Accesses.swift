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
    var isCheckpointDue: Bool { writing.logFrames >= writing.checkpointDueFrames }
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
