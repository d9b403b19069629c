import CipherDatabase

/// The inputs of a statement's text beside the request: keys and columns of tables.
///
/// A connection is one source of facts; tests state them by hand, so SQL is generated without any database.
struct SchemaFacts {
    /// The primary key of a table.
    struct Key: Hashable {
        /// Never empty: `rowid` for a table that declares none.
        var columns: [String]
        /// The column that is the rowid; nil when there is none.
        var rowIDColumn: String?
        var tableHasRowID: Bool
        /// The name by which SQL reaches the rowid; nil where there is none, or columns hide all names of it.
        var rowIDName: String?
    }

    /// Whether a table has a primary key, or a rowid. A view may have none.
    var hasKey: (_ table: String) throws -> Bool
    /// The primary key of a table, by its name.
    var primaryKey: (_ table: String) throws -> Key
    /// The columns of a table's unique key that are all among some columns; nil where there is none.
    var uniqueKey: (_ columns: [String], _ table: String) throws -> [String]?
    /// The names of the columns of a table, generated ones included.
    var columns: (_ table: String) throws -> [String]
    /// The foreign keys of a table; a view has none.
    var foreignKeys: (_ table: String) throws -> [Reference]
    /// The facts of a column by which SQL compares it.
    var comparedColumn: (_ column: String, _ table: String) throws -> ComparedColumn
    /// Whether no two rows of a table are one group by some columns.
    var separatesRows: (_ columns: [String], _ table: String) throws -> Bool
    /// The names of the columns of a query.
    var columnsOfQuery: (_ sql: String) throws -> [String]

    /// A foreign key.
    struct Reference {
        /// The table that it refers to.
        var table: String
        var mapping: [(origin: String, destination: String)]
    }

    /// The facts of a connection.
    init(_ db: Database) {
        hasKey = { table in try db.hasPrimaryKey(table) }
        primaryKey = { table in
            let key = try db.primaryKey(table)
            return Key(
                columns: key.columns, rowIDColumn: key.rowIDColumn, tableHasRowID: key.tableHasRowID,
                rowIDName: key.rowIDName)
        }
        uniqueKey = { columns, table in try db.columnsForUniqueKey(columns, in: table) }
        columns = { table in try db.columns(in: table).map(\.name) }
        foreignKeys = { table in
            do {
                return try db.foreignKeys(on: table).map { Reference(table: $0.destinationTable, mapping: $0.mapping) }
            } catch {
                guard try db.viewExists(table) else { throw error }
                return []
            }
        }
        comparedColumn = { column, table in try db.comparedColumn(column, in: table) }
        separatesRows = { columns, table in try db.columnsSeparateRows(columns, of: table) }
        columnsOfQuery = { sql in try db.makeStatement(sql: sql).columnNames }
    }

    /// A table as facts are stated of it by hand.
    struct Table {
        var name: String
        var columns: [String]
        var key: [String] = ["id"]
        var isRowID = true
        var hasRowID = true
        var uniqueKeys: [[String]] = []
        /// The foreign keys.
        var references: [Reference] = []
    }

    /// Facts that are stated.
    init(tables: [Table]) {
        let tables = Dictionary(uniqueKeysWithValues: tables.map { ($0.name, $0) })
        func table(_ name: String) throws -> Table {
            guard let table = tables[name] else { throw DatabaseError(message: "no such table: \(name)") }
            return table
        }
        hasKey = { try !table($0).key.isEmpty }
        primaryKey = { name in
            let table = try table(name)
            return Key(
                columns: table.key, rowIDColumn: table.isRowID ? table.key.first : nil, tableHasRowID: table.hasRowID,
                rowIDName: table.hasRowID ? RowIDName.visible(beside: table.columns).first : nil)
        }
        let key = { (columns: [String], name: String) in
            let table = try table(name)
            let columns = Set(columns.map(\.lowercasedASCII))
            return ([table.key] + table.uniqueKeys).first { columns.isSuperset(of: $0.map(\.lowercasedASCII)) }
        }
        uniqueKey = key
        separatesRows = { columns, name in try key(columns, name) != nil }
        comparedColumn = { _, _ in ComparedColumn(collation: "BINARY") }
        columns = { try table($0).columns }
        foreignKeys = { try table($0).references }
        columnsOfQuery = { _ in throw DatabaseError(message: "the columns of SQL text are known to a database alone") }
    }

    /// Whether columns of a table tell its rows apart.
    func isUniqueKey(_ columns: [String], _ table: String) throws -> Bool { try uniqueKey(columns, table) != nil }

    /// Columns that tell the rows of a table apart, as short as there are: the rowid under its own name or that of its
    /// column, otherwise the primary key.
    ///
    /// - Throws: ``DatabaseError`` where columns hide the rowid: a primary key of such a table may be NULL in several rows.
    func fastKey(of table: String) throws -> [String] {
        let key = try primaryKey(table)
        if let name = key.rowIDColumn ?? key.rowIDName { return [name] }
        guard !key.tableHasRowID else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message:
                    "the rows of table \(table) cannot be told apart: its columns hide its rowid (rowid, oid, _rowid_)")
        }
        return key.columns
    }
}
