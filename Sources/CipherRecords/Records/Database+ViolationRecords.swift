import CipherDatabase
import CipherSchema

extension Database {
    /// The rows of all tables that refer to rows that do not exist.
    /// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_foreign_key_check>
    public func foreignKeyViolations() throws -> RecordCursor<ForeignKeyViolation> {
        RecordCursor(try foreignKeyCheck())
    }

    /// The rows of one table that refer to rows that do not exist.
    ///
    /// - Parameter schemaName: `main`, `temp` or the name of an attached database; nil for the first that has the
    ///   table.
    /// - Throws: `DatabaseError` when there is no such table, or no such schema.
    public func foreignKeyViolations(
        in tableName: String, in schemaName: String? = nil
    ) throws -> RecordCursor<ForeignKeyViolation> {
        RecordCursor(try foreignKeyCheck(of: tableName, in: schemaName))
    }
}
