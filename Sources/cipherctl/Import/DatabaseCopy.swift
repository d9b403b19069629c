import CipherStore

/// Copies the whole content of one database into an empty one, row by row, as it is stored.
///
/// SQLCipher's own `sqlcipher_export` gives rows of tables without an integer primary key new row ids, which breaks
/// external-content full-text indexes, and needs the source attached to a connection that may write to it. This copy
/// reads through a connection that cannot, keeps row ids, and can be interrupted.
struct DatabaseCopy {
    let source: Database
    let target: Database
    /// Told after each row; an error ends the copy.
    let progress: (_ table: String) throws -> Void

    /// Both connections are inside a transaction; the target's schema may be written (`writable_schema`).
    ///
    /// - Returns: How many rows were copied.
    /// - Throws: `DatabaseError`, or the error of `progress`.
    func run() throws -> Int {
        let schema = try SchemaEntry.all(source)
        let tables = schema.filter { $0.isStoredTable }
        for table in tables where table.name != Self.sequenceTable { try create(table) }
        try createSequenceTableIfLeftBehind(tables)
        var rows = 0
        for table in tables where table.name != Self.sequenceTable { rows += try copyRows(of: table) }
        if let sequence = tables.first(where: { $0.name == Self.sequenceTable }) {
            // Filled by the rows above; what counts is what the source has, names of dropped tables included.
            try target.execute(sql: "DELETE FROM main.\(Self.sequenceTable)")
            rows += try copyRows(of: sequence)
        }
        for index in schema where index.type == "index" { try create(index) }
        try enterWithoutPages(schema)
        for pragma in ["user_version", "application_id"] {
            let value = try Int64.fetchOne(source, sql: "PRAGMA main.\(pragma)") ?? 0
            try target.execute(sql: "PRAGMA main.\(pragma) = \(value)")
        }
        return rows
    }

    private static let sequenceTable = "sqlite_sequence"

    // Compiled as one statement: a schema that was tampered with cannot bring in another.
    private func create(_ entry: SchemaEntry) throws {
        // Indexes without SQL belong to a UNIQUE or PRIMARY KEY and come with their table.
        guard let sql = entry.sql else { return }
        try target.makeStatement(sql: sql).execute()
    }

    /// SQLite makes the table with the first AUTOINCREMENT; the source may have dropped the last of those.
    private func createSequenceTableIfLeftBehind(_ tables: [SchemaEntry]) throws {
        guard tables.contains(where: { $0.name == Self.sequenceTable }),
            try !SchemaEntry.all(target).contains(where: { $0.name == Self.sequenceTable })
        else { return }
        try target.execute(sql: "CREATE TABLE main.\(Self.sequenceTable)(name,seq)")
    }

    private func copyRows(of table: SchemaEntry) throws -> Int {
        let shape = try TableShape(table.name, in: source)
        let rows = try source.makeStatement(sql: shape.select(shape.givenColumns))
        return try target.makeStatement(sql: shape.insert).insertRows(of: rows) { try progress(table.name) }
    }

    /// Views, triggers and virtual tables are nothing but their text; running it would make a virtual table's shadow
    /// tables a second time. Triggers come last, since they need what they belong to.
    private func enterWithoutPages(_ schema: [SchemaEntry]) throws {
        let entries = schema.filter { !$0.hasPages }
        for entry in entries.filter({ $0.type != "trigger" }) + entries.filter({ $0.type == "trigger" }) {
            try target.execute(
                sql: "INSERT INTO main.sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES (?, ?, ?, 0, ?)",
                arguments: [entry.type, entry.name, entry.table, entry.sql])
        }
    }
}
