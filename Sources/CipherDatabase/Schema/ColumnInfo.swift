/// A column of a table or a view.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_table_xinfo>
public struct ColumnInfo: Hashable, Sendable {
    /// The position in the table, counted from 0.
    let position: Int
    /// The name.
    public let name: String
    /// The declared type, in the case of the schema; empty where none is declared.
    public let type: String
    /// Whether the column was declared NOT NULL.
    public let isNotNull: Bool
    /// The default value as an SQL expression, as `'unknown'` or `CURRENT_TIMESTAMP`; nil when there is none.
    public let defaultValueSQL: String?
    /// The position in the primary key, counted from 1; 0 for columns outside of it.
    public let primaryKeyIndex: Int
    /// Whether the column is computed from others.
    package let isGenerated: Bool

    /// - Parameter row: A row of `PRAGMA table_xinfo`.
    public init(row: Row) {
        position = row["cid"]
        name = row["name"]
        type = row["type"]
        isNotNull = row["notnull"]
        defaultValueSQL = row["dflt_value"]
        primaryKeyIndex = row["pk"]
        // 2 and 3 stand for generated columns, virtual and stored; 1 stands for a hidden one.
        let hidden: Int? = row["hidden"]
        isGenerated = hidden == 2 || hidden == 3
    }
}

/// The primary key of a table.
public struct PrimaryKeyInfo: Hashable, Sendable {
    /// The key columns; nil where the primary key is a rowid without a column of its own.
    package let columnInfos: [ColumnInfo]?
    /// The name of the `INTEGER PRIMARY KEY` column; nil when there is none.
    public let rowIDColumn: String?
    /// Whether the table has a rowid, as all but `WITHOUT ROWID` tables have.
    package let tableHasRowID: Bool

    /// The name by which SQL reaches the rowid; nil where the table has none, or its columns hide all names of it.
    package let rowIDName: String?

    /// The names of the key columns, in the order of the key; where the table declares none, the first name of its rowid
    /// that no column has: `rowid`, `_rowid_` or `oid`. Never empty.
    public var columns: [String] { columnInfos?.map(\.name) ?? [rowIDName ?? "rowid"] }

    /// Whether the primary key is the rowid, under whatever name.
    public var isRowID: Bool { columnInfos == nil || rowIDColumn != nil }
}

/// An index on columns of a table.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_index_list>
public struct IndexInfo: Hashable, Sendable {
    /// The creator of an index.
    public struct Origin: RawRepresentable, Hashable, Sendable, DatabaseValueConvertible {
        public var rawValue: String
        public init(rawValue: String) { self.rawValue = rawValue }

        /// A `CREATE INDEX` statement.
        public static let createIndex = Origin(rawValue: "c")
        /// A `UNIQUE` constraint of the table.
        public static let uniqueConstraint = Origin(rawValue: "u")
        /// The `PRIMARY KEY` of the table.
        public static let primaryKeyConstraint = Origin(rawValue: "pk")
    }

    /// The name.
    public let name: String
    /// The indexed columns, in the order of the index.
    public let columns: [String]
    /// Whether no two rows may have the same values.
    public let isUnique: Bool
    /// The creator of the index.
    public let origin: Origin
    /// Whether it is an index of some of the rows, those of its `WHERE`.
    let isPartial: Bool
}

/// A foreign key of a table.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_foreign_key_list>
public struct ForeignKeyInfo: Sendable {
    /// Identifies a foreign key within its table.
    public var id: Int
    /// The referenced table.
    public let destinationTable: String
    /// The referring columns, each with the column it refers to.
    public let mapping: [(origin: String, destination: String)]

    /// The referring columns.
    public var originColumns: [String] { mapping.map(\.origin) }
    /// The referenced columns.
    public var destinationColumns: [String] { mapping.map(\.destination) }
}
