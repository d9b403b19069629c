import CipherDatabase

// The keywords of `CREATE TABLE` and related statements.

extension Database {
    /// The declared type of a column.
    /// - SeeAlso: <https://www.sqlite.org/datatype3.html>
    public struct ColumnType: RawRepresentable, Hashable, Sendable {
        public let rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        public static let text = ColumnType(rawValue: "TEXT")
        /// Text that holds JSON.
        public static let jsonText = ColumnType(rawValue: "TEXT")
        /// JSON in SQLite's binary format.
        public static let jsonb = ColumnType(rawValue: "BLOB")
        public static let integer = ColumnType(rawValue: "INTEGER")
        public static let double = ColumnType(rawValue: "DOUBLE")
        public static let real = ColumnType(rawValue: "REAL")
        public static let numeric = ColumnType(rawValue: "NUMERIC")
        public static let boolean = ColumnType(rawValue: "BOOLEAN")
        public static let blob = ColumnType(rawValue: "BLOB")
        public static let date = ColumnType(rawValue: "DATE")
        public static let datetime = ColumnType(rawValue: "DATETIME")
        public static let any = ColumnType(rawValue: "ANY")
    }

    /// The treatment of the row that breaks a constraint.
    /// - SeeAlso: <https://www.sqlite.org/lang_conflict.html>
    public enum ConflictResolution: String, Sendable {
        case rollback = "ROLLBACK"
        case abort = "ABORT"
        case fail = "FAIL"
        case ignore = "IGNORE"
        case replace = "REPLACE"

        /// The clause after a constraint.
        var clause: String { " ON CONFLICT \(rawValue)" }
        /// The clause after a constraint, as GRDB writes it of NOT NULL and UNIQUE: nothing for the default.
        var clauseUnlessDefault: String { self == .abort ? "" : clause }
    }

    /// The treatment of rows that refer to one which is deleted, or whose key changes.
    /// - SeeAlso: <https://www.sqlite.org/foreignkeys.html#fk_actions>
    public enum ForeignKeyAction: String, Sendable {
        case cascade = "CASCADE"
        case restrict = "RESTRICT"
        case setNull = "SET NULL"
        case setDefault = "SET DEFAULT"
    }
}

/// Options of a table that is created.
public struct TableOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing is done when the table exists.
    public static let ifNotExists = TableOptions(rawValue: 1)
    /// The table belongs to the connection, and is dropped with it.
    public static let temporary = TableOptions(rawValue: 2)
    /// The primary key is the only order of the rows.
    /// - SeeAlso: <https://www.sqlite.org/withoutrowid.html>
    public static let withoutRowID = TableOptions(rawValue: 4)
    /// Columns hold values of their types only.
    /// - SeeAlso: <https://www.sqlite.org/stricttables.html>
    public static let strict = TableOptions(rawValue: 8)
}

/// Options of an index that is created.
public struct IndexOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing is done when the index exists.
    public static let ifNotExists = IndexOptions(rawValue: 1)
    /// No two rows have the same values.
    public static let unique = IndexOptions(rawValue: 2)
}

/// Options of a view that is created.
public struct ViewOptions: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }

    /// Nothing is done when the view exists.
    public static let ifNotExists = ViewOptions(rawValue: 1)
    /// The view belongs to the connection, and is dropped with it.
    public static let temporary = ViewOptions(rawValue: 2)
}

/// The columns of a table's primary key, by the table's name.
typealias KeyColumns = (_ table: String) throws -> [String]?

/// The clause of a foreign key after its columns.
struct ForeignKeyClause {
    var table: String
    /// The referenced columns; nil for the primary key.
    var columns: [String]?
    var deleting: Database.ForeignKeyAction?
    var updating: Database.ForeignKeyAction?
    var isDeferred: Bool

    /// The clause as SQL, with the columns of the primary key written out, as GRDB writes them.
    func sql(_ keyColumns: KeyColumns) throws -> String {
        var sql = "REFERENCES \(table.quotedDatabaseIdentifier)"
        // A table that does not exist yet has a key that SQLite will find.
        if let columns = try columns ?? keyColumns(table) { sql += "(\(columns.quotedList))" }
        if let deleting { sql += " ON DELETE \(deleting.rawValue)" }
        if let updating { sql += " ON UPDATE \(updating.rawValue)" }
        return isDeferred ? sql + " DEFERRABLE INITIALLY DEFERRED" : sql
    }
}

extension [String] {
    /// The names, quoted, with commas between them.
    var quotedList: String { map(\.quotedDatabaseIdentifier).joined(separator: ", ") }
}
