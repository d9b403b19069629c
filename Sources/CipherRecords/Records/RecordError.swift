import CipherDatabase

/// An error of a record. It names table and key columns, and never a value.
public enum RecordError: Error, Sendable, Hashable {
    /// No row of the table has the key: none was updated, returned or found.
    ///
    /// - Parameters:
    ///   - databaseTableName: The table.
    ///   - key: The columns of the key and their values. They are data: keep them out of logs.
    case recordNotFound(databaseTableName: String, key: [String: DatabaseValue])
}

/// The former name of ``RecordError`` in code for GRDB.
public typealias PersistenceError = RecordError

extension RecordError: CustomStringConvertible {
    /// The table and the columns of the key.
    public var description: String {
        switch self {
        case .recordNotFound(let table, let key):
            let columns = key.keys.sorted().joined(separator: ", ")
            return "no row of table \(table) with this key (\(columns)) was changed or found: it was deleted, never "
                + "inserted, or ignored by a conflict policy"
        }
    }
}

extension DatabaseError {
    /// The error of one value for a key of several columns.
    static func compositeKey(_ columns: [String], of table: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "the primary key of table \(table) has \(columns.count) columns: give a key by their names, as in "
                + "filter(key: [\(columns.map { "\"\($0)\": ..." }.joined(separator: ", "))])")
    }

    /// The error of a callback that did not run what it stands around.
    static func skippedCallback(_ name: String, of type: Any.Type) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "\(name) of \(type) has to call its closure once, and to let the error of the closure pass")
    }
}
