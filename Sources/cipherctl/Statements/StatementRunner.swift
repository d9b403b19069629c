import CipherStore
import StorePlatform

/// Runs the statements of a script one after the other and prints their rows: for `sql` and for the shell.
final class StatementRunner {
    let console: Console
    let isWriting: Bool
    /// Nil for a store that is only read.
    let stops: StoppedStatements?
    var format: ResultFormat
    var parameters: SQLParameters
    /// Called for each row; an error ends the statement.
    var check: () throws -> Void = {}
    /// Whether a statement has changed the store outside of an open transaction.
    private(set) var hasCommitted = false
    /// How many rows the statements have inserted, changed or deleted; nil while none of them was to do so.
    private(set) var affectedRows: Int?

    init(
        _ console: Console, _ format: ResultFormat, stops: StoppedStatements?,
        parameters: SQLParameters
    ) {
        self.console = console
        self.format = format
        self.stops = stops
        isWriting = stops != nil
        self.parameters = parameters
    }

    /// Runs a piece of a script.
    ///
    /// - Parameters:
    ///   - isScript: Whether the script has several lines, which errors name.
    ///   - file: The path of the script; nil for standard input and for an argument.
    /// - Throws: ``StatementFailure``; `DatabaseError` for an interruption and for a write that is not allowed;
    ///   `SystemError` if rows cannot be printed; the error of ``check``.
    func run(_ piece: SQLPiece, on db: Database, isScript: Bool, file: String? = nil) throws {
        var position = 0
        do {
            try db.forEachStatement(in: piece.text, willCompile: { position = $0 }) { statement in
                try parameters.bind(to: statement)
                try runOne(statement, on: db)
            }
        } catch let error as DatabaseError where !error.isInterruptionError && error.resultCode != .SQLITE_READONLY {
            throw StatementFailure(error, at: position, in: piece, isScript: isScript, file: file)
        }
    }

    private func runOne(_ statement: Statement, on db: Database) throws {
        var hasPrinted = false
        let step = {
            try self.printRows(of: statement) { hasPrinted = true }
            // If rows cannot be printed, no further statement changes the store.
            if self.isWriting { try self.console.output.flush() }
        }
        // SQLite makes all changes of a statement before it returns the first row.
        defer { if !statement.isReadonly && !db.isInsideTransaction { hasCommitted = true } }
        let changesBefore = db.totalChangesCount
        if let stops { try stops.survive(on: db, isRepeatable: { !hasPrinted }, step) } else { try step() }
        if !statement.isReadonly, Self.changesRows(statement.sql) {
            // SQLite keeps the number of the last statement that changed rows.
            let count = db.totalChangesCount == changesBefore ? 0 : db.changesCount
            affectedRows = (affectedRows ?? 0) + count
        }
    }

    /// Forgets the rows that were counted.
    func resetAffectedRows() { affectedRows = nil }

    private static func changesRows(_ sql: String) -> Bool {
        let word = sql.droppingLeadingComments().prefix { $0.isLetter }.lowercased()
        return ["insert", "update", "delete", "replace", "with"].contains(word)
    }

    private func printRows(of statement: Statement, willPrint: () -> Void) throws {
        if statement.columnCount == 0 { return try statement.execute(arguments: nil) }
        var writer = format.makeWriter()
        let rows = try Row.fetchCursor(statement)
        var row = try rows.next()
        willPrint()
        try writer.begin(statement.columnNames, to: console.output)
        while let current = row {
            try writer.add(ResultValue.all(of: current), to: console.output)
            try check()
            row = try rows.next()
        }
        try writer.end(to: console.output)
    }
}
