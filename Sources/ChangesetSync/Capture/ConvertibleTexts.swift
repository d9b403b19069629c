import CipherDatabase

/// Refuses texts of a database in UTF-16 that commits cannot have. Inside a transaction.
///
/// Commits have texts in UTF-8. SQLite converts a text with half of a surrogate pair to another text: a store in UTF-8
/// would have other bytes, and the digests of both stores would be equal.
struct ConvertibleTexts {
    private let table: TrackedTable
    private let db: Database
    private let row: Statement

    /// - Returns: nil where the texts of the database are in UTF-8.
    init?(of table: TrackedTable, in db: Database) throws {
        guard try db.storesTextsInUTF16() else { return nil }
        (self.table, self.db) = (table, db)
        row = try db.cachedStatement(
            sql: "SELECT \(table.columnList) FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
    }

    /// Checks all rows of a table.
    ///
    /// - Throws: ``SyncError`` `.inexactText`
    static func requireAll(of table: TrackedTable, in db: Database) throws {
        try ConvertibleTexts(of: table, in: db)?.requireAll()
    }

    /// Checks a row that a commit has written.
    ///
    /// - Parameter present: Whether a row with the key was found. A key with such a text is not found.
    /// - Throws: ``SyncError`` `.inexactText`
    func require(_ key: RowKey, present: Bool) throws {
        guard present else {
            if key.values.contains(where: \.isText) { try requireAll() }
            return
        }
        try row.setExactArguments(key.exactValues)
        try require(row)
    }

    private func requireAll() throws {
        try require(db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)"))
    }

    private func require(_ statement: Statement) throws {
        let columns = table.columns.indices
        try statement.forEachLentRow { row in
            guard let column = columns.first(where: { !row.isExactInUTF8($0) }) else { return }
            throw SyncError(inexactTextIn: table, column: column)
        }
    }
}

extension DeltaValue {
    fileprivate var isText: Bool { if case .text = self { true } else { false } }
}

extension DeltaRecord {
    /// The first column with a text that a database in UTF-16 would store as another one; nil where there is none.
    var firstInexactText: Int? {
        for (column, value) in enumerated() {
            if case .text(let bytes) = value, !TextConversion.isExact(utf8: bytes) { return column }
        }
        return nil
    }
}

extension SyncError {
    init(inexactTextIn table: TrackedTable, column: Int) {
        self.init(.inexactText, table: table.name, "The column is \"\(table.columns[column].name)\".")
    }
}
