extension Database {
    // MARK: Tables
    //
    // For each function: a schema name is `main`, `temp` or that of an attached database; without one, the first schema
    // that has the table counts, as in SQL.

    /// The columns of a table or a view, generated ones included, hidden ones not.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table or view, or no such schema.
    public func columns(in tableName: String, in schemaName: String? = nil) throws -> [ColumnInfo] {
        try first(tableName, schemaName, columns(in:))
    }

    /// The primary key of a table, or of a view for which the schema source names one.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table, or no such schema, and for a view without a key.
    public func primaryKey(_ tableName: String, in schemaName: String? = nil) throws -> PrimaryKeyInfo {
        try first(tableName, schemaName, primaryKey(of:))
    }

    /// The indexes on columns of a table. Those on expressions are left out, and an `INTEGER PRIMARY KEY` has none.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table, or no such schema.
    public func indexes(on tableName: String, in schemaName: String? = nil) throws -> [IndexInfo] {
        try first(tableName, schemaName, indexes(on:))
    }

    /// The foreign keys of a table.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table, or no such schema.
    public func foreignKeys(on tableName: String, in schemaName: String? = nil) throws -> [ForeignKeyInfo] {
        try first(tableName, schemaName, foreignKeys(on:))
    }

    /// Whether columns identify the rows of a table: they include those of the primary key, or of a unique index. A
    /// view has the key that the schema source names, and no other.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table, and for a view without a key.
    public func table(_ tableName: String, hasUniqueKey columns: some Sequence<String>) throws -> Bool {
        try columnsForUniqueKey(columns, in: tableName) != nil
    }

    /// The columns of the first unique key whose columns are all among the given ones; nil when there is none.
    package func columnsForUniqueKey(_ columns: some Sequence<String>, in tableName: String) throws -> [String]? {
        let given = Set(columns.map(\.lowercasedASCII))
        guard !given.isEmpty else { return nil }
        let primaryKey = try primaryKey(tableName)
        if primaryKey.tableHasRowID && given == ["rowid"] { return ["rowid"] }
        if given.isSuperset(of: primaryKey.columns.map(\.lowercasedASCII)) { return primaryKey.columns }
        let indexes: [IndexInfo] = try first(tableName, nil) { table in
            try exists("view", table) ? [] : try self.indexes(on: table)
        }
        return indexes.first { $0.isUnique && given.isSuperset(of: $0.columns.map(\.lowercasedASCII)) }?.columns
    }

    /// The information from the first schema that has the table.
    private func first<Info>(
        _ tableName: String, _ schemaName: String?, _ info: (DatabaseObjectID) throws -> Info?
    ) throws -> Info {
        try compareSchema()
        // SQLite would read the name up to the NUL, and describe another table.
        let schemaIDs = try schemaIDs(named: schemaName)
        for schemaID in schemaIDs where !tableName.utf8.contains(0) {
            if let info = try info(DatabaseObjectID(schemaID: schemaID, name: tableName)) { return info }
        }
        throw DatabaseError.noSuchTable(tableName)
    }
}

// What the cache contains about one table: nil where there is none.
extension Database {
    private func columns(in table: DatabaseObjectID) throws -> [ColumnInfo]? {
        try cached(\.columns, of: table) {
            let columns = try Row.fetchAll(
                self, sql: "SELECT * FROM pragma_table_xinfo(?, ?) WHERE hidden <> 1 ORDER BY cid",
                arguments: [table.name, table.schemaID.name]
            ).map(ColumnInfo.init(row:))
            return columns.isEmpty ? nil : columns
        }
    }

    private func primaryKey(of table: DatabaseObjectID) throws -> PrimaryKeyInfo? {
        try cached(\.primaryKeys, of: table) {
            guard let columns = try columns(in: table) else { return nil }
            if try exists("view", table) { return try primaryKey(ofView: table, columns: columns) }
            let key = columns.filter { $0.primaryKeyIndex > 0 }.sorted { $0.primaryKeyIndex < $1.primaryKeyIndex }
            guard let first = key.first else { return .hiddenRowID }
            let hasRowID = try hasRowID(table)
            let isRowID = hasRowID && key.count == 1 && first.type.lowercasedASCII == "integer"
            return PrimaryKeyInfo(
                columnInfos: key, rowIDColumn: isRowID ? first.name : nil, tableHasRowID: hasRowID)
        }
    }

    private func primaryKey(ofView view: DatabaseObjectID, columns: [ColumnInfo]) throws -> PrimaryKeyInfo? {
        guard let names = try schemaSource?.columnsForPrimaryKey(self, inView: view) else { return nil }
        if names.isEmpty {
            throw DatabaseError(message: "view \(view.name) has no primary key: the schema source names no columns")
        }
        let key = try names.map { name in
            guard let column = columns.first(where: { $0.name.lowercasedASCII == name.lowercasedASCII }) else {
                throw DatabaseError(message: "no such column: \(name), which the schema source names for \(view.name)")
            }
            return column
        }
        return PrimaryKeyInfo(columnInfos: key, rowIDColumn: nil, tableHasRowID: false)
    }

    private func hasRowID(_ table: DatabaseObjectID) throws -> Bool {
        let isWithoutRowID = try Bool.fetchOne(
            self, sql: "SELECT wr FROM pragma_table_list(?) WHERE schema = ? COLLATE NOCASE",
            arguments: [table.name, table.schemaID.name])
        return isWithoutRowID != true
    }

    private func indexes(on table: DatabaseObjectID) throws -> [IndexInfo]? {
        try cached(\.indexes, of: table) {
            guard try exists("table", table) else { return nil }
            let schema = table.schemaID.name
            let indexes = try Row.fetchAll(
                self, sql: #"SELECT name, "unique", origin FROM pragma_index_list(?, ?) ORDER BY seq"#,
                arguments: [table.name, schema])
            return try indexes.compactMap { index in
                // Nil stands for the rowid or an expression.
                let columns = try String?.fetchAll(
                    self, sql: "SELECT name FROM pragma_index_info(?, ?) ORDER BY seqno",
                    arguments: [index[0] as String, schema])
                let names = columns.compactMap { $0 }
                guard names.count == columns.count else { return nil }
                return IndexInfo(
                    name: index[0], columns: names, isUnique: index[1],
                    origin: IndexInfo.Origin(rawValue: index[2]))
            }
        }
    }

    private func foreignKeys(on table: DatabaseObjectID) throws -> [ForeignKeyInfo]? {
        try cached(\.foreignKeys, of: table) {
            guard try exists("table", table) else { return nil }
            let rows = try Row.fetchAll(
                self,
                sql: """
                    SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?, ?) ORDER BY id, seq
                    """,
                arguments: [table.name, table.schemaID.name])
            let groups = Dictionary(grouping: rows) { $0[0] as Int }
            return try groups.sorted { $0.key < $1.key }.compactMap { id, rows in
                guard let destination = rows.first.map({ $0[1] as String }) else { return nil }
                return ForeignKeyInfo(
                    id: id, destinationTable: destination, mapping: try mapping(of: rows, to: destination))
            }
        }
    }

    /// The columns of a foreign key. One that names no columns of the other table refers to its primary key.
    private func mapping(of rows: [Row], to destination: String) throws -> [(origin: String, destination: String)] {
        let named = rows.map { (origin: $0[2] as String, destination: $0[3] as String?) }
        let key = named.contains { $0.destination == nil } ? try primaryKey(destination).columns : []
        return named.enumerated().compactMap { index, pair in
            let destination = pair.destination ?? (index < key.count ? key[index] : nil)
            return destination.map { (origin: pair.origin, destination: $0) }
        }
    }
}
