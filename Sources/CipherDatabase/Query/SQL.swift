/// SQL text together with the values of its parameters.
///
/// Values that are interpolated become parameters, never text:
///
/// ```swift
/// let query: SQL = "UPDATE player SET name = \(name) WHERE id IN \(ids)"
/// try db.execute(literal: query)
/// ```
public struct SQL: Sendable {
    private(set) var text: String
    private(set) var arguments: StatementArguments

    /// SQL text, used unchanged, with the values of its parameters.
    public init(sql: String, arguments: StatementArguments = StatementArguments()) {
        text = sql
        self.arguments = arguments
    }

    /// Whether there is no text.
    public var isEmpty: Bool { text.isEmpty }

    /// The text with its parameters, and their values.
    public func build(_ db: Database) throws -> (sql: String, arguments: StatementArguments) { (text, arguments) }

    // MARK: Joining

    public static func + (left: SQL, right: SQL) -> SQL {
        var sum = left
        sum += right
        return sum
    }

    public static func += (left: inout SQL, right: SQL) { left.append(sql: right.text, arguments: right.arguments) }

    /// Appends text with values.
    public mutating func append(literal: SQL) { self += literal }

    /// Appends SQL text, used unchanged, with the values of its parameters.
    public mutating func append(sql: String, arguments: StatementArguments = StatementArguments()) {
        text += sql
        self.arguments += arguments
    }
}

extension Sequence where Element == SQL {
    /// The concatenated texts, with their values.
    ///
    /// - Parameter separator: SQL text between each two of them.
    public func joined(separator: String = "") -> SQL {
        var joined = SQL(sql: "")
        var isFirst = true
        for element in self {
            if !isFirst { joined.append(sql: separator) }
            joined += element
            isFirst = false
        }
        return joined
    }
}

extension Collection where Element == SQL {
    /// The concatenated texts, with their values.
    ///
    /// - Parameter separator: SQL text between each two of them.
    // Collections of text literals have a `joined(separator:)` of the standard library too, which would make both fit.
    public func joined(separator: String = "") -> SQL { AnySequence(self).joined(separator: separator) }
}

extension SQL: ExpressibleByStringInterpolation {
    public init(stringLiteral sql: String) { self.init(sql: sql) }

    public init(stringInterpolation interpolation: SQLInterpolation) { self = interpolation.sql }
}

/// Builds ``SQL`` from a string literal with interpolations.
public struct SQLInterpolation: StringInterpolationProtocol, Sendable {
    fileprivate var sql = SQL(sql: "")

    public init(literalCapacity: Int, interpolationCount: Int) {}

    public mutating func appendLiteral(_ text: String) { sql.append(sql: text) }

    /// Text, used unchanged: `\(sql: "ORDER BY name")`. Never pass it text from outside of the program.
    public mutating func appendInterpolation(sql text: String, arguments: StatementArguments = StatementArguments()) {
        sql.append(sql: text, arguments: arguments)
    }

    /// Other SQL, with its values: `\(literal: condition)`.
    public mutating func appendInterpolation(literal: SQL) { sql += literal }

    /// Other SQL, with its values: `\(condition)`.
    public mutating func appendInterpolation(_ literal: SQL) { sql += literal }

    /// The name of a table or column, quoted: `\(identifier: "order")`.
    public mutating func appendInterpolation(identifier name: String) {
        sql.append(sql: name.quotedDatabaseIdentifier)
    }

    /// The name of a column, quoted: `\(CodingKeys.name)`.
    public mutating func appendInterpolation(_ key: some CodingKey) {
        sql.append(sql: key.stringValue.quotedDatabaseIdentifier)
    }

    /// The name of a collation: `ORDER BY name COLLATE \(collation)`.
    public mutating func appendInterpolation(_ collation: DatabaseCollation) {
        sql.append(sql: collation.name.quotedDatabaseIdentifier)
    }

    /// The name of a collation: `ORDER BY name COLLATE \(.nocase)`.
    public mutating func appendInterpolation(_ collation: Database.CollationName) {
        sql.append(sql: collation.rawValue.quotedDatabaseIdentifier)
    }

    /// A value, as a parameter.
    public mutating func appendInterpolation<Value: DatabaseValueConvertible>(_ value: Value) {
        sql.append(sql: "?", arguments: StatementArguments([value.databaseValue]))
    }

    /// A value, as a parameter; NULL for nil.
    public mutating func appendInterpolation<Value: DatabaseValueConvertible>(_ value: Value?) {
        appendInterpolation(value?.databaseValue ?? .null)
    }

    /// A value, as a parameter; NULL for nil.
    public mutating func appendInterpolation(_ value: (any DatabaseValueConvertible)?) {
        appendInterpolation(value?.databaseValue ?? .null)
    }

    /// A request as a query within this one, without parentheses: `SELECT COUNT(*) FROM (\(request))`.
    public mutating func appendInterpolation<Decoder>(_ request: SQLRequest<Decoder>) { sql += request.literal }

    /// Several values as parameters in parentheses: `WHERE id IN \(ids)`. Without any it is a query without rows, so
    /// that `IN` finds nothing.
    // Disfavored: a value such as Data may be a sequence too.
    @_disfavoredOverload
    public mutating func appendInterpolation<Values: Sequence>(_ values: Values)
    where Values.Element: DatabaseValueConvertible {
        appendList(values.map(\.databaseValue))
    }

    /// Several values as parameters in parentheses.
    @_disfavoredOverload
    public mutating func appendInterpolation<Values: Sequence>(_ values: Values)
    where Values.Element == any DatabaseValueConvertible {
        appendList(values.map(\.databaseValue))
    }

    private mutating func appendList(_ values: [DatabaseValue]) {
        let list = values.isEmpty ? "SELECT NULL WHERE NULL" : databaseQuestionMarks(count: values.count)
        sql.append(sql: "(" + list + ")", arguments: StatementArguments(values))
    }
}

/// Placeholders for parameters in SQL text: `?,?,?`.
///
/// - Parameter count: The number of placeholders.
public func databaseQuestionMarks(count: Int) -> String {
    Array(repeating: "?", count: count).joined(separator: ",")
}

extension String {
    /// The text as an SQL identifier, in double quotes.
    public var quotedDatabaseIdentifier: String { "\"" + replacingOccurrences(of: "\"", with: "\"\"") + "\"" }
}
