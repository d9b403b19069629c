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
    /// Takes the first step. If the schema has changed, SQLite compiles the statement again.
    @inline(__always)
    func firstStep() -> CInt {
        let code = handle.step()
        return database.pageReads.judge(code == ResultCode.SQLITE_ERROR.rawValue ? stepAgain(code) : code)
    }

    /// Takes a step that is not the first one.
    @inlinable
    @inline(__always)
    func nextStep() -> CInt { database.pageReads.judge(handle.step()) }

    /// Takes the first step once more, where it has failed because of something that a feature could remove, or where the
    /// feature has replaced SQLite's message.
    ///
    /// - Returns: The code of the last step.
    @usableFromInline
    func stepAgain(_ code: CInt) -> CInt {
        let (isRemoved, message) = database.removeObstacle(after: ResultCode(rawValue: code))
        guard isRemoved || message.map({ $0 != database.handle.lastMessage }) ?? false else { return code }
        _ = handle.reset()
        return handle.step()
    }
}
