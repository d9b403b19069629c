import CipherDatabase

// JSON: columns and expressions that hold it, and the functions of SQLite that read and build it.

/// An expression that is JSON. As a part of other JSON it is an object or array there, not a text.
///
/// ```swift
/// Player.filter(JSONColumn("address")["city"] == "Paris")
/// Player.select(Database.jsonObject(["name": Column("name"), "address": JSONColumn("address")]))
/// ```
/// - SeeAlso: <https://www.sqlite.org/json1.html>
public protocol SQLJSONExpressible: SQLSpecificExpressible {}

extension SQLJSONExpressible {
    /// `->>`: a value of the JSON as an SQL value.
    ///
    /// - Parameter path: A path, as in `$.address.city`, or the name of a member.
    /// - SeeAlso: <https://www.sqlite.org/json1.html#jptr>
    public subscript(_ path: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.jsonValue), [Term(self), Term(path)])).expression
    }
}

extension SQLSpecificExpressible {
    /// `JSON_EXTRACT`: a value of the JSON as an SQL value.
    ///
    /// - Parameter path: A path, as in `$.address.city`.
    /// - SeeAlso: <https://www.sqlite.org/json1.html#jex>
    public func jsonExtract(atPath path: some SQLExpressible) -> SQLExpression {
        Database.jsonExtract(self, atPath: path)
    }

    /// `JSON_EXTRACT`: several values of the JSON, as a JSON array.
    ///
    /// - Parameter paths: Paths, as in `$.address.city`.
    /// - SeeAlso: <https://www.sqlite.org/json1.html#jex>
    public func jsonExtract(atPaths paths: some Collection<some SQLExpressible>) -> SQLExpression {
        Database.jsonExtract(self, atPaths: paths)
    }

    /// `->`: a value of the JSON as JSON.
    ///
    /// - Parameter path: A path, as in `$.address`, or the name of a member.
    /// - SeeAlso: <https://www.sqlite.org/json1.html#jptr>
    public func jsonRepresentation(atPath path: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.jsonText), [Term(self), Term(path)])).expression
    }

    /// The expression as JSON: its values can be read with a subscript, and in other JSON it is no text.
    public var asJSON: AnySQLJSONExpressible { AnySQLJSONExpressible(term: Term(self)) }
}

/// A column that holds JSON.
public struct JSONColumn: ColumnExpression, SQLJSONExpressible, Sendable {
    public let name: String

    public init(_ name: String) { self.name = name }

    /// A column with the name of a coding key.
    public init(_ codingKey: some CodingKey) { name = codingKey.stringValue }
}

extension ColumnExpression where Self: SQLJSONExpressible {
    public var sqlExpression: SQLExpression { Term(.json(Term(.column(name, .request)))).expression }
}

/// Any expression that is JSON.
public struct AnySQLJSONExpressible: SQLJSONExpressible, Sendable {
    private let term: Term

    init(term: Term) { self.term = if case .json? = term.operation { term } else { Term(.json(term)) } }

    public init(_ expression: some SQLJSONExpressible) { self.init(term: Term(expression)) }

    public var sqlExpression: SQLExpression { term.expression }
}

extension Term {
    /// The function that makes JSON of a text that is a part of other JSON. JSONB is not written as text and parsed
    /// again; SQLite has it since 3.45.
    private static let parser: String = {
        let version = SQLiteLibrary.sqliteVersion.split(separator: ".").compactMap { Int($0) }
        return version.lexicographicallyPrecedes([3, 45]) ? "JSON" : "JSONB"
    }()

    /// The expression as a part of other JSON.
    fileprivate var jsonPart: Term {
        guard case .json(let term)? = operation, !term.isNull, !term.makesJSON else { return self }
        return Term(.apply(.function(Function(name: Self.parser, makesJSON: true)), [term]))
    }

    /// Whether SQLite knows by itself that the result is JSON.
    private var makesJSON: Bool {
        switch operation {
        case .apply(.function(let function), _)?: function.makesJSON
        case .apply(.infix(.jsonText), _)?: true
        case .inTable(_, let term)?: term.makesJSON
        default: false
        }
    }
}

// MARK: - Functions

private func jsonCall(_ name: String, _ arguments: [Term], makesJSON: Bool = true) -> SQLExpression {
    Term(.apply(.function(Function(name: name, makesJSON: makesJSON)), arguments)).expression
}

/// Paths, or names, and the values that belong to them. Those of a dictionary are in order, so that the same request
/// always has the same SQL.
private func pairs<Value>(_ elements: some Collection<(key: String, value: Value)>, _ term: (Value) -> Term) -> [Term] {
    let isSorted = elements is [String: Value]
    let elements = isSorted ? elements.sorted { $0.key < $1.key } : Array(elements)
    return elements.flatMap { [Term($0.key.databaseValue), term($0.value).jsonPart] }
}

extension Database {
    /// The formats that `JSON_VALID` accepts.
    /// - SeeAlso: <https://www.sqlite.org/json1.html#jvalid>
    public struct JSONValidationOptions: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }

        /// JSON text by RFC 8259.
        public static let json = JSONValidationOptions(rawValue: 1)
        /// JSON5 text.
        public static let json5 = JSONValidationOptions(rawValue: 2)
        /// A blob that looks like JSONB.
        public static let probablyJSONB = JSONValidationOptions(rawValue: 4)
        /// A blob that is JSONB.
        public static let jsonb = JSONValidationOptions(rawValue: 8)
    }

    // MARK: Reading

    /// `JSON_ARRAY_LENGTH`: the number of elements.
    public static func jsonArrayLength(_ value: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_ARRAY_LENGTH", [Term(value)], makesJSON: false)
    }

    /// `JSON_ARRAY_LENGTH`: the number of elements of an array in the JSON.
    public static func jsonArrayLength(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression
    {
        jsonCall("JSON_ARRAY_LENGTH", [Term(value), Term(path)], makesJSON: false)
    }

    /// `JSON_ERROR_POSITION`: the character at which a text stops being JSON; 0 for JSON.
    public static func jsonErrorPosition(_ value: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_ERROR_POSITION", [Term(value)], makesJSON: false)
    }

    /// `JSON_TYPE`: the name of the type.
    public static func jsonType(_ value: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_TYPE", [Term(value)], makesJSON: false)
    }

    /// `JSON_TYPE`: the name of the type of a value in the JSON.
    public static func jsonType(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_TYPE", [Term(value), Term(path)], makesJSON: false)
    }

    /// `JSON_VALID`: whether a value is JSON.
    ///
    /// - Parameter options: The kinds of JSON that count; nil for JSON as RFC 8259 has it.
    public static func jsonIsValid(
        _ value: some SQLExpressible, options: JSONValidationOptions? = nil
    ) -> SQLExpression {
        let kinds = options.map { [Term($0.rawValue.databaseValue)] } ?? []
        return jsonCall("JSON_VALID", [Term(value)] + kinds, makesJSON: false)
    }

    // MARK: Values

    /// `JSON_QUOTE`: an SQL value as JSON.
    public static func jsonQuote(_ value: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_QUOTE", [Term(value).jsonPart])
    }

    // MARK: JSON

    /// `JSON`: the value as JSON text, without blanks.
    public static func json(_ value: some SQLExpressible) -> SQLExpression { jsonCall("JSON", [Term(value)]) }

    /// `JSON_ARRAY`: an array.
    public static func jsonArray(_ values: some Collection<some SQLExpressible>) -> SQLExpression {
        jsonCall("JSON_ARRAY", values.map { Term($0).jsonPart })
    }

    /// `JSON_ARRAY`: an array.
    public static func jsonArray(_ values: some Collection<any SQLExpressible>) -> SQLExpression {
        jsonCall("JSON_ARRAY", values.map { Term($0.sqlExpression).jsonPart })
    }

    /// The same of values of different types.
    @_disfavoredOverload
    public static func jsonArray(_ values: [any SQLExpressible]) -> SQLExpression { jsonArray(values[...]) }

    /// `JSON_OBJECT`: an object. The members of a dictionary are in the order of their names.
    public static func jsonObject<Value: SQLExpressible>(
        _ elements: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSON_OBJECT", pairs(elements) { Term($0) })
    }

    /// `JSON_OBJECT`: an object. The members of a dictionary are in the order of their names.
    public static func jsonObject(
        _ elements: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSON_OBJECT", pairs(elements) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonObject(_ elements: [String: any SQLExpressible]) -> SQLExpression {
        jsonObject(elements)
    }

    /// `JSON_EXTRACT`: a value of the JSON as an SQL value.
    public static func jsonExtract(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_EXTRACT", [Term(value), Term(path)], makesJSON: false)
    }

    /// `JSON_EXTRACT`: several values of the JSON, as an array.
    public static func jsonExtract(
        _ value: some SQLExpressible, atPaths paths: some Collection<some SQLExpressible>
    ) -> SQLExpression {
        jsonCall("JSON_EXTRACT", [Term(value)] + paths.map { Term($0) }, makesJSON: false)
    }

    /// `JSON_INSERT`: the JSON with values added where there are none.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonInsert<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSON_INSERT", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSON_INSERT`: the JSON with values added where there are none.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonInsert(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSON_INSERT", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonInsert(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonInsert(value, assignments)
    }

    /// `JSON_REPLACE`: the JSON with values in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonReplace<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSON_REPLACE", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSON_REPLACE`: the JSON with values in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonReplace(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSON_REPLACE", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonReplace(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonReplace(value, assignments)
    }

    /// `JSON_SET`: the JSON with values added, or put in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonSet<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSON_SET", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSON_SET`: the JSON with values added, or put in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonSet(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSON_SET", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonSet(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonSet(value, assignments)
    }

    /// `JSON_PATCH`: the JSON with the members of other JSON added, replaced, and removed where they are null there.
    public static func jsonPatch(_ value: some SQLExpressible, with patch: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_PATCH", [Term(value), Term(patch)])
    }

    /// `JSON_REMOVE`: the JSON without a value.
    public static func jsonRemove(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression {
        jsonCall("JSON_REMOVE", [Term(value), Term(path)])
    }

    /// `JSON_REMOVE`: the JSON without several values.
    public static func jsonRemove(
        _ value: some SQLExpressible, atPaths paths: some Collection<some SQLExpressible>
    ) -> SQLExpression {
        jsonCall("JSON_REMOVE", [Term(value)] + paths.map { Term($0) })
    }

    /// `JSON_GROUP_ARRAY`: an array of a value of each row.
    ///
    /// - Parameters:
    ///   - ordering: The order of the elements; nil for any.
    ///   - filter: Which rows count; nil for all.
    public static func jsonGroupArray(
        _ value: some SQLExpressible, orderBy ordering: (any SQLOrderingTerm)? = nil,
        filter: (any SQLSpecificExpressible)? = nil
    ) -> SQLExpression {
        aggregate("JSON_GROUP_ARRAY", [Term(value).jsonPart], makesJSON: true, orderBy: ordering, filter: filter)
    }

    /// `JSON_GROUP_OBJECT`: an object with a member for each row.
    ///
    /// - Parameter filter: Which rows count; nil for all.
    public static func jsonGroupObject(
        key: some SQLExpressible, value: some SQLExpressible, filter: (any SQLSpecificExpressible)? = nil
    ) -> SQLExpression {
        aggregate("JSON_GROUP_OBJECT", [Term(key), Term(value).jsonPart], makesJSON: true, filter: filter)
    }

    // MARK: JSONB

    /// `JSONB`: the value as JSONB, the binary form of JSON.
    public static func jsonb(_ value: some SQLExpressible) -> SQLExpression { jsonCall("JSONB", [Term(value)]) }

    /// `JSONB_ARRAY`: an array.
    public static func jsonbArray(_ values: some Collection<some SQLExpressible>) -> SQLExpression {
        jsonCall("JSONB_ARRAY", values.map { Term($0).jsonPart })
    }

    /// `JSONB_ARRAY`: an array.
    public static func jsonbArray(_ values: some Collection<any SQLExpressible>) -> SQLExpression {
        jsonCall("JSONB_ARRAY", values.map { Term($0.sqlExpression).jsonPart })
    }

    /// The same of values of different types.
    @_disfavoredOverload
    public static func jsonbArray(_ values: [any SQLExpressible]) -> SQLExpression { jsonbArray(values[...]) }

    /// `JSONB_OBJECT`: an object. The members of a dictionary are in the order of their names.
    public static func jsonbObject<Value: SQLExpressible>(
        _ elements: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSONB_OBJECT", pairs(elements) { Term($0) })
    }

    /// `JSONB_OBJECT`: an object. The members of a dictionary are in the order of their names.
    public static func jsonbObject(
        _ elements: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSONB_OBJECT", pairs(elements) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonbObject(_ elements: [String: any SQLExpressible]) -> SQLExpression {
        jsonbObject(elements)
    }

    /// `JSONB_EXTRACT`: a value of the JSON as an SQL value.
    public static func jsonbExtract(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression {
        jsonCall("JSONB_EXTRACT", [Term(value), Term(path)], makesJSON: false)
    }

    /// `JSONB_EXTRACT`: several values of the JSON, as an array.
    public static func jsonbExtract(
        _ value: some SQLExpressible, atPaths paths: some Collection<some SQLExpressible>
    ) -> SQLExpression {
        jsonCall("JSONB_EXTRACT", [Term(value)] + paths.map { Term($0) }, makesJSON: false)
    }

    /// `JSONB_INSERT`: the JSON with values added where there are none.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbInsert<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSONB_INSERT", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSONB_INSERT`: the JSON with values added where there are none.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbInsert(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSONB_INSERT", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonbInsert(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonbInsert(value, assignments)
    }

    /// `JSONB_REPLACE`: the JSON with values in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbReplace<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSONB_REPLACE", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSONB_REPLACE`: the JSON with values in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbReplace(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSONB_REPLACE", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonbReplace(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonbReplace(value, assignments)
    }

    /// `JSONB_SET`: the JSON with values added, or put in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbSet<Value: SQLExpressible>(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: Value)>
    ) -> SQLExpression {
        jsonCall("JSONB_SET", [Term(value)] + pairs(assignments) { Term($0) })
    }

    /// `JSONB_SET`: the JSON with values added, or put in the place of those that are there.
    ///
    /// - Parameter assignments: Values by their paths. Those of a dictionary are in the order of the paths.
    public static func jsonbSet(
        _ value: some SQLExpressible, _ assignments: some Collection<(key: String, value: any SQLExpressible)>
    ) -> SQLExpression {
        jsonCall("JSONB_SET", [Term(value)] + pairs(assignments) { Term($0.sqlExpression) })
    }

    /// The same with values of different types.
    @_disfavoredOverload
    public static func jsonbSet(
        _ value: some SQLExpressible, _ assignments: [String: any SQLExpressible]
    ) -> SQLExpression {
        jsonbSet(value, assignments)
    }

    /// `JSONB_PATCH`: the JSON with the members of other JSON added, replaced, and removed where they are null there.
    public static func jsonbPatch(_ value: some SQLExpressible, with patch: some SQLExpressible) -> SQLExpression {
        jsonCall("JSONB_PATCH", [Term(value), Term(patch)])
    }

    /// `JSONB_REMOVE`: the JSON without a value.
    public static func jsonbRemove(_ value: some SQLExpressible, atPath path: some SQLExpressible) -> SQLExpression {
        jsonCall("JSONB_REMOVE", [Term(value), Term(path)])
    }

    /// `JSONB_REMOVE`: the JSON without several values.
    public static func jsonbRemove(
        _ value: some SQLExpressible, atPaths paths: some Collection<some SQLExpressible>
    ) -> SQLExpression {
        jsonCall("JSONB_REMOVE", [Term(value)] + paths.map { Term($0) })
    }

    /// `JSONB_GROUP_ARRAY`: an array of a value of each row.
    ///
    /// - Parameters:
    ///   - ordering: The order of the elements; nil for any.
    ///   - filter: Which rows count; nil for all.
    public static func jsonbGroupArray(
        _ value: some SQLExpressible, orderBy ordering: (any SQLOrderingTerm)? = nil,
        filter: (any SQLSpecificExpressible)? = nil
    ) -> SQLExpression {
        aggregate("JSONB_GROUP_ARRAY", [Term(value).jsonPart], makesJSON: true, orderBy: ordering, filter: filter)
    }

    /// `JSONB_GROUP_OBJECT`: an object with a member for each row.
    ///
    /// - Parameter filter: Which rows count; nil for all.
    public static func jsonbGroupObject(
        key: some SQLExpressible, value: some SQLExpressible, filter: (any SQLSpecificExpressible)? = nil
    ) -> SQLExpression {
        aggregate("JSONB_GROUP_OBJECT", [Term(key), Term(value).jsonPart], makesJSON: true, filter: filter)
    }
}
