/// A query with its arguments and the type of its rows.
///
/// ```swift
/// let request: SQLRequest<String> = "SELECT name FROM player WHERE score > \(score)"
/// let names = try request.fetchAll(db)
/// ```
public struct SQLRequest<RowDecoder>: Sendable {
    /// Converts the rows.
    public var adapter: (any RowAdapter)?
    package let literal: SQL
    private let isCached: Bool

    /// - Parameters:
    ///   - sql: A query.
    ///   - arguments: Values of its parameters.
    ///   - adapter: Converts the rows.
    ///   - cached: Whether the compiled statement is kept by the connection for the next time.
    public init(
        sql: String, arguments: StatementArguments = StatementArguments(), adapter: (any RowAdapter)? = nil,
        cached: Bool = false
    ) {
        self.init(literal: SQL(sql: sql, arguments: arguments), adapter: adapter, cached: cached, for: RowDecoder.self)
    }

    /// - Parameters:
    ///   - literal: A query with the values of its parameters.
    ///   - adapter: Converts the rows.
    ///   - cached: Whether the compiled statement is kept by the connection for the next time.
    public init(literal: SQL, adapter: (any RowAdapter)? = nil, cached: Bool = false) {
        self.init(literal: literal, adapter: adapter, cached: cached, for: RowDecoder.self)
    }

    private init(literal: SQL, adapter: (any RowAdapter)?, cached: Bool, for decoder: RowDecoder.Type) {
        self.literal = literal
        self.adapter = adapter
        isCached = cached
    }
}

// A request without a type for its rows reads ``Row``.
extension SQLRequest where RowDecoder == Row {
    public init(
        sql: String, arguments: StatementArguments = StatementArguments(), adapter: (any RowAdapter)? = nil,
        cached: Bool = false
    ) {
        self.init(literal: SQL(sql: sql, arguments: arguments), adapter: adapter, cached: cached, for: Row.self)
    }

    public init(literal: SQL, adapter: (any RowAdapter)? = nil, cached: Bool = false) {
        self.init(literal: literal, adapter: adapter, cached: cached, for: Row.self)
    }
}

extension SQLRequest: FetchRequest {
    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        let literal = try literal.written(db)
        let statement = try isCached ? db.cachedStatement(sql: literal.text) : db.makeStatement(sql: literal.text)
        // Always, even none at all: a cached statement may have those of another request.
        try statement.setArguments(literal.arguments)
        return PreparedRequest(statement: statement, adapter: adapter)
    }

    public var sqlSubquery: SQLSubquery { SQLSubquery(.literal(literal)) }

    public func fetchCount(_ db: Database) throws -> Int {
        try SQLRequest<Int>(literal: "SELECT COUNT(*) FROM (\(self))").fetchOne(db) ?? 0
    }
}

extension SQLRequest: ExpressibleByStringInterpolation {
    public init(stringLiteral sql: String) {
        self.init(literal: SQL(sql: sql), adapter: nil, cached: false, for: RowDecoder.self)
    }

    public init(stringInterpolation interpolation: SQLInterpolation) {
        self.init(
            literal: SQL(stringInterpolation: interpolation), adapter: nil, cached: false, for: RowDecoder.self)
    }
}
