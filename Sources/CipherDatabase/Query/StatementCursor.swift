/// Steps through a statement's rows; the base of the cursors of rows and values.
///
/// A statement has one position, so a second use of it ends the first cursor, which then throws.
@usableFromInline
struct StatementSteps {
    @usableFromInline let statement: Statement
    @usableFromInline let handle: StatementHandle
    @usableFromInline var isDone = false
    /// The use of the statement that these steps belong to.
    @usableFromInline let use: Int

    @usableFromInline
    init(_ statement: Statement, arguments: StatementArguments?) throws {
        self.statement = statement
        handle = statement.handle
        if let arguments { try statement.setArguments(arguments) }
        try statement.start()
        use = statement.useCount
    }

    /// Goes to the next row.
    /// - Returns: Whether there is one.
    @inlinable
    mutating func advance() throws -> Bool {
        if isDone { return false }
        guard statement.useCount == use else { throw statement.usedElsewhere() }
        let code = handle.step()
        if code == 100 { return true }  // SQLITE_ROW
        isDone = true
        if code != 101 { throw statement.failure(code) }  // SQLITE_DONE
        finish()
        return false
    }

    @usableFromInline
    mutating func finish() {
        isDone = true
        _ = handle.reset()
        statement.database.didRun(statement)
    }

    /// Gives the statement back before its end, unless it has another use by now.
    func abandon() { if !isDone && statement.useCount == use { _ = handle.reset() } }
}

/// The rows of a statement, one after another, each shown by the same ``Row``.
public final class RowCursor: Cursor {
    @usableFromInline var steps: StatementSteps
    @usableFromInline var row: Row?
    /// The statement that the cursor steps through.
    public var statement: Statement { steps.statement }

    init(_ statement: Statement, arguments: StatementArguments?) throws {
        steps = try StatementSteps(statement, arguments: arguments)
    }

    deinit { steps.abandon() }

    /// The next row, valid until the one after it; nil at the end.
    @inlinable
    public func next() throws -> Row? {
        guard try steps.advance() else { return nil }
        return row ?? makeRow()
    }

    /// Made behind the first step, which compiles the statement anew after a schema change.
    @usableFromInline
    func makeRow() -> Row {
        let row = Row(showing: statement)
        self.row = row
        return row
    }
}

/// The values of a statement's first column, read through ``DatabaseValue``.
public final class DatabaseValueCursor<Value: DatabaseValueConvertible>: Cursor {
    private var steps: StatementSteps

    init(_ statement: Statement, arguments: StatementArguments?) throws {
        steps = try StatementSteps(statement, arguments: arguments)
    }

    deinit { steps.abandon() }

    public func next() throws -> Value? {
        guard try steps.advance() else { return nil }
        return try steps.statement.value(at: 0)
    }
}

/// The values of a statement's first column, read straight from the statement.
public final class FastDatabaseValueCursor<Value: DatabaseValueConvertible & StatementColumnConvertible>: Cursor {
    @usableFromInline var steps: StatementSteps

    @usableFromInline
    init(_ statement: Statement, arguments: StatementArguments?) throws {
        steps = try StatementSteps(statement, arguments: arguments)
    }

    deinit { steps.abandon() }

    @inlinable
    public func next() throws -> Value? {
        guard try steps.advance() else { return nil }
        if let value = Value(sqliteStatement: steps.handle.pointer, index: 0) { return value }
        return try steps.statement.value(at: 0)
    }
}

extension Statement {
    @usableFromInline
    func usedElsewhere() -> any Error {
        DatabaseError(
            resultCode: .SQLITE_MISUSE, message: "the statement of this cursor was used again, which ended the cursor",
            sql: sql)
    }

    /// The value of a column of the current row.
    @usableFromInline
    func value<Value: DatabaseValueConvertible>(at index: Int) throws -> Value {
        let stored = DatabaseValue(statement: handle, index: CInt(index))
        if let value = Value.fromDatabaseValue(stored) { return value }
        let error = RowDecodingError(column: columns.names[index], index: index, found: stored, wanted: Value.self)
        _ = handle.reset()
        throw error
    }
}
