/// The tables in which a database keeps the history of its changes. Their names begin with the prefix of the library's
/// own objects, which lists and comparisons of schemas leave out.
///
/// - `cipherstore_history`: one row for each changed row, in the order of the changes. It has no declared types, so
///   values keep their storage class. `kind` is the number of the table's row in `cipherstore_history_table`, times 8,
///   plus the operation. `origin` is a ``HistoryStamp``, NULL for other writers. `columns` are the changed columns as a
///   bit mask. The key is in `key1`, `key2` and so on, kept values of deleted rows are in `old1`, `old2` and so on;
///   these columns are added when a table needs them.
/// - `cipherstore_history_table`: how tables were recorded, a new row for each change of a definition.
/// - `cipherstore_history_author`: who has written.
/// - `cipherstore_history_reader`: the registered readers and how far each has read.
/// - `cipherstore_history_state`: one row with the identity of the history and its settings.
enum HistoryTables {
    static let history = "cipherstore_history"
    static let table = "cipherstore_history_table"
    static let author = "cipherstore_history_author"
    static let reader = "cipherstore_history_reader"
    static let state = "cipherstore_history_state"

    /// All of them, each with a column that no other table has.
    static let all = [
        (history, "seq"), (table, "definition"), (author, "identity"), (reader, "expired"), (state, "settings"),
    ]

    static let creation = """
        CREATE TABLE main.\(history) (seq INTEGER PRIMARY KEY, kind, origin, columns, key1);
        CREATE TABLE main.\(table) (id INTEGER PRIMARY KEY, name, state, definition);
        CREATE TABLE main.\(author) (id INTEGER PRIMARY KEY, identity, label);
        CREATE TABLE main.\(reader) (name PRIMARY KEY, seq, print, open, time, expired) WITHOUT ROWID;
        CREATE TABLE main.\(state) (
            id INTEGER PRIMARY KEY CHECK (id = 1), history, purged, print, settings);
        """
}

/// The tables, and the triggers of the history, that are the library's own. Statements of a program do not write their
/// rows.
enum StoreTables {
    /// Whether a name is one of them: of the row that protects the sidecar, of the history, of a repository, or of the
    /// marks that VACUUM leaves.
    static func protects(_ name: String) -> Bool {
        let name = name.lowercasedASCII
        return [RollbackTable.name, HistoryTables.history, "cipherstore_vacuum"].contains(name)
            || name.hasPrefix(HistoryTables.history + "_") || isOfRepository(name)
    }

    /// Whether a table is one of a repository: `cipherstore_repository_` is the prefix of ChangesetSync.
    static func isOfRepository(_ name: String) -> Bool {
        ["cipherstore_sync_", "cipherstore_repository_"].contains(where: name.lowercasedASCII.hasPrefix)
    }
}

extension Database {
    /// Runs code of the library that writes rows of the history or of a repository: statements of the program are refused
    /// there.
    package func writingOwnRows<T>(_ body: () throws -> T) rethrows -> T { try setting(writesOwnRows: true, body) }

    /// Runs a block of the program inside ``writingOwnRows(_:)``.
    package func runningProgram<T>(_ body: () throws -> T) rethrows -> T { try setting(writesOwnRows: false, body) }

    private func setting<T>(writesOwnRows: Bool, _ body: () throws -> T) rethrows -> T {
        let outer = hooks.writesOwnRows
        hooks.writesOwnRows = writesOwnRows
        defer { hooks.writesOwnRows = outer }
        return try body()
    }

    /// Whether a table, index, view or trigger is the library's own, which lists leave out.
    package static func isStoreInternalObject(_ name: String) -> Bool { name.lowercasedASCII.hasPrefix("cipherstore_") }
}

/// The event of a row, by the numbers that the history contains.
package enum HistoryOperation: Int64, Sendable {
    case inserted = 1
    case updated = 2
    case deleted = 3
    /// A `REPLACE` may have deleted the row. If the row still exists, it was not changed.
    case perhapsDeleted = 4
    /// Changes of the table may be missing: it must be read again.
    case reset = 5
}
