import CipherDatabase

/// Makes the statements of a table definition: `CREATE TABLE`, and `CREATE INDEX` for each index that it needs.
///
/// The text is the same as GRDB's for the same definition, so that the migrations of a program see no change in a
/// database that either library made.
struct TableStatements {
    private let definition: TableDefinition
    private let options: TableOptions
    private let database: Database
    /// The table's own primary key, for references of the table to itself.
    private let ownKey: ReferencedKey

    private var columns: [String] = []
    private var foreignKeys: [String] = []
    private var referenceIndexes: [IndexDefinition] = []
    private var columnIndexes: [IndexDefinition] = []

    init(_ definition: TableDefinition, options: TableOptions, database: Database) throws {
        self.definition = definition
        self.options = options
        self.database = database
        ownKey = try Self.ownKey(of: definition, database)
        for component in definition.components { try add(component) }
    }

    /// The statements, in order.
    func all() throws -> [String] {
        try [createTable()] + (referenceIndexes + columnIndexes).map(\.sql)
    }

    private func createTable() throws -> String {
        var sql = "CREATE \(options.contains(.temporary) ? "TEMPORARY " : "")TABLE "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        var items = columns
        for key in definition.primaryKeys {
            let names = try Self.columns(of: key.members, definition, database).map(\.name)
            items.append("PRIMARY KEY (\(names.quotedList))\(key.suffix)")
        }
        items += definition.uniqueKeys + foreignKeys
        items += try definition.checks.map { "CHECK (\(try $0.definition(database)))" }
        items += try definition.constraintTexts.map { try $0.definition(database) }
        sql += "\(definition.name.quotedDatabaseIdentifier) (\(items.joined(separator: ", ")))"
        let kinds = [
            options.contains(.strict) ? "STRICT" : nil, options.contains(.withoutRowID) ? "WITHOUT ROWID" : nil,
        ].compactMap { $0 }
        return kinds.isEmpty ? sql : "\(sql) \(kinds.joined(separator: ", "))"
    }

    // MARK: Components

    private mutating func add(_ component: TableDefinition.Component) throws {
        switch component {
        case .column(let column): try add(column)
        case .columnText(let text): columns.append(try text.definition(database))
        case .foreignKey(let constraint): try add(constraint)
        case .belongsTo(let reference):
            let parts = try reference.parts(referringTo: Self.key(of: reference, definition, ownKey, database))
            for column in parts.columns { try add(column) }
            if let constraint = parts.constraint { try add(constraint) }
            if let index = parts.index {
                var indexOptions = indexOptions
                if parts.indexIsUnique { indexOptions.insert(.unique) }
                referenceIndexes.append(
                    IndexDefinition(
                        name: IndexDefinition.name(on: definition.name, columns: index), table: definition.name,
                        columns: index, options: indexOptions))
            }
        }
    }

    private mutating func add(_ column: ColumnDefinition) throws {
        columns.append(try column.sql(keyColumns, database))
        if column.needsIndex {
            columnIndexes.append(
                IndexDefinition(on: definition.name, column: column.name, options: indexOptions))
        }
    }

    private mutating func add(_ constraint: ForeignKeyConstraint) throws {
        foreignKeys.append(
            "FOREIGN KEY (\(constraint.columns.quotedList)) \(try constraint.clause.sql(keyColumns))")
    }

    private var indexOptions: IndexOptions { options.contains(.ifNotExists) ? .ifNotExists : [] }

    // MARK: Keys

    /// The columns of the primary key of a table; nil where SQLite finds them: there is no such table yet, or the key
    /// is written as SQL.
    private func keyColumns(_ table: String) throws -> [String]? {
        if table.lowercasedASCII == definition.name.lowercasedASCII {
            return ownKey.columnNames
        }
        return try database.keyColumns(ifExists: table)
    }

    private static func ownKey(of definition: TableDefinition, _ database: Database) throws -> ReferencedKey {
        if let key = definition.primaryKeys.first {
            return ReferencedKey(
                table: definition.name, columns: try columns(of: key.members, definition, database))
        }
        let column = definition.columns.first(where: \.isPrimaryKey)
        return ReferencedKey(
            table: definition.name, columns: column.map { [($0.name, $0.type)] },
            isLeftToSQLite: column == nil && definition.containsText)
    }

    private static func columns(
        of members: [TableDefinition.KeyMember], _ definition: TableDefinition, _ database: Database
    ) throws -> [ReferencedKey.Column] {
        try members.flatMap { member -> [ReferencedKey.Column] in
            switch member {
            case .named(let name):
                let column = definition.columns.first { $0.name.lowercasedASCII == name.lowercasedASCII }
                return [(name, column?.type)]
            case .column(let column): return [(column.name, column.type)]
            case .belongsTo(let reference):
                // A key that refers to itself has no columns: the table is searched for, and does not exist.
                let parts = try reference.parts(referringTo: key(of: reference, definition, nil, database))
                return parts.columns.map { ($0.name, $0.type) }
            }
        }
    }

    /// The key to which a reference refers: of the table that it names, of the table being defined where both have the
    /// same name in the singular, of the table named like the reference, or of its plural.
    private static func key(
        of reference: ForeignKeyDefinition, _ definition: TableDefinition, _ ownKey: ReferencedKey?,
        _ database: Database
    ) throws -> ReferencedKey {
        if let table = reference.table {
            if let ownKey, table.lowercasedASCII == definition.name.lowercasedASCII {
                var key = ownKey
                key.table = table
                return key
            }
            return try database.referencedKey(table)
        }
        if let ownKey, definition.name.singularized.lowercasedASCII == reference.name.singularized.lowercasedASCII {
            return ownKey
        }
        for table in [reference.name, reference.name.pluralized] where try database.tableExists(table) {
            return try database.referencedKey(table)
        }
        throw DatabaseError.noSuchTable(reference.name)
    }
}

extension TableDefinition {
    fileprivate var columns: [ColumnDefinition] {
        components.compactMap { if case .column(let column) = $0 { column } else { nil } }
    }

    /// Whether parts of it are SQL, which is not parsed: the primary key may be among them.
    fileprivate var containsText: Bool {
        !constraintTexts.isEmpty || components.contains { if case .columnText = $0 { true } else { false } }
    }
}

extension Database {
    /// The columns of the primary key of a table; nil where there is no such table.
    func keyColumns(ifExists table: String) throws -> [String]? {
        try tableExists(table) ? try primaryKey(table).columns : nil
    }

    fileprivate func referencedKey(_ table: String) throws -> ReferencedKey {
        let columns = try primaryKey(table).columnInfos?.map { info -> ReferencedKey.Column in
            (info.name, info.type.isEmpty ? nil : ColumnType(rawValue: info.type))
        }
        return ReferencedKey(table: table, columns: columns)
    }
}
