// Compiling and running SQL that contains its values, and the statements of a text one after the other.

extension Database {
    /// Runs one or several statements and drops their rows.
    ///
    /// - Throws: ``DatabaseError``; statements before the failing one have run.
    public func execute(literal: SQL) throws {
        let literal = try literal.written(self)
        try execute(sql: literal.text, arguments: literal.arguments)
    }

    /// Compiles one statement and sets its arguments. A literal without any does not set them.
    ///
    /// - Throws: ``DatabaseError``; `.SQLITE_MISUSE` when the text holds no statement, or several.
    public func makeStatement(literal: SQL) throws -> Statement {
        let literal = try literal.written(self)
        let statement = try makeStatement(sql: literal.text)
        if !literal.arguments.isEmpty { try statement.setArguments(literal.arguments) }
        return statement
    }

    /// The compiled statement of this SQL text, kept by the connection for the next time, with its arguments set. A
    /// literal without any does not set them: the statement may still have those of its last use.
    public func cachedStatement(literal: SQL) throws -> Statement {
        let literal = try literal.written(self)
        let statement = try cachedStatement(sql: literal.text)
        if !literal.arguments.isEmpty { try statement.setArguments(literal.arguments) }
        return statement
    }

    /// The statements of a text, each compiled on demand: it may depend on the one before it.
    ///
    /// ```swift
    /// let statements = try db.allStatements(sql: "CREATE TABLE t(a); INSERT INTO t VALUES (?)", arguments: [1])
    /// while let statement = try statements.next() { try statement.execute() }
    /// ```
    ///
    /// - Parameter arguments: Values for their parameters; each statement takes its own from the front, or by name. Nil
    ///   leaves the statements without arguments.
    public func allStatements(sql: String, arguments: StatementArguments? = nil) throws -> SQLStatementCursor {
        SQLStatementCursor(database: self, sql: sql, arguments: arguments)
    }

    /// The statements of a text with their arguments, each compiled on demand. A literal without any leaves the
    /// statements without arguments.
    public func allStatements(literal: SQL) throws -> SQLStatementCursor {
        let literal = try literal.written(self)
        return try allStatements(sql: literal.text, arguments: literal.arguments.isEmpty ? nil : literal.arguments)
    }
}
