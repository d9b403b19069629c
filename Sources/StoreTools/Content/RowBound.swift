import CipherDatabase

/// Bounds the rows that are read from a database by the length of its file.
///
/// Another person can make a file of six pages in which a page is a child of another one 400 times, and that one of a third
/// one: SQLite reads every way through the pages, without an error and for ever.
struct RowBound {
    /// The fewest bytes that a row takes: SQLite gives its cell four, and two for the pointer to it.
    /// - SeeAlso: <https://www.sqlite.org/fileformat2.html#b_tree_pages>
    private static let rowBytes = 6

    private var left: Int

    /// The bound for all tables of a database together, in a transaction.
    ///
    /// - Throws: `DatabaseError`.
    init(_ db: Database) throws {
        let pages = try Int.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0
        let pageBytes = try Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0
        left = pages * pageBytes / Self.rowBytes
    }

    /// Counts a row.
    ///
    /// - Throws: `DatabaseError` `SQLITE_CORRUPT` after more rows than the file can have.
    mutating func next() throws {
        left -= 1
        if left < 0 { throw Self.damage }
    }

    /// Checks a table before its rows are sorted, in memory that grows with them.
    ///
    /// - Throws: `DatabaseError`, `SQLITE_CORRUPT` for more rows than the file can have.
    func require(_ table: TableShape, _ db: Database) throws {
        guard table.rowIDName == nil else { return }
        let rows = "SELECT 1 FROM main.\(table.name.quotedIdentifier)"
        // A table WITHOUT ROWID is an index itself, and SQLite refuses to read it by none. Nor does it read one whose key has
        // a collation that only the program has: its rows are counted as they come.
        let statements = ["NOT INDEXED ", ""].lazy.map { try? db.makeStatement(sql: "\(rows) \($0)LIMIT 1 OFFSET ?") }
        guard let statement = statements.compactMap(\.self).first else { return }
        if try Int.fetchOne(statement, arguments: [left]) != nil { throw Self.damage }
    }

    private static var damage: DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_CORRUPT,
            message: "its tables have more rows than its pages can hold: pages refer to each other")
    }
}
