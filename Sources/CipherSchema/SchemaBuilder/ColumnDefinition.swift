import CipherDatabase

/// A column of a table that is being defined. Its methods add constraints and return the column.
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

    package let name: String
    let type: Database.ColumnType?
    private var primaryKey: String?
    private var notNull: String?
    private var uniqueness: String?
    private var checks: [SQL] = []
    private var defaultValue: Result<String, any Error>?
    private var collation: String?
    private var references: [ForeignKeyClause] = []
    private var generation: (expression: SQL, qualification: GeneratedColumnQualification)?
    private var isIndexed = false

    init(name: String, type: Database.ColumnType?) {
        self.name = name
        self.type = type
    }

    var isPrimaryKey: Bool { primaryKey != nil }
    /// Whether an index must be created in addition to the table.
    var needsIndex: Bool { isIndexed && uniqueness == nil }

    /// The definition as SQL; its clauses are in GRDB's order, whatever the order of the calls.
    ///
    /// - Parameter keyColumns: Finds the columns of referenced primary keys.
    func sql(_ keyColumns: KeyColumns, _ db: Database) throws -> String {
        var words = [name.quotedDatabaseIdentifier, type?.rawValue, primaryKey, notNull, uniqueness].compactMap { $0 }
        words += try checks.map { "CHECK (\(try $0.definition(db)))" }
        words += [try defaultValue?.get(), collation].compactMap { $0 }
        words += try references.map { try $0.sql(keyColumns) }
        if let generation {
            let expression = try generation.expression.definition(db)
            words.append("GENERATED ALWAYS AS (\(expression)) \(generation.qualification.rawValue)")
        }
        return words.joined(separator: " ")
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

    /// Refuses a second row with the same value.
    @discardableResult
    public func unique(onConflict conflictResolution: Database.ConflictResolution? = nil) -> Self {
        uniqueness = "UNIQUE" + (conflictResolution?.clauseUnlessDefault ?? "")
        return self
    }

    /// Adds an index on the column; a unique column already has one.
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
        references.append(
            ForeignKeyClause(
                table: table, columns: column.map { [$0] }, deleting: deleteAction, updating: updateAction,
                isDeferred: isDeferred))
        return self
    }

    // MARK: Values

    /// Refuses NULL.
    @discardableResult
    public func notNull(onConflict conflictResolution: Database.ConflictResolution? = nil) -> Self {
        notNull = "NOT NULL" + (conflictResolution?.clauseUnlessDefault ?? "")
        return self
    }

    /// Refuses rows for which an SQL condition is false.
    @discardableResult
    public func check(sql: String) -> Self { check(literal: SQL(sql: sql)) }

    /// Refuses rows for which an SQL condition is false; values become SQL literals.
    package func check(literal: SQL) -> Self {
        checks.append(literal)
        return self
    }

    /// Sets the default value of the column.
    @discardableResult
    public func defaults(to value: some DatabaseValueConvertible) -> Self {
        defaultValue = Result { "DEFAULT \(try value.databaseValue.encodedLiteral())" }
        return self
    }

    /// Sets the default value of the column to an SQL expression, such as `CURRENT_TIMESTAMP`.
    @discardableResult
    public func defaults(sql: String) -> Self {
        defaultValue = .success("DEFAULT \(sql.standsAfterDefault ? sql : "(\(sql))")")
        return self
    }

    /// Compares the column's values by a collation.
    @discardableResult
    public func collate(_ collation: Database.CollationName) -> Self {
        self.collation = "COLLATE \(collation.rawValue)"
        return self
    }

    /// Compares the column's values by a collation.
    @discardableResult
    public func collate(_ collation: DatabaseCollation) -> Self {
        self.collation = "COLLATE \(collation.name)"
        return self
    }

    /// Computes the column from others.
    /// - SeeAlso: <https://www.sqlite.org/gencol.html>
    @discardableResult
    public func generatedAs(sql: String, _ qualification: GeneratedColumnQualification = .virtual) -> Self {
        generatedAs(literal: SQL(sql: sql), qualification)
    }

    /// Computes the column from others; values become SQL literals.
    package func generatedAs(literal: SQL, _ qualification: GeneratedColumnQualification) -> Self {
        generation = (literal, qualification)
        return self
    }
}

extension String {
    /// Whether SQL accepts the text after `DEFAULT` without parentheses: a literal with or without a sign, a word, or
    /// an expression in parentheses.
    /// - SeeAlso: <https://www.sqlite.org/lang_createtable.html#the_default_clause>
    fileprivate var standsAfterDefault: Bool {
        var tokens = SQLToken.tokens(of: self)[...]
        if tokens.count == 2, let sign = tokens.first, sign.isSymbol("-") || sign.isSymbol("+") {
            tokens = tokens.dropFirst()
            return tokens.first?.kind == .number
        }
        guard let first = tokens.first else { return false }
        guard first.isSymbol("(") else { return tokens.count == 1 && first.kind != .symbol && first.kind != .parameter }
        var depth = 0
        for (index, token) in zip(tokens.indices, tokens) {
            if token.isSymbol("(") { depth += 1 }
            if token.isSymbol(")") { depth -= 1 }
            if depth == 0 { return index == tokens.index(before: tokens.endIndex) }
        }
        return false
    }
}
