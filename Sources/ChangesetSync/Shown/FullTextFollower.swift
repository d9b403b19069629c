import CipherDatabase

/// A full-text table that follows a table of the program, by `synchronize(withTable:)`.
///
/// Its triggers do not fire while a join writes rows. So ``RowWriter`` writes its words too, in the same transaction:
///
/// | write | before it | after it |
/// |---|---|---|
/// | insertion | | the words are added |
/// | update | the former words are removed | the present words are added |
/// | deletion | the former words are removed | |
/// | update or deletion that SQLite refuses | the former words are removed | they are added again |
///
/// FTS5 and FTS4 collect the words of many rows in memory. A savepoint ends that, and SQLite begins one for
/// `INSERT ... SELECT`. So each statement here has the values of one row, and a row costs as little as in a rebuild.
struct FullTextFollower: Sendable {
    let name: String
    /// The columns on which the words depend, in lower case; nil for all, because of a generated column.
    private let relevant: Set<String>?
    /// nil if this program lacks the tokenizer.
    private let statements: Statements?

    fileprivate struct Statements: Sendable {
        /// Reads the rowid and the texts of rows; a condition follows.
        let reading: String
        /// The name of the content's rowid.
        let rowID: String
        let addition: String
        let removal: String
        /// Whether the removal has the texts as parameters. FTS4 reads them from the content.
        let removesByTexts: Bool
        /// Removes the note that a trigger has made of a row (`DisplacedRows`).
        let forgetting: String
        let rebuilding: String
    }

    /// The full-text tables of the main database that follow a table, unless the program has dropped their triggers.
    static func all(of table: String, in db: Database) throws -> [FullTextFollower] {
        let content = table.lowercased()
        let indexes = try FullTextIndex.all(db).filter { index in
            guard case .table(let name) = index.content else { return false }
            return name.lowercased() == content
        }
        guard !indexes.isEmpty, let rowID = try db.rowIDName(of: table) else { return [] }
        let names = try Set(
            String.fetchAll(
                db,
                sql: """
                    SELECT name FROM main.sqlite_schema
                    WHERE type = 'table' OR type = 'trigger' AND tbl_name = ? COLLATE NOCASE
                    """, arguments: [table]))
        return try indexes.compactMap { index in
            let isFollowing =
                names.contains("__\(index.name)_ai") && names.contains("cipherstore_displaced_\(index.name)")
            return isFollowing ? try FullTextFollower(index, of: table, rowID: rowID, in: db) : nil
        }
    }

    /// - Returns: nil if the content lacks a column of the index, so that SQLite cannot read the texts.
    private init?(_ index: FullTextIndex, of table: String, rowID: String, in db: Database) throws {
        name = index.name
        guard let columns = try Self.columns(of: index, in: db) else {
            (relevant, statements) = (nil, nil)
            return
        }
        let content = try Row.fetchAll(
            db, sql: "SELECT name, hidden FROM pragma_table_xinfo(?, 'main')", arguments: [table])
        let known = Set(content.map { ($0[0] as String).lowercased() })
        let generated = Set(content.filter { $0[1] as Int != 0 }.map { ($0[0] as String).lowercased() })
        let used = Set(columns.map { $0.lowercased() })
        guard used.isSubset(of: known) else { return nil }
        relevant = used.isDisjoint(with: generated) ? used : nil
        statements = Statements(index, of: table, rowID: rowID, columns)
    }

    /// The columns that take their values from the content; nil if this program lacks the tokenizer.
    private static func columns(of index: FullTextIndex, in db: Database) throws -> [String]? {
        let rows: [Row]
        do {
            rows = try Row.fetchAll(
                db, sql: "SELECT name, hidden FROM pragma_table_xinfo(?, 'main')", arguments: [index.name])
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            return nil
        }
        // Hidden: the columns of the module itself, and that of the language of FTS4.
        let own = [index.name.lowercased(), "rank", "docid", "__langid"]
        return rows.filter { $0[1] as Int == 0 || !own.contains(($0[0] as String).lowercased()) }.map { $0[0] }
    }

    /// Whether the words may depend on one of these columns.
    func follows(_ columns: [String]) -> Bool {
        relevant.map { relevant in columns.contains { relevant.contains($0.lowercased()) } } ?? true
    }

    /// - Throws: `DatabaseError` `.SQLITE_ERROR` if this program lacks the tokenizer: such a row waits, as one whose
    ///   expressions fail.
    func requireTokenizer() throws {
        if statements != nil { return }
        throw DatabaseError(
            resultCode: .SQLITE_ERROR,
            message:
                "this program lacks the tokenizer of the full-text table \(name). Open the store in a program that "
                + "has it")
    }

    // MARK: Words

    /// The rowid and the texts of a row.
    typealias Texts = [ExactValue]

    /// The row with a key.
    func row(_ key: RowKey, of table: TableDefinition, _ db: Database) throws -> Texts? {
        try row(where: table.keyCondition(), key.values.map(\.exact), db)
    }

    private func row(where condition: String, _ values: [ExactValue], _ db: Database) throws -> Texts? {
        guard let statements else { return nil }
        let statement = try db.cachedStatement(sql: statements.reading + condition)
        let count = statement.columnCount
        return try statement.first(values) { row in (0..<count).map { row.value($0).exact } }
    }

    /// Removes the words of a row that the table still has.
    ///
    /// - Returns: Whether the index had them. If it did not, it has to be made again.
    func remove(_ row: Texts, _ db: Database) throws -> Bool {
        guard let statements else { return true }
        try db.cachedStatement(sql: statements.forgetting).execute(exact: Array(row.prefix(1)))
        return try run(statements.removal, statements.removesByTexts ? row : Array(row.prefix(1)), db)
    }

    /// Adds the words of a row, if the table has it.
    ///
    /// - Returns: Whether it could. If it could not, the index has to be made again.
    func add(_ id: ExactValue, _ db: Database) throws -> Bool {
        guard let statements, let row = try row(where: "\(statements.rowID) = ?1", [id], db) else { return true }
        return try run(statements.addition, row, db)
    }

    /// Makes the index again, from all rows.
    func rebuild(_ db: Database) throws {
        guard let statements else { return }
        if try !run(statements.rebuilding, [], db) { throw failure(.SQLITE_CORRUPT, "it is damaged") }
    }

    /// - Returns: Whether the index has fitted.
    private func run(_ sql: String, _ values: [ExactValue], _ db: Database) throws -> Bool {
        do {
            try db.cachedStatement(sql: sql).execute(exact: values)
            return true
        } catch let error as DatabaseError {
            if error.extendedResultCode == .SQLITE_CORRUPT_VTAB { return false }
            switch error.resultCode {
            // These would be taken for refusals of the row, which is written.
            case .SQLITE_ERROR, .SQLITE_CONSTRAINT, .SQLITE_MISMATCH, .SQLITE_TOOBIG:
                throw failure(.SQLITE_INTERNAL, error.message ?? "SQLite gave no reason")
            default: throw error
            }
        }
    }

    private func failure(_ code: ResultCode, _ reason: String) -> DatabaseError {
        DatabaseError(
            resultCode: code,
            message: "the full-text table \(name) cannot follow the rows of a join: \(reason). Drop the table and its "
                + "triggers, or make it again")
    }
}

extension FullTextFollower.Statements {
    init(_ index: FullTextIndex, of table: String, rowID: String, _ columns: [String]) {
        let isFTS5 = index.module == .fts5
        let name = index.name.quotedDatabaseIdentifier
        let texts = columns.map(\.quotedDatabaseIdentifier)
        let list = ([isFTS5 ? "rowid" : "docid"] + texts).joined(separator: ", ")
        let places = Array(repeating: "?", count: columns.count + 1).joined(separator: ", ")
        self.rowID = rowID.quotedDatabaseIdentifier
        let read = ([self.rowID] + texts).joined(separator: ", ")
        reading = "SELECT \(read) FROM main.\(table.quotedDatabaseIdentifier) WHERE "
        addition = "INSERT INTO main.\(name) (\(list)) VALUES (\(places))"
        removal =
            isFTS5
            ? "INSERT INTO main.\(name) (\(name), \(list)) VALUES ('delete', \(places))"
            : "DELETE FROM main.\(name) WHERE docid = ?"
        removesByTexts = isFTS5
        forgetting = "DELETE FROM main.\(DisplacedRows.noteTable(of: index.name)) WHERE id = ?"
        rebuilding = "INSERT INTO main.\(name) (\(name)) VALUES ('rebuild')"
    }
}
