import CipherDatabase

/// A table of the program that the repository tracks.
struct TrackedTable: Sendable {
    /// As the program calls it.
    let name: String
    /// The identities of columns that were renamed. All others are named by the names that they have.
    var identities: [String: ColumnID]
    var counters: Set<String>
    var deletionsWin: Bool

    init(
        _ name: String, identities: [String: ColumnID] = [:], counters: Set<String> = [], deletionsWin: Bool = false
    ) {
        (self.name, self.identities, self.counters, self.deletionsWin) = (name, identities, counters, deletionsWin)
    }
}

extension Database {
    /// Whether the schema has a table or a view of this name.
    fileprivate func hasTableOrView(_ name: String) throws -> Bool {
        try Bool.fetchOne(
            self, sql: "SELECT EXISTS (SELECT 1 FROM pragma_table_list(?) WHERE schema = 'main')", arguments: [name])
            ?? false
    }
}

extension Work {
    /// - Throws: ``EngineError`` `.noSuchTable`, `.unsuitableTable`
    func track(_ table: TrackedTable) throws {
        guard let definition = try TableDefinition(named: table.name, in: db) else {
            throw EngineError(try db.hasTableOrView(table.name) ? .unsuitableTable : .noSuchTable, table.name)
        }
        let n = try catalog.number(of: Name(definition.name))
        let former = try catalog.table(n)
        try db.execute(sql: EngineTables.creation(of: n, isRowID: definition.isRowID))
        // Rows that are not plain may be shown otherwise, after foreign writes were found: the table has other columns or
        // constraints, or is there at last. Rows of other tables may refer to it.
        try db.execute(sql: "UPDATE \(EngineTables.table) SET adopting = adopting | 2")
        try db.cachedStatement(
            sql: """
                UPDATE \(EngineTables.table)
                SET local = ?, key = ?, definition = ?, deletions_win = max(deletions_win, ?) WHERE n = ?
                """
        )
        .execute(exact: [
            ExactValue(text: definition.name), ExactValue(text: TrackedKey(definition).text),
            ExactValue(text: definitionText(of: definition.name)), .integer(table.deletionsWin ? 1 : 0), .integer(n),
        ])
        for (place, column) in definition.columns.enumerated() where !definition.keyColumns.contains(place) {
            let number = try catalog.column(try table.identities[column.name] ?? newID(column.name, of: n), of: n)
            try db.cachedStatement(
                sql: """
                    UPDATE \(EngineTables.column) SET local = ?, counter = max(counter, ?), dropped = NULL WHERE n = ?
                    """
            )
            .execute(exact: [
                ExactValue(text: column.name), .integer(table.counters.contains(column.name) ? 1 : 0),
                .integer(number),
            ])
        }
        try recordHistory(of: definition.name)
        try catalog.read()
        try commitMadeAgain(than: former)
    }

    /// The program has made a table or columns again that it had dropped.
    private func commitMadeAgain(than former: BaseTable) throws {
        if former.dropped != nil { try commitDropped(false, former.n, columns: nil) }
        let present = try catalog.table(former.n).columns
        let columns = former.columns.values.filter { $0.dropped != nil && present[$0.n]?.place != nil }
        if !columns.isEmpty { try commitDropped(false, former.n, columns: Set(columns.map(\.n))) }
    }

    /// The definitions of a table and of its indexes, as the schema has them.
    func definitionText(of name: String) throws -> String {
        try String.fetchAll(
            db,
            sql: """
                SELECT sql FROM main.sqlite_schema
                WHERE tbl_name = ? COLLATE NOCASE AND type IN ('table', 'index') AND sql IS NOT NULL ORDER BY type, name
                """,
            arguments: [name]
        ).joined(separator: ";\n")
    }

    /// Begins the change history of a table, by which writes outside of commits are found.
    func recordHistory(of name: String) throws {
        if try db.recordedTables()?.contains(name.lowercased()) == true {
            try db.letCommitsWriteHistory(of: [name])
        } else {
            // The triggers of a table with generated columns that are noted do not pause in commits.
            let hasGenerated = try Bool.fetchOne(
                db, sql: "SELECT EXISTS (SELECT 1 FROM pragma_table_xinfo(?, 'main') WHERE hidden > 1)",
                arguments: [name])
            try db.startHistory(of: [name], notesColumns: hasGenerated == false, kept: [:], pausing: true)
        }
        // From here on entries of the table are seen (``ForeignWrites``).
        try db.cachedStatement(
            sql: "UPDATE \(EngineTables.state) SET history_name = ? WHERE history_name IS NULL"
        ).execute(exact: [db.historyState().map { ExactValue(text: $0.history) } ?? .null])
    }

    /// Begins the change history anew of tables whose recording somebody has ended: they are compared as a whole then.
    func recordLostHistory() throws {
        let recorded = try db.recordedTables() ?? []
        for table in catalog.tables.values.sorted(by: { $0.n < $1.n }) {
            guard let name = table.local?.name, !recorded.contains(name.lowercased()) else { continue }
            try recordHistory(of: name)
        }
    }

    /// The identity of the column that the program calls so. A name that was renamed away before begins another identity (F14).
    private func newID(_ name: String, of table: Int64) throws -> ColumnID {
        let tracked = try db.cachedStatement(
            sql: "SELECT name, reuse FROM \(EngineTables.column) WHERE tbl = ? AND local = ? COLLATE NOCASE"
        ).first([.integer(table), ExactValue(text: name)]) { row in
            ColumnID(Name(row.text(0)), reuse: UInt32(row.integer(1)))
        }
        if let tracked { return tracked }
        var (reuse, known) = (UInt32(0), ColumnID?.none)
        try db.cachedStatement(sql: "SELECT reuse, local FROM \(EngineTables.column) WHERE tbl = ? AND name = ?")
            .forEach([.integer(table), ExactValue(text: name)]) { row in
                if row.isNull(1) { known = ColumnID(Name(name), reuse: UInt32(row.integer(0))) }
                reuse = max(reuse, UInt32(row.integer(0)) + 1)
            }
        return known ?? ColumnID(Name(name), reuse: reuse)
    }

    /// The program has renamed a column: its identity stays.
    func rename(_ column: String, to name: String, of table: String) throws {
        guard let local = catalog.local(table) else { throw EngineError(.unsuitableTable, table) }
        try db.cachedStatement(
            sql: "UPDATE \(EngineTables.column) SET local = ? WHERE tbl = ? AND local = ? COLLATE NOCASE"
        ).execute(exact: [ExactValue(text: name), .integer(local.n), ExactValue(text: column)])
        try catalog.read()
    }

    /// Shows rows again that are not plain, of tables that have been tracked since, and rows of tables of which an
    /// expression has failed.
    func showTrackedTables() throws {
        for table in try takeRetries(.hiddenRows) {
            var keys: [RowKey] = []
            try db.cachedStatement(sql: "SELECT DISTINCT key FROM \(EngineTables.aside) WHERE tbl = ?")
                .forEach([.integer(table)]) { keys.append(RowKey(stored: $0.bytes(0))) }
            for key in keys { base.touch(RowPlace(table: table, key: key)) }
        }
        for table in try takeRetries(.deletedRows) {
            var keys: [RowKey] = []
            try db.cachedStatement(sql: "SELECT DISTINCT key FROM \(EngineTables.dead) WHERE tbl = ?")
                .forEach([.integer(table)]) { keys.append(RowKey(stored: $0.bytes(0))) }
            for place in keys.map({ RowPlace(table: table, key: $0) }) {
                guard let row = try base.tableRow(place) else { continue }
                base.noteStale(place, row)
                base.touch(place)
            }
        }
    }

    /// The tables with rows that are tried again.
    func retries(_ retry: Catalog.Retry) throws -> [Int64] {
        var tables: [Int64] = []
        try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.table) WHERE adopting & ? ORDER BY n")
            .forEach([.integer(retry.rawValue)]) { tables.append($0.integer(0)) }
        return tables
    }

    private func takeRetries(_ retry: Catalog.Retry) throws -> [Int64] {
        let (tables, bit) = (try retries(retry), ExactValue.integer(retry.rawValue))
        for table in tables {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.table) SET adopting = adopting & ~?1 WHERE n = ?2")
                .execute(exact: [bit, .integer(table)])
        }
        return tables
    }
}
