/// Builds ``SQL`` from a string literal with interpolations.
public struct SQLInterpolation: StringInterpolationProtocol, Sendable {
    var sql = SQL(sql: "")

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

    /// The parts that the query interface writes when the statement is made.
    package mutating func append(_ fragment: any SQLFragment) { sql.append(fragment) }

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

    /// A text, as a parameter.
    // Literals are texts, and no SQL.
    public mutating func appendInterpolation(_ value: String) { appendParameter(value.databaseValue) }

    /// A value, as a parameter; `NULL` for nil.
    // There is no form for values that are never nil: it would take a Bool that Swift makes of two columns.
    public mutating func appendInterpolation<Value: DatabaseValueConvertible>(_ value: Value?) {
        appendParameter(value?.databaseValue)
    }

    /// A value, as a parameter; `NULL` for nil.
    public mutating func appendInterpolation(_ value: (any DatabaseValueConvertible)?) {
        appendParameter(value?.databaseValue)
    }

    private mutating func appendParameter(_ value: DatabaseValue?) {
        guard let value, !value.isNull else { return sql.append(sql: "NULL") }
        sql.append(sql: "?", arguments: StatementArguments([value]))
    }

    /// A request as a query within this one, without parentheses: `SELECT COUNT(*) FROM (\(request))`.
    public mutating func appendInterpolation<Decoder>(_ request: SQLRequest<Decoder>) {
        if request.literal.insertions.isEmpty { return sql += request.literal }
        let query = NestedQuery(request.literal)
        append(query.levels <= DatabaseLimits.nestedQueries ? query : RefusedQuery())
    }

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
