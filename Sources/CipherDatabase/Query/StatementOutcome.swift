/// The counters of SQLite for the statement that ended last.
/// - SeeAlso: <https://www.sqlite.org/c3ref/changes.html>
package struct StatementOutcome: Sendable {
    /// The rows that it changed itself: none of those that triggers changed.
    package let changesCount: Int
    /// The rows that the connection has changed since it was opened, by triggers too.
    package let totalChangesCount: Int
    /// The rowid of the row that the connection inserted last.
    package let lastInsertedRowID: Int64

    init(_ db: Database) {
        changesCount = db.changesCount
        totalChangesCount = db.totalChangesCount
        lastInsertedRowID = db.lastInsertedRowID
    }
}

extension Statement {
    /// Runs the statement to its end.
    ///
    /// - Returns: What SQLite counted when it ended. The observers of a commit may have run other statements since.
    /// - Throws: ``DatabaseError``.
    package func executeForOutcome() throws -> StatementOutcome {
        keepsOutcome = true
        try execute()
        return outcome ?? StatementOutcome(database)
    }

    /// Runs a statement with `RETURNING` to its end, where a program has read some of its rows, or none.
    ///
    /// - Returns: What SQLite counted when it ended.
    /// - Throws: ``DatabaseError``.
    package func endedOutcome() throws -> StatementOutcome {
        if handle.isBusy {
            var steps = StatementSteps(started: self)
            while try steps.advance() {}
            // A cursor that the program has kept would run the statement again.
            useCount &+= 1
        } else if outcome == nil {
            try execute()
        }
        return outcome ?? StatementOutcome(database)
    }
}
