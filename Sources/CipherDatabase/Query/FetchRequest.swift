/// A request that can make its statement, and whose rows have a type.
public protocol FetchRequest<RowDecoder>: DatabaseRegionConvertible, SQLSubqueryable {
    /// The type of the rows: ``Row``, or a value.
    associatedtype RowDecoder

    /// Compiles the statement and sets its arguments.
    ///
    /// - Parameter singleResult: Whether only the first row will be read.
    func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest

    /// How many rows the request has.
    func fetchCount(_ db: Database) throws -> Int
}

extension FetchRequest {
    /// Compiles the statement and sets its arguments.
    public func makePreparedRequest(_ db: Database) throws -> PreparedRequest {
        try makePreparedRequest(db, forSingleResult: false)
    }

    /// How many rows the request has: `SELECT COUNT(*)` of its statement.
    public func fetchCount(_ db: Database) throws -> Int {
        let statement = try makePreparedRequest(db).statement
        let sql = "SELECT COUNT(*) FROM (\(statement.sql.trimmingSQL()))"
        return try SQLRequest<Int>(sql: sql, arguments: statement.arguments).fetchOne(db) ?? 0
    }

    /// The region of the request: that of its statement, which is compiled and not run.
    public func databaseRegion(_ db: Database) throws -> DatabaseRegion {
        try makePreparedRequest(db, forSingleResult: false).statement.databaseRegion
    }

    /// The request within another one: what its statement is there, with its arguments.
    public var sqlSubquery: SQLSubquery {
        SQLSubquery(
            .prepared { db in
                let statement = try makePreparedRequest(db).statement
                return SQL(sql: statement.sql.trimmingSQL(), arguments: statement.arguments)
            })
    }

    /// The request with its rows converted by an adapter, which may depend on the database.
    ///
    /// - Parameter adapter: Runs in each access that fetches the request, on the thread of that access.
    public func adapted(_ adapter: @escaping @Sendable (Database) throws -> any RowAdapter) -> AdaptedFetchRequest<Self>
    {
        AdaptedFetchRequest(base: self, adapter: adapter)
    }
}

/// A statement that is ready to run, with the adapter of its rows.
public struct PreparedRequest {
    public var statement: Statement
    public var adapter: (any RowAdapter)?
    /// Adds to rows what other statements return for them, as the rows of associations; nil for nothing. Cursors do not
    /// call it: it needs all rows at once.
    public var supplement: (([Row]) throws -> [Row])? { didSet { (prefetch, included) = (nil, nil) } }
    /// The same for rows without objects, which are read as records: what other statements return for them. nil where
    /// the rows that the statement returns are not those of the request.
    @usableFromInline package private(set) var prefetch: ((KeptRows) throws -> PrefetchedRows)?

    /// The requests by which rows are added to some rows, each with its name among them; nil for none.
    package private(set) var included: Included?

    /// Calls a function with requests of rows that belong to the rows of a request.
    package typealias Included = (
        _ rows: [Row], _ visit: (_ path: [String], _ request: PreparedRequest) throws -> Void
    ) throws -> Void

    public init(statement: Statement, adapter: (any RowAdapter)? = nil) {
        self.statement = statement
        self.adapter = adapter
    }
}

extension PreparedRequest {
    /// Adds what other statements return, for all rows together.
    ///
    /// - Parameters:
    ///   - supplement: Adds it to rows.
    ///   - prefetch: Fetches it for rows without objects.
    ///   - included: Makes the requests by which it is fetched.
    package mutating func supplement(
        _ supplement: @escaping ([Row]) throws -> [Row], prefetch: @escaping (KeptRows) throws -> PrefetchedRows,
        included: @escaping Included
    ) {
        self.supplement = supplement
        self.prefetch = prefetch
        self.included = included
    }

    /// - Throws: ``DatabaseError`` `.SQLITE_MISUSE` for a request whose rows need all rows at once.
    package func requireNoSupplement() throws {
        guard supplement != nil else { return }
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "a request with including(all:) cannot be read by a cursor: use fetchAll, fetchOne or fetchSet")
    }
}

/// A request whose rows are converted by an adapter, after the adapter that the request may have.
public struct AdaptedFetchRequest<Base: FetchRequest>: FetchRequest {
    public typealias RowDecoder = Base.RowDecoder
    let base: Base
    let adapter: @Sendable (Database) throws -> any RowAdapter

    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        var request = try base.makePreparedRequest(db, forSingleResult: singleResult)
        let added = try adapter(db)
        request.adapter = request.adapter.map { ChainedAdapter(first: $0, second: added) } ?? added
        return request
    }

    public func fetchCount(_ db: Database) throws -> Int { try base.fetchCount(db) }

    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { try base.databaseRegion(db) }

    /// The request without its adapter: SQL knows the columns that the statement returns.
    public var sqlSubquery: SQLSubquery { base.sqlSubquery }
}

/// A type-erased request.
public struct AnyFetchRequest<RowDecoder>: FetchRequest {
    private let prepare: @Sendable (Database, Bool) throws -> PreparedRequest
    private let count: @Sendable (Database) throws -> Int
    private let region: @Sendable (Database) throws -> DatabaseRegion
    public let sqlSubquery: SQLSubquery

    public init(_ request: some FetchRequest<RowDecoder>) { self.init(erasing: request) }

    private init(erasing request: some FetchRequest) {
        sqlSubquery = request.sqlSubquery
        prepare = { try request.makePreparedRequest($0, forSingleResult: $1) }
        count = { try request.fetchCount($0) }
        region = { try request.databaseRegion($0) }
    }

    /// The same request with another type for its rows.
    public func asRequest<T>(of type: T.Type) -> AnyFetchRequest<T> { AnyFetchRequest<T>(erasing: self) }

    public func makePreparedRequest(_ db: Database, forSingleResult singleResult: Bool) throws -> PreparedRequest {
        try prepare(db, singleResult)
    }

    public func fetchCount(_ db: Database) throws -> Int { try count(db) }

    public func databaseRegion(_ db: Database) throws -> DatabaseRegion { try region(db) }
}
