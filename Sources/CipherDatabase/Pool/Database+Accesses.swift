// The transactions around an access.

extension Database {
    /// Runs a read in a deferred transaction, so that all it sees is of one moment.
    func inReadTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        try run(.beginDeferred)
        let outer = expectsTransaction
        expectsTransaction = true
        defer { expectsTransaction = outer }
        let result: T
        do {
            result = try body(self)
        } catch {
            rollbackIfNeeded()
            throw error
        }
        endReading()
        return result
    }

    /// Runs a write in a transaction of the default kind.
    func inWriteTransaction<T>(_ body: (Database) throws -> T) throws -> T {
        var result: T?
        try inTransaction(nil) {
            result = try body(self)
            return .commit
        }
        guard let result else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return result
    }
}
