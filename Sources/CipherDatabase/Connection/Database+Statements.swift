// Compiling and running SQL.

extension Database {
    // MARK: Compiling

    /// Compiles one statement.
    ///
    /// - Throws: ``DatabaseError``; `.SQLITE_MISUSE` when `sql` holds no statement, or several.
    public func makeStatement(sql: String) throws -> Statement { try makeStatement(sql: sql, persistent: false) }

    /// The compiled statement of this SQL text, kept by the connection for the next time.
    ///
    /// It may still have the arguments of its last use in the same access. They are cleared when the access ends.
    public func cachedStatement(sql: String) throws -> Statement {
        if let statement = kept.statementCache.statement(for: sql) { return statement }
        // No access to the cache may be open here: compiling may make a tokenizer, which may run statements of its own.
        let statement = try makeStatement(sql: sql, persistent: true)
        kept.statementCache.insert(statement, for: sql)
        return statement
    }

    /// A compiled statement for a fetch that is over when it returns. No other code sees it, so it may be reused; while
    /// it is between rows, a fetch within that fetch gets another one.
    @usableFromInline
    package func statement(forFetching sql: String) throws -> Statement {
        if let statement = kept.fetchCache.statement(for: sql) { return statement }
        let statement = try makeStatement(sql: sql, persistent: true)
        kept.fetchCache.insert(statement, for: sql)
        return statement
    }

    /// Compiles one statement, as one that will run many times where `persistent` says so.
    package func makeStatement(sql: String, persistent: Bool) throws -> Statement {
        requireAccess()
        return try sql.withCString { text in
            let (statement, tail) = try compile(text, persistent: persistent)
            guard let statement else {
                throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "empty statement", sql: sql)
            }
            if try compile(tail, persistent: false).statement != nil {
                throw DatabaseError(
                    resultCode: .SQLITE_MISUSE,
                    message: "multiple statements found: use execute(sql:), or compile one at a time",
                    sql: sql)
            }
            if persistent { statement.keep() }
            return statement
        }
    }

    /// Compiles the next statement of a text; nil at its end.
    func compile(_ text: UnsafePointer<CChar>, persistent: Bool) throws -> (
        statement: Statement?, tail: UnsafePointer<CChar>
    ) {
        if isClosed { throw closedError }
        try connectionKey.willCompile(String(cString: text), on: self)
        var text = text
        while true {
            let (code, statement, tail) = prepare(text, persistent: persistent)
            let (isRemoved, message) = removeObstacle(after: code)
            if isRemoved { continue }
            guard code == .SQLITE_OK else {
                // Not the rest of a script: it may hold values, and is no part of what failed.
                throw try compilationError(code, message, sql: String(cString: text).failingStatement)
            }
            if let statement { return (Statement(database: self, sqliteStatement: statement), tail ?? text) }
            // Blanks and comments compile to nothing.
            guard let tail, tail > text, tail.pointee != 0 else { return (nil, text) }
            text = tail
        }
    }

    /// The error of a text that does not compile.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` where its transaction is gone, perhaps with objects that the text
    ///   names.
    private func compilationError(_ code: ResultCode, _ message: String?, sql: String) throws -> any Error {
        // A text without its closing quote is a token up to the end of the SQL, with all values in it.
        let failure = error(code, message: DatabaseError.cut(message ?? handle.lastMessage), sql: sql)
        if gating.wasRolledBack {
            gating.wasRolledBack = false
            throw DatabaseError.suspended(sql: sql)
        }
        try requireExpectedTransaction(for: sql)
        return failure
    }

    // MARK: Running

    /// Runs one or several statements and drops their rows.
    ///
    /// - Parameters:
    ///   - sql: One or more statements.
    ///   - arguments: Values for their parameters; each statement takes its own from the front, or by name.
    /// - Throws: ``DatabaseError``; statements before the failing one have run.
    public func execute(sql: String, arguments: StatementArguments = StatementArguments()) throws {
        requireAccess()
        // Programs run SQL with parameters again and again, and compiling takes longer than writing a row.
        if !arguments.isEmpty, let statement = kept.executionCache.statement(for: sql) {
            return try statement.execute(arguments: arguments)
        }
        var queue = ArgumentQueue(arguments)
        try sql.withCString { start in
            var text = start
            while true {
                if let bytes = connectionKey.postpone(from: String(cString: text)) {
                    text += bytes
                    continue
                }
                // A statement may depend on the one before it, so each is compiled right before it runs.
                let (statement, tail) = try compile(text, persistent: false)
                guard let statement else { break }
                let values = queue.values(for: statement)
                // Before the last statement runs: a program that passes too many values is wrong about what it does.
                if tail.isEndOfSQL { try queue.requireEnd(sql: sql) }
                try statement.execute(arguments: values)
                if text == start && tail.isEndOfSQL && statement.isReusable {
                    statement.keep()
                    kept.executionCache.insert(statement, for: sql)
                }
                text = tail
            }
        }
        try queue.requireEnd(sql: sql)
    }
}

extension String {
    /// The first statement of a text that does not compile. A trigger is one statement up to its END.
    fileprivate var failingStatement: String {
        var statement = String(firstStatement)
        while !SQLiteLibrary.isComplete(statement), statement.utf8.count < DatabaseLimits.longestFailingStatement {
            let next = String(decoding: utf8.dropFirst(statement.utf8.count), as: UTF8.self).firstStatement
            if next.isEmpty { break }
            statement += next
        }
        return statement.trimmingSQL()
    }
}

extension UnsafePointer<CChar> {
    /// Whether only blanks and semicolons are left of a text. A comment counts as a statement.
    fileprivate var isEndOfSQL: Bool {
        var position = self
        while position.pointee != 0 {
            switch UInt8(bitPattern: position.pointee) {
            case UInt8(ascii: " "), UInt8(ascii: ";"), 9...13: position += 1
            default: return false
            }
        }
        return true
    }
}

// Running a text of several statements one after the other, with their rows.
extension Database {
    /// Compiles the statements of a text one after the other and passes each to `body` before the next is compiled: it
    /// may depend on the one before it.
    ///
    /// - Parameter willCompile: Called before each statement, with the position where its text begins, in bytes.
    /// - Throws: ``DatabaseError``, or the error of `body`, which ends the run; statements before have run.
    package func forEachStatement(
        in sql: String, willCompile: (_ position: Int) -> Void = { _ in }, _ body: (Statement) throws -> Void
    ) throws {
        requireAccess()
        try sql.withCString { start in
            var text = start
            while text.pointee != 0 {
                willCompile(text - start)
                try connectionKey.willCompile(String(cString: text), on: self)
                let (code, compiled, tail) = prepare(text, persistent: false)
                let (isRemoved, message) = removeObstacle(after: code)
                if isRemoved { continue }
                guard code == .SQLITE_OK else {
                    throw error(code, message: message, sql: String(cString: text).failingStatement)
                }
                if let compiled { try body(Statement(database: self, sqliteStatement: compiled)) }
                // Blanks and comments compile to nothing, and may be all that is left.
                guard let tail, tail > text else { return }
                text = tail
            }
        }
    }
}

extension Database {
    /// Runs a closure while texts in double quotes are accepted.
    package func acceptingDoubleQuotedStrings<Value>(_ body: () -> Value) -> Value {
        handle.setDoubleQuotedStrings(true)
        defer { handle.setDoubleQuotedStrings(configuration.acceptsDoubleQuotedStringLiterals) }
        return body()
    }
}
