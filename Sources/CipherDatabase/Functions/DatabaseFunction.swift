/// An SQL function or aggregate, implemented in Swift.
///
/// ```swift
/// let successor = DatabaseFunction("successor", argumentCount: 1, pure: true) { values in
///     Int.fromDatabaseValue(values[0]).map { $0 + 1 }
/// }
/// config.prepareDatabase { db in db.add(function: successor) }
/// ```
///
/// An error thrown by the function makes the statement fail: a ``DatabaseError`` with its own code and message, every
/// other error as `SQLITE_ERROR` with the error's description as the message. Compiling a statement with a wrong number
/// of arguments, or with a function that was not added, fails.
///
/// A function may run statements on the connection that calls it, except statements that end its transaction.
/// - SeeAlso: <https://www.sqlite.org/appfunc.html>
public final class DatabaseFunction: Identifiable, Sendable {
    /// The identity of a function; SQLite ignores the case of names.
    public struct ID: Hashable, Sendable {
        /// The name, in lower case.
        let name: String
        /// The number of arguments; -1 for any.
        let argumentCount: CInt
    }

    private enum Definition: Sendable {
        case scalar(ScalarDefinition)
        case aggregate(AggregateDefinition)
    }

    /// The name in SQL.
    public let name: String
    private let argumentCount: CInt
    private let use: FunctionUse
    private let definition: Definition

    /// Whether it computes one value from the values of many rows.
    package var isAggregate: Bool { if case .aggregate = definition { true } else { false } }

    public var id: ID { ID(name: name.lowercasedASCII, argumentCount: argumentCount) }

    /// A function.
    ///
    /// - Parameters:
    ///   - name: The name in SQL, at most 255 bytes long.
    ///   - argumentCount: How many arguments it takes, at most 127 (1,000 since SQLite 3.48); nil for any number.
    ///     Functions of one name and different numbers of arguments are separate.
    ///   - pure: Whether the result depends on the arguments alone. SQLite calls pure functions less often, and allows
    ///     them in indexes. Triggers, views and definitions of a schema that is not trusted
    ///     (``Configuration/trustsSchema``) may call it.
    ///   - directOnly: Whether triggers, views and definitions of tables may not call it, no matter who made them. Set
    ///     it for a function that does more than compute, as one that writes a file or returns a secret. SQLite does
    ///     not apply it to a CHECK constraint where the function is not `pure`.
    ///   - function: Computes the result; nil for NULL. It gets exactly `argumentCount` values.
    public init(
        _ name: String, argumentCount: Int? = nil, pure: Bool = false, directOnly: Bool = false,
        function: @escaping @Sendable ([DatabaseValue]) throws -> (any DatabaseValueConvertible)?
    ) {
        self.name = name
        self.argumentCount = CInt(clamping: argumentCount ?? -1)
        use = FunctionUse(isPure: pure, isDirectOnly: directOnly)
        definition = .scalar(ScalarDefinition(function))
    }

    /// An aggregate, which computes one value from the values of many rows.
    ///
    /// - Parameters:
    ///   - name: The name in SQL, at most 255 bytes long.
    ///   - argumentCount: How many arguments it takes, at most 127 (1,000 since SQLite 3.48); nil for any number.
    ///   - pure: Whether the result depends on the arguments alone.
    ///   - directOnly: Whether triggers, views and definitions of tables may not call it, no matter who made them.
    ///   - aggregate: The type that aggregates; each aggregation creates one value of it.
    public init<Aggregate: DatabaseAggregate>(
        _ name: String, argumentCount: Int? = nil, pure: Bool = false, directOnly: Bool = false,
        aggregate: Aggregate.Type
    ) {
        self.name = name
        self.argumentCount = CInt(clamping: argumentCount ?? -1)
        use = FunctionUse(isPure: pure, isDirectOnly: directOnly)
        definition = .aggregate(AggregateDefinition { Aggregate() })
    }

    func install(on handle: ConnectionHandle) -> ResultCode {
        switch definition {
        case .scalar(let scalar):
            handle.add(scalar, name: name, argumentCount: argumentCount, use: use)
        case .aggregate(let aggregate):
            handle.add(aggregate, name: name, argumentCount: argumentCount, use: use)
        }
    }

    func uninstall(from handle: ConnectionHandle) -> ResultCode {
        handle.removeFunction(name: name, argumentCount: argumentCount)
    }
}

/// The implementation of an aggregate function over the rows of a group.
///
/// ```swift
/// struct LongestName: DatabaseAggregate {
///     var longest: String?
///     mutating func step(_ values: [DatabaseValue]) {
///         guard let name = String.fromDatabaseValue(values[0]) else { return }
///         if name.count > longest?.count ?? 0 { longest = name }
///     }
///     func finalize() -> (any DatabaseValueConvertible)? { longest }
/// }
/// ```
public protocol DatabaseAggregate: SendableMetatype {
    /// Begins an aggregation.
    init()

    /// Adds the arguments of one row.
    ///
    /// - Parameter dbValues: As many values as the SQL passes.
    mutating func step(_ dbValues: [DatabaseValue]) throws

    /// Ends the aggregation; nil for NULL. Called without any step for an empty group, and never after a failed step.
    mutating func finalize() throws -> (any DatabaseValueConvertible)?
}
