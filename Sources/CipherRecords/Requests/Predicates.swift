import CipherDatabase
import Foundation

// What is not an operator in Swift: looking for values among others, patterns, names, collations, joined expressions.

extension Term {
    /// The expression that is true where this one is false.
    var negated: Term {
        if case .value(let bound) = self, case .int64(let number) = bound.value.storage, number == 0 || number == 1 {
            return Term((1 - number).databaseValue)
        }
        guard case .apply(let function, let operands)? = operation else { return not }
        switch function {
        case .infix(let infix):
            return infix.opposite.map { Term(.apply(.infix($0), operands)) } ?? not
        case .between(let negated): return Term(.apply(.between(negated: !negated), operands))
        case .among(let negated): return Term(.apply(.among(negated: !negated), operands))
        case .inRows(let negated): return Term(.apply(.inRows(negated: !negated), operands))
        case .exists(let negated): return Term(.apply(.exists(negated: !negated), operands))
        case .like(let negated): return Term(.apply(.like(negated: !negated), operands))
        case .isEmpty(let negated): return Term(.apply(.isEmpty(negated: !negated), operands))
        case .collate where operands[0].hasOpposite: return Term(.apply(function, [operands[0].negated]))
        default: return not
        }
    }

    private var not: Term { Term(.apply(.prefix(.not), [self])) }

    /// Whether there is an operator that is true where this comparison is false.
    private var hasOpposite: Bool {
        if case .apply(.infix(let infix), _)? = operation { infix.opposite != nil } else { false }
    }

    /// Whether this is among others.
    func isAmong(_ terms: [Term]) -> Term {
        switch terms.count {
        case 0: return Term(0.databaseValue)
        case 1: return compared(.equal, to: terms[0])
        case (ListedValues.mostParameters + 1)...:
            if let list = ListedValues.query(of: terms) {
                return Term(.apply(.inRows(negated: false), [self, list]))
            }
        default: break
        }
        return Term(.apply(.among(negated: false), [self] + terms))
    }
}

/// Long lists of values. SQLite takes a limited number of parameters, and compiles a statement for each number of them,
/// so a longer list is one parameter, in JSON.
/// - SeeAlso: <https://www.sqlite.org/json1.html#jeach>
enum ListedValues {
    /// The longest list that is written value by value.
    static let mostParameters = 64

    /// A query for the values of a list; nil where anything but a value is in it, or a number that neither JSON nor a
    /// quotient of powers of two can say.
    ///
    /// - Parameter width: How many values make one row.
    static func query(of terms: [Term], width: Int = 1) -> Term? {
        var columns = Array(repeating: ListedColumn(), count: width)
        var json = "["
        for (index, term) in terms.enumerated() {
            guard case .value(let bound) = term,
                let item = columns[index % width].item(of: bound.value)
            else { return nil }
            if index > 0 { json += "," }
            if width > 1 && index % width == 0 { json += "[" }
            json += item
            if width > 1 && index % width == width - 1 { json += "]" }
        }
        json += "]"
        let selected = columns.enumerated().map { index, column in
            width == 1
                ? column.sql(value: "+value", type: "type", path: "$")
                : column.sql(
                    value: "json_extract(value, '$[\(index)]')", type: "json_type(value, '$[\(index)]')",
                    path: "$[\(index)]")
        }
        let query = SQL(sql: "SELECT \(selected.joined(separator: ", ")) FROM json_each(?)", arguments: [json])
        return Term(.subquery(.literal(LiteralText(query))))
    }

    /// What JSON has no type for in one column of a list. JSON has no bytes: a blob is an array with its digits. It has
    /// floating-point numbers, but SQLite does not read all of them exactly: a number is an object with integers.
    private struct ListedColumn {
        var hasBlobs = false
        var hasDoubles = false

        /// A value as JSON; nil when there is no way.
        mutating func item(of value: DatabaseValue) -> String? {
            switch value.storage {
            // As a parameter of its own, which is refused.
            case .null where value.isUnencodable: return nil
            case .null: return "null"
            case .int64(let number): return String(number)
            case .double(let number) where !number.isFinite: return number < 0 ? "-9e999" : "9e999"
            case .double(let number):
                hasDoubles = true
                return Quotient(number)?.json
            // SQLite's JSON texts end at a NUL.
            case .string(let text): return text.utf8.contains(0) ? nil : ListedValues.json(text)
            case .blob(let bytes):
                hasBlobs = true
                return "[\"" + bytes.map { String(format: "%02x", $0) }.joined() + "\"]"
            }
        }

        /// The value as SQL without a type of its own, so that it is converted to the type of the column it is compared
        /// with: `value` is a column of `json_each`, `+value` is none.
        func sql(value: String, type: String, path: String) -> String {
            if !hasBlobs && !hasDoubles { return value }
            var sql = "CASE \(type)"
            if hasBlobs { sql += " WHEN 'array' THEN unhex(json_extract(value, '\(path)[0]'))" }
            if hasDoubles {
                let parts = ["m", "n", "d", "e"].map { "json_extract(value, '\(path).\($0)')" }
                sql += " WHEN 'object' THEN \(parts[0]) * 1.0 * \(parts[1]) / \(parts[2]) / \(parts[3])"
            }
            return sql + " ELSE \(value) END"
        }
    }

    /// A floating-point number as an integer, times a power of two, divided by two more: all exact.
    private struct Quotient {
        /// The greatest power of two that is a positive `Int64`.
        private static let most = 62
        let json: String

        init?(_ number: Double) {
            let bits = number.significand == 0 ? 0 : number.significandWidth
            let exponent = number == 0 ? 0 : Int(number.exponent) - bits
            guard (-2 * Self.most...Self.most).contains(exponent) else { return nil }
            let factor = Int64(
                number == 0 ? 0 : number.significand * Double(sign: .plus, exponent: bits, significand: 1))
            let signed = number.sign == .minus ? -factor : factor
            let divisor = Swift.max(0, -exponent)
            let (first, second) = (Swift.min(divisor, Self.most), Swift.max(0, divisor - Self.most))
            json =
                "{\"m\":\(signed),\"n\":\(Int64(1) << Swift.max(0, exponent)),\"d\":\(Int64(1) << first),"
                + "\"e\":\(Int64(1) << second)}"
        }
    }

    private static func json(_ text: String) -> String {
        var json = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": json += "\\\""
            case "\\": json += "\\\\"
            case _ where scalar.value < 32: json += String(format: "\\u%04x", scalar.value)
            default: json.unicodeScalars.append(scalar)
            }
        }
        return json + "\""
    }
}

extension Sequence where Element: SQLExpressible {
    /// Whether an expression has one of these values: `IN`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        Term(element).isAmong(map { Term($0) }).expression
    }
}

extension Sequence where Element == any SQLExpressible {
    /// Whether an expression has one of these values: `IN`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        Term(element).isAmong(map { Term($0.sqlExpression) }).expression
    }
}

extension ClosedRange where Bound: SQLExpressible {
    /// Whether an expression lies in the range: `BETWEEN`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.between(negated: false), [Term(element), Term(lowerBound), Term(upperBound)])).expression
    }
}

extension Range where Bound: SQLExpressible {
    /// Whether an expression lies in the range: `>=` and `<`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        let element = Term(element)
        return Term.conjunction([
            element.compared(.greaterOrEqual, to: Term(lowerBound)), element.compared(.less, to: Term(upperBound)),
        ]).expression
    }
}

extension SQLSpecificExpressible {
    /// Whether a text fits a pattern: `%` stands for any characters, `_` for any one.
    ///
    /// - Parameter escape: A character before `%` and `_` that stand for themselves.
    public func like(_ pattern: some SQLExpressible, escape: (any SQLExpressible)? = nil) -> SQLExpression {
        let escape = escape.map { [Term($0.sqlExpression)] } ?? []
        return Term(.apply(.like(negated: false), [Term(self), Term(pattern)] + escape)).expression
    }

    /// Whether the full-text table or column fits a pattern; nothing does for nil.
    public func match(_ pattern: (any SQLExpressible)?) -> SQLExpression {
        guard let pattern else { return Term(0.databaseValue).expression }
        return Term(.apply(.infix(.match), [Term(self), Term(pattern.sqlExpression)])).expression
    }

    /// Compares and orders the expression by a collation.
    public func collating(_ collation: Database.CollationName) -> SQLExpression {
        Term(self).collated(collation.rawValue).expression
    }

    /// Compares and orders the expression by a collation.
    public func collating(_ collation: DatabaseCollation) -> SQLExpression {
        Term(self).collated(collation.name).expression
    }

    // MARK: Order

    /// Ascending, NULL first.
    public var asc: SQLOrdering { SQLOrdering(term: Term(self), direction: .explicitlyAscending) }
    /// Descending, NULL last.
    public var desc: SQLOrdering { SQLOrdering(term: Term(self), direction: .descending) }
    /// Ascending, NULL last.
    public var ascNullsLast: SQLOrdering { SQLOrdering(term: Term(self), direction: .ascendingNullsLast) }
    /// Descending, NULL first.
    public var descNullsFirst: SQLOrdering { SQLOrdering(term: Term(self), direction: .descendingNullsFirst) }

    // MARK: Names

    /// The expression under a name in the result: `AS`.
    public func forKey(_ key: String) -> SQLSelection {
        SQLSelection(.expression(Term(.apply(.named(key), [Term(self)]))))
    }

    /// The expression under a name in the result: `AS`.
    public func forKey(_ key: some CodingKey) -> SQLSelection { forKey(key.stringValue) }
}

extension SQLSelection {
    /// The selection under a name in the result: `AS`. What selects several columns stays as it is.
    public func forKey(_ key: String) -> SQLSelection {
        guard case .expression(let term) = content else { return self }
        return SQLSelection(.expression(Term(.apply(.named(key), [term.unnamed]))))
    }
}

/// An operator that joins any number of expressions.
public struct SQLAssociativeOperator: Sendable {
    let chain: Chain

    /// `+`; 0 for no expressions.
    public static let add = SQLAssociativeOperator(chain: .add)
    /// `*`; 1 for no expressions.
    public static let multiply = SQLAssociativeOperator(chain: .multiply)
    /// `AND`; true for no expressions.
    public static let and = SQLAssociativeOperator(chain: .and)
    /// `OR`; false for no expressions.
    public static let or = SQLAssociativeOperator(chain: .or)
    /// `||`; an empty text for no expressions.
    public static let concat = SQLAssociativeOperator(chain: .concat)
    /// `&`; -1 for no expressions.
    public static let bitwiseAnd = SQLAssociativeOperator(chain: .bitwiseAnd)
    /// `|`; 0 for no expressions.
    public static let bitwiseOr = SQLAssociativeOperator(chain: .bitwiseOr)
}

extension Sequence where Element: SQLSpecificExpressible {
    /// The expressions with an operator between them.
    public func joined(operator: SQLAssociativeOperator) -> SQLExpression {
        Term.chain(`operator`.chain, map { Term($0) }).expression
    }
}

extension Sequence where Element == any SQLSpecificExpressible {
    /// The expressions with an operator between them.
    public func joined(operator: SQLAssociativeOperator) -> SQLExpression {
        Term.chain(`operator`.chain, map { Term($0.sqlExpression) }).expression
    }
}
