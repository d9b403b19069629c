import CipherDatabase

extension SQLSelection {
    init(_ content: Selection) {
        if case .expression(let term) = content {
            self.init(.expression(term.expression))
        } else {
            self.init(.fragment(SelectionFragment(content)))
        }
    }

    /// The selected columns.
    var content: Selection {
        switch part {
        case .expression(let expression): .expression(Term(expression))
        case .fragment(let fragment as SelectionFragment): fragment.selection
        case .fragment: .expression(.failure("this part of an SQL literal is no selection"))
        }
    }
}

/// A selection that is no expression.
private final class SelectionFragment: SQLFragment {
    let selection: Selection

    init(_ selection: Selection) { self.selection = selection }

    func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue]) {
        try Node(.columns([selection], table: "", qualifier: nil)).sql(db)
    }
}

extension SQLOrdering {
    init(term: Term, direction: Direction) { self.init(term.expression, direction) }

    var term: Term { Term(expression) }
}

extension SQLExpression: SQLSpecificExpressible {}

extension DatabaseValue: SQLSpecificExpressible {}

extension SQL: SQLSpecificExpressible {
    public var sqlExpression: SQLExpression { Term(.literal(LiteralText(self))).expression }
    public var sqlSelection: SQLSelection { SQLSelection(.literal(LiteralText(self))) }
    /// The text as it stands after `ORDER BY`. It cannot be reversed, unless it gets a direction: `.asc`, `.desc`.
    public var sqlOrdering: SQLOrdering { SQLOrdering(term: Term(self), direction: .unknown) }
}

/// The same for every row, written as a literal: `filter { _ in true }`.
///
/// A Bool that is computed is none: `flag ? $0.a == $0.b : true` would compare two columns in Swift, not their values in
/// rows.
public struct ConstantCondition: ExpressibleByBooleanLiteral, Sendable {
    let term: Term

    public init(booleanLiteral value: Bool) { term = Term(value.databaseValue) }
}

// MARK: - Columns

/// A column of a table.
///
/// Columns are given in any of these ways:
///
/// ```swift
/// enum Columns { static let score = Column("score") }
/// enum Columns: String, ColumnExpression { case score }
/// Player.filter(Column("score") > 100)
/// Player.filter { $0.score > 100 }
/// ```
///
/// The operators of two columns of one type are SQL, also in a statement of its own: `let isSame = $0.a == $0.b`. Swift's
/// own `==` is left to places that want a `Bool`.
///
/// A type of columns must not declare an operator of its own, as a `static func <`: Swift prefers it, and its Bool is a
/// value to SQL. Nor should it be `Comparable`: `let isLess = $0.a < $0.b` is a Bool then. An expression is asked for by
/// its type: `let isLess: SQLExpression = $0.a < $0.b`.
///
/// If Swift can only use a Bool, it compares the columns themselves: `flag ? $0.a == $0.b : true`, and in an SQL literal
/// also `\(flag && a == b)`. Conditions in closures refuse a Bool; SQL literals take it as a value. Write
/// `flag.databaseValue && a == b` there.
public protocol ColumnExpression: SQLSpecificExpressible, Equatable {
    /// The name of the column, without quotes.
    var name: String { get }

    // The operators of `Equatable` and `Comparable` return a Bool, which is a value to SQL. Swift prefers an operator that
    // a protocol requires to the same operator of an inherited protocol. So this protocol inherits `Equatable`, to which
    // enums without payloads conform anyway.

    /// `=`
    static func == (left: Self, right: Self) -> SQLExpression
    /// `<>`
    static func != (left: Self, right: Self) -> SQLExpression
    /// `<`
    static func < (left: Self, right: Self) -> SQLExpression
    /// `<=`
    static func <= (left: Self, right: Self) -> SQLExpression
    /// `>`
    static func > (left: Self, right: Self) -> SQLExpression
    /// `>=`
    static func >= (left: Self, right: Self) -> SQLExpression
}

extension ColumnExpression {
    public var sqlExpression: SQLExpression { Term(.column(name, .request)).expression }

    /// The column without the name of its table, wherever it stands. For names that a selection gives.
    public var detached: SQLExpression { Term(.column(name, .nobody)).expression }
}

extension ColumnExpression where Self: RawRepresentable, RawValue == String {
    /// The raw value.
    public var name: String { rawValue }

    public var sqlExpression: SQLExpression { Term(.column(name, .request)).expression }
}

/// A column by its name.
public struct Column: ColumnExpression, Sendable {
    public let name: String

    public init(_ name: String) { self.name = name }

    /// A column with the name of a coding key.
    public init(_ codingKey: some CodingKey) { name = codingKey.stringValue }

    /// The number that tells the rows of most tables apart.
    /// - SeeAlso: <https://www.sqlite.org/rowidtable.html>
    public static let rowID = Column("rowid")

    /// How well a row fits a full-text pattern; smaller is better.
    /// - SeeAlso: <https://www.sqlite.org/fts5.html#the_auxiliary_functions>
    public static let rank = Column("rank")
}

extension ColumnExpression where Self == Column {
    /// The number that tells the rows of most tables apart.
    public static var rowID: Column { Column.rowID }
    /// How well a row fits a full-text pattern; smaller is better.
    public static var rank: Column { Column.rank }
}

extension SQLSelectable where Self == Column {
    /// The number that tells the rows of most tables apart.
    public static var rowID: Column { Column.rowID }
}

/// All columns of a table: `*`.
public struct AllColumns: SQLSelectable, Sendable {
    public init() {}
    public var sqlSelection: SQLSelection { SQLSelection(.allColumns(.request)) }
}

extension [any SQLSelectable] {
    /// Whether it is all columns and nothing else.
    var isAllColumns: Bool { count == 1 && type(of: self[0]) == AllColumns.self }
}

/// All columns of a table but some.
public struct AllColumnsExcluding: SQLSelectable, Sendable {
    private let names: [String]

    public init(_ excludedColumns: some Collection<String>) { names = Array(excludedColumns) }

    public var sqlSelection: SQLSelection { SQLSelection(.allColumnsExcluding(names, .request)) }
}

extension SQLSelectable where Self == AllColumns {
    /// All columns: `*`.
    public static var allColumns: AllColumns { AllColumns() }
}

extension SQLSelectable where Self == AllColumnsExcluding {
    /// All columns but some.
    public static func allColumns(excluding names: some Collection<String>) -> AllColumnsExcluding {
        AllColumnsExcluding(names)
    }

    /// All columns but some.
    public static func allColumns(excluding columns: some Collection<any ColumnExpression>) -> AllColumnsExcluding {
        AllColumnsExcluding(columns.map(\.name))
    }
}

// MARK: - Aliases

/// Tells the tables of a request apart, so that an expression can say which of them a column belongs to.
///
/// ```swift
/// let player = TableAlias<Player>()
/// let request = Player.aliased(player).filter(Team.filter(Column("captainId") == player[Column("id")]).exists())
/// ```
///
/// One alias stands for one table. Its name in SQL is chosen with the statement, unless it has one.
@dynamicMemberLookup
public struct TableAlias<RowDecoder>: Sendable {
    let id: AliasID

    /// An alias whose name is chosen with the statement.
    public init() where RowDecoder == Void { id = AliasID(name: nil) }

    /// An alias with a name of its own.
    public init(name: String?) where RowDecoder == Void { id = AliasID(name: name) }

    /// An alias with a name of its own, or one whose name is chosen with the statement.
    public init(name: String? = nil, for type: RowDecoder.Type = RowDecoder.self) { id = AliasID(name: name) }

    /// A column of the table.
    public subscript(_ column: some ColumnExpression) -> SQLExpression {
        Term(.column(column.name, .alias(id))).expression
    }

    /// A column of the table.
    public subscript(_ name: String) -> SQLExpression { Term(.column(name, .alias(id))).expression }

    /// A column of the table that holds JSON.
    public subscript(_ column: some ColumnExpression & SQLJSONExpressible) -> AnySQLJSONExpressible {
        AnySQLJSONExpressible(term: Term(.column(column.name, .alias(id))))
    }

    /// JSON of columns of the table.
    public subscript(_ expression: some SQLJSONExpressible) -> AnySQLJSONExpressible {
        AnySQLJSONExpressible(term: located(Term(expression)))
    }

    /// An expression of columns of the table.
    public subscript(_ expression: some SQLSpecificExpressible) -> SQLExpression {
        located(Term(expression)).expression
    }

    /// A selection of columns of the table.
    public subscript(_ selection: some SQLSelectable) -> SQLSelection { located(selection.sqlSelection.content) }

    /// All columns of the table.
    public subscript(_ columns: AllColumns) -> SQLSelection { located(columns.sqlSelection.content) }

    /// An order by columns of the table.
    public subscript(_ ordering: some SQLOrderingTerm) -> SQLOrdering { located(ordering.sqlOrdering) }

    private func located(_ term: Term) -> Term {
        if case .column(let name, .request)? = term.operation { return Term(.column(name, .alias(id))) }
        return term.operation == nil ? term : Term(.inTable(id, term))
    }

    private func located(_ selection: Selection) -> SQLSelection {
        if case .expression(let term) = selection { return SQLSelection(.expression(located(term))) }
        return SQLSelection(.inTable(id, [selection]))
    }

    private func located(_ ordering: SQLOrdering) -> SQLOrdering {
        SQLOrdering(term: located(ordering.term), direction: ordering.direction)
    }

    /// Whether the table has a row, in requests that join it where there is one.
    public var exists: SQLExpression {
        Term(.apply(.infix(.isNot), [Term(.fastKey(.alias(id))), Term(DatabaseValue.null)])).expression
    }
}

extension TableAlias: Hashable {
    public static func == (left: Self, right: Self) -> Bool { left.id == right.id }
    public func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension TableAlias where RowDecoder: TableRecord {
    public typealias DatabaseComponents = RowDecoder.DatabaseComponents

    // Swift takes the subscript of the most specific type: a column that holds JSON is an expression too. Each subscript
    // that it weighs multiplies the time for a condition, so there is none for columns, and two are disfavored.

    /// A part of the table's selection, by its name in `Columns`.
    @_disfavoredOverload
    public subscript<T: SQLSelectable>(dynamicMember keyPath: KeyPath<DatabaseComponents, T>) -> SQLSelection {
        self[RowDecoder.databaseComponents[keyPath: keyPath]]
    }

    /// An order by the table's columns, by its name in `Columns`.
    @_disfavoredOverload
    public subscript<T: SQLOrderingTerm>(dynamicMember keyPath: KeyPath<DatabaseComponents, T>) -> SQLOrdering {
        self[RowDecoder.databaseComponents[keyPath: keyPath]]
    }

    /// An expression of the table's columns, by its name in `Columns`.
    public subscript<T: SQLSpecificExpressible>(
        dynamicMember keyPath: KeyPath<DatabaseComponents, T>
    ) -> SQLExpression {
        self[RowDecoder.databaseComponents[keyPath: keyPath]]
    }

    /// JSON of the table's columns, by its name in `Columns`.
    public subscript<T: SQLJSONExpressible>(
        dynamicMember keyPath: KeyPath<DatabaseComponents, T>
    ) -> AnySQLJSONExpressible {
        self[RowDecoder.databaseComponents[keyPath: keyPath]]
    }
}
