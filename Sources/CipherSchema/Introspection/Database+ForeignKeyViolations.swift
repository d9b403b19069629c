import CipherDatabase

extension Database {
    /// The rows of all tables that refer to rows that do not exist, as `PRAGMA foreign_key_check` returns them.
    package func foreignKeyCheck() throws -> RowCursor { try Row.fetchCursor(self, sql: "PRAGMA foreign_key_check") }

    /// The rows of one table that refer to rows that do not exist, as `PRAGMA foreign_key_check` returns them.
    ///
    /// - Parameter schemaName: `main`, `temp` or the name of an attached database; nil for the first that has the
    ///   table.
    /// - Throws: `DatabaseError` when there is no such table, or no such schema.
    package func foreignKeyCheck(of tableName: String, in schemaName: String? = nil) throws -> RowCursor {
        guard let schemaID = try schemaID(ofTable: tableName, in: schemaName) else {
            throw DatabaseError.noSuchTable(tableName)
        }
        let (schema, table) = (schemaID.name.quotedDatabaseIdentifier, tableName.quotedDatabaseIdentifier)
        return try Row.fetchCursor(self, sql: "PRAGMA \(schema).foreign_key_check(\(table))")
    }

    /// Checks the foreign keys of all tables.
    ///
    /// - Throws: `DatabaseError` `.SQLITE_CONSTRAINT_FOREIGNKEY` that names tables, columns and rowid of the first
    ///   row with a broken reference.
    public func checkForeignKeys() throws {
        if let row = try foreignKeyCheck().next() { throw ForeignKeyViolation(row: row).databaseError(self) }
    }

    /// Checks the foreign keys of one table.
    ///
    /// - Parameters:
    ///   - tableName: The table that refers to others.
    ///   - schemaName: `main`, `temp` or the name of an attached database; nil for the first that has the table.
    /// - Throws: `DatabaseError` `.SQLITE_CONSTRAINT_FOREIGNKEY` that names tables, columns and rowid of the first
    ///   row with a broken reference; `DatabaseError` when there is no such table, or no such schema.
    public func checkForeignKeys(in tableName: String, in schemaName: String? = nil) throws {
        if let row = try foreignKeyCheck(of: tableName, in: schemaName).next() {
            throw ForeignKeyViolation(row: row).databaseError(self)
        }
    }
}
