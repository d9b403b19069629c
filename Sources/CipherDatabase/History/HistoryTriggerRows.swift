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
        /// Whether the text has nothing but quoted names and the library's own SQL.
        let isPlain: Bool
    }

    let db: Database

    /// Creates triggers. Inside a transaction; the connection compiles no other statement in it that names a table, or
    /// SQLite reads the whole schema again while other writers wait.
    ///
    /// - Returns: Whether there were so few that `CREATE TRIGGER` has made them.
    /// - Throws: ``DatabaseError`` of the first that `CREATE TRIGGER` would refuse.
    func create(_ triggers: [New]) throws -> Bool {
        guard triggers.count >= DatabaseLimits.triggerRows else {
            for trigger in triggers { try db.execute(sql: "CREATE TRIGGER main." + trigger.definition) }
            return true
        }
        // Compiling refuses what SQLite could not read again, and scans nothing. The others it can read: only their names
        // may be taken.
        for trigger in triggers where !trigger.isPlain {
            _ = try db.makeStatement(sql: "CREATE TRIGGER main." + trigger.definition)
        }
        try requireFreeNames(triggers.map(\.name))
        try write(
            "INSERT INTO main.sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES ('trigger', ?, ?, 0, ?)",
            triggers.map { [$0.name, $0.table, "CREATE TRIGGER " + $0.definition] })
        return false
    }

    /// - Throws: ``DatabaseError``, as `CREATE TRIGGER` does, where a program has made a trigger of such a name.
    private func requireFreeNames(_ names: [String]) throws {
        let numbers = names.compactMap { HistoryTriggerPlaces.tableNumber(ofTrigger: $0) }
        let present = try String.fetchAll(
            db,
            sql: """
                SELECT name FROM main.sqlite_schema
                WHERE type = 'trigger' AND CAST(substr(name, ?) AS INTEGER) >= ?
                """, arguments: [HistoryTables.history.count + 2, numbers.min() ?? 0])
        if present.isEmpty { return }
        let taken = Set(present.map(\.lowercasedASCII))
        if let name = names.first(where: { taken.contains($0.lowercasedASCII) }) {
            throw DatabaseError(message: "trigger \(name.quotedDatabaseIdentifier) already exists")
        }
    }

    /// Drops triggers. Inside a transaction, as ``create(_:)``.
    func drop(_ triggers: [(name: String, place: Int64)]) throws {
        guard triggers.count >= DatabaseLimits.triggerRows else {
            for (name, _) in triggers {
                try db.execute(sql: "DROP TRIGGER IF EXISTS main.\(name.quotedDatabaseIdentifier)")
            }
            return
        }
        try write(
            "DELETE FROM main.sqlite_schema WHERE rowid = ? AND type = 'trigger'", triggers.map { [$0.place] })
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

/// The rows of the schema in which the triggers of recorded tables are. They stay there as long as the schema is the same.
struct HistoryTriggerPlaces {
    private var byTable: [Int64: [(name: String, place: Int64)]] = [:]

    init(_ db: Database) throws {
        let rows = try Row.fetchAll(
            db, sql: "SELECT name, rowid FROM main.sqlite_schema WHERE type = 'trigger' ORDER BY rowid")
        for row in rows {
            let name: String = row[0]
            guard let id = Self.tableNumber(ofTrigger: name) else { continue }
            byTable[id, default: []].append((name, row[1]))
        }
    }

    /// The triggers of recordings.
    func triggers(of numbers: [Int64]) -> [(name: String, place: Int64)] { numbers.flatMap { byTable[$0] ?? [] } }

    /// The number of the recording that a trigger belongs to; nil for a trigger of the program.
    static func tableNumber(ofTrigger name: String) -> Int64? {
        let prefix = HistoryTables.history + "_"
        guard name.hasPrefix(prefix) else { return nil }
        let parts = name.dropFirst(prefix.count).split(separator: "_", maxSplits: 1)
        return parts.count == 2 ? Int64(parts[0]) : nil
    }
}
