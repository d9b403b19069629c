import CipherDatabase

/// The columns of which rows of the base have unknown values (``BaseRow/unknown``). Inside a transaction.
///
/// | the store | what it does with them |
/// |---|---|
/// | has such rows | fills a remote that lacks their commits by a snapshot that says so, and puts no other one |
/// | has the values | puts a whole snapshot beside such a one |
/// | receives a whole snapshot | joins it, though it has all of its commits: the values come |
///
/// Limit: a store has such rows if it has joined by a snapshot and then dropped the column or table. Its digest is another
/// one than that of a store that knows the values. If no store has them, write the cells anew.
struct UnknownValues {
    let db: Database

    struct Column: Hashable {
        let n: Int64
        let table: Int64
    }

    /// The columns that have been noted. Their values may be known by now.
    func columns() throws -> [Column] {
        var found: [Column] = []
        try db.cachedStatement(sql: "SELECT n, tbl FROM \(EngineTables.column) WHERE lost > 0 ORDER BY n").forEach([]) {
            found.append(Column(n: $0.integer(0), table: $0.integer(1)))
        }
        return found
    }

    func hasAny() throws -> Bool { try columns().contains(where: has) }

    /// Ends the notes of columns whose values are all known.
    func forgetKnown() throws {
        for column in try columns() where try !has(column) {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.column) SET lost = 0 WHERE n = ?")
                .execute(exact: [.integer(column.n)])
        }
    }

    /// Whether a row has an unknown value of a column.
    func has(_ column: Column) throws -> Bool {
        let statement = try db.cachedStatement(sql: "SELECT row FROM \(EngineTables.aside) WHERE tbl = ?")
        try statement.setExactArguments([.integer(column.table)])
        var found = false
        try statement.forEachLentRow { row in
            if !found { found = try BaseRow(EngineRow(row: row).bytes(0)).unknown[column.n] != nil }
        }
        return found
    }
}
