/// Steps through a statement's rows; the base of the cursors of rows and values.
///
/// A statement has one position, so a second use of it ends the first cursor, which then throws.
@usableFromInline
struct StatementSteps {
    @usableFromInline let statement: Statement
    @usableFromInline let handle: StatementHandle
    @usableFromInline var isDone = false
    /// The error that ended the steps: thrown again by each further one, so that it is never taken for the end.
    @usableFromInline var failure: (any Error)?
    /// The use of the statement that these steps belong to.
    @usableFromInline let use: Int
    /// The number of rows so far.
    @usableFromInline var rowCount = 0

    @usableFromInline
    init(_ statement: Statement, arguments: StatementArguments?) throws {
        self.statement = statement
        handle = statement.handle
        if let arguments { try statement.setArguments(arguments) }
        try statement.startSteps()
        use = statement.useCount
    }

    /// The steps of a statement that is ready for them.
    init(started statement: Statement) {
        self.statement = statement
        handle = statement.handle
        use = statement.useCount
    }

    /// Advances to the next row.
    /// - Returns: Whether there is one.
    @inlinable
    mutating func advance() throws -> Bool {
        if isDone {
            if let failure { throw failure }
            return false
        }
        guard statement.useCount == use else { throw statement.usedElsewhere() }
        let code = statement.stepsPassGate ? try stepThroughGate() : step()
        if code == 100 {  // SQLITE_ROW
            rowCount &+= 1
            return true
        }
        if code != 101 { throw ended(by: statement.failure(code)) }  // SQLITE_DONE
        try finish()
        return false
    }

    @inlinable
    @inline(__always)
    func step() -> CInt {
        let code = handle.step()
        return statement.database.pageReads.judge(code == 1 && rowCount == 0 ? statement.stepAgain(code) : code)
    }

    /// Takes one step as a bracketed call. An error ends the steps: the next step of a statement whose transaction was
    /// rolled back would read outside of it.
    @usableFromInline
    mutating func stepThroughGate() throws -> CInt {
        do {
            return try statement.stepThroughGate()
        } catch {
            statement.reset()
            throw ended(by: error)
        }
    }

    @usableFromInline
    mutating func finish() throws {
        isDone = true
        do {
            if statement.passesGate {
                try statement.endThroughGate()
            } else {
                statement.resetHandle()
                try statement.database.didRun(statement)
            }
        } catch {
            throw ended(by: error)
        }
    }

    /// Ends the steps with an error.
    /// - Returns: The error, to be thrown.
    @usableFromInline
    mutating func ended(by error: any Error) -> any Error {
        isDone = true
        failure = error
        return error
    }

    /// Resets the statement before its end, unless it has another use by now.
    func abandon() { if !isDone && statement.useCount == use { statement.reset() } }
}

/// The steps that a cursor of rows shares with the row it shows: the last owner resets the statement.
@usableFromInline
final class StatementRun {
    // Unchecked in this file: the check of each access by Swift's runtime would cost more than a column does, and a
    // cursor is used by the one thread of its access.
    @exclusivity(unchecked) @usableFromInline var steps: StatementSteps

    init(_ statement: Statement, arguments: StatementArguments?) throws {
        steps = try StatementSteps(statement, arguments: arguments)
    }

    init(_ steps: StatementSteps) { self.steps = steps }

    deinit { steps.abandon() }
}

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

extension StatementSteps {
    /// The value of a column of the current row.
    ///
    /// - Parameter type: Named by every caller: where an optional is expected, it would be inferred as one, and accept
    ///   NULL.
    /// - Throws: ``RowDecodingError``, which ends the steps.
    @usableFromInline
    mutating func value<Value: DatabaseValueConvertible>(_ type: Value.Type, at index: CInt) throws -> Value {
        let stored = DatabaseValue(statement: handle, index: index)
        if let value = Value.fromDatabaseValue(stored) { return value }
        let error = RowDecodingError(
            column: statement.columns.names[Int(index)], index: Int(index), found: stored, row: rowCount - 1,
            wanted: Value.self, declaredType: handle.declaredType(at: index),
            showsValue: statement.database.configuration.publicStatementArguments)
        try finish()
        throw ended(by: error)
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
