/// Writes the history of rows that are changed while its triggers do not fire.
package struct HistoryRecorder {
    private let table: RecordedTable
    private let statement: Statement

    fileprivate init(_ table: RecordedTable, _ db: Database) throws {
        self.table = table
        let definition = table.definition
        var names = ["kind", "origin", "columns"]
        names += definition.key.indices.map { "key\($0 + 1)" }
        names += definition.kept.indices.map { "old\($0 + 1)" }
        var values = [String](repeating: "?", count: names.count)
        values[1] = HistoryTriggers.stamp
        statement = try db.cachedStatement(
            sql: "INSERT INTO main.\(HistoryTables.history) (\(names.joined(separator: ", "))) "
                + "VALUES (\(values.joined(separator: ", ")))")
    }

    /// Records the change of a row.
    ///
    /// - Parameters:
    ///   - value: The value of a column: of the row that is deleted, or else of the new row.
    ///   - isChanged: Whether an update has changed a column.
    package func record(
        _ operation: HistoryOperation, value: (_ column: String) -> ExactValue, isChanged: (_ column: String) -> Bool
    ) throws {
        let definition = table.definition
        var values: [ExactValue] = [.integer(table.kind(operation)), .null]
        if operation == .updated, definition.notesColumns {
            var mask: Int64 = 0
            for (index, name) in definition.columns.enumerated() where isChanged(name) {
                mask |= 1 << Int64(min(index, HistoryTriggers.lastBit))
            }
            values[1] = .integer(mask)
        }
        values += definition.key.map(value)
        values += definition.kept.map { operation == .deleted ? value($0) : .null }
        try statement.execute(exact: values)
    }
}

extension Database {
    /// Writes the history of a table's rows; nil where it is not recorded.
    package func historyRecorder(of name: String) throws -> HistoryRecorder? {
        try withoutWatching {
            let table = try historyCatalog()?.recording.first { $0.name.lowercasedASCII == name.lowercasedASCII }
            return try table.map { try HistoryRecorder($0, self) }
        }
    }

    /// The tables that the changes after a number are of, by their names in lower case.
    ///
    /// - Returns: Those with changed rows, and those of which changes may be missing, as after a change of their
    ///   definition. Nil where it is not known: changes after the number were purged, or there is no history.
    package func tablesInHistory(
        after number: Int64
    ) throws -> (changed: Set<String>, uncertain: Set<String>)? {
        try withoutWatching {
            guard let catalog = try historyCatalog(), let state = try historyState(), number >= state.purged else {
                return nil
            }
            let kinds = try Int64.fetchAll(
                self, sql: "SELECT DISTINCT kind FROM main.\(HistoryTables.history) WHERE seq > ?",
                arguments: [number])
            var found: (changed: Set<String>, uncertain: Set<String>) = ([], [])
            for kind in kinds {
                guard let name = catalog.tables[kind >> 3]?.name.lowercasedASCII else { continue }
                if kind & 7 == HistoryOperation.reset.rawValue {
                    found.uncertain.insert(name)
                } else {
                    found.changed.insert(name)
                }
            }
            return found
        }
    }
}
