/// The operands of SQL's operators: columns, expressions, `SQL` and requests. Plain values are not among it: `1 + 2`
/// stays a matter of Swift. `1.databaseValue` is.
public protocol SQLSpecificExpressible: SQLExpressible, SQLSelectable, SQLOrderingTerm {}

/// The selectable parts of a request.
public protocol SQLSelectable {
    var sqlSelection: SQLSelection { get }
}

/// The ordering terms of a request.
public protocol SQLOrderingTerm {
    var sqlOrdering: SQLOrdering { get }
}

/// A query that may stand within another one.
public protocol SQLSubqueryable: SQLSpecificExpressible {
    /// The query.
    var sqlSubquery: SQLSubquery { get }
}

/// The selection of a request: a column, an expression, or several columns.
public struct SQLSelection: Sendable {
    package enum Part: Sendable {
        case expression(SQLExpression)
        case fragment(any SQLFragment)
    }

    package let part: Part

    package init(_ part: Part) { self.part = part }
}

/// An expression with its direction.
public struct SQLOrdering: Sendable {
    package enum Direction: Sendable {
        case ascending
        case explicitlyAscending
        case descending
        case ascendingNullsLast
        case descendingNullsFirst
        /// That of SQL text, which may have directions in it, and commas.
        case unknown
    }

    package let expression: SQLExpression
    package let direction: Direction

    package init(_ expression: SQLExpression, _ direction: Direction) {
        self.expression = expression
        self.direction = direction
    }
}

/// A query within another one.
public struct SQLSubquery: Sendable {
    package enum Query: Sendable {
        case literal(SQL)
        case fragment(any SQLFragment)
        /// A query that only its request can write, when there is a connection.
        case prepared(@Sendable (Database) throws -> SQL)
    }

    package let query: Query

    package init(_ query: Query) { self.query = query }
}

extension SQLSelection: SQLSelectable {
    public var sqlSelection: SQLSelection { self }
}

extension SQLOrdering: SQLOrderingTerm {
    public var sqlOrdering: SQLOrdering { self }
}

extension SQLSubquery: SQLSubqueryable {
    public var sqlSubquery: SQLSubquery { self }
}

extension SQLSpecificExpressible {
    public var sqlSelection: SQLSelection { SQLSelection(.expression(sqlExpression)) }
    public var sqlOrdering: SQLOrdering { SQLOrdering(sqlExpression, .ascending) }
}

extension SQLSubqueryable {
    /// The request as a query in parentheses: the value of its first row and column.
    public var sqlExpression: SQLExpression { SQLExpression(.subquery(sqlSubquery)) }
}

extension SQLSelectable where Self: RawRepresentable, RawValue: SQLSelectable {
    /// The selection of the raw value.
    public var sqlSelection: SQLSelection { rawValue.sqlSelection }
}

extension SQLOrderingTerm where Self: RawRepresentable, RawValue: SQLOrderingTerm {
    /// The ordering term of the raw value.
    public var sqlOrdering: SQLOrdering { rawValue.sqlOrdering }
}

extension SQLSpecificExpressible where Self: RawRepresentable, RawValue: SQLSpecificExpressible {
    /// The selection of the raw value.
    public var sqlSelection: SQLSelection { rawValue.sqlSelection }
    /// The ordering term of the raw value.
    public var sqlOrdering: SQLOrdering { rawValue.sqlOrdering }
}

extension Optional: SQLSelectable where Wrapped: SQLSelectable {
    /// The wrapped selection; NULL for nil.
    public var sqlSelection: SQLSelection {
        self?.sqlSelection ?? SQLSelection(.expression(SQLExpression(.value(.null))))
    }
}

extension Optional: SQLOrderingTerm where Wrapped: SQLOrderingTerm {
    /// The wrapped ordering term; NULL for nil, which orders nothing.
    public var sqlOrdering: SQLOrdering { self?.sqlOrdering ?? SQLOrdering(SQLExpression(.value(.null)), .ascending) }
}

extension Optional: SQLSpecificExpressible where Wrapped: SQLSpecificExpressible {}
