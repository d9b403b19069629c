import CipherDatabase

/// A table that is being defined: `Database.create(table:options:body:)` passes it to its closure.
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html>
public final class TableDefinition {
    enum Component {
        case column(ColumnDefinition)
        case columnText(SQL)
        case belongsTo(ForeignKeyDefinition)
        case foreignKey(ForeignKeyConstraint)
    }

    /// A part of a primary key.
    enum KeyMember {
        case named(String)
        case column(ColumnDefinition)
        case belongsTo(ForeignKeyDefinition)
    }

    struct PrimaryKey {
        var members: [KeyMember]
        var suffix: String
    }

    let name: String
    private(set) var components: [Component] = []
    /// One; more are an error, which SQLite reports.
    private(set) var primaryKeys: [PrimaryKey] = []
    private(set) var uniqueKeys: [String] = []
    private(set) var checks: [SQL] = []
    private(set) var constraintTexts: [SQL] = []
    /// Whether what is added belongs to the primary key.
    private var definesPrimaryKey = false

    init(name: String) { self.name = name }

    // MARK: Columns

    /// Adds a column.
    @discardableResult
    public func column(_ name: String, _ type: Database.ColumnType? = nil) -> ColumnDefinition {
        let column = ColumnDefinition(name: name, type: type)
        components.append(.column(column))
        if definesPrimaryKey {
            column.notNull()
            addToPrimaryKey(.column(column))
        }
        return column
    }

    /// Adds a column by its definition as SQL.
    public func column(sql: String) { column(literal: SQL(sql: sql)) }

    /// Adds a column by its definition as SQL; values become SQL literals: `t.column(literal: "a DEFAULT \(name)")`.
    public func column(literal: SQL) { components.append(.columnText(literal)) }

    /// Adds a primary key column with automatic numbers, none of which is used twice.
    /// - SeeAlso: <https://www.sqlite.org/autoinc.html>
    @discardableResult
    public func autoIncrementedPrimaryKey(
        _ name: String, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) -> ColumnDefinition {
        column(name, .integer).primaryKey(onConflict: conflictResolution, autoincrement: true)
    }

    // MARK: Keys

    /// Adds the column of the primary key, which refuses NULL; one of type `.integer` has automatic numbers instead.
    @discardableResult
    public func primaryKey(
        _ name: String, _ type: Database.ColumnType, onConflict conflictResolution: Database.ConflictResolution? = nil
    ) -> ColumnDefinition {
        let column = column(name, type).primaryKey(onConflict: conflictResolution)
        return type == .integer ? column : column.notNull()
    }

    /// Makes several columns the primary key.
    public func primaryKey(_ columns: [String], onConflict conflictResolution: Database.ConflictResolution? = nil) {
        primaryKeys.append(PrimaryKey(members: columns.map(KeyMember.named), suffix: conflictResolution?.clause ?? ""))
    }

    /// Makes the columns that a closure adds the primary key; they refuse NULL.
    public func primaryKey(
        onConflict conflictResolution: Database.ConflictResolution? = nil, body: () throws -> Void
    ) rethrows {
        primaryKeys.append(PrimaryKey(members: [], suffix: conflictResolution?.clause ?? ""))
        definesPrimaryKey = true
        defer { definesPrimaryKey = false }
        try body()
    }

    private func addToPrimaryKey(_ member: KeyMember) { primaryKeys[primaryKeys.count - 1].members.append(member) }

    /// Refuses a second row with the same values in several columns.
    public func uniqueKey(_ columns: [String], onConflict conflictResolution: Database.ConflictResolution? = nil) {
        uniqueKeys.append("UNIQUE (\(columns.quotedList))" + (conflictResolution?.clause ?? ""))
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
        components.append(.foreignKey(ForeignKeyConstraint(columns: columns, clause: clause)))
    }

    /// Adds what a row needs to refer to one of another table: `belongsTo("team")` adds a column `teamId` that refers
    /// to the `id` of table `team` or `teams`, with an index. If the primary key of that table has several columns, so
    /// has the reference.
    ///
    /// `Database.create(table:options:body:)` throws `DatabaseError` when there is no such table. A reference to a
    /// table without a primary key uses its rowid, as in GRDB; SQLite then refuses rows while it enforces foreign keys.
    /// A reference of a table to itself, where its primary key is written as SQL, assumes one integer column `id`.
    ///
    /// - Parameters:
    ///   - name: The name of the relation, before that of the key.
    ///   - table: The other table, which exists or is being defined; nil for the one called `name`, or its plural: see
    ///     ``Inflections``.
    @discardableResult
    public func belongsTo(
        _ name: String, inTable table: String? = nil, onDelete deleteAction: Database.ForeignKeyAction? = nil,
        onUpdate updateAction: Database.ForeignKeyAction? = nil, deferred isDeferred: Bool = false, indexed: Bool = true
    ) -> ForeignKeyDefinition {
        let reference = ForeignKeyDefinition(
            name: name, table: table, deleting: deleteAction, updating: updateAction, isDeferred: isDeferred,
            isIndexed: indexed)
        components.append(.belongsTo(reference))
        if definesPrimaryKey {
            reference.becomePrimaryKey()
            addToPrimaryKey(.belongsTo(reference))
        }
        return reference
    }

    // MARK: Constraints

    /// Refuses rows for which an SQL condition is false.
    public func check(sql: String) { check(literal: SQL(sql: sql)) }

    /// Refuses rows for which an SQL condition is false; values become SQL literals.
    package func check(literal: SQL) { checks.append(literal) }

    /// Adds a constraint by its definition as SQL.
    public func constraint(sql: String) { constraint(literal: SQL(sql: sql)) }

    /// Adds a constraint by its definition as SQL; values become SQL literals.
    public func constraint(literal: SQL) { constraintTexts.append(literal) }
}
