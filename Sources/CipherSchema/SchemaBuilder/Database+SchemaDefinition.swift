import CipherDatabase

// Creating, changing and dropping tables, indexes and views.

extension Database {
    // MARK: Tables

    /// Creates a table.
    ///
    /// ```swift
    /// try db.create(table: "player") { t in
    ///     t.autoIncrementedPrimaryKey("id")
    ///     t.column("name", .text).notNull()
    ///     t.belongsTo("team", onDelete: .cascade)
    /// }
    /// ```
    ///
    /// - Throws: `DatabaseError`, or the error of `body`.
    /// - SeeAlso: <https://www.sqlite.org/lang_createtable.html>
    public func create(
        table name: String, options: TableOptions = [], body: (TableDefinition) throws -> Void
    ) throws {
        let definition = TableDefinition(name: name)
        try body(definition)
        for statement in try TableStatements(definition, options: options, database: self).all() {
            try execute(sql: statement)
        }
    }

    /// Creates a table: the former spelling of ``create(table:options:body:)``.
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
        try alteration.run(self)
    }

    /// Drops a table with all its rows.
    public func drop(table name: String) throws { try execute(sql: "DROP TABLE \(name.quotedDatabaseIdentifier)") }

    // MARK: Indexes

    /// Creates an index.
    ///
    /// - Parameter condition: The rows that it contains, as an SQL condition; nil for all. Values become SQL literals.
    /// - SeeAlso: <https://www.sqlite.org/lang_createindex.html>
    public func create(
        index name: String, on table: String, columns: [String], options: IndexOptions = [], condition: SQL? = nil
    ) throws {
        let condition = try condition?.definition(self)
        let index = IndexDefinition(name: name, table: table, columns: columns, options: options, condition: condition)
        try execute(sql: index.sql)
    }

    /// Creates an index on expressions, or on columns in another order or collation:
    /// `db.create(index: "byName", on: "player", expressions: ["name COLLATE NOCASE", "score DESC"])`.
    ///
    /// - Parameters:
    ///   - expressions: The indexed expressions, as SQL; values become SQL literals.
    ///   - condition: The rows that it contains, as an SQL condition; nil for all. Values become SQL literals.
    /// - SeeAlso: <https://www.sqlite.org/expridx.html>
    public func create(
        index name: String, on table: String, expressions: [SQL], options: IndexOptions = [], condition: SQL? = nil
    ) throws {
        var index = IndexDefinition(
            name: name, table: table, columns: [], options: options, condition: try condition?.definition(self))
        index.items = try expressions.map { try $0.definition(self) }
        try execute(sql: index.sql)
    }

    /// Creates an index: the former spelling of ``create(index:on:columns:options:condition:)``.
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

    /// Creates an index that is named after its table and columns, as in `index_player_on_team_name`.
    public func create(
        indexOn table: String, columns: [String], options: IndexOptions = [], condition: SQL? = nil
    ) throws {
        let name = IndexDefinition.name(on: table, columns: columns)
        try create(index: name, on: table, columns: columns, options: options, condition: condition)
    }

    /// Drops an index.
    public func drop(index name: String) throws { try execute(sql: "DROP INDEX \(name.quotedDatabaseIdentifier)") }

    /// Drops the index on columns of a table, whatever its name. Without one, nothing happens.
    ///
    /// - Throws: `DatabaseError` when there is no such table, or when the index belongs to a constraint of the table.
    public func drop(indexOn table: String, columns: [String]) throws {
        let wanted = columns.map(\.lowercasedASCII)
        let found = try indexes(on: table).filter { $0.columns.map(\.lowercasedASCII) == wanted }
        // SQLite reports why it keeps the index of a constraint.
        if let index = found.first(where: { $0.origin == .createIndex }) ?? found.first { try drop(index: index.name) }
    }

    // MARK: Views

    /// Creates a view of what a request selects; its arguments become SQL literals.
    ///
    /// - SeeAlso: <https://www.sqlite.org/lang_createview.html>
    public func create<RowDecoder>(
        view name: String, options: ViewOptions = [], columns: [String]? = nil, as request: SQLRequest<RowDecoder>
    ) throws {
        try create(view: name, options: options, columns: columns, asLiteral: request.literal)
    }

    /// Creates a view of what a query selects.
    ///
    /// - Parameter literal: The query; values become SQL literals.
    /// - SeeAlso: <https://www.sqlite.org/lang_createview.html>
    public func create(
        view name: String, options: ViewOptions = [], columns: [String]? = nil, asLiteral literal: SQL
    ) throws {
        var sql = "CREATE \(options.contains(.temporary) ? "TEMPORARY " : "")VIEW "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        sql += name.quotedDatabaseIdentifier
        if let columns { sql += " (\(columns.quotedList))" }
        try execute(sql: "\(sql) AS \(literal.definition(self))")
    }

    /// Drops a view.
    public func drop(view name: String) throws { try execute(sql: "DROP VIEW \(name.quotedDatabaseIdentifier)") }
}

/// An index to be created.
struct IndexDefinition {
    var name: String
    var table: String
    /// The indexed expressions, as SQL.
    var items: [String]
    var options: IndexOptions
    var condition: String?

    init(name: String, table: String, columns: [String], options: IndexOptions, condition: String? = nil) {
        self.name = name
        self.table = table
        items = columns.map(\.quotedDatabaseIdentifier)
        self.options = options
        self.condition = condition
    }

    /// The index of a column that needs one.
    init(on table: String, column: String, options: IndexOptions = []) {
        self.init(name: "\(table)_on_\(column)", table: table, columns: [column], options: options)
    }

    /// The name of an index on several columns.
    static func name(on table: String, columns: [String]) -> String {
        "index_\(table)_on_\(columns.joined(separator: "_"))"
    }

    var sql: String {
        var sql = "CREATE \(options.contains(.unique) ? "UNIQUE " : "")INDEX "
        if options.contains(.ifNotExists) { sql += "IF NOT EXISTS " }
        let items = items.joined(separator: ", ")
        sql += "\(name.quotedDatabaseIdentifier) ON \(table.quotedDatabaseIdentifier)(\(items))"
        return condition.map { "\(sql) WHERE \($0)" } ?? sql
    }
}
