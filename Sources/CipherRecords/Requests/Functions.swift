import CipherDatabase
import CipherSchema

// The functions of SQLite.

private func call(_ name: String, _ arguments: [Term]) -> SQLExpression {
    Term(.apply(.function(Function(name: name)), arguments)).expression
}

/// A call of a function that makes one row of many.
///
/// - Parameters:
///   - ordering: The order in which it takes the rows.
///   - filter: Which rows count; nil for all.
func aggregate(
    _ name: String, _ arguments: [Term], isDistinct: Bool = false, makesJSON: Bool = false,
    orderBy ordering: (any SQLOrderingTerm)? = nil, filter: (any SQLExpressible)? = nil
) -> SQLExpression {
    var function = Function(name: name, isAggregate: true, isDistinct: isDistinct, isFiltered: filter != nil)
    function.makesJSON = makesJSON
    var operands = arguments
    if let ordering = ordering?.sqlOrdering {
        function.orders = [ordering.direction]
        operands.append(ordering.term)
    }
    if let filter { operands.append(Term(filter.sqlExpression)) }
    return Term(.apply(.function(function), operands)).expression
}

// MARK: Aggregates

/// `AVG`: the mean of the values that are not NULL.
///
/// - Parameter filter: Which rows count; nil for all.
public func average(_ value: some SQLSpecificExpressible, filter: (any SQLSpecificExpressible)? = nil)
    -> SQLExpression
{
    aggregate("AVG", [Term(value)], filter: filter)
}

/// `MAX`: the greatest value.
///
/// - Parameter filter: Which rows count; nil for all.
public func max(_ value: some SQLSpecificExpressible, filter: (any SQLSpecificExpressible)? = nil) -> SQLExpression {
    aggregate("MAX", [Term(value)], filter: filter)
}

/// `MIN`: the least value.
///
/// - Parameter filter: Which rows count; nil for all.
public func min(_ value: some SQLSpecificExpressible, filter: (any SQLSpecificExpressible)? = nil) -> SQLExpression {
    aggregate("MIN", [Term(value)], filter: filter)
}

/// `SUM`: the sum of the values; NULL for none, an integer for integers.
///
/// - Parameters:
///   - ordering: The order in which the values are added: floating-point numbers depend on it.
///   - filter: Which rows count; nil for all.
public func sum(
    _ value: some SQLSpecificExpressible, orderBy ordering: (any SQLOrderingTerm)? = nil,
    filter: (any SQLSpecificExpressible)? = nil
) -> SQLExpression {
    aggregate("SUM", [Term(value)], orderBy: ordering, filter: filter)
}

/// `TOTAL`: the sum of the values as a floating-point number; 0 for none.
///
/// - Parameters:
///   - ordering: The order in which the values are added: floating-point numbers depend on it.
///   - filter: Which rows count; nil for all.
public func total(
    _ value: some SQLSpecificExpressible, orderBy ordering: (any SQLOrderingTerm)? = nil,
    filter: (any SQLSpecificExpressible)? = nil
) -> SQLExpression {
    aggregate("TOTAL", [Term(value)], orderBy: ordering, filter: filter)
}

/// `COUNT`: how many values are not NULL.
public func count(_ value: some SQLSpecificExpressible) -> SQLExpression { aggregate("COUNT", [Term(value)]) }

/// `COUNT(*)`: how many rows there are.
public func count(_ columns: AllColumns) -> SQLExpression {
    Term(.apply(.function(Function(name: "COUNT", isAggregate: true, takesRows: true)), [])).expression
}

/// `COUNT(DISTINCT)`: how many different values are not NULL.
public func count(distinct value: some SQLSpecificExpressible) -> SQLExpression {
    aggregate("COUNT", [Term(value)], isDistinct: true)
}

// MARK: Values

/// `MAX` of several values in one row: the greatest; NULL if one is.
public func max(
    _ first: some SQLSpecificExpressible, _ second: any SQLExpressible, _ others: any SQLExpressible...
) -> SQLExpression {
    call("MAX", [Term(first), Term(second.sqlExpression)] + others.map { Term($0.sqlExpression) })
}

/// `MIN` of several values in one row: the least; NULL if one is.
public func min(
    _ first: some SQLSpecificExpressible, _ second: any SQLExpressible, _ others: any SQLExpressible...
) -> SQLExpression {
    call("MIN", [Term(first), Term(second.sqlExpression)] + others.map { Term($0.sqlExpression) })
}

/// `ABS`: the number without its sign.
public func abs(_ value: some SQLSpecificExpressible) -> SQLExpression { call("ABS", [Term(value)]) }

/// `LENGTH`: of a text in characters, of a blob in bytes.
public func length(_ value: some SQLSpecificExpressible) -> SQLExpression { call("LENGTH", [Term(value)]) }

/// `CAST`: the value in another storage class.
public func cast(_ value: some SQLSpecificExpressible, as storageClass: Database.StorageClass) -> SQLExpression {
    Term(.apply(.cast(storageClass), [Term(value)])).expression
}

extension Database {
    /// The storage class of the value that `CAST` returns.
    /// - SeeAlso: <https://www.sqlite.org/lang_expr.html#castexpr>
    public struct StorageClass: RawRepresentable, Hashable, Sendable {
        /// The name in SQL.
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let integer = StorageClass(rawValue: "INTEGER")
        public static let real = StorageClass(rawValue: "REAL")
        public static let text = StorageClass(rawValue: "TEXT")
        public static let blob = StorageClass(rawValue: "BLOB")
    }
}

/// `COALESCE`: the first value that is not NULL.
public func coalesce(_ values: [any SQLSpecificExpressible]) -> SQLExpression { coalesce(values[...]) }

/// `COALESCE`: the first value that is not NULL.
public func coalesce(_ values: some Collection<any SQLSpecificExpressible>) -> SQLExpression {
    switch values.count {
    case 0: Term(DatabaseValue.null).expression
    case 1: values[values.startIndex].sqlExpression
    default: call("COALESCE", values.map { Term($0.sqlExpression) })
    }
}

extension SQLSpecificExpressible {
    /// Each word with a capital letter at its beginning, by Unicode.
    public var capitalized: SQLExpression { DatabaseFunction.capitalize(self) }
    /// In lower case, by Unicode.
    public var lowercased: SQLExpression { DatabaseFunction.lowercase(self) }
    /// In upper case, by Unicode.
    public var uppercased: SQLExpression { DatabaseFunction.uppercase(self) }
    /// As ``capitalized``, by the rules of the user's language.
    public var localizedCapitalized: SQLExpression { DatabaseFunction.localizedCapitalize(self) }
    /// As ``lowercased``, by the rules of the user's language.
    public var localizedLowercased: SQLExpression { DatabaseFunction.localizedLowercase(self) }
    /// As ``uppercased``, by the rules of the user's language.
    public var localizedUppercased: SQLExpression { DatabaseFunction.localizedUppercase(self) }
}

extension DatabaseFunction {
    /// A call of the function in SQL.
    public func callAsFunction(_ arguments: any SQLExpressible...) -> SQLExpression {
        callAsFunction(arguments)
    }

    /// A call of the function in SQL.
    public func callAsFunction(_ arguments: [any SQLExpressible]) -> SQLExpression {
        let function = Function(name: name, isAggregate: isAggregate)
        return Term(.apply(.function(function), arguments.map { Term($0.sqlExpression) })).expression
    }
}

// MARK: Dates

/// Moves a date, or changes how it is read.
/// - SeeAlso: <https://www.sqlite.org/lang_datefunc.html#modifiers>
public enum SQLDateModifier: SQLSpecificExpressible, Sendable {
    case day(Int)
    case hour(Int)
    case minute(Int)
    case second(Double)
    case month(Int)
    case year(Int)
    case startOfMonth
    case startOfYear
    case startOfDay
    /// The next such day: 0 is Sunday.
    case weekday(Int)
    /// The number before it is seconds since 1970.
    case unixEpoch
    case localTime
    case utc

    /// The modifier as SQLite's functions take it.
    public var sqlExpression: SQLExpression { text.sqlExpression }

    private var text: String {
        switch self {
        case .day(let number): "\(number) days"
        case .hour(let number): "\(number) hours"
        case .minute(let number): "\(number) minutes"
        case .second(let number): "\(number) seconds"
        case .month(let number): "\(number) months"
        case .year(let number): "\(number) years"
        case .startOfMonth: "start of month"
        case .startOfYear: "start of year"
        case .startOfDay: "start of day"
        case .weekday(let number): "weekday \(number)"
        case .unixEpoch: "unixepoch"
        case .localTime: "localtime"
        case .utc: "utc"
        }
    }
}

/// `DATETIME`: the date as text `YYYY-MM-DD HH:MM:SS`.
public func dateTime(_ value: some SQLSpecificExpressible, _ modifiers: SQLDateModifier...) -> SQLExpression {
    call("DATETIME", [Term(value)] + modifiers.map { Term($0) })
}

/// `JULIANDAY`: the date as a number of days.
public func julianDay(_ value: some SQLSpecificExpressible, _ modifiers: SQLDateModifier...) -> SQLExpression {
    call("JULIANDAY", [Term(value)] + modifiers.map { Term($0) })
}

// MARK: Choice

/// `CASE`: the result of the first condition that is true.
///
/// ```swift
/// Case().when(Column("score") > 100, then: "high").otherwise("low")
/// ```
/// - SeeAlso: <https://www.sqlite.org/lang_expr.html#the_case_expression>
public struct Case: SQLSpecificExpressible, Sendable {
    private let base: Term?
    private var pairs: [Term] = []
    private var otherwise: Term?

    /// Conditions that are true or false.
    public init() { base = nil }

    /// Conditions that are values which `value` may have.
    public init(_ value: some SQLExpressible) { base = Term(value) }

    /// The result where a condition is true, or has the value that the choice is made by.
    public func when(_ condition: some SQLSpecificExpressible, then result: some SQLExpressible) -> Case {
        var changed = self
        changed.pairs += [Term(condition), Term(result)]
        return changed
    }

    /// The result where a condition is true, or has the value that the choice is made by.
    @_disfavoredOverload
    public func when(_ condition: some SQLExpressible, then result: some SQLExpressible) -> Case {
        var changed = self
        changed.pairs += [Term(condition), Term(result)]
        return changed
    }

    /// The result where no condition is true; NULL if nothing is said.
    public func otherwise(_ result: some SQLSpecificExpressible) -> Case {
        var changed = self
        changed.otherwise = Term(result)
        return changed
    }

    /// The result where no condition is true; NULL if nothing is said.
    @_disfavoredOverload
    public func otherwise(_ result: some SQLExpressible) -> Case {
        var changed = self
        changed.otherwise = Term(result)
        return changed
    }

    public var sqlExpression: SQLExpression {
        // SQL has no CASE without a condition.
        guard !pairs.isEmpty else { return (otherwise ?? Term(DatabaseValue.null)).expression }
        let operands = (base.map { [$0] } ?? []) + pairs + (otherwise.map { [$0] } ?? [])
        return Term(.apply(.choice(hasBase: base != nil, hasElse: otherwise != nil), operands)).expression
    }
}
