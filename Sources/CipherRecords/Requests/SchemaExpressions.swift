import CipherDatabase
import CipherSchema

// Definitions of tables and indexes by expressions. Their values become SQL literals.

extension TableDefinition {
    /// Refuses rows for which a condition is false: `t.check(Column("a") < Column("b"))`.
    public func check(_ condition: some SQLSpecificExpressible) { check(literal: SQL(Term(condition))) }

    /// Refuses rows for which a condition is false: `t.check(Column("a") < Column("b"))`.
    @_disfavoredOverload
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func check(_ condition: some SQLExpressible) { check(literal: SQL(Term(condition))) }
}

extension ColumnDefinition {
    /// Refuses rows for which a condition on the column is false: `t.column("score").check { $0 >= 0 }`.
    ///
    /// - Parameter condition: The condition, given the column.
    @discardableResult
    public func check(_ condition: (Column) -> any SQLSpecificExpressible) -> Self {
        check(literal: SQL(Term(condition(Column(name)).sqlExpression)))
    }

    /// Refuses rows for which a condition on the column is false: `t.column("score").check { $0 >= 0 }`.
    ///
    /// - Parameter condition: The condition, given the column.
    @discardableResult
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func check(_ condition: (Column) -> any SQLExpressible) -> Self {
        check(literal: SQL(Term(condition(Column(name)).sqlExpression)))
    }

    /// Computes the column from others: `t.column("total").generatedAs(Column("price") * Column("count"))`.
    /// - SeeAlso: <https://www.sqlite.org/gencol.html>
    @discardableResult
    public func generatedAs(
        _ expression: some SQLSpecificExpressible, _ qualification: GeneratedColumnQualification = .virtual
    ) -> Self {
        generatedAs(literal: SQL(Term(expression)), qualification)
    }

    /// Computes the column from others: `t.column("total").generatedAs(Column("price") * Column("count"))`.
    /// - SeeAlso: <https://www.sqlite.org/gencol.html>
    @discardableResult
    @_disfavoredOverload
    public func generatedAs(
        _ expression: some SQLExpressible, _ qualification: GeneratedColumnQualification = .virtual
    ) -> Self {
        generatedAs(literal: SQL(Term(expression)), qualification)
    }
}

extension Database {
    /// Creates an index of some rows.
    ///
    /// - Parameter condition: The rows that it contains.
    /// - SeeAlso: <https://www.sqlite.org/partialindex.html>
    @_disfavoredOverload
    public func create(
        index name: String, on table: String, columns: [String], options: IndexOptions = [],
        condition: some SQLSpecificExpressible
    ) throws {
        try create(index: name, on: table, columns: columns, options: options, condition: SQL(Term(condition)))
    }

    /// Creates an index of some rows: the former spelling of ``create(index:on:columns:options:condition:)``.
    @_disfavoredOverload
    public func create(
        index name: String, on table: String, columns: [String], unique: Bool, ifNotExists: Bool = false,
        condition: some SQLSpecificExpressible
    ) throws {
        var options: IndexOptions = []
        if unique { options.insert(.unique) }
        if ifNotExists { options.insert(.ifNotExists) }
        try create(index: name, on: table, columns: columns, options: options, condition: SQL(Term(condition)))
    }

    /// Creates an index of some rows that is named after its table and columns, as in `index_player_on_team_name`.
    ///
    /// - Parameter condition: The rows that it contains.
    @_disfavoredOverload
    public func create(
        indexOn table: String, columns: [String], options: IndexOptions = [], condition: some SQLSpecificExpressible
    ) throws {
        try create(indexOn: table, columns: columns, options: options, condition: SQL(Term(condition)))
    }

    /// Creates an index on expressions, or on columns by another collation.
    ///
    /// ```swift
    /// try db.create(index: "byName", on: "player", expressions: [Column("name").collating(.nocase)])
    /// ```
    ///
    /// - Parameter condition: The rows that it contains; nil for all.
    /// - SeeAlso: <https://www.sqlite.org/expridx.html>
    @_disfavoredOverload
    public func create(
        index name: String, on table: String, expressions: [any SQLExpressible], options: IndexOptions = [],
        condition: (any SQLSpecificExpressible)? = nil
    ) throws {
        try create(
            index: name, on: table, expressions: expressions.map { SQL(Term($0.sqlExpression)) }, options: options,
            condition: condition.map { SQL(Term($0.sqlExpression)) })
    }
}
