import CipherDatabase
import CipherStore

/// Writes the content of a database as SQL text, from which `sqlite3` makes an equal database.
///
/// The order is that of `sqlite3`'s `.dump`: tables with their rows, then indexes, views and triggers. Rows come in the
/// order of their row ids, or of their primary keys in tables without row ids, so that the dumps of equal contents are
/// equal. Row ids that are no column are kept where the database has virtual tables, which may refer to them.
/// The library's own tables, and the triggers of the history, are left out. The order is that of the bytes where only the
/// program can compare the keys.
/// - SeeAlso: <https://www.sqlite.org/cli.html#converting_an_entire_database_to_a_text_file>
package struct SQLDump {
    /// The tables to write, with their indexes and triggers, by their names in lower case; nil for everything.
    private let tables: Set<String>?
    /// Whether texts that would control a terminal are written as their bytes.
    package var escapesControls = false

    /// - Parameter tables: Names of tables and views, of which the case does not count; empty for everything.
    package init(tables: [String] = []) {
        self.tables = tables.isEmpty ? nil : Set(tables.map { $0.lowercased() })
    }

    /// The names among those given that are neither tables nor views.
    package func missingTables(_ db: Database) throws -> [String] {
        guard let tables else { return [] }
        let known = try SchemaEntry.all(db).filter { ["table", "view"].contains($0.type) && !$0.isLeftOut }
        return tables.subtracting(known.map { $0.name.lowercased() }).sorted()
    }

    /// Writes everything that `db` shows: call it inside a transaction, so that all tables are of one moment.
    ///
    /// - Parameter write: Receives the text in pieces; an error of it ends the dump.
    /// - Returns: The number of rows.
    /// - Throws: `DatabaseError`, or the error of `write`.
    @discardableResult
    package func run(_ db: Database, write: (String) throws -> Void) throws -> Int {
        let schema = try SchemaEntry.all(db).filter { entry in
            !entry.isLeftOut
                && (tables.map { $0.contains(entry.name.lowercased()) || $0.contains(entry.table.lowercased()) } ?? true)
        }
        let virtual = schema.filter { $0.type == "table" && !$0.hasPages }
        try write("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n")
        var rows = 0
        for table in schema where table.isStoredTable && !table.isSequence && !table.isStatistics {
            try write(Self.definition(table))
            rows += try self.rows(of: table.name, in: db, keepsRowIDs: !virtual.isEmpty, write: write)
        }
        try writeVirtual(virtual, write)
        if let sequence = try Self.sequence(db) {
            rows += try writeSequence(sequence, db, write)
        }
        for type in ["index", "view", "trigger"] {
            for entry in schema where entry.type == type && entry.sql != nil { try write(Self.definition(entry)) }
        }
        rows += try writeStatistics(schema, db, write)
        if tables == nil {
            for pragma in ["user_version", "application_id"] {
                let value = try Int64.fetchOne(db, sql: "PRAGMA main.\(pragma)") ?? 0
                if value != 0 { try write("PRAGMA \(pragma)=\(value);\n") }
            }
        }
        try write("COMMIT;\n")
        return rows
    }

    /// A definition as it is stored. A comment at its end must not hide the semicolon.
    private static func definition(_ entry: SchemaEntry) -> String {
        guard let sql = entry.sql else { return "" }
        let last = sql.split(separator: "\n", omittingEmptySubsequences: false).last ?? ""
        return sql + (last.contains("--") ? "\n;\n" : ";\n")
    }

    /// Virtual tables are entered into the schema as text, because creating one would make its shadow tables again.
    private func writeVirtual(_ tables: [SchemaEntry], _ write: (String) throws -> Void) throws {
        guard !tables.isEmpty else { return }
        try write("PRAGMA writable_schema=ON;\n")
        for table in tables {
            let name = SQLLiteral.text(table.name.databaseValue)
            let sql = SQLLiteral.text((table.sql ?? "").databaseValue)
            try write(
                "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',\(name),\(name),0,\(sql));\n"
            )
        }
        try write("PRAGMA writable_schema=RESET;\n")
    }

    private func rows(
        of table: String, in db: Database, keepsRowIDs: Bool, where condition: String = "",
        write: (String) throws -> Void
    ) throws -> Int {
        let shape = try TableShape(table, in: db)
        // SQLite reads a table WITHOUT ROWID by its key, and refuses that without the collation of the key.
        let missing = shape.rowIDName == nil ? try MissingParts(of: db, table: table).collations : []
        return try StandInCollations.with(missing, on: db) {
            try rows(
                of: shape, in: db, keepsRowIDs: keepsRowIDs, where: condition, isBinary: !missing.isEmpty, write: write)
        }
    }

    /// - Parameter isBinary: Whether a collation of the key is missing: keys are compared by their bytes.
    private func rows(
        of shape: TableShape, in db: Database, keepsRowIDs: Bool, where condition: String, isBinary: Bool,
        write: (String) throws -> Void
    ) throws -> Int {
        let table = shape.name.quotedIdentifier
        let rowID = keepsRowIDs && shape.rowIDColumn == nil ? shape.rowIDName : nil
        let names = (rowID.map { [$0] } ?? []) + shape.givenColumns.map(\.quotedIdentifier)
        let isWhole = rowID == nil && shape.givenColumns == shape.columns
        let start = "INSERT INTO \(table)" + (isWhole ? "" : "(\(names.joined(separator: ",")))")
        let select = "SELECT \(names.joined(separator: ", ")) FROM main.\(table) \(condition)"
        let ordering = isBinary ? shape.binaryOrdering : shape.ordering
        let cursor = try Row.fetchCursor(db.makeStatement(sql: "\(select) \(ordering)"))
        var count = 0
        while let row = try cursor.next() {
            let values = (0..<row.count).map { SQLLiteral.text(of: row, at: $0, escapesControls: escapesControls) }
            try write("\(start) VALUES(\(values.joined(separator: ",")));\n")
            count += 1
        }
        return count
    }

    /// The table of the greatest row ids.
    private static func sequence(_ db: Database) throws -> SchemaEntry? {
        try SchemaEntry.all(db).first(where: \.isSequence)
    }

    private func writeSequence(
        _ sequence: SchemaEntry, _ db: Database, _ write: (String) throws -> Void
    ) throws -> Int {
        guard let tables else {
            try write("DELETE FROM sqlite_sequence;\n")
            return try rows(of: sequence.name, in: db, keepsRowIDs: false, where: Self.contentOnly, write: write)
        }
        let list = tables.sorted().map { SQLLiteral.text($0.databaseValue) }.joined(separator: ", ")
        let condition = "WHERE lower(name) IN (\(list))"
        // The inserted rows have made these rows, if the tables have any.
        try write("DELETE FROM sqlite_sequence \(condition);\n")
        return try rows(of: sequence.name, in: db, keepsRowIDs: false, where: condition, write: write)
    }

    private static let contentOnly = "WHERE \(SchemaEntry.contentOnly("name"))"

    private func writeStatistics(
        _ schema: [SchemaEntry], _ db: Database, _ write: (String) throws -> Void
    ) throws -> Int {
        let statistics = schema.filter { $0.isStoredTable && $0.name.lowercased() == "sqlite_stat1" }
        guard tables == nil, let table = statistics.first else { return 0 }
        // Makes the table, which no statement may create.
        try write("ANALYZE sqlite_schema;\n")
        return try rows(
            of: table.name, in: db, keepsRowIDs: false,
            where: "WHERE \(SchemaEntry.contentOnly("tbl"))", write: write)
    }
}

extension SchemaEntry {
    fileprivate var isSequence: Bool { type == "table" && name == "sqlite_sequence" }
    fileprivate var isLeftOut: Bool { isOfLibrary || isOfRepository }

    /// The condition for names of tables that a dump has, in a column.
    fileprivate static func contentOnly(_ column: String) -> String {
        let beginnings = (libraryPrefixes + repositoryPrefixes).map { prefix in
            "substr(lower(\(column)), 1, \(prefix.count)) <> '\(prefix)'"
        }
        let names = libraryNames.map { "'\($0)'" }.joined(separator: ", ")
        return (["lower(\(column)) NOT IN (\(names))"] + beginnings).joined(separator: " AND ")
    }
}
