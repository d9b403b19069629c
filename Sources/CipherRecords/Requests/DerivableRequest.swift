import CipherDatabase

/// A request that knows what its rows are read as.
public protocol TypedRequest<RowDecoder> {
    associatedtype RowDecoder
}

/// The tables, columns, conditions and order of a request.
public struct SQLRelation: Sendable {
    var content: Relation
}

/// A request that can be given other tables, columns, conditions and orders.
public protocol RelationRequest: Sendable {
    var sqlRelation: SQLRelation { get set }
}

/// A request whose selection can be changed.
public protocol SelectionRequest: RelationRequest {}

/// A request whose rows can be filtered.
public protocol FilteredRequest: RelationRequest {}

/// A request whose rows can be ordered.
public protocol OrderedRequest: RelationRequest {}

/// A request whose rows can be grouped.
public protocol AggregatingRequest: RelationRequest {}

/// A request of the rows of a table.
public protocol TableRequest: RelationRequest {}

/// A request or an association: what they have in common, for extensions of one's own.
///
/// ```swift
/// extension DerivableRequest<Player> {
///     func ofTeam(_ id: Int64) -> Self { filter { $0.teamID == id } }
/// }
/// ```
public protocol DerivableRequest<RowDecoder>: SelectionRequest, FilteredRequest, OrderedRequest, AggregatingRequest,
    TableRequest, JoinableRequest
{}

extension RelationRequest {
    /// The request with its relation changed.
    func changed(_ change: (inout Relation) throws -> Void) rethrows -> Self {
        var changed = self
        try change(&changed.sqlRelation.content)
        return changed
    }
}

// MARK: - Selection

extension SelectionRequest {
    /// Selects these in the place of all that was selected.
    public func select(_ selection: any SQLSelectable...) -> Self { select(selection) }

    /// Selects these in the place of all that was selected.
    public func select(_ selection: [any SQLSelectable]) -> Self {
        changed { $0.selection = selection.map { $0.sqlSelection.content } }
    }

    /// Selects SQL text in the place of all that was selected.
    public func select(sql: String, arguments: StatementArguments = StatementArguments()) -> Self {
        select(literal: SQL(sql: sql, arguments: arguments))
    }

    /// Selects SQL text in the place of all that was selected.
    public func select(literal: SQL) -> Self { select([literal]) }

    /// Adds to what is selected.
    public func annotated(with selection: any SQLSelectable...) -> Self { annotated(with: selection) }

    /// Adds to what is selected.
    public func annotated(with selection: [any SQLSelectable]) -> Self {
        changed { $0.selection += selection.map { $0.sqlSelection.content } }
    }

    /// Returns different rows only.
    public func distinct() -> Self { changed { $0.isDistinct = true } }
}

extension SelectionRequest where Self: TypedRequest, RowDecoder: TableRecord {
    /// Selects this in the place of all that was selected.
    public func select(_ selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable) rethrows -> Self {
        try select([selection(RowDecoder.databaseComponents)])
    }

    /// Selects these in the place of all that was selected.
    public func select(_ selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]) rethrows -> Self {
        try select(selection(RowDecoder.databaseComponents))
    }

    /// Adds to what is selected.
    public func annotated(
        with selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable
    ) rethrows -> Self {
        try annotated(with: [selection(RowDecoder.databaseComponents)])
    }

    /// Adds to what is selected.
    public func annotated(
        with selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable]
    ) rethrows -> Self {
        try annotated(with: selection(RowDecoder.databaseComponents))
    }
}

// MARK: - Filters

// Swift also tries a closure as a `some`, with all that stands in it, and gives up at three comparisons. So a condition is
// an `any`, and the keys that are a `some` are disfavored.

extension FilteredRequest {
    /// The rows for which this condition is true as well.
    public func filter(_ predicate: any SQLSpecificExpressible) -> Self { filtering(Term(predicate)) }

    /// The rows for which this condition in SQL text is true as well.
    public func filter(sql: String, arguments: StatementArguments = StatementArguments()) -> Self {
        filter(literal: SQL(sql: sql, arguments: arguments))
    }

    /// The rows for which this condition in SQL text is true as well.
    public func filter(literal: SQL) -> Self { filtering(Term(literal)) }

    /// No row.
    public func none() -> Self { filtering(Term(0.databaseValue)) }

    /// The request itself.
    public func all() -> Self { self }

    func filtering(_ term: Term) -> Self {
        changed { $0.filters = Term.packed($0.filters + [term], of: .and) }
    }
}

extension FilteredRequest where Self: TypedRequest, RowDecoder: TableRecord {
    /// All rows, or none.
    public func filter(_ predicate: (RowDecoder.DatabaseComponents) throws -> ConstantCondition) rethrows -> Self {
        filtering(try predicate(RowDecoder.databaseComponents).term)
    }

    /// The rows for which this condition is true as well.
    public func filter(_ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLSpecificExpressible) rethrows
        -> Self
    {
        filtering(Term(try predicate(RowDecoder.databaseComponents).sqlExpression))
    }

    /// The rows for which this condition is true as well.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func filter(_ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLExpressible) rethrows -> Self {
        filtering(Term(try predicate(RowDecoder.databaseComponents).sqlExpression))
    }
}

// MARK: - Keys

extension TableRequest where Self: FilteredRequest, Self: TypedRequest {
    /// The row with a primary key of one column; none for nil.
    @_disfavoredOverload
    public func filter(key: (some DatabaseValueConvertible)?) -> Self { filter(keys: key.map { [$0] } ?? []) }

    /// The rows with primary keys of one column.
    @_disfavoredOverload
    public func filter<Key: DatabaseValueConvertible>(keys: some Collection<Key>) -> Self {
        let plain = keys.map(\.databaseValue).filter { !$0.isNull }
        if plain.isEmpty { return none() }
        guard let encoding = RecordKey.Encoding(Key.self, for: RowDecoder.self) else {
            return filtering(RecordKey.condition(plain))
        }
        // How the records store their keys may depend on the column, which the database knows.
        let (table, stored) = (sqlRelation.content.table, encoding.values(of: keys))
        return filtering(Term(.deferred(Deferred { db in [RecordKey.condition(try stored(db, table))] })))
    }

    /// The row with the columns of a unique key; none for nil. UUIDs, dates and data have the form in which the records
    /// store them.
    public func filter(key: [String: (any DatabaseValueConvertible)?]?) -> Self { filter(keys: key.map { [$0] } ?? []) }

    /// The rows with the columns of unique keys. UUIDs, dates and data have the form in which the records store them.
    public func filter(keys: [[String: (any DatabaseValueConvertible)?]]) -> Self {
        if keys.isEmpty { return none() }
        // Keys of the same columns are one operation; each has its columns in one order.
        var groups: [UniqueKeys] = []
        for key in keys {
            let stored: [String: DatabaseValue]
            do {
                stored = try RecordKey.stored(key, for: RowDecoder.self)
            } catch {
                // The statement throws it.
                return filtering(Term(.deferred(Deferred { _ in throw error })))
            }
            let columns = stored.keys.sorted()
            let values = columns.map { Term(stored[$0] ?? .null) }
            if let index = groups.firstIndex(where: { $0.columns == columns }) {
                groups[index].add(values)
            } else {
                var group = UniqueKeys(columns: columns)
                group.add(values)
                groups.append(group)
            }
        }
        return filtering(.chain(.or, groups.flatMap(\.conditions)))
    }
}

/// Unique keys of the same columns.
private struct UniqueKeys {
    let columns: [String]
    private var keys: [Term] = []
    /// Those with NULL in them, which is compared with IS NULL.
    private var keysWithNull: [Term] = []

    init(columns: [String]) { self.columns = columns }

    mutating func add(_ values: [Term]) {
        if values.contains(where: \.isNull) { keysWithNull += values } else { keys += values }
    }

    var conditions: [Term] {
        let isLong = keys.count > ListedValues.mostParameters * max(1, columns.count)
        if isLong, let list = ListedValues.query(of: keys, width: columns.count) {
            // The same rows, compared once more as a short list is, if a REAL column rounds one of the values.
            let exact = keys.contains(where: ListedValues.isRounded) ? [list] : []
            let listed = Term(.apply(.uniqueKeys(columns), [list] + exact))
            return [listed] + (keysWithNull.isEmpty ? [] : [Term(.apply(.uniqueKeys(columns), keysWithNull))])
        }
        return [Term(.apply(.uniqueKeys(columns), keys + keysWithNull))]
    }
}

extension TableRequest
where Self: FilteredRequest, Self: TypedRequest, RowDecoder: Identifiable, RowDecoder.ID: DatabaseValueConvertible {
    /// The row with an identifier.
    public func filter(id: RowDecoder.ID) -> Self { filter(keys: [id]) }

    /// The rows with identifiers.
    @_disfavoredOverload
    public func filter(ids: some Collection<RowDecoder.ID>) -> Self { filter(keys: ids) }
}

extension TableRequest {
    /// The name of the table; of an association, that of the table that it leads to.
    public var databaseTableName: String { sqlRelation.content.table }

    /// The request with an alias for its table. It may have several, of which one at most has a name.
    public func aliased<T>(_ alias: TableAlias<T>) -> Self {
        changed { if !$0.aliases.contains(alias.id) { $0.aliases.append(alias.id) } }
    }
}

extension TableRequest where Self: FilteredRequest {
    /// The rows that fit a full-text pattern as well; none for nil.
    public func matching(_ pattern: (any FullTextPattern)?) -> Self {
        guard let pattern else { return none() }
        // A full-text table has a column of its own name.
        let index = Term(.column(sqlRelation.content.table, .request))
        return filtering(Term(.apply(.infix(.match), [index, Term(pattern.databaseValue)])))
    }
}

// MARK: - Groups

extension AggregatingRequest {
    /// Makes one row of all rows that have the same values, in the place of former groups.
    public func group(_ expressions: any SQLSpecificExpressible...) -> Self { group(expressions) }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    @_disfavoredOverload
    public func group(_ expressions: any SQLExpressible...) -> Self { group(expressions) }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    public func group(_ expressions: [any SQLSpecificExpressible]) -> Self {
        changed { $0.groups = expressions.map { Term($0.sqlExpression) } }
    }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    @_disfavoredOverload
    public func group(_ expressions: [any SQLExpressible]) -> Self {
        changed { $0.groups = expressions.map { Term($0.sqlExpression) } }
    }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    public func group(sql: String, arguments: StatementArguments = StatementArguments()) -> Self {
        group([SQL(sql: sql, arguments: arguments)])
    }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    public func group(literal: SQL) -> Self { group([literal]) }

    /// The groups for which this condition is true as well.
    public func having(_ predicate: any SQLSpecificExpressible) -> Self {
        changed { $0.having.append(Term(predicate)) }
    }

    /// The groups for which this condition is true as well.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func having(_ predicate: any SQLExpressible) -> Self { changed { $0.having.append(Term(predicate)) } }

    /// The groups for which this condition in SQL text is true as well.
    public func having(sql: String, arguments: StatementArguments = StatementArguments()) -> Self {
        having(SQL(sql: sql, arguments: arguments))
    }

    /// The groups for which this condition in SQL text is true as well.
    public func having(literal: SQL) -> Self { having(literal) }
}

extension AggregatingRequest where Self: TableRequest {
    /// Makes each row a group, for functions over joined tables.
    public func groupByPrimaryKey() -> Self { changed { $0.groups = [Term(.fastKey(.request))] } }
}

extension AggregatingRequest where Self: TypedRequest, RowDecoder: TableRecord {
    /// Makes one row of all rows that have the same value, in the place of former groups.
    public func group(_ expression: (RowDecoder.DatabaseComponents) throws -> any SQLSpecificExpressible) rethrows
        -> Self
    {
        try group([expression(RowDecoder.databaseComponents)])
    }

    /// Makes one row of all rows that have the same value, in the place of former groups.
    @_disfavoredOverload
    public func group(_ expression: (RowDecoder.DatabaseComponents) throws -> any SQLExpressible) rethrows -> Self {
        try group([expression(RowDecoder.databaseComponents)])
    }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    public func group(_ expressions: (RowDecoder.DatabaseComponents) throws -> [any SQLSpecificExpressible]) rethrows
        -> Self
    {
        try group(expressions(RowDecoder.databaseComponents))
    }

    /// Makes one row of all rows that have the same values, in the place of former groups.
    @_disfavoredOverload
    public func group(_ expressions: (RowDecoder.DatabaseComponents) throws -> [any SQLExpressible]) rethrows -> Self {
        try group(expressions(RowDecoder.databaseComponents))
    }

    /// The groups for which this condition is true as well.
    public func having(_ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLSpecificExpressible) rethrows
        -> Self
    {
        try changed { $0.having.append(Term(try predicate(RowDecoder.databaseComponents).sqlExpression)) }
    }

    /// The groups for which this condition is true as well.
    @available(*, unavailable, message: "a Bool is the same for every row: compare with SQL, or write .databaseValue")
    public func having(_ predicate: (RowDecoder.DatabaseComponents) throws -> any SQLExpressible) rethrows -> Self {
        try changed { $0.having.append(Term(try predicate(RowDecoder.databaseComponents).sqlExpression)) }
    }
}

// MARK: - Order

extension OrderedRequest {
    /// The rows in this order, in the place of a former one.
    public func order(_ orderings: any SQLOrderingTerm...) -> Self { order(orderings) }

    /// The rows in this order, in the place of a former one.
    public func order(_ orderings: [any SQLOrderingTerm]) -> Self {
        changed { relation in
            relation.ordering = Ordering(
                elements: orderings.map { .term($0.sqlOrdering.term, $0.sqlOrdering.direction) })
        }
    }

    /// The rows in this order in SQL text, in the place of a former one.
    public func order(sql: String, arguments: StatementArguments = StatementArguments()) -> Self {
        order(literal: SQL(sql: sql, arguments: arguments))
    }

    /// The rows in this order in SQL text, in the place of a former one.
    public func order(literal: SQL) -> Self { order([literal]) }

    /// The rows in the opposite order, that of joined tables included; without any, nothing changes.
    ///
    /// Fetching throws `DatabaseError` `.SQLITE_MISUSE` where the order has SQL text without a direction, as that of
    /// `order(sql:)`.
    public func reversed() -> Self { changed { $0.ordering.isReversed.toggle() } }

    /// The rows in any order, joined tables included.
    public func unordered() -> Self { changed { $0 = $0.unordered } }
}

extension OrderedRequest where Self: TableRequest {
    /// The rows in the order of their primary key, in the place of a former order.
    public func orderByPrimaryKey() -> Self { changed { $0.ordering = Ordering(elements: [.primaryKey]) } }

    /// The rows in an order that is always the same: rows that are equal in the order so far have that of their
    /// primary key.
    public func withStableOrder() -> Self { changed { $0.ordering.isStable = true } }
}

extension OrderedRequest where Self: TypedRequest, RowDecoder: TableRecord {
    /// The rows in this order, in the place of a former one.
    public func order(_ ordering: (RowDecoder.DatabaseComponents) throws -> any SQLOrderingTerm) rethrows -> Self {
        try order([ordering(RowDecoder.databaseComponents)])
    }

    /// The rows in this order, in the place of a former one.
    public func order(_ orderings: (RowDecoder.DatabaseComponents) throws -> [any SQLOrderingTerm]) rethrows -> Self {
        try order(orderings(RowDecoder.databaseComponents))
    }
}

// MARK: - Common table expressions

extension RelationRequest {
    /// The request in a statement that has a common table expression, in the place of one of the same name.
    public func with<T>(_ cte: CommonTableExpression<T>) -> Self {
        changed { relation in
            relation.commonTables.removeAll { $0.name.lowercasedASCII == cte.table.name.lowercasedASCII }
            relation.commonTables.append(cte.table)
        }
    }
}
