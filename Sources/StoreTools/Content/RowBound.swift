import CipherDatabase
import StorePlatform

/// Bounds the rows that are read from a database, and their values, by the length of its file.
///
/// Another person can make a file of six pages in which a page is a child of another one 400 times, and that one of a third
/// one: SQLite reads every way through the pages, without an error and for ever. So it does with one long value to which
/// many rows refer.
struct RowBound {
    /// The fewest bytes that a row takes: SQLite gives its cell four, and two for the pointer to it.
    /// - SeeAlso: <https://www.sqlite.org/fileformat2.html#b_tree_pages>
    private static let rowBytes = 6

    private var rows: Int
    private var bytes: Int

    /// The bound for all tables of a database together, in a transaction.
    ///
    /// - Throws: `DatabaseError`.
    init(_ db: Database) throws {
        let length = try Self.length(of: db)
        (rows, bytes) = (length / Self.rowBytes, Self.valueBytes(length))
    }

    /// The bytes of all pages.
    private static func length(of db: Database) throws -> Int {
        let pages = try Int.fetchOne(db, sql: "PRAGMA main.page_count") ?? 0
        return try pages * (Int.fetchOne(db, sql: "PRAGMA main.page_size") ?? 0)
    }

    /// The bytes that the values of a file of this length may have. A stored value takes its length, or less than twice it
    /// in another encoding. A column that was added later has its default value in each older row, where it takes nothing.
    private static func valueBytes(_ length: Int) -> Int {
        max(ToolLimits.smallContentBytes, length * ToolLimits.contentsInFile)
    }

    /// Bounds the pages of a copy, which has its values and what its definitions compute.
    ///
    /// - Parameter source: The database that is copied.
    /// - Throws: `DatabaseError`.
    static func limitPages(of copy: Database, by source: Database) throws {
        let bytes = try 2 * valueBytes(length(of: source))
        let pageBytes = try Int.fetchOne(copy, sql: "PRAGMA main.page_size") ?? 512
        try copy.execute(sql: "PRAGMA main.max_page_count = \(min(bytes / pageBytes, ToolLimits.databasePages))")
    }

    /// The error of a copy that has reached that bound.
    ///
    /// - Parameter folder: The folder of the copy.
    /// - Returns: Nil for another error, and on a full disk, which SQLite does not tell apart.
    static func fullCopy(_ error: DatabaseError, in folder: String) -> DatabaseError? {
        guard error.resultCode == .SQLITE_FULL, let free = try? Files.freeBytes(at: folder),
            free > ToolLimits.freeBytesOfFullCopy
        else { return nil }
        return tooMuchComputed
    }

    private static var tooMuchComputed: DatabaseError {
        damage(
            "its definitions compute values or indexes of more than \(2 * ToolLimits.contentsInFile) times the length of the file"
        )
    }

    /// Counts values that the definitions of a row compute.
    mutating func addComputed(_ row: LentRow) throws {
        bytes -= row.valueBytes
        if bytes < 0 { throw Self.tooMuchComputed }
    }

    /// Counts a row.
    ///
    /// - Throws: `DatabaseError` `SQLITE_CORRUPT` after more rows, or longer ones, than the file can have.
    mutating func next(_ row: LentRow) throws {
        rows -= 1
        if rows < 0 { throw Self.tooManyRows }
        try add(row)
    }

    /// Counts further columns of a row.
    mutating func add(_ row: LentRow) throws {
        bytes -= row.valueBytes
        if bytes < 0 {
            throw Self.damage(
                "the values of its rows have more than \(ToolLimits.contentsInFile) times the length of the file: rows refer to "
                    + "one value, or have a long default value")
        }
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
        if try Int.fetchOne(statement, arguments: [self.rows]) != nil { throw Self.tooManyRows }
    }

    private static var tooManyRows: DatabaseError {
        damage("its tables have more rows than its pages can hold: pages refer to each other")
    }

    private static func damage(_ message: String) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_CORRUPT, message: message)
    }
}
