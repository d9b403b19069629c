/// A column of a table that is being defined. Its methods add constraints, and give it back.
///
/// ```swift
/// t.column("email", .text).notNull().unique().collate(.nocase)
/// ```
/// - SeeAlso: <https://www.sqlite.org/lang_createtable.html#column_definitions>
public final class ColumnDefinition {
    /// Whether a generated column is computed when it is read, or stored.
    public enum GeneratedColumnQualification: String, Sendable {
        case virtual = "VIRTUAL"
        case stored = "STORED"
    }

    let name: String
    let type: Database.ColumnType?
    private var primaryKey: String?
    private var notNull: String?
    private var uniqueness: String?
    private var others: [String] = []
    private(set) var reference: ForeignKeyClause?
    private(set) var isIndexed = false

    init(name: String, type: Database.ColumnType?) {
        self.name = name
        self.type = type
    }

    var isPrimaryKey: Bool { primaryKey != nil }
    /// Whether an index has to be made beside the table.
    var needsIndex: Bool { isIndexed && uniqueness == nil }

    /// The definition as SQL.
    var sql: String {
        let words = [name.quotedDatabaseIdentifier, type?.rawValue, primaryKey, notNull, uniqueness].compactMap { $0 }
        return (words + others + [reference?.sql].compactMap { $0 }).joined(separator: " ")
    }

    // MARK: Keys

    /// Makes the column the primary key.
    @discardableResult
    public func primaryKey(
        onConflict conflictResolution: Database.ConflictResolution? = nil, autoincrement: Bool = false
    ) -> Self {
        primaryKey = "PRIMARY KEY" + (conflictResolution?.clause ?? "") + (autoincrement ? " AUTOINCREMENT" : "")
        return self
    }

    /// Refuses two rows of one value.
    @discardableResult
    public func unique(onConflict conflictResolution: Database.ConflictResolution? = nil) -> Self {
        uniqueness = "UNIQUE" + (conflictResolution?.clause ?? "")
        return self
    }

    /// Adds an index on the column; a unique one has it already.
    @discardableResult
    public func indexed() -> Self {
        isIndexed = true
        return self
    }

    /// Makes the column refer to another table.
    ///
    /// - Parameter column: A column of that table; nil for its primary key.
    @discardableResult
    public func references(
        _ table: String, column: String? = nil, onDelete deleteAction: Database.ForeignKeyAction? = nil,
        onUpdate updateAction: Database.ForeignKeyAction? = nil, deferred isDeferred: Bool = false
    ) -> Self {
        reference = ForeignKeyClause(
            table: table, columns: column.map { [$0] }, deleting: deleteAction, updating: updateAction,
            isDeferred: isDeferred)
        return self
    }

    // MARK: Values

    /// Refuses NULL.
    @discardableResult
    public func notNull(onConflict conflictResolution: Database.ConflictResolution? = nil) -> Self {
        notNull = "NOT NULL" + (conflictResolution?.clause ?? "")
        return self
    }

    /// Refuses rows for which an SQL condition is false.
    @discardableResult
    public func check(sql: String) -> Self { adding("CHECK (\(sql))") }

    /// Gives rows without a value this one.
    @discardableResult
    public func defaults(to value: some DatabaseValueConvertible) -> Self {
        adding("DEFAULT \(value.databaseValue)")
    }

    /// Gives rows without a value that of an SQL expression, such as `CURRENT_TIMESTAMP`.
    @discardableResult
    public func defaults(sql: String) -> Self { adding("DEFAULT \(sql.isKeyword ? sql : "(\(sql))")") }

    /// Compares the column's values by a collation.
    @discardableResult
    public func collate(_ collation: Database.CollationName) -> Self { adding("COLLATE \(collation.rawValue)") }

    /// Compares the column's values by a collation.
    @discardableResult
    public func collate(_ collation: DatabaseCollation) -> Self { adding("COLLATE \(collation.name)") }

    /// Computes the column from others.
    /// - SeeAlso: <https://www.sqlite.org/gencol.html>
    @discardableResult
    public func generatedAs(sql: String, _ qualification: GeneratedColumnQualification = .virtual) -> Self {
        adding("GENERATED ALWAYS AS (\(sql)) \(qualification.rawValue)")
    }

    private func adding(_ clause: String) -> Self {
        others.append(clause)
        return self
    }
}

extension String {
    /// Whether the text is a name or a number, which stands behind `DEFAULT` without parentheses.
    fileprivate var isKeyword: Bool { allSatisfy { $0.isLetter || $0.isNumber || $0 == "_" } }
}
