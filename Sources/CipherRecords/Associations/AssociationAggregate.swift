import CipherDatabase
import CipherSchema

/// A value computed from all rows that an association leads to from one row: how many there are, the greatest, the sum.
///
/// ```swift
/// Author.annotated(with: Author.books.count)              // bookCount
/// Author.having(Author.books.isEmpty == false)
/// Author.having(Author.books.max(Column("year")) > 2000)
/// ```
///
/// Two aggregates of one association with different filters need two keys: `Author.books.filter(...).forKey("novels")`.
public struct AssociationAggregate<RowDecoder>: Sendable {
    /// The tables to join.
    var chains: [AssociationChain]
    var term: Term
    /// The name of the value in the row; nil for an expression without one.
    var key: String?

    init(_ chain: AssociationChain, key: String?, _ term: (Term) -> Term, of expression: Term) {
        chains = [chain]
        self.term = term(Term(.located(chain.path, expression)))
        self.key = key
    }

    private init(chains: [AssociationChain], term: Term) {
        self.chains = chains
        self.term = term
    }

    /// The aggregate under another name.
    public func forKey(_ key: String) -> Self {
        var aggregate = self
        aggregate.key = key
        return aggregate
    }

    /// The aggregate under another name.
    public func forKey(_ key: some CodingKey) -> Self { forKey(key.stringValue) }

    fileprivate func changed(keepsKey: Bool = false, _ change: (Term) -> Term) -> Self {
        var aggregate = self
        aggregate.term = change(term)
        if !keepsKey { aggregate.key = nil }
        return aggregate
    }

    fileprivate func combined(_ other: Self, _ combine: (Term, Term) -> Term) -> Self {
        AssociationAggregate(chains: chains + other.chains, term: combine(term, other.term))
    }
}

extension AssociationToMany {
    /// How many rows there are: `bookCount`.
    public var count: AssociationAggregate<OriginRowDecoder> {
        aggregate("\(chain.singularKey)Count", Self.counted, of: Term(.fastKey(.request)))
    }

    /// Whether there is no row: `hasNoBook`.
    public var isEmpty: AssociationAggregate<OriginRowDecoder> {
        aggregate(
            "hasNo\(chain.singularKey.capitalizedFirst)",
            { Term(.apply(.isEmpty(negated: false), [Self.counted($0)])) },
            of: Term(.fastKey(.request)))
    }

    /// The mean of the values that are not NULL: `averageBookPrice`.
    public func average(_ value: any SQLSpecificExpressible) -> AssociationAggregate<OriginRowDecoder> {
        aggregate("AVG", Term(value)) { "average\($0.capitalizedFirst)\($1.capitalizedFirst)" }
    }

    /// The greatest value: `maxBookYear`.
    public func max(_ value: any SQLSpecificExpressible) -> AssociationAggregate<OriginRowDecoder> {
        aggregate("MAX", Term(value)) { "max\($0.capitalizedFirst)\($1.capitalizedFirst)" }
    }

    /// The least value: `minBookYear`.
    public func min(_ value: any SQLSpecificExpressible) -> AssociationAggregate<OriginRowDecoder> {
        aggregate("MIN", Term(value)) { "min\($0.capitalizedFirst)\($1.capitalizedFirst)" }
    }

    /// The sum of the values, NULL for none: `bookAwardsSum`.
    ///
    /// A request that joins a second to-many association counts each value once for each row of that one.
    public func sum(_ value: any SQLSpecificExpressible) -> AssociationAggregate<OriginRowDecoder> {
        aggregate("SUM", Term(value)) { "\($0)\($1.capitalizedFirst)Sum" }
    }

    /// The sum of the values as a floating-point number, 0 for none: `bookAwardsSum`.
    ///
    /// A second to-many association multiplies it, as the sum.
    public func total(_ value: any SQLSpecificExpressible) -> AssociationAggregate<OriginRowDecoder> {
        aggregate("TOTAL", Term(value)) { "\($0)\($1.capitalizedFirst)Sum" }
    }

    private static func counted(_ key: Term) -> Term {
        Term(.apply(.function(Function(name: "COUNT", isAggregate: true, isDistinct: true)), [key]))
    }

    private func aggregate(
        _ function: String, _ value: Term, key: (_ association: String, _ column: String) -> String
    ) -> AssociationAggregate<OriginRowDecoder> {
        var column: String?
        if case .column(let name, _)? = value.operation { column = name }
        return aggregate(
            column.map { key(chain.singularKey, $0) },
            { Term(.apply(.function(Function(name: function, isAggregate: true)), [$0])) }, of: value)
    }

    private func aggregate(
        _ key: String?, _ term: (Term) -> Term, of expression: Term
    ) -> AssociationAggregate<OriginRowDecoder> {
        AssociationAggregate(chain, key: key, term, of: expression)
    }
}

extension AssociationToMany where RowDecoder: TableRecord {
    /// The mean of the values that are not NULL: `averageBookPrice`.
    public func average(
        _ value: (RowDecoder.DatabaseComponents) throws -> some SQLSpecificExpressible
    ) rethrows -> AssociationAggregate<OriginRowDecoder> {
        try average(value(RowDecoder.databaseComponents))
    }

    /// The greatest value: `maxBookYear`.
    public func max(
        _ value: (RowDecoder.DatabaseComponents) throws -> some SQLSpecificExpressible
    ) rethrows -> AssociationAggregate<OriginRowDecoder> {
        try max(value(RowDecoder.databaseComponents))
    }

    /// The least value: `minBookYear`.
    public func min(
        _ value: (RowDecoder.DatabaseComponents) throws -> some SQLSpecificExpressible
    ) rethrows -> AssociationAggregate<OriginRowDecoder> {
        try min(value(RowDecoder.databaseComponents))
    }

    /// The sum of the values, NULL for none: `bookAwardsSum`.
    ///
    /// A request that joins a second to-many association counts each value once for each row of that one.
    public func sum(
        _ value: (RowDecoder.DatabaseComponents) throws -> some SQLSpecificExpressible
    ) rethrows -> AssociationAggregate<OriginRowDecoder> {
        try sum(value(RowDecoder.databaseComponents))
    }

    /// The sum of the values as a floating-point number, 0 for none: `bookAwardsSum`.
    ///
    /// A second to-many association multiplies it, as the sum.
    public func total(
        _ value: (RowDecoder.DatabaseComponents) throws -> some SQLSpecificExpressible
    ) rethrows -> AssociationAggregate<OriginRowDecoder> {
        try total(value(RowDecoder.databaseComponents))
    }
}

extension String {
    fileprivate var capitalizedFirst: String { prefix(1).uppercased() + dropFirst() }
}

// MARK: - Operators

// An aggregate loses its name when an operator is applied to it, unless the operator leaves its meaning.

extension AssociationAggregate {
    /// `NOT`, or the opposite operator where SQL has one.
    public static prefix func ! (operand: Self) -> Self { operand.changed { $0.negated } }

    /// `-`
    public static prefix func - (operand: Self) -> Self {
        operand.changed { Term(.apply(.prefix(.minus), [$0])) }
    }

    /// `IFNULL(left, right)`. It keeps the name.
    public static func ?? (left: Self, right: some SQLExpressible) -> Self {
        left.changed(keepsKey: true) { Term(.apply(.function(Function(name: "IFNULL")), [$0, Term(right)])) }
    }

    /// `=`; of `isEmpty`, whether it is true, or false.
    public static func == (left: Self, right: Bool) -> Self { left.changed { $0.tested(right) } }

    /// `=`; of `isEmpty`, whether it is true, or false.
    public static func == (left: Bool, right: Self) -> Self { right == left }

    /// `<>`; of `isEmpty`, whether it is false, or true.
    public static func != (left: Self, right: Bool) -> Self { left.changed { $0.tested(right).negated } }

    /// `<>`; of `isEmpty`, whether it is false, or true.
    public static func != (left: Bool, right: Self) -> Self { right != left }

    /// `=`
    public static func == (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.equal, to: $1) } }

    /// `=`
    public static func == (left: Self, right: (any SQLExpressible)?) -> Self {
        left.changed { $0.compared(.equal, to: Term(right?.sqlExpression)) }
    }

    /// `=`
    public static func == (left: (any SQLExpressible)?, right: Self) -> Self {
        right.changed { Term(left?.sqlExpression).compared(.equal, to: $0) }
    }

    /// `<>`
    public static func != (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.notEqual, to: $1) } }

    /// `<>`
    public static func != (left: Self, right: (any SQLExpressible)?) -> Self {
        left.changed { $0.compared(.notEqual, to: Term(right?.sqlExpression)) }
    }

    /// `<>`
    public static func != (left: (any SQLExpressible)?, right: Self) -> Self {
        right.changed { Term(left?.sqlExpression).compared(.notEqual, to: $0) }
    }

    /// `IS`
    public static func === (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.is, to: $1) } }

    /// `IS`
    public static func === (left: Self, right: (any SQLExpressible)?) -> Self {
        left.changed { $0.compared(.is, to: Term(right?.sqlExpression)) }
    }

    /// `IS`
    public static func === (left: (any SQLExpressible)?, right: Self) -> Self {
        right.changed { Term(left?.sqlExpression).compared(.is, to: $0) }
    }

    /// `IS NOT`
    public static func !== (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.isNot, to: $1) } }

    /// `IS NOT`
    public static func !== (left: Self, right: (any SQLExpressible)?) -> Self {
        left.changed { $0.compared(.isNot, to: Term(right?.sqlExpression)) }
    }

    /// `IS NOT`
    public static func !== (left: (any SQLExpressible)?, right: Self) -> Self {
        right.changed { Term(left?.sqlExpression).compared(.isNot, to: $0) }
    }

    /// `<`
    public static func < (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.less, to: $1) } }

    /// `<`
    public static func < (left: Self, right: some SQLExpressible) -> Self {
        left.changed { $0.compared(.less, to: Term(right)) }
    }

    /// `<`
    public static func < (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(left).compared(.less, to: $0) }
    }

    /// `<=`
    public static func <= (left: Self, right: Self) -> Self {
        left.combined(right) { $0.compared(.lessOrEqual, to: $1) }
    }

    /// `<=`
    public static func <= (left: Self, right: some SQLExpressible) -> Self {
        left.changed { $0.compared(.lessOrEqual, to: Term(right)) }
    }

    /// `<=`
    public static func <= (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(left).compared(.lessOrEqual, to: $0) }
    }

    /// `>`
    public static func > (left: Self, right: Self) -> Self { left.combined(right) { $0.compared(.greater, to: $1) } }

    /// `>`
    public static func > (left: Self, right: some SQLExpressible) -> Self {
        left.changed { $0.compared(.greater, to: Term(right)) }
    }

    /// `>`
    public static func > (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(left).compared(.greater, to: $0) }
    }

    /// `>=`
    public static func >= (left: Self, right: Self) -> Self {
        left.combined(right) { $0.compared(.greaterOrEqual, to: $1) }
    }

    /// `>=`
    public static func >= (left: Self, right: some SQLExpressible) -> Self {
        left.changed { $0.compared(.greaterOrEqual, to: Term(right)) }
    }

    /// `>=`
    public static func >= (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(left).compared(.greaterOrEqual, to: $0) }
    }

    /// `+`
    public static func + (left: Self, right: Self) -> Self {
        left.combined(right) { Term(.apply(.chain(.add), [$0, $1])) }
    }

    /// `+`
    public static func + (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term(.apply(.chain(.add), [$0, Term(right)])) }
    }

    /// `+`
    public static func + (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(.apply(.chain(.add), [Term(left), $0])) }
    }

    /// `-`
    public static func - (left: Self, right: Self) -> Self {
        left.combined(right) { Term(.apply(.infix(.subtract), [$0, $1])) }
    }

    /// `-`
    public static func - (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term(.apply(.infix(.subtract), [$0, Term(right)])) }
    }

    /// `-`
    public static func - (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(.apply(.infix(.subtract), [Term(left), $0])) }
    }

    /// `*`
    public static func * (left: Self, right: Self) -> Self {
        left.combined(right) { Term(.apply(.chain(.multiply), [$0, $1])) }
    }

    /// `*`
    public static func * (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term(.apply(.chain(.multiply), [$0, Term(right)])) }
    }

    /// `*`
    public static func * (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(.apply(.chain(.multiply), [Term(left), $0])) }
    }

    /// `/`
    public static func / (left: Self, right: Self) -> Self {
        left.combined(right) { Term(.apply(.infix(.divide), [$0, $1])) }
    }

    /// `/`
    public static func / (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term(.apply(.infix(.divide), [$0, Term(right)])) }
    }

    /// `/`
    public static func / (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term(.apply(.infix(.divide), [Term(left), $0])) }
    }

    /// `AND`
    public static func && (left: Self, right: Self) -> Self { left.combined(right) { Term.chain(.and, [$0, $1]) } }

    /// `AND`
    public static func && (left: Self, right: some SQLSpecificExpressible) -> Self {
        left.changed { Term.chain(.and, [$0, Term(right)]) }
    }

    /// `AND`
    public static func && (left: some SQLSpecificExpressible, right: Self) -> Self {
        right.changed { Term.chain(.and, [Term(left), $0]) }
    }

    /// `AND`
    @_disfavoredOverload
    public static func && (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term.chain(.and, [$0, Term(right)]) }
    }

    /// `AND`
    @_disfavoredOverload
    public static func && (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term.chain(.and, [Term(left), $0]) }
    }

    /// `OR`
    public static func || (left: Self, right: Self) -> Self { left.combined(right) { Term.chain(.or, [$0, $1]) } }

    /// `OR`
    public static func || (left: Self, right: some SQLSpecificExpressible) -> Self {
        left.changed { Term.chain(.or, [$0, Term(right)]) }
    }

    /// `OR`
    public static func || (left: some SQLSpecificExpressible, right: Self) -> Self {
        right.changed { Term.chain(.or, [Term(left), $0]) }
    }

    /// `OR`
    @_disfavoredOverload
    public static func || (left: Self, right: some SQLExpressible) -> Self {
        left.changed { Term.chain(.or, [$0, Term(right)]) }
    }

    /// `OR`
    @_disfavoredOverload
    public static func || (left: some SQLExpressible, right: Self) -> Self {
        right.changed { Term.chain(.or, [Term(left), $0]) }
    }
}

/// `ABS`: the number without its sign.
public func abs<T>(_ aggregate: AssociationAggregate<T>) -> AssociationAggregate<T> {
    aggregate.changed { Term(.apply(.function(Function(name: "ABS")), [$0])) }
}

/// `LENGTH`: of a text in characters, of a blob in bytes.
public func length<T>(_ aggregate: AssociationAggregate<T>) -> AssociationAggregate<T> {
    aggregate.changed { Term(.apply(.function(Function(name: "LENGTH")), [$0])) }
}

/// `CAST`: the value in another storage class. It keeps the name.
public func cast<T>(
    _ aggregate: AssociationAggregate<T>, as storageClass: Database.StorageClass
) -> AssociationAggregate<T> {
    aggregate.changed(keepsKey: true) { Term(.apply(.cast(storageClass), [$0])) }
}
