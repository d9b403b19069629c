import CipherDatabase

/// The tables of the engine, in the main schema.
///
/// Commits have a small number `n` in this store, which is not the same in others. All other tables name commits by it.
///
/// | table | what it has |
/// |---|---|
/// | `author`, `commit` | commits that are joined, or that a stamp names; `line` and `branch` see ``CommitIndex`` |
/// | `inbox` | fetched commits that wait, each by the first commit that it needs and that is not joined |
/// | `body` | the bodies of long commits, joined or waiting (``LongBodies``) |
/// | `state`, `removed` | one row for the replica; the removed members |
/// | `table`, `column`, `shape` | names of tables and columns, and the sets of columns that an insertion wrote; `dropped` see ``DroppedValues``, `lost` see ``UnknownValues``, `noticed` and `gone` see ``DropNotice`` |
/// | `range_T`, `row_T`, or `key_T` | the stamps of plain rows (``PlainRows``), for each table T |
/// | `aside` | the rows that are not plain, whole, with the reason |
/// | `sum` | the sums of counters |
/// | `dead`, `known`, `grave` | tombstones, the vectors that they knew, and the rows as they died |
/// | `merge` | unions of commits (``HeadNames``); `remote` and `problem` have what is known of remotes (``RemoteRows``) |
/// | `link` | the values by which rows aside meet other rows (``Links``) |
enum EngineTables {
    static let prefix = "cipherstore_repository_"
    static let author = "main.\(prefix)author"
    static let commit = "main.\(prefix)commit"
    static let inbox = "main.\(prefix)inbox"
    static let body = "main.\(prefix)body"
    static let state = "main.\(prefix)state"
    static let removed = "main.\(prefix)removed"
    static let table = "main.\(prefix)table"
    static let column = "main.\(prefix)column"
    static let shape = "main.\(prefix)shape"
    static let aside = "main.\(prefix)aside"
    static let sum = "main.\(prefix)sum"
    static let dead = "main.\(prefix)dead"
    static let known = "main.\(prefix)known"
    static let grave = "main.\(prefix)grave"
    static let link = "main.\(prefix)link"

    static func range(_ table: Int64) -> String { "main.\(prefix)range_\(table)" }
    /// A table that gets another key may have both, one of them empty.
    static func row(_ table: Int64, isRowID: Bool) -> String { "main.\(prefix)\(isRowID ? "row" : "key")_\(table)" }

    static let creation = """
        CREATE TABLE \(author) (n INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE);
        CREATE TABLE \(commit) (
            n INTEGER PRIMARY KEY, author INTEGER NOT NULL, number INTEGER NOT NULL, hash BLOB NOT NULL,
            parent INTEGER, line INTEGER NOT NULL, branch INTEGER NOT NULL, time INTEGER NOT NULL, meta TEXT,
            context BLOB, body BLOB, signature BLOB, long INTEGER);
        CREATE INDEX \(commit)_number ON \(prefix)commit (author, number);
        CREATE TABLE \(inbox) (
            n INTEGER PRIMARY KEY, author BLOB NOT NULL, number INTEGER NOT NULL, hash BLOB NOT NULL,
            previous BLOB NOT NULL, time INTEGER NOT NULL, context BLOB NOT NULL, seen BLOB NOT NULL, lacked BLOB,
            lacked_number INTEGER, refused INTEGER NOT NULL DEFAULT 0, meta TEXT, signature BLOB, body BLOB NOT NULL,
            long INTEGER);
        CREATE TABLE \(body) (n INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
        CREATE INDEX \(inbox)_number ON \(prefix)inbox (author, number);
        CREATE INDEX \(inbox)_lacked ON \(prefix)inbox (lacked, lacked_number) WHERE lacked IS NOT NULL;
        CREATE INDEX \(inbox)_ready ON \(prefix)inbox (time, author, number, hash) WHERE lacked IS NULL AND refused = 0;
        CREATE TABLE \(state) (
            id INTEGER PRIMARY KEY CHECK (id = 1), repository BLOB NOT NULL, author INTEGER NOT NULL, tip INTEGER,
            former BLOB NOT NULL, time INTEGER NOT NULL, vector BLOB NOT NULL, ahead BLOB NOT NULL, head BLOB,
            branches INTEGER NOT NULL, catalog INTEGER NOT NULL DEFAULT 0, revision INTEGER NOT NULL DEFAULT 1,
            history INTEGER NOT NULL DEFAULT 0, history_name TEXT, file INTEGER,
            tidied INTEGER);
        CREATE TABLE \(removed) (author INTEGER PRIMARY KEY, known BLOB NOT NULL);
        CREATE TABLE \(table) (
            n INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, local TEXT, deletions_win INTEGER NOT NULL DEFAULT 0,
            ruled INTEGER, adopting INTEGER NOT NULL DEFAULT 0, definition TEXT,
            key TEXT, dropped INTEGER, noticed INTEGER, gone INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE \(column) (
            n INTEGER PRIMARY KEY, tbl INTEGER NOT NULL, name TEXT NOT NULL, reuse INTEGER NOT NULL, local TEXT,
            counter INTEGER NOT NULL DEFAULT 0, dropped INTEGER, lost INTEGER NOT NULL DEFAULT 0,
            noticed INTEGER, gone INTEGER NOT NULL DEFAULT 0, UNIQUE (tbl, name, reuse));
        CREATE TABLE \(shape) (n INTEGER PRIMARY KEY, columns BLOB NOT NULL UNIQUE);
        CREATE TABLE \(aside) (
            tbl INTEGER NOT NULL, key BLOB NOT NULL, incarnation INTEGER NOT NULL, reason INTEGER NOT NULL,
            row BLOB NOT NULL, PRIMARY KEY (tbl, key, incarnation)) WITHOUT ROWID;
        CREATE TABLE \(sum) (
            tbl INTEGER NOT NULL, key BLOB NOT NULL, incarnation INTEGER NOT NULL, col INTEGER NOT NULL,
            origin INTEGER NOT NULL, branch INTEGER NOT NULL, last INTEGER NOT NULL, total INTEGER NOT NULL,
            PRIMARY KEY (tbl, key, incarnation, col, origin, branch)) WITHOUT ROWID;
        CREATE TABLE \(dead) (
            tbl INTEGER NOT NULL, key BLOB NOT NULL, incarnation INTEGER NOT NULL, known INTEGER NOT NULL,
            since INTEGER NOT NULL, detail BLOB NOT NULL, PRIMARY KEY (tbl, key, incarnation)) WITHOUT ROWID;
        CREATE TABLE \(known) (n INTEGER PRIMARY KEY, vector BLOB NOT NULL UNIQUE);
        CREATE TABLE \(grave) (
            tbl INTEGER NOT NULL, key BLOB NOT NULL, incarnation INTEGER NOT NULL, own INTEGER NOT NULL,
            row BLOB, PRIMARY KEY (tbl, key, incarnation)) WITHOUT ROWID;
        CREATE TABLE \(link) (
            tbl INTEGER NOT NULL, kind INTEGER NOT NULL, form BLOB NOT NULL, of INTEGER NOT NULL, key BLOB NOT NULL,
            PRIMARY KEY (tbl, kind, form, of, key)) WITHOUT ROWID;
        CREATE INDEX \(link)_key ON \(prefix)link (of, key);
        \(exchangeCreation)
        \(recordCreation)
        """

    /// The tables for the stamps of one table.
    ///
    /// - Parameter isRowID: Whether its key is an integer that is the row id.
    static func creation(of table: Int64, isRowID: Bool) -> String {
        if isRowID {
            """
            CREATE TABLE IF NOT EXISTS \(range(table)) (
                lo INTEGER PRIMARY KEY, hi INTEGER NOT NULL, incarnation INTEGER NOT NULL, shape INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS \(row(table, isRowID: true)) (key INTEGER PRIMARY KEY, stamps BLOB NOT NULL);
            """
        } else {
            """
            CREATE TABLE IF NOT EXISTS \(row(table, isRowID: false)) (key BLOB PRIMARY KEY, stamps BLOB NOT NULL) WITHOUT ROWID;
            """
        }
    }
}
