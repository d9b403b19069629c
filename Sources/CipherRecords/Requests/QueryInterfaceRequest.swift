import CipherDatabase

/// A request that Swift builds and SQL runs.
///
/// ```swift
/// let request = Player.filter { $0.score > 100 }.order { $0.score.desc }.limit(10)
/// let players = try request.fetchAll(db)
/// ```
///
/// It is a value: nothing runs until it is fetched, and it may be kept and used again. Requests that differ in values
/// alone run the same compiled statement.
public struct QueryInterfaceRequest<RowDecoder>: DerivableRequest {
    public var sqlRelation: SQLRelation

    init(relation: Relation) { sqlRelation = SQLRelation(content: relation) }

    var relation: Relation { sqlRelation.content }

    /// The first rows, in the place of a former limit.
    ///
    /// - Parameters:
    ///   - limit: The number of rows.
    ///   - offset: How many rows to skip before them.
    public func limit(_ limit: Int, offset: Int? = nil) -> Self {
        changed {
            $0.limit = Relation.Limit(count: limit, offset: offset.map { BoundValue(value: $0.databaseValue) })
        }
    }

    /// The same request with its rows read as another type.
    public func asRequest<T>(of type: T.Type) -> QueryInterfaceRequest<T> {
        QueryInterfaceRequest<T>(relation: relation)
    }

    // MARK: Selections of another type

    /// Selects something that is read as another type.
    public func select<T>(_ selection: any SQLSelectable..., as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        select(selection).asRequest(of: type)
    }

    /// Selects something that is read as another type.
    public func select<T>(_ selection: [any SQLSelectable], as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        select(selection).asRequest(of: type)
    }

    /// Selects SQL text that is read as another type.
    public func select<T>(
        sql: String, arguments: StatementArguments = StatementArguments(), as type: T.Type = T.self
    ) -> QueryInterfaceRequest<T> {
        select(sql: sql, arguments: arguments).asRequest(of: type)
    }

    /// Selects SQL text that is read as another type.
    public func select<T>(literal: SQL, as type: T.Type = T.self) -> QueryInterfaceRequest<T> {
        select(literal: literal).asRequest(of: type)
    }

    /// Selects the primary key.
    public func selectPrimaryKey<Key>(as type: Key.Type = Key.self) -> QueryInterfaceRequest<Key> {
        changed { $0.selection = [.primaryKey(.request)] }.asRequest(of: type)
    }
}

extension QueryInterfaceRequest where RowDecoder: TableRecord {
    /// Selects something that is read as another type.
    public func select<T>(
        _ selection: (RowDecoder.DatabaseComponents) throws -> any SQLSelectable, as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try select([selection(RowDecoder.databaseComponents)]).asRequest(of: type)
    }

    /// Selects something that is read as another type.
    public func select<T>(
        _ selection: (RowDecoder.DatabaseComponents) throws -> [any SQLSelectable], as type: T.Type = T.self
    ) rethrows -> QueryInterfaceRequest<T> {
        try select(selection(RowDecoder.databaseComponents)).asRequest(of: type)
    }
}

extension QueryInterfaceRequest where RowDecoder: Identifiable, RowDecoder.ID: DatabaseValueConvertible {
    /// Selects the identifiers.
    public func selectID() -> QueryInterfaceRequest<RowDecoder.ID> { selectPrimaryKey() }
}

extension QueryInterfaceRequest: FetchRequest {
    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        if db.isRecordingRegion { try db.registerAccess(to: relation.regionOfPrefetches(db)) }
        guard relation.hasPrefetches else {
            return try db.prepareRead(.select(relation, singleResult: singleResult), of: relation)
        }
        var prepared = try db.prepareRead(
            .select(relation.withoutPrefetches, singleResult: singleResult), of: relation)
        let prefetching = Prefetching(db: db, relation: relation, isOne: singleResult)
        prepared.supplement(
            { try prefetching.addPrefetchedRows(to: $0) }, prefetch: { try prefetching.prefetch($0) },
            included: { try prefetching.visitRequests(for: $0, $1) })
        return prepared
    }

    /// How many rows the request has. Of one column with `distinct()`, NULL is not counted, as `COUNT(DISTINCT ...)` has it.
    public func fetchCount(_ db: Database) throws -> Int {
        try Int.fetchOne(db.prepareRead(.count(relation.withoutPrefetches), of: relation).statement) ?? 0
    }

    /// The region that the request reads, narrowed to rows if its filter names their rowids; with the rows of
    /// associations that it includes, whether or not there are any.
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion {
        try db.withoutWatching {
            let plain = relation.withoutPrefetches
            let statement = try db.prepare(.select(plain, singleResult: false)).statement
            return try plain.region(readBy: statement, db).union(relation.regionOfPrefetches(db))
        }
    }

    /// Whether the request has no row.
    public func isEmpty(_ db: Database) throws -> Bool {
        try Bool.fetchOne(db.prepareRead(.exists(relation.withoutPrefetches), of: relation).statement) != true
    }
}

// MARK: - Subqueries

extension SQLSubquery {
    init(content: Subquery) { self.init(.fragment(SubqueryFragment(content))) }

    var content: Subquery {
        switch query {
        case .literal(let literal): .literal(LiteralText(literal))
        case .fragment(let fragment as SubqueryFragment): fragment.query
        case .fragment(let fragment): .literal(LiteralText(SQL(fragment: fragment)))
        case .prepared(let prepare): .deferred(Deferred { [.literal(LiteralText(try prepare($0)))] })
        }
    }
}

/// A query of the query interface.
private final class SubqueryFragment: SQLFragment {
    let query: Subquery

    init(_ query: Subquery) { self.query = query }

    func sql(_ db: Database) throws -> (text: String, values: [DatabaseValue]) {
        try Node(.bareQuery(query)).sql(db)
    }
}

extension SQLSubqueryable {
    /// Whether an expression has the value of one of the rows: `IN`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.inRows(negated: false), [Term(element), Term(.subquery(sqlSubquery.content))])).expression
    }

    /// Whether an expression has the value of one of the rows: `IN`.
    @_disfavoredOverload
    public func contains(_ element: some SQLExpressible) -> SQLExpression {
        Term(.apply(.inRows(negated: false), [Term(element), Term(.subquery(sqlSubquery.content))])).expression
    }

    /// Whether the request has a row: `EXISTS`.
    public func exists() -> SQLExpression {
        Term(.apply(.exists(negated: false), [Term(.subquery(sqlSubquery.content))])).expression
    }
}

extension QueryInterfaceRequest {
    public var sqlSubquery: SQLSubquery { SQLSubquery(content: .relation(relation.withoutPrefetches)) }
}

// MARK: - Common table expressions

/// A query that has a name within a statement.
///
/// ```swift
/// let best = CommonTableExpression(named: "best", request: Player.order(Column("score").desc).limit(10))
/// let names = try best.all().with(best).select(Column("name"), as: String.self).fetchAll(db)
/// ```
/// - SeeAlso: <https://www.sqlite.org/lang_with.html>
public struct CommonTableExpression<RowDecoder>: Sendable {
    let table: CommonTable

    /// The name in the statement.
    public var tableName: String { table.name }

    /// - Parameters:
    ///   - recursive: Whether the query may use the expression itself.
    ///   - tableName: The name in the statement.
    ///   - columns: The names of its columns; nil for those of the query.
    ///   - request: The query.
    public init(
        recursive: Bool = false, named tableName: String, columns: [String]? = nil, request: some SQLSubqueryable
    ) {
        table = CommonTable(
            name: tableName, columns: columns, isRecursive: recursive, query: request.sqlSubquery.content.checked)
    }

    /// - Parameters:
    ///   - recursive: Whether the query may use the expression itself.
    ///   - tableName: The name in the statement.
    ///   - columns: The names of its columns; nil for those of the query.
    ///   - literal: The query as SQL text.
    public init(recursive: Bool = false, named tableName: String, columns: [String]? = nil, literal: SQL) {
        table = CommonTable(
            name: tableName, columns: columns, isRecursive: recursive,
            query: Subquery.literal(LiteralText(literal)).checked)
    }

    /// - Parameters:
    ///   - recursive: Whether the query may use the expression itself.
    ///   - tableName: The name in the statement.
    ///   - columns: The names of its columns; nil for those of the query.
    ///   - sql: The query as SQL text.
    public init(
        recursive: Bool = false, named tableName: String, columns: [String]? = nil, sql: String,
        arguments: StatementArguments = StatementArguments()
    ) {
        self.init(
            recursive: recursive, named: tableName, columns: columns, literal: SQL(sql: sql, arguments: arguments))
    }

    /// All rows of the expression. The statement needs the expression too: ``RelationRequest/with(_:)``.
    public func all() -> QueryInterfaceRequest<RowDecoder> {
        QueryInterfaceRequest(relation: Relation(table: tableName))
    }

    /// Whether an expression has the value of one of the rows: `IN`.
    public func contains(_ element: some SQLSpecificExpressible) -> SQLExpression {
        Term(.apply(.inRows(negated: false), [Term(element), Term(.tableName(tableName))])).expression
    }

    /// Whether an expression has the value of one of the rows: `IN`.
    @_disfavoredOverload
    public func contains(_ element: some SQLExpressible) -> SQLExpression {
        Term(.apply(.inRows(negated: false), [Term(element), Term(.tableName(tableName))])).expression
    }
}

extension CommonTableExpression where RowDecoder == Row {
    /// An expression whose rows are read as rows.
    public init(
        recursive: Bool = false, named tableName: String, columns: [String]? = nil, request: some SQLSubqueryable
    ) {
        table = CommonTable(
            name: tableName, columns: columns, isRecursive: recursive, query: request.sqlSubquery.content.checked)
    }

    /// An expression whose rows are read as rows.
    public init(recursive: Bool = false, named tableName: String, columns: [String]? = nil, literal: SQL) {
        table = CommonTable(
            name: tableName, columns: columns, isRecursive: recursive,
            query: Subquery.literal(LiteralText(literal)).checked)
    }

    /// An expression whose rows are read as rows.
    public init(
        recursive: Bool = false, named tableName: String, columns: [String]? = nil, sql: String,
        arguments: StatementArguments = StatementArguments()
    ) {
        self.init(
            recursive: recursive, named: tableName, columns: columns, literal: SQL(sql: sql, arguments: arguments))
    }
}
