import CipherDatabase

/// Which tables are recorded.
public enum HistoryScope: Sendable {
    /// These tables.
    case tables([String])
    /// All tables, those that are created later too. Tables that cannot be recorded, as those of full-text indexes, are
    /// left out.
    case allTables
}

extension Database {
    /// Records the changes of tables from now on, in the transaction of each change. Triggers in the database record
    /// them, so writers without this library record too. A commit of a repository records the changes of its tables
    /// itself.
    ///
    /// ```swift
    /// migrator.registerMigration("history") { db in
    ///     try db.recordHistory(of: .tables(["player", "photo"]), keeping: ["photo": ["file"]])
    /// }
    /// ```
    ///
    /// The recording stays with the tables until ``stopRecordingHistory(of:)``, also when they are renamed, changed, or
    /// dropped and created again. Tables that are recorded already stay as they are, unless what is recorded changes.
    ///
    /// A row is known by its primary key, and by its rowid in a table without one. `VACUUM` may give such rows other
    /// rowids: declare a key.
    ///
    /// - Parameters:
    ///   - scope: The tables.
    ///   - columns: Whether updates record which columns have changed.
    ///   - values: The columns of which a deletion keeps the values, by table: the key of a parent, the name of a file
    ///     to be removed.
    /// - Throws: `HistoryError` `.unsuitableTable` for a view, a virtual table and an internal one,
    ///   `.noSuchColumn`; `DatabaseError` for a missing table. Nothing is changed then.
    public func recordHistory(
        of scope: HistoryScope, columns: Bool = false, keeping values: [String: [String]] = [:]
    ) throws {
        try startHistory(of: scope.tables, notesColumns: columns, kept: values)
    }

    /// Ends the recording of tables. Changes that were recorded stay in the history.
    ///
    /// - Parameter scope: The tables; those that are not recorded are ignored.
    /// - Throws: `HistoryError` `.allTablesRecorded` for single tables where all are recorded; `DatabaseError`.
    public func stopRecordingHistory(of scope: HistoryScope) throws { try stopHistory(of: scope.tables) }
}

extension DatabaseWriter {
    /// Begins to record the changes of tables, as `Database.recordHistory(of:columns:keeping:)` does, in
    /// several transactions of up to 500 tables: other writers do not wait until all of them are recorded.
    ///
    /// If the process ends meanwhile, some of the tables are recorded and others are not. The same call then continues with
    /// the remaining tables.
    ///
    /// - Throws: As that function. Earlier transactions stay.
    public func recordHistory(
        of scope: HistoryScope, columns: Bool = false, keeping values: [String: [String]] = [:]
    ) throws {
        try run(HistoryParts(beginning: HistoryRequest(tables: scope.tables, notesColumns: columns, kept: values)))
    }

    /// Ends the recording of tables in several transactions of up to 500 tables. Changes that were recorded stay in the
    /// history. If the process ends meanwhile, the same call continues with the remaining tables.
    ///
    /// - Throws: As `Database.stopRecordingHistory(of:)`. Earlier transactions stay.
    public func stopRecordingHistory(of scope: HistoryScope) throws {
        try run(HistoryParts(ending: scope.tables))
    }

    /// Begins to record the changes of tables in several transactions, and drops nothing of what is recorded of them
    /// already.
    ///
    /// - Returns: Of all tables, those whose triggers do not work in this program, each with a sentence that says why.
    package func addToHistory(
        _ scope: HistoryScope, columns: Bool, keeping values: [String: [String]]
    ) throws -> [String: String] {
        let parts = HistoryParts(
            beginning: HistoryRequest(tables: scope.tables, notesColumns: columns, kept: values, keepingFormer: true))
        try run(parts)
        return parts.leftOut
    }

    private func run(_ parts: HistoryParts) throws {
        while try !writeWithoutTransaction({ try parts.next($0) }) {}
    }
}

extension HistoryScope {
    fileprivate var tables: [String]? {
        switch self {
        case .tables(let names): names
        case .allTables: nil
        }
    }
}
