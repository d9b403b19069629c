/// The kind of a change of rows, as SQLite announces it before the statement runs.
public enum DatabaseEventKind: Hashable, Sendable {
    /// Rows are inserted into a table.
    case insert(tableName: String)
    /// Rows are deleted from a table.
    case delete(tableName: String)
    /// Columns of rows are set. A rowid without a name of its own is the column `ROWID`.
    case update(tableName: String, columnNames: Set<String>)

    /// The table whose rows change.
    public var tableName: String {
        switch self {
        case .insert(let tableName), .delete(let tableName), .update(let tableName, _): tableName
        }
    }

    /// Whether rows are deleted.
    package var deletes: Bool { if case .delete = self { true } else { false } }

    /// Whether events of this kind have an operation and a table.
    package func matches(_ kind: DatabaseEvent.Kind, tableName: String) -> Bool {
        switch (self, kind) {
        case (.insert(let table), .insert), (.delete(let table), .delete), (.update(let table, _), .update):
            table == tableName
        default: false
        }
    }
}

/// The change of one row.
///
/// SQLite does not report changes of tables without rowid, of its own tables, and the rows that a `REPLACE` removes.
/// - SeeAlso: <https://www.sqlite.org/c3ref/update_hook.html>
public struct DatabaseEvent: Sendable {
    /// The event of the row; the raw values are SQLite's codes.
    public enum Kind: CInt, Sendable {
        case delete = 9
        case insert = 18
        case update = 23
    }

    public let kind: Kind
    /// The schema of the table: `main`, `temp`, or the name of an attached database.
    public let databaseName: String
    /// The table of the row.
    public let tableName: String
    /// The rowid of the row; after an update, the new one.
    public let rowID: Int64
    /// Whether other rows may have changed with this row: the row had another rowid, or it replaces rows.
    let concernsOtherRows: Bool

    package init(
        kind: Kind, rowID: Int64, databaseName: String, tableName: String, concernsOtherRows: Bool = false
    ) {
        self.kind = kind
        self.rowID = rowID
        self.databaseName = databaseName
        self.tableName = tableName
        self.concernsOtherRows = concernsOtherRows
    }

    /// The same event. Every event can be kept; programs written for GRDB copy it first.
    public func copy() -> DatabaseEvent { self }
}
