// Fetching rows and values: a cursor, all, one, a set; from a statement or from SQL text.

extension Row {
    /// The rows of a statement, one after another.
    public static func fetchCursor(_ statement: Statement, arguments: StatementArguments? = nil) throws -> RowCursor {
        try RowCursor(statement, arguments: arguments)
    }

    /// All rows of a statement.
    public static func fetchAll(_ statement: Statement, arguments: StatementArguments? = nil) throws -> [Row] {
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return [] }
        // Asked behind the first step, which compiles the statement anew after a schema change.
        let columns = statement.columns
        var rows: [Row] = []
        repeat { rows.append(Row.copy(of: steps.handle, columns: columns)) } while try steps.advance()
        return rows
    }

    /// The first row of a statement; nil when there is none.
    public static func fetchOne(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Row? {
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        let row = Row.copy(of: steps.handle, columns: statement.columns)
        steps.finish()
        return row
    }

    /// The different rows of a statement.
    public static func fetchSet(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Set<Row> {
        Set(try fetchAll(statement, arguments: arguments))
    }

    /// The rows of a query, one after another.
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> RowCursor {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments)
    }

    /// All rows of a query.
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> [Row] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments)
    }

    /// The first row of a query; nil when there is none.
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Row? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments)
    }

    /// The different rows of a query.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Set<Row> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible {
    /// The values of a statement's first column, one after another.
    public static func fetchCursor(_ statement: Statement, arguments: StatementArguments? = nil) throws
        -> DatabaseValueCursor<Self>
    {
        try DatabaseValueCursor(statement, arguments: arguments)
    }

    /// All values of a statement's first column.
    public static func fetchAll(_ statement: Statement, arguments: StatementArguments? = nil) throws -> [Self] {
        try Array(fetchCursor(statement, arguments: arguments))
    }

    /// The first value of a statement's first column; nil when there is no row, and for NULL.
    public static func fetchOne(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Self? {
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        let value: Self? = steps.handle.isNull(at: 0) ? fromDatabaseValue(.null) : try statement.value(at: 0)
        steps.finish()
        return value
    }

    /// The values of a query's first column, one after another.
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> DatabaseValueCursor<Self> {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments)
    }

    /// All values of a query's first column.
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> [Self] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments)
    }

    /// The first value of a query's first column; nil when there is no row, and for NULL.
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Self? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible where Self: Hashable {
    /// The different values of a statement's first column.
    public static func fetchSet(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Set<Self> {
        try Set(fetchCursor(statement, arguments: arguments))
    }

    /// The different values of a query's first column.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Set<Self> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible {
    /// The values of a statement's first column, one after another.
    @inlinable
    public static func fetchCursor(_ statement: Statement, arguments: StatementArguments? = nil) throws
        -> FastDatabaseValueCursor<Self>
    {
        try FastDatabaseValueCursor(statement, arguments: arguments)
    }

    /// All values of a statement's first column.
    @inlinable
    public static func fetchAll(_ statement: Statement, arguments: StatementArguments? = nil) throws -> [Self] {
        var steps = try StatementSteps(statement, arguments: arguments)
        var values: [Self] = []
        while try steps.advance() {
            values.append(try Self(sqliteStatement: steps.handle.pointer, index: 0) ?? statement.value(at: 0))
        }
        return values
    }

    /// The first value of a statement's first column; nil when there is no row, and for NULL.
    @inlinable
    public static func fetchOne(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Self? {
        var steps = try StatementSteps(statement, arguments: arguments)
        guard try steps.advance() else { return nil }
        var value = Self(sqliteStatement: steps.handle.pointer, index: 0)
        if value == nil && !steps.handle.isNull(at: 0) { value = try statement.value(at: 0) }
        steps.finish()
        return value
    }

    /// The values of a query's first column, one after another.
    @inlinable
    public static func fetchCursor(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> FastDatabaseValueCursor<Self> {
        try fetchCursor(db.makeStatement(sql: sql), arguments: arguments)
    }

    /// All values of a query's first column.
    @inlinable
    public static func fetchAll(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> [Self] {
        try fetchAll(db.statement(forFetching: sql), arguments: arguments)
    }

    /// The first value of a query's first column; nil when there is no row, and for NULL.
    @inlinable
    public static func fetchOne(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Self? {
        try fetchOne(db.statement(forFetching: sql), arguments: arguments)
    }
}

extension DatabaseValueConvertible where Self: StatementColumnConvertible & Hashable {
    /// The different values of a statement's first column.
    public static func fetchSet(_ statement: Statement, arguments: StatementArguments? = nil) throws -> Set<Self> {
        try Set(fetchCursor(statement, arguments: arguments))
    }

    /// The different values of a query's first column.
    public static func fetchSet(
        _ db: Database, sql: String, arguments: StatementArguments = StatementArguments()
    ) throws -> Set<Self> {
        try fetchSet(db.statement(forFetching: sql), arguments: arguments)
    }
}
