/// Compiled statements by their SQL text, so that the same SQL is compiled once for a connection.
struct StatementCache {
    private var statements: [String: Statement] = [:]

    /// The statement of this text that is free to run.
    ///
    /// One that is in the middle of its rows stays with its cursor: the caller then gets none, and compiles another.
    func statement(for sql: String) -> Statement? {
        guard let statement = statements[sql], !statement.handle.isBusy else { return nil }
        return statement
    }

    mutating func insert(_ statement: Statement, for sql: String) {
        // Programs that write values into SQL text would fill the cache for ever.
        if statements.count >= Limits.cachedStatements { statements.removeAll() }
        statements[sql] = statement
    }

    mutating func removeAll() { statements.removeAll() }
}
