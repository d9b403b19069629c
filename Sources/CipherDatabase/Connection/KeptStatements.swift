/// The compiled statements that a connection keeps for the next time.
final class KeptStatements {
    // Unchecked, as those below: one thread at a time uses them, and Swift's runtime would check that each time.
    /// Statements of ``Database/cachedStatement(sql:)``.
    @exclusivity(unchecked) var statementCache = StatementCache()
    /// Statements of fetches from SQL text.
    @exclusivity(unchecked) var fetchCache = StatementCache()
    /// Statements of ``Database/execute(sql:arguments:)`` that write rows and have parameters.
    @exclusivity(unchecked) var executionCache = StatementCache()
    /// The kept statements that have arguments or rows of the current access.
    let usedStatements = UsedStatements()
    /// Statements that begin and end transactions.
    @exclusivity(unchecked) var controls = ControlStatements()

    /// Removes all statements that depend on the schema.
    func removeAll() {
        statementCache.removeAll()
        fetchCache.removeAll()
        executionCache.removeAll()
    }
}
