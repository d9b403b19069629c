/// A type whose values can stand where SQL takes an expression: Swift values, columns, results of operators, requests.
///
/// Make a type of your own one by returning the expression that it stands for:
///
/// ```swift
/// extension Price: SQLExpressible {
///     var sqlExpression: SQLExpression { (Column("amount") * Column("rate")).sqlExpression }
/// }
/// ```
public protocol SQLExpressible {
    /// The value as an SQL expression.
    var sqlExpression: SQLExpression { get }
}

/// An SQL expression: a value, or what the query interface made of columns, operators and functions.
public struct SQLExpression: Sendable {
    package enum Content: Sendable {
        case value(DatabaseValue)
        case fragment(any SQLFragment)
        case subquery(SQLSubquery)
    }

    package let content: Content

    package init(_ content: Content) { self.content = content }
}

extension SQLExpression: SQLExpressible {
    public var sqlExpression: SQLExpression { self }
}

extension SQLExpressible where Self: RawRepresentable, RawValue: SQLExpressible {
    /// The raw value.
    public var sqlExpression: SQLExpression { rawValue.sqlExpression }
}

extension DatabaseValueConvertible where Self: RawRepresentable, RawValue: SQLExpressible {
    /// The value itself, which becomes a parameter of the statement.
    public var sqlExpression: SQLExpression { SQLExpression(.value(databaseValue)) }
}

extension DatabaseValueConvertible {
    /// The value itself, which becomes a parameter of the statement.
    public var sqlExpression: SQLExpression { SQLExpression(.value(databaseValue)) }
}

extension Optional: SQLExpressible where Wrapped: SQLExpressible {
    /// The wrapped value; NULL for nil.
    public var sqlExpression: SQLExpression { self?.sqlExpression ?? SQLExpression(.value(.null)) }
}

extension Optional where Wrapped: DatabaseValueConvertible {
    /// The wrapped value; NULL for nil.
    public var sqlExpression: SQLExpression { SQLExpression(.value(databaseValue)) }
}

/// A part of an SQL text that is written when its statement is made, because it may depend on the database: what the
/// query interface of the layer above interpolates into ``SQL``.
package protocol SQLFragment: AnyObject, Sendable {
    /// How the text holds together among operators.
    var form: FragmentForm { get }

    /// The text and the values of its parameters.
    func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue])
}

extension SQLFragment {
    package var form: FragmentForm { .single }
}
