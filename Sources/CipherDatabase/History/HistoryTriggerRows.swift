/// Enters and removes very many triggers as rows of `sqlite_schema`, and lets SQLite read the schema once after that.
///
/// `CREATE TRIGGER` and `DROP TRIGGER` each scan the whole of `sqlite_schema`, which has no index and does not fit into
/// the page cache of a database with thousands of triggers. The time for all triggers is quadratic.
///
/// | state | what a kill leaves |
/// |---|---|
/// | before the commit | the former triggers: rows and schema version belong to one transaction |
/// | after the commit | the new triggers; each connection reads the schema again, since its version has changed |
///
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_writable_schema>
struct HistoryTriggerRows {
    /// A trigger of the main database.
    struct New {
        let name: String
        /// The table as the schema names it.
        let table: String
        /// The text after `CREATE TRIGGER`, without a name of the schema.
        let definition: String
    }

    let db: Database

    /// Creates triggers. Inside a transaction.
    ///
    /// - Throws: ``DatabaseError`` of the first that `CREATE TRIGGER` would refuse.
    func create(_ triggers: [New]) throws {
        guard triggers.count >= Limits.triggerRows else {
            for trigger in triggers { try db.execute(sql: "CREATE TRIGGER main." + trigger.definition) }
            return
        }
        // Compiling refuses what SQLite could not read again, and scans nothing.
        for trigger in triggers { _ = try db.makeStatement(sql: "CREATE TRIGGER main." + trigger.definition) }
        try write(
            "INSERT INTO main.sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('trigger', ?, ?, 0, ?)",
            triggers.map { [$0.name, $0.table, "CREATE TRIGGER " + $0.definition] })
    }

    /// Drops triggers; those that are missing are ignored. Inside a transaction.
    func drop(_ names: [String]) throws {
        guard names.count >= Limits.triggerRows else {
            for name in names {
                try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(name.quotedDatabaseIdentifier)")
            }
            return
        }
        var places: [String: Int64] = [:]
        let rows = try Row.fetchAll(db, sql: "SELECT name, rowid FROM main.sqlite_schema WHERE type = 'trigger'")
        for row in rows { places[row[0]] = row[1] }
        try write(
            "DELETE FROM main.sqlite_schema WHERE rowid = ? AND type = 'trigger'",
            names.compactMap { name in places[name].map { [$0] } })
    }

    /// Runs a statement that changes rows of the schema, once for each row of arguments, and reads the schema again.
    private func write(_ sql: String, _ rows: [StatementArguments]) throws {
        let version = try db.schemaVersion()
        try db.execute(sql: "PRAGMA writable_schema = ON")
        do {
            let statement = try db.makeStatement(sql: sql)
            for arguments in rows { try statement.execute(arguments: arguments) }
            // Other connections compare this number.
            try db.execute(sql: "PRAGMA main.schema_version = \(version &+ 1)")
        } catch {
            // Without it, the connection would let statements of the program write the schema.
            _ = db.evenWhenInterrupted { try db.execute(sql: "PRAGMA writable_schema = RESET") }
            db.clearSchemaCache()
            throw error
        }
        try db.execute(sql: "PRAGMA writable_schema = RESET")
        db.clearSchemaCache()
    }
}
