// Fetching rows: a cursor, all, one, a set; from a statement or from SQL text. `adapter` converts them.

extension Row {
    /// The rows of a statement, one after the other.
    public static func fetchCursor(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> RowCursor {
        try RowCursor(statement, arguments: arguments, adapter: adapter)
    }

    /// All rows of a statement.
    public static func fetchAll(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> [Row] {
        let rows = try copies(of: statement, arguments: arguments)
        guard let adapter else { return rows }
        let layout = try statement.layout(of: adapter)
        return rows.map { adapting($0, to: layout) }
    }

    private static func copies(of statement: Statement, arguments: StatementArguments?) throws -> [Row] {
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return [] }
        // Read after the first step, which compiles the statement again after a schema change.
        var keeper = RowKeeper(columns: statement.columns)
        return try keeper.keepAll(&steps)
    }

    /// The first row of a statement; nil when there is none.
    public static func fetchOne(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Row? {
        guard let adapter else { return try statement.firstRow(arguments: arguments) }
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        let row = Row.copy(of: steps.handle, columns: statement.columns)
        try steps.finish()
        return adapting(row, to: try statement.layout(of: adapter))
    }

    /// The distinct rows of a statement.
    public static func fetchSet(
        _ statement: Statement, arguments: StatementArguments? = nil, adapter: (any RowAdapter)? = nil
    ) throws -> Set<Row> {
        Set(try fetchAll(statement, arguments: arguments, adapter: adapter))
    }

    /// The rows of a query, one after the other.
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> RowCursor {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments, adapter: adapter)
    }

    /// All rows of a query.
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> [Row] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The first row of a query; nil when there is none.
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Row? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }

    /// The distinct rows of a query.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments(),
        adapter: (any RowAdapter)? = nil
    ) throws -> Set<Row> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments, adapter: adapter)
    }
}
