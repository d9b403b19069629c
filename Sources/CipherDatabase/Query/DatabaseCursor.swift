extension Statement {
    /// Reads the first row, without a cursor; nil when there is none.
    ///
    /// - Parameter read: Gets a row that shows the statement, as that of a cursor does.
    @inlinable
    package func readFirstRow<Value>(
        arguments: StatementArguments?, _ read: (Row) throws -> Value
    ) throws -> Value? {
        var steps = try StatementSteps(self, arguments: arguments)
        guard try steps.advance() else { return nil }
        var row = takeShownRow()
        let value: Value
        do {
            value = try read(row)
        } catch {
            discard(&row, steps)
            throw error
        }
        try putBack(&row, &steps)
        return value
    }
}

/// A cursor over the result of a statement.
public protocol DatabaseCursor<Element>: Cursor {
    /// The statement that the cursor steps through.
    var statement: Statement { get }
}

extension Statement {
    /// The leftmost column of a name, in any case, counted from 0; nil when there is none.
    public func index(ofColumn name: String) -> Int? { columns.index(of: name) }
}

extension DatabaseCursor {
    /// The SQL text of the statement.
    public var sql: String { statement.sql }
    /// The arguments of the statement.
    public var arguments: StatementArguments { statement.arguments }
    /// How many columns the statement's rows have.
    public var columnCount: Int { statement.columnCount }
    /// The names of the statement's columns, from left to right.
    public var columnNames: [String] { statement.columnNames }
    /// The region that the statement reads.
    public var databaseRegion: DatabaseRegion { statement.databaseRegion }
}

/// The rows of a statement, one after the other, each shown by the same ``Row``.
public final class RowCursor: DatabaseCursor {
    @usableFromInline let run: StatementRun
    @exclusivity(unchecked) @usableFromInline var row: Row?
    private let adapter: (any RowAdapter)?
    public var statement: Statement { run.steps.statement }

    init(_ statement: Statement, arguments: StatementArguments?, adapter: (any RowAdapter)?) throws {
        self.adapter = adapter
        // An adapter that does not fit is reported before the statement runs, and where there are no rows.
        if let adapter { _ = try statement.layout(of: adapter) }
        run = try StatementRun(statement, arguments: arguments)
    }

    /// The next row, valid until the one after it; nil at the end.
    @inlinable
    public func next() throws -> Row? {
        guard try run.steps.advance() else { return nil }
        return try row ?? makeRow()
    }

    /// Whether a row of the cursor shows all that follow.
    @inlinable
    package func showsAllRows(by row: Row) -> Bool { self.row === row }

    /// Advances the row that shows all rows.
    ///
    /// - Returns: Whether there is another one.
    @inlinable
    package func advance() throws -> Bool { try run.steps.advance() }

    /// Made after the first step, which compiles the statement again after a schema change.
    @usableFromInline
    func makeRow() throws -> Row {
        let shown = Row(showing: run)
        guard let adapter else {
            row = shown
            return shown
        }
        let adapted = Row.adapting(shown, to: try statement.layout(of: adapter))
        // Scattered columns are copied from each row.
        if adapted.statement != nil { row = adapted }
        return adapted
    }
}

/// The values of one column of a statement, read through ``DatabaseValue``.
public final class DatabaseValueCursor<Value: DatabaseValueConvertible>: DatabaseCursor {
    @exclusivity(unchecked) private var steps: StatementSteps
    private let index: CInt
    public var statement: Statement { steps.statement }

    init(_ statement: Statement, arguments: StatementArguments?, adapter: (any RowAdapter)?) throws {
        index = try statement.valueColumn(adapter)
        steps = try StatementSteps(statement, arguments: arguments)
    }

    deinit { steps.abandon() }

    public func next() throws -> Value? {
        guard try steps.advance() else { return nil }
        return try steps.value(Value.self, at: index)
    }
}

/// The values of one column of a statement, read directly from the statement.
public final class FastDatabaseValueCursor<Value: DatabaseValueConvertible & StatementColumnConvertible>:
    DatabaseCursor
{
    @exclusivity(unchecked) @usableFromInline var steps: StatementSteps
    @usableFromInline let index: CInt
    public var statement: Statement { steps.statement }

    @usableFromInline
    init(_ statement: Statement, arguments: StatementArguments?, adapter: (any RowAdapter)?) throws {
        index = try statement.valueColumn(adapter)
        steps = try StatementSteps(statement, arguments: arguments)
    }

    deinit { steps.abandon() }

    @inlinable
    public func next() throws -> Value? {
        guard try steps.advance() else { return nil }
        if let value = Value(column: index, of: steps.handle) { return value }
        return try steps.value(Value.self, at: index)
    }
}

extension Statement {
    @usableFromInline
    func usedElsewhere() -> any Error {
        DatabaseError(
            resultCode: .SQLITE_MISUSE, message: "the statement of this cursor was used again, which ended the cursor",
            sql: sql)
    }

    /// The layout of this statement's rows by an adapter.
    func layout(of adapter: any RowAdapter) throws -> RowLayout {
        guard let kept = adapter as? KeptRowAdapter else { return try adapter.layout(of: RowLayout(columns)) }
        let columns = columns
        if let known = keptLayout, known.adapter === kept, known.columns === columns { return known.layout }
        let layout = try kept.layout(of: RowLayout(columns))
        keptLayout = (kept, columns, layout)
        return layout
    }

    /// The column that values are read from: the first one, or the adapter's first one.
    @usableFromInline
    func valueColumn(_ adapter: (any RowAdapter)?) throws -> CInt {
        // A statement without columns has no rows to read from.
        guard let adapter else { return 0 }
        guard let column = try layout(of: adapter).columns.first else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "the adapter shows no column", sql: sql)
        }
        return CInt(column.index)
    }
}
