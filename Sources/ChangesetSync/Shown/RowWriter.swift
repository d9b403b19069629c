import CipherDatabase

/// Writes rows of the program's tables, while neither triggers of the main schema nor foreign keys act, and the words of
/// these rows in full-text tables that follow them (``FullTextFollower``).
final class RowWriter {
    private let db: Database
    /// The statements that insert rows, by table.
    private var insertions: [String: Statement] = [:]

    init(_ db: Database) { self.db = db }

    func insert(_ values: [CellValue], into table: TableDefinition) throws {
        for follower in table.followers { try follower.requireTokenizer() }
        try insertion(into: table).execute(exact: values.map(\.exact))
        if !table.followers.isEmpty { try addWords(.integer(db.lastInsertedRowID), to: table.followers) }
    }

    private func insertion(into table: TableDefinition) throws -> Statement {
        if let known = insertions[table.name] { return known }
        let places = table.columns.map { _ in "?" }.joined(separator: ", ")
        let sql = "INSERT OR ABORT INTO \(table.qualifiedName) (\(table.columnList)) VALUES (\(places))"
        let statement = try db.cachedStatement(sql: sql)
        insertions[table.name] = statement
        return statement
    }

    func update(_ key: RowKey, _ changes: [(column: Int, value: CellValue)], in table: TableDefinition) throws {
        let settings = changes.map { "\(table.quoted($0.column)) = ?" }.joined(separator: ", ")
        let numbered = table.keyCondition(after: changes.count)
        let sql = "UPDATE OR ABORT \(table.qualifiedName) SET \(settings) WHERE \(numbered)"
        let followers = table.followers.isEmpty ? [] : table.followers(ofColumns: changes.map(\.column))
        try following(key, of: table, followers) {
            try db.cachedStatement(sql: sql).execute(exact: changes.map(\.value.exact) + key.values.map(\.exact))
        }
    }

    func delete(_ key: RowKey, from table: TableDefinition) throws {
        try following(key, of: table, table.followers) {
            try db.cachedStatement(sql: "DELETE FROM \(table.qualifiedName) WHERE \(table.keyCondition())")
                .execute(exact: key.values.map(\.exact))
        }
    }

    // MARK: Full-text tables

    /// Updates or deletes a row, and its words in full-text tables.
    private func following(
        _ key: RowKey, of table: TableDefinition, _ followers: [FullTextFollower], _ write: () throws -> Void
    ) throws {
        if followers.isEmpty { return try write() }
        for follower in followers { try follower.requireTokenizer() }
        var id: ExactValue?
        var misfits: Set<String> = []
        for follower in followers {
            guard let row = try follower.row(key, of: table, db) else { break }
            id = row[0]
            if try !follower.remove(row, db) { misfits.insert(follower.name) }
        }
        do {
            try write()
        } catch let error as DatabaseError {
            // Any other error than a refusal ends the transaction, with the removal of the words.
            _ = try Self.reason(error)
            if let id { try addWords(id, to: followers, misfits) }
            throw error
        }
        if let id { try addWords(id, to: followers, misfits) }
    }

    /// Adds the words of a row, if it is there.
    ///
    /// - Parameter misfits: The names of full-text tables that lacked words of the row: they are made again.
    private func addWords(
        _ id: ExactValue, to followers: [FullTextFollower], _ misfits: Set<String> = []
    ) throws {
        for follower in followers {
            if try misfits.contains(follower.name) || !follower.add(id, db) { try follower.rebuild(db) }
        }
    }

    /// Whether the table takes a row by itself; otherwise the reason. SQLite decides: it looks for equal keys last.
    func refusal(of values: [CellValue], by table: TableDefinition) throws -> HiddenReason? {
        var reason: HiddenReason?
        try db.inSavepoint {
            do {
                for follower in table.followers { try follower.requireTokenizer() }
                try insertion(into: table).execute(exact: values.map(\.exact))
            } catch let error as DatabaseError {
                reason = try Self.reason(error)
            }
            return .rollback
        }
        return reason
    }

    /// - Returns: nil if another row has the key or a unique value.
    /// - Throws: The error, if it is none of the row.
    static func reason(_ error: DatabaseError) throws -> HiddenReason? {
        switch error.extendedResultCode {
        case .SQLITE_CONSTRAINT_NOTNULL: return .notNull
        case .SQLITE_CONSTRAINT_CHECK: return .check
        case .SQLITE_CONSTRAINT_UNIQUE, .SQLITE_CONSTRAINT_PRIMARYKEY, .SQLITE_CONSTRAINT_ROWID: return nil
        case .SQLITE_CONSTRAINT_DATATYPE: return .type
        default:
            switch error.resultCode {
            case .SQLITE_MISMATCH, .SQLITE_TOOBIG: return .type
            case .SQLITE_CONSTRAINT: return .check
            case .SQLITE_ERROR: return .expression
            default: throw error
            }
        }
    }

    /// The keys of rows that have values in columns.
    func keys(
        of table: TableDefinition, having values: [CellValue], in columns: [Int], _ comparison: KeyComparison?
    ) throws -> [RowKey] {
        try keys(of: table, having: values, in: columns.map(table.quoted), comparison, [])
    }

    /// The keys of rows that have values in a unique key.
    func keys(
        of table: TableDefinition, having values: [CellValue], in key: TableDefinition.UniqueKey
    ) throws -> [RowKey] {
        try keys(
            of: table, having: values, in: key.terms.map { "(\($0))" }, key.comparison,
            key.condition.map { ["(\($0))"] } ?? [])
    }

    private func keys(
        of table: TableDefinition, having values: [CellValue], in terms: [String], _ comparison: KeyComparison?,
        _ conditions: [String]
    ) throws -> [RowKey] {
        let equalities = terms.enumerated().map { place, term in
            let collation = comparison.map { " COLLATE " + $0.parts[place].collation.quotedDatabaseIdentifier } ?? ""
            return "\(term)\(collation) = ?"
        }
        let terms = equalities + conditions
        let key = table.keyColumns.map(table.quoted).joined(separator: ", ")
        let sql = "SELECT \(key) FROM \(table.qualifiedName) WHERE \(terms.joinedAsExpression(by: " AND "))"
        var found: [RowKey] = []
        try db.cachedStatement(sql: sql).forEach(values.map(\.exact)) { row in
            found.append(RowKey(table.keyColumns.indices.map { row.value($0) }))
        }
        return found
    }
}
