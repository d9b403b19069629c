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
        try compareSchema()
        return try schemaIDs(named: schemaName).contains { schemaID in
            try exists(type, DatabaseObjectID(schemaID: schemaID, name: name))
        }
    }

    /// Whether an object exists, according to the cache.
    func exists(_ type: String, _ object: DatabaseObjectID) throws -> Bool {
        try objects(of: object.schemaID).contains(
            SchemaCache.Object(type: type, name: object.name.lowercasedASCII))
    }

    private func objects(of schemaID: DatabaseSchemaID) throws -> Set<SchemaCache.Object> {
        if let objects = schemaCache.schemas[schemaID]?.objects { return objects }
        let rows = try Row.fetchAll(self, sql: "SELECT type, name FROM \(schemaID.schemaTable)")
        let objects = Set(rows.map { SchemaCache.Object(type: $0[0], name: ($0[1] as String).lowercasedASCII) })
        schemaCache.schemas[schemaID, default: SchemaCache.Entries()].objects = objects
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
