// Fetching values of one column, the first: a cursor, all, one, a set; from a statement or from SQL text. With an
// adapter it is the adapter's first column.

extension DatabaseValueConvertible {
    /// The values of a statement's first column, one after the other.
    public static func fetchCursor(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> DatabaseValueCursor<Self> {
        try DatabaseValueCursor(statement, arguments: arguments, adapter: adapter)
    }

    /// All values of a statement's first column.
    public static func fetchAll(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        try Array(fetchCursor(statement, arguments: arguments, adapter: adapter))
    }

    /// The first value of a statement's first column; nil when there is no row, and for NULL.
    public static func fetchOne(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        let index = try statement.valueColumn(adapter)
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        let isNull = steps.handle.isNull(at: index)
        let value: Self? = isNull ? fromDatabaseValue(.null) : try steps.value(Self.self, at: index)
        try steps.finish()
        return value
    }

    /// The values of a query's first column, one after the other.
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> DatabaseValueCursor<Self> {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments, adapter: adapter)
    }

    /// All values of a query's first column.
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The first value of a query's first column; nil when there is no row, and for NULL.
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }
}

extension DatabaseValueConvertible where Self: Hashable {
    /// The distinct values of a statement's first column.
    public static func fetchSet(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try Set(fetchCursor(statement, arguments: arguments, adapter: adapter))
    }

    /// The distinct values of a query's first column.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible {
    /// The values of a statement's first column, one after the other.
    @inlinable
    public static func fetchCursor(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> FastDatabaseValueCursor<Self> {
        try FastDatabaseValueCursor(statement, arguments: arguments, adapter: adapter)
    }

    /// All values of a statement's first column.
    @inlinable
    public static func fetchAll(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        let index = try statement.valueColumn(adapter)
        var steps = try StatementSteps(statement, arguments: arguments)
        var values: [Self] = []
        while try steps.advance() {
            let value = Self(column: index, of: steps.handle)
            values.append(try value ?? steps.value(Self.self, at: index))
        }
        return values
    }

    /// The first value of a statement's first column; nil when there is no row, and for NULL.
    @inlinable
    public static func fetchOne(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        let index = adapter == nil ? 0 : try statement.valueColumn(adapter)
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        var value = Self(column: index, of: steps.handle)
        if value == nil && !steps.handle.isNull(at: index) { value = try steps.value(Self.self, at: index) }
        try steps.finish()
        return value
    }

    /// The values of a query's first column, one after the other.
    @inlinable
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> FastDatabaseValueCursor<Self> {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments, adapter: adapter)
    }

    /// All values of a query's first column.
    @inlinable
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> [Self] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The first value of a query's first column; nil when there is no row, and for NULL.
    @inlinable
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Self? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible & Hashable {
    /// The distinct values of a statement's first column.
    public static func fetchSet(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try Set(fetchCursor(statement, arguments: arguments, adapter: adapter))
    }

    /// The distinct values of a query's first column.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Set<Self> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }
}
