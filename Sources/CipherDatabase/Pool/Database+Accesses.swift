// The transactions around an access.

extension Database {
    /// Runs a read in a deferred transaction, so that all it sees is of one moment.
    ///
    /// - Parameter beginsNow: Whether that is the moment at which the transaction begins; otherwise it is that of its
    ///   first statement.
    func inReadTransaction<T>(beginsNow: Bool = false, _ body: (Database) throws -> T) throws -> T {
        try run(.beginDeferred)
        let outer = expectsTransaction
        expectsTransaction = true
        defer { expectsTransaction = outer }
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

    /// Runs a read of what was committed last, on the writing connection itself.
    func readOnlyConcurrently(_ value: (Result<Database, any Error>) -> Void) throws {
        requireNoTransaction()
        try readOnly { try inReadTransaction { value(.success($0)) } }
    }

    /// Traps inside a transaction, whose changes a concurrent read could not see.
    func requireNoTransaction() {
        if isInsideTransaction {
            ProgrammerError.trap("a concurrent read must be asked for outside of a transaction")
        }
    }

    /// Runs a write in a transaction of the default kind.
    func inWriteTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        // The access is over with this transaction.
        endsWithCommit = true
        var result: T?
        try inTransaction(nil) {
            result = try body(self)
            return .commit
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }
}

extension DatabaseError {
    /// The result of an access that ended well, which always has one.
    @inlinable
    static func require<T>(_ result: T?) throws -> T {
        guard let result else { throw withoutResult() }
        return result
    }

    @usableFromInline
    static func withoutResult() -> any Error { DatabaseError(resultCode: .SQLITE_INTERNAL) }
}
