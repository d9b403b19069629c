/// Values for the parameters of a statement, by position or by name.
///
/// ```swift
/// try db.execute(sql: "INSERT INTO player VALUES (?, ?)", arguments: ["Ann", 12])
/// try db.execute(sql: "INSERT INTO player VALUES (:name, :score)", arguments: ["name": "Ann", "score": 12])
/// ```
public struct StatementArguments: Sendable {
    var values: [DatabaseValue]
    var namedValues: [String: DatabaseValue]

    public init() {
        values = []
        namedValues = [:]
    }

    /// Arguments by position.
    public init(_ values: some Sequence<(any DatabaseValueConvertible)?>) {
        self.values = values.map { $0?.databaseValue ?? .null }
        namedValues = [:]
    }

    /// Arguments by position, all of one type.
    public init<Value: DatabaseValueConvertible>(_ values: some Sequence<Value>) {
        self.values = values.map(\.databaseValue)
        namedValues = [:]
    }

    /// Arguments by position; nil when an element is no database value.
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

extension StatementArguments: Equatable {}

extension StatementArguments: CustomStringConvertible {
    /// The values as SQL literals. Only expanded descriptions print it.
    public var description: String {
        let named = namedValues.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value)" }
        return "[" + (values.map(\.description) + named).joined(separator: ", ") + "]"
    }
}

extension StatementArguments {
    /// Arguments of both sides; a name that stands on both takes the value of the right one.
    public static func + (left: StatementArguments, right: StatementArguments) -> StatementArguments {
        var sum = left
        sum += right
        return sum
    }

    public static func += (left: inout StatementArguments, right: StatementArguments) {
        left.values += right.values
        left.namedValues.merge(right.namedValues) { $1 }
    }
}
