/// A table that is being defined: what ``Database/create(table:options:body:)`` hands to its closure.
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html>
public final class TableDefinition {
    let name: String
    private let database: Database
    private var columns: [ColumnDefinition] = []
    /// Columns and constraints, in order; SQL requires the constraints behind the columns.
    private var columnTexts: [() -> String] = []
    private var constraints: [String] = []
    private var keyColumns: [String]?
    private var addedIndexes: [[String]] = []

    init(name: String, database: Database) {
        self.name = name
        self.database = database
    }

    /// The columns on which indexes are to be made, for each index.
    var indexes: [[String]] { columns.filter(\.needsIndex).map { [$0.name] } + addedIndexes }

    /// What stands between the parentheses.
    var sql: String { (columnTexts.map { $0() } + constraints).joined(separator: ", ") }

    /// The columns of the primary key, as far as they are defined.
    private var primaryKeyColumns: [ColumnDefinition] {
        let marked = columns.filter(\.isPrimaryKey)
        guard marked.isEmpty, let keyColumns else { return marked }
        return keyColumns.compactMap { name in columns.first { $0.name == name } }
    }

    // MARK: Columns

    /// Adds a column.
    @discardableResult
    public func column(_ name: String, _ type: Database.ColumnType? = nil) -> ColumnDefinition {
        let column = ColumnDefinition(name: name, type: type)
        columns.append(column)
        columnTexts.append { column.sql }
        return column
    }

    /// Adds a column by its definition as SQL.
    public func column(sql: String) { columnTexts.append { sql } }

    /// Adds a column by its definition as SQL.
    public func column(literal: SQL) throws { column(sql: try literal.definition()) }

    /// Adds the column of a primary key that counts by itself, and never gives a number twice.
    /// - SeeAlso: <https://www.sqlite.org/autoinc.html>
    @discardableResult
    public func autoIncrementedPrimaryKey(
        _ name: String, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) -> ColumnDefinition {
        column(name, .integer).primaryKey(onConflict: conflictResolution, autoincrement: true)
    }

    // MARK: Keys

    /// Adds the column of the primary key, which refuses NULL.
    @discardableResult
    public func primaryKey(
        _ name: String, _ type: Database.ColumnType, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) -> ColumnDefinition {
        column(name, type).primaryKey(onConflict: conflictResolution).notNull()
    }

    /// Makes several columns the primary key.
    public func primaryKey(_ columns: [String], onConflict conflictResolution: Database.ConflictResolution? = nil) {
        keyColumns = columns
        constraints.append("PRIMARY KEY (\(columns.quotedList))" + (conflictResolution?.clause ?? ""))
    }

    /// Makes the columns that a closure adds the primary key; they refuse NULL.
    public func primaryKey(
        onConflict conflictResolution: Database.ConflictResolution? = nil, body: () throws -> Void
    ) rethrows {
        let first = columns.count
        try body()
        let added = columns[first...]
        for column in added { column.notNull() }
        primaryKey(added.map(\.name), onConflict: conflictResolution)
    }

    /// Refuses two rows that have the same values in several columns.
    public func uniqueKey(_ columns: [String], onConflict conflictResolution: Database.ConflictResolution? = nil) {
        constraints.append("UNIQUE (\(columns.quotedList))" + (conflictResolution?.clause ?? ""))
    }

    /// Makes columns refer to another table.
    ///
    /// - Parameter destinationColumns: Columns of that table; nil for its primary key.
    public func foreignKey(
        _ columns: [String], references table: String, columns destinationColumns: [String]? = nil,
        onDelete deleteAction: Database.ForeignKeyAction? = nil,
        onUpdate updateAction: Database.ForeignKeyAction? = nil, deferred isDeferred: Bool = false
    ) {
        let clause = ForeignKeyClause(
            table: table, columns: destinationColumns, deleting: deleteAction, updating: updateAction,
            isDeferred: isDeferred)
        constraints.append("FOREIGN KEY (\(columns.quotedList)) \(clause.sql)")
    }

    /// Adds what a row needs to refer to one of another table: `belongsTo("team")` adds a column `teamId` that refers to
    /// the `id` of table `team` or `teams`, with an index.
    ///
    /// - Parameters:
    ///   - name: The name of the relation, before that of the key.
    ///   - table: The other table, which exists or is being defined; nil for the one called `name`, or its plural.
    /// - Returns: The column; the constraints of the first where the key has several.
    /// - Throws: ``DatabaseError`` when the table, or a column of its key, is not there.
    @discardableResult
    public func belongsTo(
        _ name: String, inTable table: String? = nil, onDelete deleteAction: Database.ForeignKeyAction? = nil,
        onUpdate updateAction: Database.ForeignKeyAction? = nil, deferred isDeferred: Bool = false, indexed: Bool = true
    ) throws -> ColumnDefinition {
        let table = try table ?? tableNamed(like: name)
        let keys = try keyColumns(of: table)
        let added = keys.map { key in column(name + key.name.prefix(1).uppercased() + key.name.dropFirst(), key.type) }
        guard let first = added.first, let key = keys.first else {
            throw DatabaseError(message: "table \(table) has no primary key that a row could refer to")
        }
        if added.count == 1 {
            first.references(
                table, column: key.name, onDelete: deleteAction, onUpdate: updateAction, deferred: isDeferred)
        } else {
            foreignKey(
                added.map(\.name), references: table, columns: keys.map(\.name), onDelete: deleteAction,
                onUpdate: updateAction, deferred: isDeferred)
        }
        if indexed { addedIndexes.append(added.map(\.name)) }
        return first
    }

    private func tableNamed(like name: String) throws -> String {
        let plurals = [name + "s", name + "es", name.hasSuffix("y") ? name.dropLast() + "ies" : name + "s"]
        for candidate in [name] + plurals {
            if candidate.lowercased() == self.name.lowercased() { return self.name }
            if try database.tableExists(candidate) { return candidate }
        }
        throw DatabaseError(message: "no such table: \(name)")
    }

    private func keyColumns(of table: String) throws -> [(name: String, type: Database.ColumnType?)] {
        if table.lowercased() == name.lowercased() { return primaryKeyColumns.map { ($0.name, $0.type) } }
        let infos = try database.columns(in: table)
        return try database.primaryKey(table).columns.compactMap { key in
            infos.first { $0.name == key }.map { info in
                (info.name, info.type.isEmpty ? nil : Database.ColumnType(rawValue: info.type))
            }
        }
    }

    // MARK: Constraints

    /// Refuses rows for which an SQL condition is false.
    public func check(sql: String) { constraints.append("CHECK (\(sql))") }

    /// Adds a constraint by its definition as SQL.
    public func constraint(sql: String) { constraints.append(sql) }

    /// Adds a constraint by its definition as SQL.
    public func constraint(literal: SQL) throws { constraint(sql: try literal.definition()) }
}
