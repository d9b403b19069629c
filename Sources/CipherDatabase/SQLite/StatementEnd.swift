import CSQLCipher

/// A condition that ends the statements of a connection, also in the middle of one.
final class StatementEnd {
    /// The instructions of SQLite's virtual machine between two checks: one can compute a value of a megabyte.
    fileprivate static let instructions: CInt = 1_000

    private let isReached: () -> Bool
    /// Whether it has ended a statement.
    private(set) var hasEnded = false

    init(_ isReached: @escaping () -> Bool) { self.isReached = isReached }

    fileprivate func check() -> Bool {
        if isReached() { hasEnded = true }
        return hasEnded
    }
}

extension ConnectionHandle {
    /// Ends statements with `SQLITE_INTERRUPT` once a condition is met; nil ends no statement. The caller keeps the condition
    /// until then.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/progress_handler.html>
    func endStatements(when end: StatementEnd?) {
        guard let end else { return sqlite3_progress_handler(pointer, 0, nil, nil) }
        sqlite3_progress_handler(
            pointer, StatementEnd.instructions,
            { context in
                guard let context else { return 0 }
                return Unmanaged<StatementEnd>.fromOpaque(context).takeUnretainedValue().check() ? 1 : 0
            }, Unmanaged.passUnretained(end).toOpaque())
    }
}

extension Database {
    /// Runs a block whose statements end once a condition is met: an index or a check of a large database is one statement.
    ///
    /// Inside another such block the outer condition alone counts.
    ///
    /// - Parameter isReached: Called often, on this thread.
    /// - Throws: `CancellationError` where the condition has ended a statement; what `body` throws.
    package func endingStatements<T>(when isReached: @escaping () -> Bool, _ body: () throws -> T) throws -> T {
        guard hooks.statementEnd == nil else { return try body() }
        let end = StatementEnd(isReached)
        hooks.statementEnd = end
        handle.endStatements(when: end)
        defer {
            handle.endStatements(when: nil)
            hooks.statementEnd = nil
        }
        do {
            return try body()
        } catch let error as DatabaseError where end.hasEnded && error.resultCode == .SQLITE_INTERRUPT {
            throw CancellationError()
        }
    }
}
