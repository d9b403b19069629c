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
        if let key = try find(tableName, schemaName, primaryKey(of:)) { return key }
        guard try viewExists(tableName, in: schemaName) else { throw DatabaseError.noSuchTable(tableName) }
        throw DatabaseError(
            message: "view \(tableName) has no primary key: name its columns in a schema source, in "
                + "Configuration.schemaSource")
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

    /// Whether columns identify the rows of a table: they include those of the primary key, or of a unique index
    /// of all rows. A view has the key that the schema source names, and no other: without one, none.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table.
    public func table(_ tableName: String, hasUniqueKey columns: some Sequence<String>) throws -> Bool {
        try columnsForUniqueKey(columns, in: tableName) != nil
    }

    /// The columns of the first unique key whose columns are all among the given ones; nil when there is none.
    package func columnsForUniqueKey(_ columns: some Sequence<String>, in tableName: String) throws -> [String]? {
        let given = Set(columns.map(\.lowercasedASCII))
        guard !given.isEmpty else { return nil }
        let found = try find(tableName, nil) { table in
            try self.columns(in: table) == nil ? nil : (table: table, isView: exists("view", table))
        }
        guard let found else { throw DatabaseError.noSuchTable(tableName) }
        guard let primaryKey = try self.primaryKey(of: found.table) else { return nil }
        if primaryKey.tableHasRowID, given == ["rowid"], primaryKey.rowIDName == "rowid" { return ["rowid"] }
        if given.isSuperset(of: primaryKey.columns.map(\.lowercasedASCII)) { return primaryKey.columns }
        let indexes = try found.isView ? [] : self.indexes(on: found.table) ?? []
        // The rows that a partial index leaves out may have the same values: `deleteOne` would delete all of them.
        let unique = indexes.filter { $0.isUnique && !$0.isPartial }
        return unique.first { given.isSuperset(of: $0.columns.map(\.lowercasedASCII)) }?.columns
    }

    /// Whether no two rows of a table are one group by some columns. GROUP BY makes one group of all NULLs, and of the texts
    /// that are equal by the collation of a column, which a unique key may admit.
    package func columnsSeparateRows(_ columns: some Sequence<String>, of tableName: String) throws -> Bool {
        let given = Set(columns.map(\.lowercasedASCII))
        let found = try find(tableName, nil) { table in
            try self.columns(in: table).map { (table: table, columns: $0, isView: try exists("view", table)) }
        }
        guard let found else { throw DatabaseError.noSuchTable(tableName) }
        guard let key = try primaryKey(of: found.table) else { return false }
        let rowIDNames = [key.rowIDColumn] + RowIDName.visible(beside: found.columns.map(\.name)).map(Optional.init)
        if key.tableHasRowID, rowIDNames.contains(where: { $0.map { given.contains($0.lowercasedASCII) } == true }) {
            return true
        }
        // The program states the key of a view.
        if found.isView { return given.isSuperset(of: key.columns.map(\.lowercasedASCII)) }
        let never = Set(found.columns.filter(\.isNotNull).map(\.name.lowercasedASCII))
        return try (indexes(on: found.table) ?? []).contains { index in
            let names = index.columns.map(\.lowercasedASCII)
            guard index.isUnique, !index.isPartial, given.isSuperset(of: names), never.isSuperset(of: names) else {
                return false
            }
            let collations = try String.fetchAll(
                self, sql: "SELECT coll FROM pragma_index_xinfo(?, ?) WHERE key ORDER BY seqno",
                arguments: [index.name, found.table.schemaID.name])
            return zip(names, collations).allSatisfy { name, collation in
                self.collation(ofColumn: name, in: tableName)?.lowercasedASCII == collation.lowercasedASCII
            }
        }
    }

    /// Whether a table or view has a primary key, the rowid of a table included. A view has none, unless the schema
    /// source names one.
    ///
    /// - Throws: ``DatabaseError`` when there is no such table.
    package func hasPrimaryKey(_ tableName: String) throws -> Bool {
        try first(tableName, nil) { table in
            try columns(in: table) == nil ? nil : primaryKey(of: table) != nil
        }
    }

    /// The collation by which a column of a table compares texts; nil for a column of a view.
    package func collation(ofColumn column: String, in tableName: String) -> String? {
        handle.collation(ofColumn: column, in: tableName)
    }

    /// The information from the first schema that has the table.
    private func first<Info>(
        _ tableName: String, _ schemaName: String?, _ info: (DatabaseObjectID) throws -> Info?
    ) throws -> Info {
        if let info = try find(tableName, schemaName, info) { return info }
        throw DatabaseError.noSuchTable(tableName)
    }

    /// The information from the first schema that has the table; nil where none has it.
    private func find<Info>(
        _ tableName: String, _ schemaName: String?, _ info: (DatabaseObjectID) throws -> Info?
    ) throws -> Info? {
        try compareSchema()
        // SQLite would read the name up to the NUL, and describe another table.
        let schemaIDs = try schemaIDs(named: schemaName)
        for schemaID in schemaIDs where !tableName.utf8.contains(0) {
            if let info = try info(DatabaseObjectID(schemaID: schemaID, name: tableName)) { return info }
        }
        return nil
    }
}

// The content of the cache for one table: nil if there is none.
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
            let visible = RowIDName.visible(beside: columns.map(\.name)).first
            guard let first = key.first else {
                guard let visible else {
                    throw DatabaseError(
                        message:
                            "table \(table.name) has no primary key, and its columns hide its rowid: rowid, oid, _rowid_"
                    )
                }
                return PrimaryKeyInfo(columnInfos: nil, rowIDColumn: nil, tableHasRowID: true, rowIDName: visible)
            }
            let hasRowID = try hasRowID(table, visibleName: visible)
            let isRowID = hasRowID && key.count == 1 && first.type.lowercasedASCII == "integer"
            return PrimaryKeyInfo(
                columnInfos: key, rowIDColumn: isRowID ? first.name : nil, tableHasRowID: hasRowID,
                rowIDName: hasRowID ? visible ?? (isRowID ? first.name : nil) : nil)
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
        return PrimaryKeyInfo(columnInfos: key, rowIDColumn: nil, tableHasRowID: false, rowIDName: nil)
    }

    /// - Parameter visibleName: A name of the rowid that no column has; nil for none.
    private func hasRowID(_ table: DatabaseObjectID, visibleName: String?) throws -> Bool {
        // The pragma walks through all tables.
        if let visibleName { return handle.hasColumn(visibleName, in: table.name, table.schemaID.name) }
        let flags = try Row.fetchAll(self, sql: "SELECT schema, wr FROM pragma_table_list(?)", arguments: [table.name])
        let name = table.schemaID.name.lowercasedASCII
        let row = flags.first { ($0[0] as String).lowercasedASCII == name }
        return (row?[1] as Bool?) != true
    }

    private func indexes(on table: DatabaseObjectID) throws -> [IndexInfo]? {
        try cached(\.indexes, of: table) {
            guard try exists("table", table) else { return nil }
            let schema = table.schemaID.name
            let indexes = try Row.fetchAll(
                self, sql: #"SELECT name, "unique", origin, partial FROM pragma_index_list(?, ?) ORDER BY seq"#,
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
                    origin: IndexInfo.Origin(rawValue: index[2]), isPartial: index[3])
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

extension Database {
    // MARK: What exists

    /// Whether there is a table of this name, ignoring case.
    ///
    /// - Parameter schemaName: `main`, `temp` or the name of an attached database; nil for any of them.
    /// - Throws: ``DatabaseError`` when there is no such schema.
    public func tableExists(_ name: String, in schemaName: String? = nil) throws -> Bool {
        try exists("table", name, in: schemaName)
    }

    /// Whether there is a view of this name, ignoring case.
    ///
    /// - Parameter schemaName: `main`, `temp` or the name of an attached database; nil for any of them.
    /// - Throws: ``DatabaseError`` when there is no such schema.
    public func viewExists(_ name: String, in schemaName: String? = nil) throws -> Bool {
        try exists("view", name, in: schemaName)
    }

    /// Whether there is a trigger of this name, ignoring case.
    ///
    /// - Parameter schemaName: `main`, `temp` or the name of an attached database; nil for any of them.
    /// - Throws: ``DatabaseError`` when there is no such schema.
    public func triggerExists(_ name: String, in schemaName: String? = nil) throws -> Bool {
        try exists("trigger", name, in: schemaName)
    }

    /// Whether a name is one of SQLite's own tables.
    public static func isSQLiteInternalTable(_ tableName: String) -> Bool {
        tableName.hasPrefix("sqlite_") || tableName.hasPrefix("pragma_")
    }

    /// Whether a name is one of the tables that list applied migrations. The name of the function is GRDB's, and so is
    /// that of the table, so that either library finds what the other one has migrated.
    public static func isGRDBInternalTable(_ tableName: String) -> Bool { tableName.hasPrefix("grdb_") }

    private func exists(_ type: String, _ name: String, in schemaName: String?) throws -> Bool {
        try firstSchema(with: type, name, in: schemaName) != nil
    }

    /// The first schema that has a table; nil if none has one of this name.
    ///
    /// - Throws: ``DatabaseError`` if there is no such schema.
    package func schemaID(ofTable name: String, in schemaName: String?) throws -> DatabaseSchemaID? {
        try firstSchema(with: "table", name, in: schemaName)
    }

    private func firstSchema(with type: String, _ name: String, in schemaName: String?) throws -> DatabaseSchemaID? {
        try compareSchema()
        return try schemaIDs(named: schemaName).first { schemaID in
            try exists(type, DatabaseObjectID(schemaID: schemaID, name: name))
        }
    }

    /// Whether an object exists, according to the cache.
    func exists(_ type: String, _ object: DatabaseObjectID) throws -> Bool {
        if type != "trigger", let found = foundType(of: object) { return found == type }
        return try stored(type, object) != nil
    }

    /// An object as the schema has it; nil for none of this type and name, ignoring case.
    func stored(_ type: String, _ object: DatabaseObjectID) throws -> SchemaCache.StoredObject? {
        try objects(of: object.schemaID)[SchemaCache.Object(type: type, name: object.name.lowercasedASCII)]
    }

    /// The type of a table or view that is looked up by itself, or empty for none; nil if the list of all objects tells.
    private func foundType(of object: DatabaseObjectID) -> String? {
        let isPlainName = !object.name.lowercasedASCII.hasPrefix("sqlite_") && !object.name.utf8.contains(0)
        guard isPlainName, schemaCache.schemas[object.schemaID]?.objects == nil, schemaCache.takesSingleLookup() else {
            return nil
        }
        // SQLite reads the schema anew for the columns, if another connection has changed it.
        do {
            guard try columns(in: object) != nil else { return "" }
            return handle.isTable(object.name, in: object.schemaID.name) ? "table" : "view"
        } catch {
            // As of a virtual table without its module.
            return nil
        }
    }

    // The library compares names itself: a program may replace the functions and collations of SQLite that do.
    private func objects(of schemaID: DatabaseSchemaID) throws -> [SchemaCache.Object: SchemaCache.StoredObject] {
        if let objects = schemaCache.schemas[schemaID]?.objects { return objects }
        var objects: [SchemaCache.Object: SchemaCache.StoredObject] = [:]
        let rows = try Row.fetchCursor(self, sql: "SELECT type, name, rootpage FROM \(schemaID.schemaTable)")
        while let row = try rows.next() {
            let name: String = row[1]
            objects[SchemaCache.Object(type: row[0], name: name.lowercasedASCII)] = SchemaCache.StoredObject(
                name: name, hasPages: (row[2] as Int64?) ?? 0 > 0)
        }
        schemaCache.keep(objects, of: schemaID)
        return objects
    }

    // MARK: Schemas

    /// The schemas to search, in SQLite's order: the temporary one hides the others.
    func schemaIDs(named name: String?) throws -> [DatabaseSchemaID] {
        let all = try allSchemaIDs()
        guard let name else { return all }
        let wanted = name.lowercasedASCII
        guard let schemaID = all.first(where: { $0.name.lowercasedASCII == wanted }) else {
            throw DatabaseError.noSuchSchema(name)
        }
        return [schemaID]
    }

    private func allSchemaIDs() throws -> [DatabaseSchemaID] {
        if let known = schemaCache.schemaIDs { return known }
        let names = try String.fetchAll(self, sql: "SELECT name FROM pragma_database_list ORDER BY name <> 'temp', seq")
        let schemaIDs = names.map(DatabaseSchemaID.init(name:))
        schemaCache.schemaIDs = schemaIDs
        return schemaIDs
    }
}
