import CipherDatabase

// The operators of SQL. Each has three forms: an operand that is specific to SQL on the left, on the right, or on both
// sides. Operands that are compared with nil are looked at with `IS NULL`.
//
// A Bool is a value to SQL. If an expression of SQL fits, it is preferred (`@_disfavoredOverload`): otherwise Swift may
// compare two operands itself, and `a == b && c` becomes `0 AND c`.

extension SQLSpecificExpressible {
    // MARK: Comparisons

    /// `=`
    public static func == (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.equal, to: Term(right)).expression
    }

    /// `=`
    public static func == (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.equal, to: Term(right)).expression
    }

    /// `=`
    public static func == (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.equal, to: Term(right)).expression
    }

    /// `=`
    public static func == (left: Self, right: Bool) -> SQLExpression { Term(left).tested(right).expression }

    /// `=`
    public static func == (left: Bool, right: Self) -> SQLExpression { Term(right).tested(left).expression }

    /// `=`
    public static func == (left: Self, right: (any SQLExpressible)?) -> SQLExpression {
        Term(left).compared(.equal, to: Term(right?.sqlExpression)).expression
    }

    /// `=`
    public static func == (left: (any SQLExpressible)?, right: Self) -> SQLExpression {
        Term(left?.sqlExpression).compared(.equal, to: Term(right)).expression
    }

    /// `<>`
    public static func != (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.notEqual, to: Term(right)).expression
    }

    /// `<>`
    public static func != (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.notEqual, to: Term(right)).expression
    }

    /// `<>`
    public static func != (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.notEqual, to: Term(right)).expression
    }

    /// `<>`
    public static func != (left: Self, right: Bool) -> SQLExpression { Term(left).tested(right).negated.expression }

    /// `<>`
    public static func != (left: Bool, right: Self) -> SQLExpression { Term(right).tested(left).negated.expression }

    /// `<>`
    public static func != (left: Self, right: (any SQLExpressible)?) -> SQLExpression {
        Term(left).compared(.notEqual, to: Term(right?.sqlExpression)).expression
    }

    /// `<>`
    public static func != (left: (any SQLExpressible)?, right: Self) -> SQLExpression {
        Term(left?.sqlExpression).compared(.notEqual, to: Term(right)).expression
    }

    /// `IS`
    public static func === (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.is, to: Term(right)).expression
    }

    /// `IS`
    public static func === (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.is, to: Term(right)).expression
    }

    /// `IS`
    public static func === (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.is, to: Term(right)).expression
    }

    /// `IS`
    public static func === (left: Self, right: (any SQLExpressible)?) -> SQLExpression {
        Term(left).compared(.is, to: Term(right?.sqlExpression)).expression
    }

    /// `IS`
    public static func === (left: (any SQLExpressible)?, right: Self) -> SQLExpression {
        Term(left?.sqlExpression).compared(.is, to: Term(right)).expression
    }

    /// `IS NOT`
    public static func !== (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.isNot, to: Term(right)).expression
    }

    /// `IS NOT`
    public static func !== (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.isNot, to: Term(right)).expression
    }

    /// `IS NOT`
    public static func !== (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.isNot, to: Term(right)).expression
    }

    /// `IS NOT`
    public static func !== (left: Self, right: (any SQLExpressible)?) -> SQLExpression {
        Term(left).compared(.isNot, to: Term(right?.sqlExpression)).expression
    }

    /// `IS NOT`
    public static func !== (left: (any SQLExpressible)?, right: Self) -> SQLExpression {
        Term(left?.sqlExpression).compared(.isNot, to: Term(right)).expression
    }

    /// `<`
    public static func < (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.less, to: Term(right)).expression
    }

    /// `<`
    public static func < (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.less, to: Term(right)).expression
    }

    /// `<`
    public static func < (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.less, to: Term(right)).expression
    }

    /// `<=`
    public static func <= (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.lessOrEqual, to: Term(right)).expression
    }

    /// `<=`
    public static func <= (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.lessOrEqual, to: Term(right)).expression
    }

    /// `<=`
    public static func <= (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.lessOrEqual, to: Term(right)).expression
    }

    /// `>`
    public static func > (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.greater, to: Term(right)).expression
    }

    /// `>`
    public static func > (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.greater, to: Term(right)).expression
    }

    /// `>`
    public static func > (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.greater, to: Term(right)).expression
    }

    /// `>=`
    public static func >= (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(left).compared(.greaterOrEqual, to: Term(right)).expression
    }

    /// `>=`
    public static func >= (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(left).compared(.greaterOrEqual, to: Term(right)).expression
    }

    /// `>=`
    public static func >= (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(left).compared(.greaterOrEqual, to: Term(right)).expression
    }

    // MARK: Arithmetic

    /// `+`
    public static func + (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.add, [Term(left), Term(right)], flattening: false).expression
    }

    /// `+`
    public static func + (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.add, [Term(left), Term(right)], flattening: false).expression
    }

    /// `+`
    public static func + (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.add, [Term(left), Term(right)], flattening: false).expression
    }

    /// `*`
    public static func * (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.multiply, [Term(left), Term(right)], flattening: false).expression
    }

    /// `*`
    public static func * (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.multiply, [Term(left), Term(right)], flattening: false).expression
    }

    /// `*`
    public static func * (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.multiply, [Term(left), Term(right)], flattening: false).expression
    }

    /// `-`
    public static func - (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.subtract), [Term(left), Term(right)])).expression
    }

    /// `-`
    public static func - (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(.apply(.infix(.subtract), [Term(left), Term(right)])).expression
    }

    /// `-`
    public static func - (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.infix(.subtract), [Term(left), Term(right)])).expression
    }

    /// `/`
    public static func / (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.divide), [Term(left), Term(right)])).expression
    }

    /// `/`
    public static func / (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(.apply(.infix(.divide), [Term(left), Term(right)])).expression
    }

    /// `/`
    public static func / (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.infix(.divide), [Term(left), Term(right)])).expression
    }

    // MARK: Bits

    /// `&`
    public static func & (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.bitwiseAnd, [Term(left), Term(right)]).expression
    }

    /// `&`
    public static func & (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.bitwiseAnd, [Term(left), Term(right)]).expression
    }

    /// `&`
    public static func & (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.bitwiseAnd, [Term(left), Term(right)]).expression
    }

    /// `|`
    public static func | (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.bitwiseOr, [Term(left), Term(right)]).expression
    }

    /// `|`
    public static func | (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.bitwiseOr, [Term(left), Term(right)]).expression
    }

    /// `|`
    public static func | (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.bitwiseOr, [Term(left), Term(right)]).expression
    }

    /// `<<`
    public static func << (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.leftShift), [Term(left), Term(right)])).expression
    }

    /// `<<`
    public static func << (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(.apply(.infix(.leftShift), [Term(left), Term(right)])).expression
    }

    /// `<<`
    public static func << (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.infix(.leftShift), [Term(left), Term(right)])).expression
    }

    /// `>>`
    public static func >> (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(.apply(.infix(.rightShift), [Term(left), Term(right)])).expression
    }

    /// `>>`
    public static func >> (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term(.apply(.infix(.rightShift), [Term(left), Term(right)])).expression
    }

    /// `>>`
    public static func >> (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.infix(.rightShift), [Term(left), Term(right)])).expression
    }

    // MARK: Logic

    /// `AND`
    @_disfavoredOverload
    public static func && (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.and, [Term(left), Term(right)], flattening: true).expression
    }

    /// `AND`
    @_disfavoredOverload
    public static func && (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.and, [Term(left), Term(right)], flattening: true).expression
    }

    /// `AND`
    public static func && (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.and, [Term(left), Term(right)], flattening: true).expression
    }

    /// `OR`
    @_disfavoredOverload
    public static func || (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term.chain(.or, [Term(left), Term(right)], flattening: true).expression
    }

    /// `OR`
    @_disfavoredOverload
    public static func || (left: some SQLExpressible, right: Self) -> SQLExpression {
        Term.chain(.or, [Term(left), Term(right)], flattening: true).expression
    }

    /// `OR`
    public static func || (left: Self, right: some SQLSpecificExpressible) -> SQLExpression {
        Term.chain(.or, [Term(left), Term(right)], flattening: true).expression
    }

    /// `NOT`, or the opposite operator where SQL has one.
    public static prefix func ! (operand: Self) -> SQLExpression { Term(operand).negated.expression }

    /// `-`
    public static prefix func - (operand: Self) -> SQLExpression {
        Term(.apply(.prefix(.minus), [Term(operand)])).expression
    }

    /// `~`
    public static prefix func ~ (operand: Self) -> SQLExpression {
        Term(.apply(.prefix(.complement), [Term(operand)])).expression
    }

    /// `IFNULL(left, right)`
    public static func ?? (left: Self, right: some SQLExpressible) -> SQLExpression {
        Term(.apply(.function(Function(name: "IFNULL")), [Term(left), Term(right)])).expression
    }
}
