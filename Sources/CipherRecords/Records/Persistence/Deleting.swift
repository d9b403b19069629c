import CipherDatabase

// DELETE, and whether a row is there.

extension MutablePersistableRecord {
    /// Deletes the row that has the record's primary key.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    public func delete(_ db: Database) throws -> Bool {
        try willDelete(db)
        var deleted: Bool?
        try aroundDelete(db) {
            let success = try runDelete(db)
            deleted = success
            return success
        }
        guard let deleted else { throw DatabaseError.skippedCallback("aroundDelete", of: Self.self) }
        didDelete(deleted: deleted)
        return deleted
    }

    private func runDelete(_ db: Database) throws -> Bool {
        guard let statement = try keyStatement(.delete, db, { "DELETE FROM \($0) WHERE \($1)" }) else { return false }
        let count = try db.countingChanges(of: Self.databaseTableName) {
            return try statement.executeForOutcome()
        }
        return count > 0
    }

    /// Whether a row has the record's primary key.
    public func exists(_ db: Database) throws -> Bool {
        let statement = try keyStatement(.exists, db) { "SELECT EXISTS (SELECT 1 FROM \($0) WHERE \($1))" }
        return try statement.flatMap { try Bool.fetchOne($0) } ?? false
    }

    /// A statement for the row that has the record's key; nil when the key is NULL.
    private func keyStatement(
        _ action: RecordTable.Action, _ db: Database, _ makeSQL: (_ table: String, _ condition: String) -> String
    ) throws -> Statement? {
        let table = try db.records().table(of: type(of: self), db)
        guard let values = table.keyValues(in: try table.container(of: self)) else { return nil }
        let statement = try table.statement(action, .none, db) {
            makeSQL(table.name.quotedDatabaseIdentifier, table.keyCondition)
        }
        try statement.setArguments(StatementArguments(plain: values))
        return statement
    }
}
