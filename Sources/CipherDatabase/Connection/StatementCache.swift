/// Compiled statements by their SQL text, so that the same SQL is compiled once for a connection.
struct StatementCache {
    private var statements: [String: Statement] = [:]
    /// The statement asked for last. Programs mostly ask for the same one again, with the same string, and comparing a
    /// string with itself costs much less than hashing it.
    private var latest: (sql: String, statement: Statement)?

    /// The statement of this text that is free to run.
    ///
    /// One that is in the middle of its rows stays with its cursor: the caller then gets none, and compiles another.
    mutating func statement(for sql: String) -> Statement? {
        if let latest, latest.sql == sql { return latest.statement.handle.isBusy ? nil : latest.statement }
        guard let statement = statements[sql], !statement.handle.isBusy else { return nil }
        latest = (sql, statement)
        return statement
    }

    mutating func insert(_ statement: Statement, for sql: String) {
        // Programs that write values into SQL text would fill the cache for ever.
        if statements.count >= Limits.cachedStatements { removeAll() }
        statements[sql] = statement
        latest = (sql, statement)
    }

    mutating func removeAll() {
        statements.removeAll()
        latest = nil
    }
}
