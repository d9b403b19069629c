/// An error of the history of changes. Errors compare by their ``code``:
///
/// ```swift
/// catch let error as HistoryError where error.code == .expired { ... }
/// ```
public struct HistoryError: Error, Sendable, Equatable {
    /// The kind of the error; the list is closed, so a `switch` over it can be complete.
    public enum Code: Hashable, Sendable {
        /// The database records no changes.
        case notRecorded
        /// The history has lost the changes after the token, or the token is of another history.
        case expired
        /// The changes of a table or view of this kind cannot be recorded.
        case unsuitableTable
        /// No column of the table has this name.
        case noSuchColumn
        /// No reader of this name is registered.
        case noSuchReader
        /// The text is no token.
        case invalidToken
        /// All tables are recorded, new ones too, so that a single one cannot be left out.
        case allTablesRecorded
    }

    /// The kind of the error.
    public let code: Code
    /// The event, its cause and the remedy.
    public let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    public static func == (left: HistoryError, right: HistoryError) -> Bool { left.code == right.code }
}

extension HistoryError: CustomStringConvertible {
    public var description: String { message }
}

extension HistoryError {
    static func unsuitable(
        _ table: String, because reason: String, instead: String = "Record the tables that it depends on."
    ) -> HistoryError {
        HistoryError(.unsuitableTable, "The changes of \"\(table)\" cannot be recorded: \(reason). \(instead)")
    }

    /// SQLite admits no wider table for the history itself.
    static func tooWide(_ table: String, keys: Int, kept: Int) -> HistoryError {
        HistoryError(
            .unsuitableTable,
            "The changes of \"\(table)\" cannot be recorded: the history needs \(keys) columns for keys and \(kept) for "
                + "kept values, and SQLite admits \(DatabaseLimits.tableColumns - DatabaseLimits.historyColumns) of them together. Give the "
                + "table a shorter primary key, or keep values of fewer columns.")
    }

    static let allTablesRecorded = HistoryError(
        .allTablesRecorded,
        "All tables of this database are recorded, new ones too: a single one cannot be left out. "
            + "Call stopRecordingHistory(of:) for all tables, and record the other tables by name.")

    package static let notRecorded = HistoryError(
        .notRecorded, "This database records no changes. Call recordHistory(of:) once to begin.")

    package static func expired(because reason: String) -> HistoryError {
        HistoryError(
            .expired, "The token has expired: \(reason). Fetch everything again, and take a new token with it.")
    }
}
