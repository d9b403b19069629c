import CipherDatabase

// The operators of two columns of one type. A type of columns may be an enum, or `Hashable` or `Comparable` for another
// reason, and Swift has these operators for such types too.

extension ColumnExpression {
    /// `=`
    public static func == (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.equal, to: Term(right)).expression
    }

    /// `<>`
    public static func != (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.notEqual, to: Term(right)).expression
    }

    /// `IS`
    public static func === (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.is, to: Term(right)).expression
    }

    /// `IS NOT`
    public static func !== (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.isNot, to: Term(right)).expression
    }

    /// `<`
    public static func < (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.less, to: Term(right)).expression
    }

    /// `<=`
    public static func <= (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.lessOrEqual, to: Term(right)).expression
    }

    /// `>`
    public static func > (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.greater, to: Term(right)).expression
    }

    /// `>=`
    public static func >= (left: Self, right: Self) -> SQLExpression {
        Term(left).compared(.greaterOrEqual, to: Term(right)).expression
    }
}

extension Sequence where Element: ColumnExpression {
    /// Whether a column has the value of one of these columns: `IN`.
    public func contains(_ element: Element) -> SQLExpression {
        Term(element).isAmong(map { Term($0) }).expression
    }
}

extension ClosedRange where Bound: ColumnExpression {
    /// Whether a column lies between two columns: `BETWEEN`.
    public func contains(_ element: Bound) -> SQLExpression {
        Term(.apply(.between(negated: false), [Term(element), Term(lowerBound), Term(upperBound)])).expression
    }
}

extension Range where Bound: ColumnExpression {
    /// Whether a column lies between two columns: `>=` and `<`.
    public func contains(_ element: Bound) -> SQLExpression {
        let element = Term(element)
        return Term.conjunction([
            element.compared(.greaterOrEqual, to: Term(lowerBound)), element.compared(.less, to: Term(upperBound)),
        ]).expression
    }
}

/// `MAX` of two columns in one row: the greater value; NULL if one is.
public func max<C: ColumnExpression & Comparable>(_ first: C, _ second: C) -> SQLExpression {
    call("MAX", [first, second])
}

/// `MAX` of several columns in one row: the greatest value; NULL if one is.
public func max<C: ColumnExpression & Comparable>(_ first: C, _ second: C, _ third: C, _ others: C...) -> SQLExpression
{
    call("MAX", [first, second, third] + others)
}

/// `MIN` of two columns in one row: the lesser value; NULL if one is.
public func min<C: ColumnExpression & Comparable>(_ first: C, _ second: C) -> SQLExpression {
    call("MIN", [first, second])
}

/// `MIN` of several columns in one row: the least value; NULL if one is.
public func min<C: ColumnExpression & Comparable>(_ first: C, _ second: C, _ third: C, _ others: C...) -> SQLExpression
{
    call("MIN", [first, second, third] + others)
}

private func call(_ name: String, _ columns: [some ColumnExpression]) -> SQLExpression {
    Term(.apply(.function(Function(name: name)), columns.map { Term($0) })).expression
}

// Swift does not try generic operators where it has found a solution with one that is not, as `!` and `&&` of Bool.

extension SQLExpression {
    /// `NOT`, or the opposite operator where SQL has one.
    public static prefix func ! (operand: SQLExpression) -> SQLExpression { Term(operand).negated.expression }

    /// `AND`
    public static func && (left: SQLExpression, right: SQLExpression) -> SQLExpression {
        Term.chain(.and, [Term(left), Term(right)], flattening: true).expression
    }

    /// `OR`
    public static func || (left: SQLExpression, right: SQLExpression) -> SQLExpression {
        Term.chain(.or, [Term(left), Term(right)], flattening: true).expression
    }
}
