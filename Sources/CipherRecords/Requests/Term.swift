import CipherDatabase
import CipherSchema

/// The value of a parameter.
///
/// Two of them are equal whatever they hold: expressions are compared to find the SQL text of an earlier request of
/// the same shape, and values are no part of the text. NULL is one: it is written out.
struct BoundValue: Hashable, Sendable {
    let value: DatabaseValue

    static func == (left: BoundValue, right: BoundValue) -> Bool { left.value.isNull == right.value.isNull }
    func hash(into hasher: inout Hasher) { hasher.combine(value.isNull) }
}

/// An expression of the query interface: a value, or an operation on other expressions.
///
/// Terms are compared by shape: see ``BoundValue``.
enum Term: Hashable, Sendable {
    case value(BoundValue)
    case node(Node)

    init(_ value: DatabaseValue) { self = .value(BoundValue(value: value)) }

    init(_ operation: Operation) {
        let node = Node(operation)
        if node.depth <= Node.mostLevels {
            self = .node(node)
        } else {
            // Expressions are walked by recursion, which deeper ones would drive beyond the end of the stack.
            self = .failure(Node.tooManyLevels)
        }
    }

    init(_ expressible: some SQLExpressible) { self.init(expressible.sqlExpression) }

    init(_ expression: SQLExpression) {
        switch expression.content {
        case .value(let value): self.init(value)
        case .fragment(let fragment as Node): self = .node(fragment)
        case .fragment: self = .failure("a query stands alone in an expression")
        case .subquery(let subquery): self.init(.subquery(subquery.content))
        }
    }

    /// The expression that programs see.
    var expression: SQLExpression {
        switch self {
        case .value(let bound): SQLExpression(.value(bound.value))
        case .node(let node): SQLExpression(.fragment(node))
        }
    }

    /// An expression that cannot be written: a mistake that was found when there was no way to throw.
    static func failure(_ message: String) -> Term {
        var literal = LiteralText(SQL(sql: ""))
        literal.pieces = [.failure(message)]
        return Term(.literal(literal))
    }

    var isNull: Bool { if case .value(let bound) = self { bound.value.isNull } else { false } }

    /// The operation; nil for a value.
    var operation: Operation? { if case .node(let node) = self { node.operation } else { nil } }
}

/// An operation, at a place of its own in memory: expressions share their parts.
final class Node: SQLFragment, Hashable {
    /// The most operations in one another. SQLite takes 1,000; in a debug build, each level takes 10 KB of the stack of
    /// the thread that writes the SQL, and a thread has 8 MB or less.
    /// - SeeAlso: <https://www.sqlite.org/limits.html#max_expr_depth>
    static let mostLevels = 250

    /// How many operations a query is as deep as. A join is as deep as one.
    static let levelsOfQuery = 4

    /// The mistake of an expression or request that is deeper.
    static let tooManyLevels =
        "there are \(mostLevels) operators in one another, or requests in one another that need as many: "
        + "join long chains with joined(operator:), look for values with contains(_:), and follow long paths with a "
        + "recursive common table expression"

    let operation: Operation
    /// How many operations are in one another, this one included.
    let depth: Int

    init(_ operation: Operation) {
        self.operation = operation
        depth = 1 + operation.innerDepth
    }

    static func == (left: Node, right: Node) -> Bool { left === right || left.operation == right.operation }
    func hash(into hasher: inout Hasher) { hasher.combine(operation) }

    /// SQL text of the program stays as it is, unless it is surely one expression.
    var form: FragmentForm {
        switch operation {
        case .apply(let function, let operands):
            switch function {
            case .function, .cast, .named: .single
            case .like: operands.count == 2 ? .pattern : .comparison
            case .between, .among, .inRows, .exists: .pattern
            case .chain(.and): .conjunction
            case .collate: operands[0].isComparison ? .comparison : .single
            default: Term.node(self).isComparison ? .comparison : .operation
            }
        case .deferred: .operation
        case .located(_, .node(let node)), .inTable(_, .node(let node)), .json(.node(let node)): node.form
        case .literal(let literal): literal.form
        case .column, .fastKey, .subquery, .bareQuery, .tableName, .definition, .columns, .located, .inTable, .json:
            .single
        }
    }

    /// The operation in SQL text that stands alone, without a table that its columns could belong to.
    func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue]) {
        var generator = SQLGenerator(facts: SchemaFacts(db))
        try generator.write(.node(rewritten(Rewriting(database: db))))
        return (generator.text, generator.values)
    }
}

/// Which table a column belongs to.
enum ColumnOwner: Hashable, Sendable {
    /// The table of the request that the expression is given to.
    case request
    /// The table that has this alias.
    case alias(AliasID)
    /// The table of this name in the statement.
    case named(String)
    /// None: the column is never qualified.
    case nobody
}

/// The kinds of an expression.
enum Operation: Hashable, Sendable {
    case column(String, ColumnOwner)
    /// The columns that tell rows apart, for counting and grouping: see ``SchemaFacts/fastKey(of:)``.
    case fastKey(ColumnOwner)
    case apply(Operator, [Term])
    /// An expression on a joined table, at the end of a path of joins.
    case located([String], Term)
    /// SQL text, with what stands in it.
    case literal(LiteralText)
    /// A query in parentheses.
    case subquery(Subquery)
    /// A query without parentheses, as SQL interpolation takes it.
    case bareQuery(Subquery)
    /// The name of a table or a common table expression, as it is named in the statement.
    case tableName(String)
    /// A common table expression as it stands after `WITH`.
    case definition(CommonTable)
    /// Columns in a selection, without the rest of its query.
    case columns([Selection], table: String, qualifier: String?)
    /// An expression whose columns belong to the table of an alias.
    case inTable(AliasID, Term)
    /// An expression that is JSON: as a part of other JSON it is a value of its own, not a text.
    case json(Term)
    /// An expression that is known when there is a connection.
    case deferred(Deferred<Term>)
}

extension Operation {
    /// How many operations are in one another below this one.
    fileprivate var innerDepth: Int {
        switch self {
        case .apply(_, let operands): operands.reduce(0) { max($0, $1.depth) }
        case .located(_, let term), .inTable(_, let term), .json(let term): term.depth
        case .literal(let literal): literal.depth
        case .subquery(let query), .bareQuery(let query): query.depth
        case .definition(let table): table.query.depth
        case .columns(let selections, _, _): selections.reduce(0) { max($0, $1.depth) }
        case .column, .fastKey, .tableName, .deferred: 0
        }
    }
}

extension Term {
    fileprivate var depth: Int { if case .node(let node) = self { node.depth } else { 0 } }
}

extension LiteralText {
    fileprivate var depth: Int {
        pieces.reduce(0) { depth, piece in
            if case .node(let node) = piece { max(depth, node.depth) } else { depth }
        }
    }
}

extension Selection {
    fileprivate var depth: Int {
        switch self {
        case .expression(let term): term.depth
        case .literal(let literal): literal.depth
        case .located(_, let selections), .inTable(_, let selections): selections.reduce(0) { max($0, $1.depth) }
        case .allColumns, .allColumnsExcluding, .primaryKey, .deferred, .one: 0
        }
    }
}

extension Subquery {
    /// How many operations are in one another.
    var depth: Int {
        switch self {
        case .relation(let relation): relation.depth
        case .literal(let literal): Node.levelsOfQuery + literal.depth
        case .deferred: Node.levelsOfQuery
        }
    }

    /// The query, or one that cannot be written if it is too deep.
    var checked: Subquery {
        if depth <= Node.mostLevels { return self }
        var literal = LiteralText(SQL(sql: ""))
        literal.pieces = [.failure(Node.tooManyLevels)]
        return .literal(literal)
    }
}

extension Relation {
    /// How many operations, queries and joins are in one another.
    var depth: Int {
        var depth = 0
        func see(_ inner: Int) { depth = max(depth, inner) }
        for table in commonTables { see(table.query.depth) }
        for selected in selection { see(selected.depth) }
        for terms in [filters, groups, having] { for term in terms { see(term.depth) } }
        for case .term(let term, _) in ordering.elements { see(term.depth) }
        for join in joins {
            if case .condition(let condition?, _, _) = join.link { see(condition.depth) }
            see(join.relation.depth + 1 - Node.levelsOfQuery)
        }
        for prefetch in prefetches { see(prefetch.relation.depth) }
        return Node.levelsOfQuery + depth
    }
}

/// A query within an expression.
enum Subquery: Hashable, Sendable {
    case relation(Relation)
    case literal(LiteralText)
    /// A query that is known when there is a connection.
    case deferred(Deferred<Subquery>)
}

/// Operators and functions, by the text that they become.
enum Operator: Hashable, Sendable {
    case infix(Infix)
    /// Any number of operands with one operator between them.
    case chain(Chain)
    case prefix(Prefix)
    /// The first operand is compared with the next two.
    case between(negated: Bool)
    /// The first operand is looked for among the others.
    case among(negated: Bool)
    /// The first operand is looked for in the rows of the second, a query.
    case inRows(negated: Bool)
    /// The operand is a query.
    case exists(negated: Bool)
    /// Two operands, and a third with an escape character.
    case like(negated: Bool)
    case collate(String)
    case cast(Database.StorageClass)
    case function(Function)
    /// `CASE`: pairs of condition and result, and a last operand for all else where `hasElse` says so.
    case choice(hasBase: Bool, hasElse: Bool)
    /// The row's primary key is among the operands: values; or a query, with a second one for a key that is a double.
    case primaryKey
    /// The columns have the values of one of several keys: values, one after another; or a query, with the same query for
    /// a key that has a double.
    case uniqueKeys([String])
    /// The operand, by its name in the result: `expression AS name`.
    case named(String)
    /// Whether the operand, which counts rows, is 0.
    case isEmpty(negated: Bool)
    /// The row is linked to a row of another table, whose values are the operands.
    case linked(OriginRow)
    /// As many operands as this says are together among the rows that the other operands are, or the only other operand
    /// has.
    case amongRows(Int)
}

/// A row of another table that rows are looked for by.
struct OriginRow: Hashable, Sendable {
    var link: Join.Link
    var table: String
    /// The columns whose values are known.
    var columns: [String]
}

enum Infix: String, Sendable {
    case equal = "="
    case notEqual = "<>"
    case `is` = "IS"
    case isNot = "IS NOT"
    case less = "<"
    case lessOrEqual = "<="
    case greater = ">"
    case greaterOrEqual = ">="
    case subtract = "-"
    case divide = "/"
    case leftShift = "<<"
    case rightShift = ">>"
    case match = "MATCH"
    case jsonValue = "->>"
    case jsonText = "->"

    /// The operator that is true where this one is false, NULL aside.
    var opposite: Infix? {
        switch self {
        case .equal: .notEqual
        case .notEqual: .equal
        case .is: .isNot
        case .isNot: .is
        default: nil
        }
    }
}

enum Chain: String, Sendable {
    case and = "AND"
    case or = "OR"
    case add = "+"
    case multiply = "*"
    case concat = "||"
    case bitwiseAnd = "&"
    case bitwiseOr = "|"

    /// The most operands between which the operator stands without parentheses. SQLite takes 1,000 expressions in one
    /// another.
    static let mostOperands = 250

    /// How many operands of a long chain become one.
    static let packedOperands = 64

    /// Whether a chain in a chain of the same operator is the same as one longer chain, rounding and overflow
    /// included.
    var isAssociative: Bool { self != .add && self != .multiply }

    /// The value of a chain without operands.
    var neutralValue: DatabaseValue {
        switch self {
        case .and, .multiply: 1.databaseValue
        case .or, .add, .bitwiseOr: 0.databaseValue
        case .concat: "".databaseValue
        case .bitwiseAnd: (-1).databaseValue
        }
    }
}

enum Prefix: String, Sendable {
    case minus = "-"
    case complement = "~"
    case not = "NOT "
}

/// A call of an SQL function.
struct Function: Hashable, Sendable {
    var name: String
    /// Whether it makes one row of many.
    var isAggregate = false
    var isDistinct = false
    /// Whether the last operand is the condition of a `FILTER` clause.
    var isFiltered = false
    /// Whether it counts rows: `COUNT(*)`.
    var takesRows = false
    /// The directions of the operands that order the others: the last ones, before the condition.
    var orders: [Ordering.Direction] = []
    /// Whether the result is JSON.
    var makesJSON = false
}

/// SQL text that a program wrote, with the values of its parameters and the expressions in it.
struct LiteralText: Hashable, Sendable {
    enum Piece: Hashable, Sendable {
        /// Text whose question marks take the values. Whether they are NULL makes no difference to the text.
        case text(String, [RawValue])
        case node(Node)
        /// A mistake that was found when there was no way to throw: what is wrong.
        case failure(String)
    }

    /// A value in SQL text of the program.
    struct RawValue: Hashable, Sendable {
        let value: DatabaseValue
        static func == (left: RawValue, right: RawValue) -> Bool { true }
        func hash(into hasher: inout Hasher) {}
    }

    var pieces: [Piece] = []

    /// The text that is one of the pieces; nil for another piece, and for none.
    func text(at index: Int) -> String? {
        guard pieces.indices.contains(index), case .text(let text, _) = pieces[index] else { return nil }
        return text
    }

    /// How the text holds together within another text.
    fileprivate var form: FragmentForm {
        if pieces.count == 1, case .node(let node) = pieces[0] { return node.form }
        var tokens: [SQLToken?] = []
        for piece in pieces {
            switch piece {
            case .text(let text, _):
                // A comment may have no end.
                if text.contains("--") || text.contains("/*") { return .single }
                tokens += SQLToken.tokens(of: text)
            case .node: tokens.append(nil)
            case .failure: return .single
            }
        }
        return SQLToken.isOperation(tokens) ? .text : .single
    }

    /// Whether the text of the program may have a query of its own.
    var hasQueryText: Bool {
        pieces.contains { piece in
            if case .text(let text, _) = piece { text.lowercased().contains("select") } else { false }
        }
    }

    init(_ sql: SQL) {
        guard let texts = Self.texts(of: sql) else {
            let message = "the arguments do not fit the parameters of this SQL text: \(sql.text)"
            pieces = [.failure(message)]
            return
        }
        for (index, text) in texts.enumerated() {
            if index > 0 { pieces.append(Self.piece(sql.insertions[index - 1].fragment)) }
            if text.text.isEmpty && text.values.isEmpty { continue }
            pieces.append(.text(text.text, text.values.map(RawValue.init)))
        }
    }

    private static func piece(_ fragment: any SQLFragment) -> Piece {
        if let query = fragment as? NestedQuery {
            guard case .node(let node) = Term(.bareQuery(.literal(LiteralText(query.literal)))) else {
                return .failure(Node.tooManyLevels)
            }
            return .node(node)
        }
        return (fragment as? Node).map(Piece.node) ?? .failure("this part of an SQL literal is no expression")
    }

    /// The texts between the insertions, with their values; nil where these do not fit. Names and numbers of parameters
    /// would meet those of other texts in one statement, so they become question marks.
    private static func texts(of sql: SQL) -> [(text: String, values: [DatabaseValue])]? {
        if sql.mayNameParameters { return try? sql.positionalPieces() }
        let (bytes, values) = (Array(sql.text.utf8), sql.arguments.values)
        let offsets = [0] + sql.insertions.map(\.textOffset) + [bytes.count]
        let counts = [0] + sql.insertions.map(\.argumentCount) + [values.count]
        return zip(zip(offsets, offsets.dropFirst()), zip(counts, counts.dropFirst())).map { text, count in
            (String(decoding: bytes[text.0..<text.1], as: UTF8.self), Array(values[count.0..<count.1]))
        }
    }
}
