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

extension ColumnExpression {
    /// `=`, which Swift's `~=` of two equatable values would otherwise be.
    public static func ~= (left: Self, right: Self) -> SQLExpression { left == right }
}

// MARK: - Row values

// Swift compares tuples and arrays of equatable values too.

/// `=` of row values: `(a, b) = (c, d)`.
/// - SeeAlso: <https://www.sqlite.org/rowvalue.html>
public func == <A: ColumnExpression, B: ColumnExpression>(left: (A, B), right: (A, B)) -> SQLExpression {
    equal([(Term(left.0), Term(right.0)), (Term(left.1), Term(right.1))])
}

/// `<>` of row values: `(a, b) <> (c, d)`.
public func != <A: ColumnExpression, B: ColumnExpression>(left: (A, B), right: (A, B)) -> SQLExpression {
    notEqual([(Term(left.0), Term(right.0)), (Term(left.1), Term(right.1))])
}

/// `=` of row values.
public func == <A: ColumnExpression, B: ColumnExpression, C: ColumnExpression>(
    left: (A, B, C), right: (A, B, C)
) -> SQLExpression {
    equal([(Term(left.0), Term(right.0)), (Term(left.1), Term(right.1)), (Term(left.2), Term(right.2))])
}

/// `<>` of row values.
public func != <A: ColumnExpression, B: ColumnExpression, C: ColumnExpression>(
    left: (A, B, C), right: (A, B, C)
) -> SQLExpression {
    notEqual([(Term(left.0), Term(right.0)), (Term(left.1), Term(right.1)), (Term(left.2), Term(right.2))])
}

/// `=` of row values.
public func == <A: ColumnExpression, B: ColumnExpression, C: ColumnExpression, D: ColumnExpression>(
    left: (A, B, C, D), right: (A, B, C, D)
) -> SQLExpression {
    equal([
        (Term(left.0), Term(right.0)), (Term(left.1), Term(right.1)), (Term(left.2), Term(right.2)),
        (Term(left.3), Term(right.3)),
    ])
}

/// `<>` of row values.
public func != <A: ColumnExpression, B: ColumnExpression, C: ColumnExpression, D: ColumnExpression>(
    left: (A, B, C, D), right: (A, B, C, D)
) -> SQLExpression {
    notEqual([
        (Term(left.0), Term(right.0)), (Term(left.1), Term(right.1)), (Term(left.2), Term(right.2)),
        (Term(left.3), Term(right.3)),
    ])
}

extension Array where Element: ColumnExpression {
    /// `=` of row values. A statement with rows of different lengths throws `DatabaseError` `.SQLITE_MISUSE`.
    public static func == (left: Self, right: Self) -> SQLExpression {
        left.count == right.count ? equal(pairs(left, right)) : differentLengths
    }

    /// `<>` of row values. A statement with rows of different lengths throws `DatabaseError` `.SQLITE_MISUSE`.
    public static func != (left: Self, right: Self) -> SQLExpression {
        left.count == right.count ? notEqual(pairs(left, right)) : differentLengths
    }

    private static func pairs(_ left: Self, _ right: Self) -> [(Term, Term)] {
        zip(left, right).map { (Term($0), Term($1)) }
    }

    private static var differentLengths: SQLExpression {
        Term.failure("two rows of columns with different lengths are compared").expression
    }
}

// Their columns are compared one by one, which means the same, and finds the indexes of each.

private func equal(_ pairs: [(Term, Term)]) -> SQLExpression {
    Term.chain(.and, pairs.map { $0.compared(.equal, to: $1) }).expression
}

private func notEqual(_ pairs: [(Term, Term)]) -> SQLExpression {
    Term.chain(.or, pairs.map { $0.compared(.notEqual, to: $1) }).expression
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
