/// Values for the parameters of a statement, by position or by name.
///
/// ```swift
/// try db.execute(sql: "INSERT INTO player VALUES (?, ?)", arguments: ["Ann", 12])
/// try db.execute(sql: "INSERT INTO player VALUES (:name, :score)", arguments: ["name": "Ann", "score": 12])
/// ```
///
/// Every parameter needs a value, and every value by position a parameter. A dictionary may have more names than the
/// SQL, as the values of a row often do; one without any name of the SQL is refused. If arguments do not fit,
/// ``DatabaseError`` `.SQLITE_MISUSE` is thrown, which names the missing or unknown ones and never a value.
public struct StatementArguments: Sendable {
    package internal(set) var values: [DatabaseValue]
    var namedValues: [String: DatabaseValue]

    public init() {
        values = []
        namedValues = [:]
    }

    /// Arguments that are stored values already.
    package init(plain values: [DatabaseValue], named namedValues: [String: DatabaseValue] = [:]) {
        self.values = values
        self.namedValues = namedValues
    }

    /// Arguments by position.
    public init(_ values: some Sequence<(any DatabaseValueConvertible)?>) {
        self.values = values.map { $0?.databaseValue ?? .null }
        namedValues = [:]
    }

    /// Arguments by position, all of one type.
    public init<Value: DatabaseValueConvertible>(_ values: some Sequence<Value>) {
        // Not a key path: in generic code one is made for each call.
        self.values = values.map { $0.databaseValue }
        namedValues = [:]
    }

    /// Arguments by position; nil when an element is not a database value.
    // Disfavored: it would win over the typed forms wherever an optional is expected, and cast every element.
    @_disfavoredOverload
    public init?(_ values: [Any]) {
        var converted: [DatabaseValue] = []
        for value in values {
            guard let value = DatabaseValue(value: value) else { return nil }
            converted.append(value)
        }
        self.values = converted
        namedValues = [:]
    }

    /// Arguments by name, written without the prefix that SQL gives them.
    public init(_ values: [String: (any DatabaseValueConvertible)?]) {
        self.values = []
        namedValues = values.mapValues { $0?.databaseValue ?? .null }
    }

    /// Arguments by name, written without the prefix that SQL gives them; the last of several values of a name counts.
    public init(_ values: some Sequence<(String, (any DatabaseValueConvertible)?)>) {
        self.init()
        for (name, value) in values { namedValues[name] = value?.databaseValue ?? .null }
    }

    /// Arguments by name; nil when a key is not a text, or a value not a database value.
    // Disfavored as above.
    @_disfavoredOverload
    public init?(_ values: [AnyHashable: Any]) {
        self.init()
        for (key, value) in values {
            guard let name = key.base as? String, let value = DatabaseValue(value: value) else { return nil }
            namedValues[name] = value
        }
    }

    /// The error of SQL that has no parameter of any of these names.
    func unknownNames(sql: String) -> DatabaseError {
        let names = namedValues.keys.sorted().joined(separator: ", ")
        return DatabaseError(
            resultCode: .SQLITE_MISUSE, message: "unknown statement argument: \(names)", sql: sql.trimmingSQL())
    }

    /// Whether there is no argument at all.
    public var isEmpty: Bool { values.isEmpty && namedValues.isEmpty }
}

extension StatementArguments: ExpressibleByArrayLiteral {
    public init(arrayLiteral elements: (any DatabaseValueConvertible)?...) {
        self.init(elements)
    }
}

extension StatementArguments: ExpressibleByDictionaryLiteral {
    public init(dictionaryLiteral elements: (String, (any DatabaseValueConvertible)?)...) {
        self.init()
        for (name, value) in elements { namedValues[name] = value?.databaseValue ?? .null }
    }
}

extension StatementArguments: Hashable {}

extension StatementArguments: CustomStringConvertible {
    /// The values, as in `["id": 1, "Ann"]`. Only expanded descriptions print it.
    public var description: String {
        let named = namedValues.sorted { $0.key < $1.key }.map { "\(String(reflecting: $0.key)): \($0.value.summary)" }
        return "[" + (named + values.map(\.summary)).joined(separator: ", ") + "]"
    }
}

extension StatementArguments {
    /// Appends arguments.
    ///
    /// - Returns: The values that were replaced: those of names that both have.
    @discardableResult
    public mutating func append(contentsOf arguments: StatementArguments) -> [String: DatabaseValue] {
        var replaced: [String: DatabaseValue] = [:]
        values += arguments.values
        for (name, value) in arguments.namedValues {
            if let old = namedValues.updateValue(value, forKey: name) { replaced[name] = old }
        }
        return replaced
    }

    /// Arguments of both sides; a name on both sides has the value of the right one.
    public static func + (left: StatementArguments, right: StatementArguments) -> StatementArguments { left &+ right }

    /// Arguments of both sides; a name on both sides has the value of the right one.
    public static func &+ (left: StatementArguments, right: StatementArguments) -> StatementArguments {
        var sum = left
        sum.append(contentsOf: right)
        return sum
    }

    /// Appends arguments; a name on both sides has the value of the right one.
    public static func += (left: inout StatementArguments, right: StatementArguments) {
        left.append(contentsOf: right)
    }
}
