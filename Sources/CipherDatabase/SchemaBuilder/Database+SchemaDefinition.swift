// Making, changing and dropping tables, indexes and views.

extension Database {
    // MARK: Tables

    /// Makes a table.
    ///
    /// ```swift
    /// try db.create(table: "player") { t in
    ///     t.autoIncrementedPrimaryKey("id")
    ///     t.column("name", .text).notNull()
    ///     t.belongsTo("team", onDelete: .cascade)
    /// }
    /// ```
    ///
    /// - Throws: ``DatabaseError``, or the error of `body`.
    /// - SeeAlso: <https://www.sqlite.org/lang_createtable.html>
    public func create(
        table name: String, options: TableOptions = [], body: (TableDefinition) throws -> Void
    ) throws {
        let definition = TableDefinition(name: name, database: self)
        try body(definition)
        var sql = "CREATE \(options.contains(.temporary) ? "TEMPORARY " : "")TABLE "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        sql += "\(name.quotedDatabaseIdentifier) (\(definition.sql))"
        let kinds = [
            options.contains(.withoutRowID) ? "WITHOUT ROWID" : nil, options.contains(.strict) ? "STRICT" : nil,
        ]
        let suffix = kinds.compactMap { $0 }.joined(separator: ", ")
        try execute(sql: suffix.isEmpty ? sql : "\(sql) \(suffix)")
        for columns in definition.indexes {
            let index = IndexDefinition(
                name: "\(name)_on_\(columns.joined(separator: "_"))", table: name, columns: columns,
                options: options.contains(.ifNotExists) ? .ifNotExists : [])
            try execute(sql: index.sql)
        }
    }

    /// Makes a table: the earlier spelling of ``create(table:options:body:)``.
    @_disfavoredOverload
    public func create(
        table name: String, temporary: Bool = false, ifNotExists: Bool = false, withoutRowID: Bool = false,
        body: (TableDefinition) throws -> Void
    ) throws {
        var options: TableOptions = []
        if temporary { options.insert(.temporary) }
        if ifNotExists { options.insert(.ifNotExists) }
        if withoutRowID { options.insert(.withoutRowID) }
        try create(table: name, options: options, body: body)
    }

    /// Renames a table.
    public func rename(table name: String, to newName: String) throws {
        let (old, new) = (name.quotedDatabaseIdentifier, newName.quotedDatabaseIdentifier)
        try execute(sql: "ALTER TABLE \(old) RENAME TO \(new)")
    }

    /// Changes a table, step by step in the order in which `body` names them.
    /// - SeeAlso: <https://www.sqlite.org/lang_altertable.html>
    public func alter(table name: String, body: (TableAlteration) throws -> Void) throws {
        let alteration = TableAlteration(name: name)
        try body(alteration)
        for statement in alteration.statements { try execute(sql: statement) }
    }

    /// Drops a table with all its rows.
    public func drop(table name: String) throws { try execute(sql: "DROP TABLE \(name.quotedDatabaseIdentifier)") }

    // MARK: Indexes

    /// Makes an index.
    ///
    /// - Parameter condition: Which rows it holds, as an SQL condition; nil for all.
    /// - SeeAlso: <https://www.sqlite.org/lang_createindex.html>
    public func create(
        index name: String, on table: String, columns: [String], options: IndexOptions = [], condition: SQL? = nil
    ) throws {
        let condition = try condition?.definition()
        let index = IndexDefinition(name: name, table: table, columns: columns, options: options, condition: condition)
        try execute(sql: index.sql)
    }

    /// Makes an index: the earlier spelling of ``create(index:on:columns:options:condition:)``.
    @_disfavoredOverload
    public func create(
        index name: String, on table: String, columns: [String], unique: Bool = false, ifNotExists: Bool = false,
        condition: SQL? = nil
    ) throws {
        var options: IndexOptions = []
        if unique { options.insert(.unique) }
        if ifNotExists { options.insert(.ifNotExists) }
        try create(index: name, on: table, columns: columns, options: options, condition: condition)
    }

    /// Makes an index that is named after its table and columns, as in `index_player_on_team_name`.
    public func create(
        indexOn table: String, columns: [String], options: IndexOptions = [], condition: SQL? = nil
    ) throws {
        let name = IndexDefinition.name(on: table, columns: columns)
        try create(index: name, on: table, columns: columns, options: options, condition: condition)
    }

    /// Drops an index.
    public func drop(index name: String) throws { try execute(sql: "DROP INDEX \(name.quotedDatabaseIdentifier)") }

    /// Drops the index on columns of a table, whatever its name.
    ///
    /// - Throws: ``DatabaseError`` when there is none that a `CREATE INDEX` made.
    public func drop(indexOn table: String, columns: [String]) throws {
        let wanted = columns.map { $0.lowercased() }
        let index = try indexes(on: table).first { index in
            index.origin == .createIndex && index.columns.map { $0.lowercased() } == wanted
        }
        guard let index else {
            throw DatabaseError(message: "no index on \(table)(\(columns.joined(separator: ", ")))")
        }
        try drop(index: index.name)
    }

    // MARK: Views

    /// Makes a view of what a query selects.
    ///
    /// - Parameter literal: The query, without arguments.
    /// - SeeAlso: <https://www.sqlite.org/lang_createview.html>
    public func create(
        view name: String, options: ViewOptions = [], columns: [String]? = nil, asLiteral literal: SQL
    ) throws {
        var sql = "CREATE \(options.contains(.temporary) ? "TEMPORARY " : "")VIEW "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        sql += name.quotedDatabaseIdentifier
        if let columns { sql += " (\(columns.quotedList))" }
        try execute(sql: "\(sql) AS \(literal.definition())")
    }

    /// Drops a view.
    public func drop(view name: String) throws { try execute(sql: "DROP VIEW \(name.quotedDatabaseIdentifier)") }
}

/// An index that is being made.
struct IndexDefinition {
    var name: String
    var table: String
    var columns: [String]
    var options: IndexOptions
    var condition: String?

    init(name: String, table: String, columns: [String], options: IndexOptions, condition: String? = nil) {
        self.name = name
        self.table = table
        self.columns = columns
        self.options = options
        self.condition = condition
    }

    /// The index of a column that asks for one.
    init(on table: String, column: String) {
        self.init(name: "\(table)_on_\(column)", table: table, columns: [column], options: [])
    }

    static func name(on table: String, columns: [String]) -> String {
        "index_\(table)_on_\(columns.joined(separator: "_"))"
    }

    var sql: String {
        var sql = "CREATE \(options.contains(.unique) ? "UNIQUE " : "")INDEX "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        sql += "\(name.quotedDatabaseIdentifier) ON \(table.quotedDatabaseIdentifier)(\(columns.quotedList))"
        return condition.map { "\(sql) WHERE \($0)" } ?? sql
    }
}
