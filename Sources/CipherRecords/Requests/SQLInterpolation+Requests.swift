import CipherDatabase
import CipherSchema

// The additions of the query interface to SQL interpolation: tables, columns, expressions and requests become SQL,
// never parameters.

extension SQLInterpolation {
    /// The name of a record type's table: `SELECT * FROM \(Player.self)`.
    public mutating func appendInterpolation<Record: TableRecord>(_ type: Record.Type) {
        appendInterpolation(identifier: type.databaseTableName)
    }

    /// The name of a record type's table.
    public mutating func appendInterpolation(_ type: any TableRecord.Type) {
        appendInterpolation(identifier: type.databaseTableName)
    }

    /// The name of a record's table: `DELETE FROM \(tableOf: player)`.
    public mutating func appendInterpolation(tableOf record: any TableRecord) {
        appendInterpolation(identifier: type(of: record).databaseTableName)
    }

    /// The name of a table.
    public mutating func appendInterpolation<T>(_ table: Table<T>) { appendInterpolation(identifier: table.tableName) }

    /// The selection of a record type's requests: `SELECT \(columnsOf: Player.self) FROM player`.
    ///
    /// - Parameter alias: The name of the table in the statement; nil for its own.
    public mutating func appendInterpolation<Record: TableRecord>(
        columnsOf type: Record.Type, tableAlias alias: String? = nil
    ) {
        append(Term(.columns(Record.relation.selection, table: Record.databaseTableName, qualifier: alias)))
    }

    /// A column: `WHERE \(Column("score")) > \(score)`.
    public mutating func appendInterpolation(_ column: some ColumnExpression) { append(Term(column)) }

    /// A column that is a coding key as well.
    public mutating func appendInterpolation(_ column: some ColumnExpression & CodingKey) { append(Term(column)) }

    /// An expression; in parentheses where operators stand beside it: `WHERE \(first || second) AND active`.
    public mutating func appendInterpolation(_ expression: some SQLSpecificExpressible) { append(Term(expression)) }

    /// An expression; in parentheses where operators stand beside it. A value becomes a parameter.
    @_disfavoredOverload
    public mutating func appendInterpolation(_ expression: (any SQLExpressible)?) {
        append(expression.map { Term($0.sqlExpression) } ?? Term(DatabaseValue.null))
    }

    /// The selection of a type: `SELECT \(selection)`; NULL for nil.
    @_disfavoredOverload
    public mutating func appendInterpolation(_ selection: (any SQLSelectable)?) {
        if let selection { appendInterpolation(selection.sqlSelection) } else { append(Term(DatabaseValue.null)) }
    }

    /// An order: `ORDER BY \(ordering)`.
    @_disfavoredOverload
    public mutating func appendInterpolation(_ ordering: any SQLOrderingTerm) {
        appendInterpolation(ordering.sqlOrdering)
    }

    /// A stored value, as a parameter.
    public mutating func appendInterpolation(_ value: DatabaseValue) { append(Term(value)) }

    /// The selection of a request, with its name: `SELECT \(max(Column("score")).forKey("best"))`.
    public mutating func appendInterpolation(_ selection: SQLSelection) {
        append(Term(.columns([selection.content], table: "", qualifier: nil)))
    }

    /// All columns: `*`.
    public mutating func appendInterpolation(_ selection: AllColumns) { appendLiteral("*") }

    /// An expression with its direction: `ORDER BY \(Column("score").desc)`.
    public mutating func appendInterpolation(_ ordering: SQLOrdering) {
        append(ordering.term)
        appendLiteral(ordering.direction.sql)
    }

    /// A request as a query, without parentheses: `SELECT COUNT(*) FROM (\(request))`.
    public mutating func appendInterpolation(_ request: some SQLSubqueryable) {
        append(Term(.bareQuery(request.sqlSubquery.content)))
    }

    /// The name of a common table expression: `SELECT * FROM \(best)`.
    public mutating func appendInterpolation<T>(_ cte: CommonTableExpression<T>) {
        appendInterpolation(identifier: cte.tableName)
    }

    /// A common table expression as it stands after `WITH`: `WITH \(definitionFor: best) SELECT ...`.
    public mutating func appendInterpolation<T>(definitionFor cte: CommonTableExpression<T>) {
        append(Term(.definition(cte.table)))
    }

    /// Several expressions in parentheses, as after `IN`; for none, a query without rows.
    @_disfavoredOverload
    public mutating func appendInterpolation<Expressions: Sequence>(_ expressions: Expressions)
    where Expressions.Element: SQLSpecificExpressible {
        appendList(expressions.map { Term($0) })
    }

    /// Several stored values in parentheses, as after `IN`; for none, a query without rows.
    // More special than the forms for values and for expressions: their elements may be both.
    @_disfavoredOverload
    public mutating func appendInterpolation<Expressions: Sequence>(_ expressions: Expressions)
    where Expressions.Element: SQLSpecificExpressible & DatabaseValueConvertible {
        appendList(expressions.map { Term($0) })
    }

    /// Several expressions and values in parentheses, as after `IN`; for none, a query without rows.
    @_disfavoredOverload
    public mutating func appendInterpolation<Expressions: Sequence>(_ expressions: Expressions)
    where Expressions.Element == any SQLExpressible {
        appendList(expressions.map { Term($0.sqlExpression) })
    }

    private mutating func appendList(_ terms: [Term]) {
        appendLiteral("(")
        if terms.isEmpty { appendLiteral("SELECT NULL WHERE NULL") }
        for (index, term) in terms.enumerated() {
            if index > 0 { appendLiteral(",") }
            append(term)
        }
        appendLiteral(")")
    }

    private mutating func append(_ term: Term) { appendInterpolation(literal: SQL(term)) }
}

extension SQL {
    /// An expression as SQL: `[SQL(Column("name")), SQL("!")].joined(separator: " || ")`.
    public init(_ expression: some SQLSpecificExpressible) { self.init(Term(expression)) }

    init(_ term: Term) {
        switch term {
        case .value(let bound) where bound.value.isNull: self.init(sql: "NULL")
        case .value(let bound): self.init(sql: "?", arguments: [bound.value])
        case .node(let node): self.init(fragment: node)
        }
    }
}

extension Database {
    /// Makes a view of what a request selects; its values become SQL literals.
    ///
    /// - SeeAlso: <https://www.sqlite.org/lang_createview.html>
    public func create(
        view name: String, options: ViewOptions = [], columns: [String]? = nil, as request: some SQLSubqueryable
    ) throws {
        try create(view: name, options: options, columns: columns, asLiteral: "\(request)")
    }
}
