import CipherDatabase
import CipherSchema

/// One table of a statement, and everything that it contributes: what is selected, which rows, in which order, and the
/// tables that are joined to it.
///
/// A request has one, the root of a tree; an association has one too, which becomes a branch of the tree when it is
/// joined. Filters and orderings know their table by their place in the tree, so a relation means the same wherever it
/// stands. Relations are compared by shape: see ``BoundValue``.
struct Relation: Hashable, Sendable {
    /// The name of the table, view or common table expression.
    var table: String
    /// The names that stand for the table in expressions; one of them at most has a name.
    var aliases: [AliasID] = []
    var selection: [Selection]
    var filters: [Term] = []
    var ordering = Ordering()
    var isDistinct = false
    var groups: [Term] = []
    var having: [Term] = []
    var limit: Limit?
    var commonTables: [CommonTable] = []
    var joins: [Join] = []
    /// Rows of other tables that are fetched for the rows of this one, by requests of their own.
    var prefetches: [Prefetch] = []
    /// If there are any, the result has these columns alone. A subquery selects them after the whole selection, which its
    /// order may name.
    var keyColumns: [String] = []
    /// Whether associations are so deep in one another that they were left out, and no statement can be made.
    var isTooDeep = false

    init(table: String, selection: [Selection] = [.allColumns(.request)]) {
        self.table = table
        self.selection = selection
    }

    /// The alias that names the table, otherwise any.
    var alias: AliasID? {
        get { aliases.first { $0.name != nil } ?? aliases.first }
        set { aliases = newValue.map { [$0] } ?? [] }
    }

    /// The number of rows to return, and how many to skip before them.
    struct Limit: Hashable, Sendable {
        // A part of the text: SQLite chooses its query plan by it.
        var count: Int
        var offset: BoundValue?
    }
}

/// A table that is joined to another one: a branch of the join tree.
struct Join: Hashable, Sendable {
    enum Kind: Sendable {
        case required
        case optional
    }

    /// How the rows of both tables find each other.
    enum Link: Hashable, Sendable {
        /// Columns of both tables have the same values.
        case columns([ColumnPair])
        /// A foreign key of one of the tables.
        case foreignKey(ForeignKeyLink)
        /// A condition on columns of both tables, which it knows by these aliases.
        case condition(Term?, left: AliasID, right: AliasID)
    }

    struct ColumnPair: Hashable, Sendable {
        /// The column of the table that is joined to.
        var left: String
        /// The column of the table that is joined.
        var right: String
    }

    /// The name of the scope that has the selected columns, if any are selected.
    var key: String
    var kind: Kind
    var link: Link
    var relation: Relation
    /// Whether a row may find any number of rows.
    var isToMany = false
    /// Whether the link was followed from the joined table first: its columns are compared in that order.
    var isReversed = false
}

/// Rows that are fetched for those of a relation, by a request of their own; or a table on the way to them, which the
/// relation itself does not join.
struct Prefetch: Hashable, Sendable {
    /// The name under which the rows are found.
    var key: String
    /// Whether the rows are fetched; otherwise the table only leads to those that its own relation fetches.
    var isFetched: Bool
    var link: Join.Link
    var relation: Relation
}

/// The values that a statement returns of each row.
enum Selection: Hashable, Sendable {
    case allColumns(ColumnOwner)
    case allColumnsExcluding([String], ColumnOwner)
    case expression(Term)
    /// The columns of the primary key.
    case primaryKey(ColumnOwner)
    /// SQL text: any number of columns.
    case literal(LiteralText)
    /// Columns of a joined table, at the end of a path of joins, as if they were columns of this one.
    case located([String], [Selection])
    /// Columns of the table of an alias.
    case inTable(AliasID, [Selection])
    /// The parts that need a connection.
    case deferred(Deferred<Selection>)
    /// Nothing that is read: for queries of which only the number of rows counts.
    case one
}

/// The order of the rows.
struct Ordering: Hashable, Sendable {
    enum Element: Hashable, Sendable {
        case term(Term, Direction)
        case primaryKey
        /// The parts that need a connection.
        case deferred(Deferred<Element>)
    }

    typealias Direction = SQLOrdering.Direction

    var elements: [Element] = []
    var isReversed = false
    /// Whether rows that are equal in all this have the order of their primary key.
    var isStable = false
}

extension SQLOrdering.Direction {
    /// The value behind the expression.
    var sql: String {
        switch self {
        case .ascending, .unknown: ""
        case .explicitlyAscending: " ASC"
        case .descending: " DESC"
        case .ascendingNullsLast: " ASC NULLS LAST"
        case .descendingNullsFirst: " DESC NULLS FIRST"
        }
    }

    /// The opposite direction; nil where it is unknown.
    var reversed: Self? {
        switch self {
        case .unknown: nil
        case .ascending, .explicitlyAscending: .descending
        case .descending: .explicitlyAscending
        case .ascendingNullsLast: .descendingNullsFirst
        case .descendingNullsFirst: .ascendingNullsLast
        }
    }
}

/// A common table expression.
struct CommonTable: Hashable, Sendable {
    var name: String
    var columns: [String]?
    var isRecursive: Bool
    var query: Subquery
}

/// A new value for a column.
struct Assignment: Hashable, Sendable {
    var column: String
    var value: Term
}
