import CipherDatabase
import CipherSchema
import Foundation

// The expressions without an operator in Swift: looking for values among others, patterns, names, collations, joined
// expressions.

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

    /// Whether the value is a double.
    private var isReal: Term {
        Term(.apply(.function(Function(name: "TYPEOF")), [self])).compared(.equal, to: Term("real".databaseValue))
    }

    /// Whether this is among others.
    func isAmong(_ terms: [Term]) -> Term {
        switch terms.count {
        case 0: return Term(0.databaseValue)
        // `=` of NULL would be IS NULL, which finds the rows that `IN (NULL)` does not.
        case 1 where !isNull && !terms[0].isNull: return compared(.equal, to: terms[0])
        case (ListedValues.mostParameters + 1)...:
            if let list = ListedValues.query(of: terms) {
                let isFound = Term(.apply(.inRows(negated: false), [self, list]))
                guard let exact = ListedValues.exactQuery(of: terms) else { return isFound }
                let isExact = Term(.apply(.inRows(negated: false), [self, exact]))
                return .conjunction([isFound, .chain(.or, [isReal.negated, isExact])])
            }
        default: break
        }
        return Term(.apply(.among(negated: false), [self] + terms))
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
    /// The selection under a name in the result: `AS`. A selection of several columns stays as it is.
    public func forKey(_ key: String) -> SQLSelection {
        guard case .expression(let term) = content else { return self }
        return SQLSelection(.expression(Term(.apply(.named(key), [term.unnamed]))))
    }
}

extension SQLExpression {
    /// An operator that joins any number of expressions.
    public struct AssociativeBinaryOperator: Hashable, Sendable {
        let chain: Chain

        /// `+`; 0 for no expressions.
        public static let add = Self(chain: .add)
        /// `*`; 1 for no expressions.
        public static let multiply = Self(chain: .multiply)
        /// `AND`; true for no expressions.
        public static let and = Self(chain: .and)
        /// `OR`; false for no expressions.
        public static let or = Self(chain: .or)
        /// `||`; an empty text for no expressions.
        public static let concat = Self(chain: .concat)
        /// `&`; -1 for no expressions.
        public static let bitwiseAnd = Self(chain: .bitwiseAnd)
        /// `|`; 0 for no expressions.
        public static let bitwiseOr = Self(chain: .bitwiseOr)
    }
}

extension Sequence where Element: SQLSpecificExpressible {
    /// The expressions with an operator between them.
    public func joined(operator: SQLExpression.AssociativeBinaryOperator) -> SQLExpression {
        Term.chain(`operator`.chain, map { Term($0) }).expression
    }
}

extension Sequence where Element == any SQLSpecificExpressible {
    /// The expressions with an operator between them.
    public func joined(operator: SQLExpression.AssociativeBinaryOperator) -> SQLExpression {
        Term.chain(`operator`.chain, map { Term($0.sqlExpression) }).expression
    }
}
