/// Writes the history of a table's rows while its triggers do not: in a commit of a repository they pause, and in a pull
/// none fires.
package struct HistoryRecorder {
    private let table: RecordedTable
    private let statement: Statement

    fileprivate init(_ table: RecordedTable, _ db: Database) throws {
        self.table = table
        var names = ["kind", "origin", "columns"]
        names += table.definition.key.indices.map { "key\($0 + 1)" }
        names += table.definition.kept.indices.map { "old\($0 + 1)" }
        var values = [String](repeating: "?", count: names.count)
        values[1] = HistoryTriggers.stamp
        statement = try db.cachedStatement(
            sql: "INSERT INTO main.\(HistoryTables.history) (\(names.joined(separator: ", "))) "
                + "VALUES (\(values.joined(separator: ", ")))")
    }

    /// The number of the recording.
    var id: Int64 { table.id }
    /// The columns of the key, in its order.
    package var keyColumns: [String] { table.definition.key }
    /// The columns of which deletions keep the values.
    package var keptColumns: [String] { table.definition.kept }
    /// The columns of which updates note whether they have changed.
    package var notedColumns: [String] { table.definition.notesColumns ? table.definition.columns : [] }

    /// The changed columns of an update as bits, if that is recorded.
    func mask(_ operation: HistoryOperation, _ changed: [Int]) -> Int64? {
        guard operation == .updated, table.definition.notesColumns else { return nil }
        return changed.reduce(0) { $0 | 1 << Int64(min($1, HistoryTriggers.lastBit)) }
    }

    /// Records the change of a row.
    ///
    /// - Parameters:
    ///   - key: The values of the key's columns.
    ///   - kept: Of a deletion, the values that are kept.
    ///   - changed: Of an update, the places of the noted columns that have changed.
    func record(
        _ operation: HistoryOperation, key: [ExactValue], kept: [ExactValue] = [], changed: [Int] = []
    ) throws {
        var values: [ExactValue] = [.integer(table.kind(operation)), .null]
        if let mask = mask(operation, changed) { values[1] = .integer(mask) }
        values += key
        if operation == .deleted { values += kept } else { values += keptColumns.map { _ in .null } }
        try statement.execute(exact: values)
    }
}

extension Database {
    /// Writes the history of a table's rows; nil where it is not recorded.
    package func historyRecorder(of name: String) throws -> HistoryRecorder? {
        try withoutWatching { try recording(of: name).map { try HistoryRecorder($0, self) } }
    }

    private func recording(of name: String) throws -> RecordedTable? {
        try historyCatalog()?.byName[name.lowercasedASCII]
    }

    // MARK: Tables of a repository

    /// Makes the triggers of tables pause in commits, where an earlier version of this library has made them.
    package func letCommitsWriteHistory(of names: [String]) throws {
        let recorded = try withoutWatching { try names.compactMap(recording) }
        let older = recorded.filter { !$0.definition.pausesInCommits }
        if older.isEmpty { return }
        try changingHistory { try HistoryUpkeep(self, followsOwnStatement: true).pauseInCommits(older) }
    }

    /// Begins a commit, which writes the history of its tables itself: their triggers pause until it ends.
    ///
    /// - Parameter isTracked: Whether a commit knows the changes of a table.
    /// - Returns: The tables whose triggers pause: the numbers of their recordings by their names in lower case. None does
    ///   where one of them would be recorded by nobody.
    package func pauseHistory(where isTracked: (_ name: String) -> Bool) throws -> [String: Int64] {
        let tables = try historyCatalog()?.pausing ?? [:]
        // The triggers of an attached database may pause as well.
        guard !tables.isEmpty, tables.keys.allSatisfy(isTracked), !handle.hasAttachedDatabases else { return [:] }
        beginHistoryStamping()
        hooks.history.isPaused = true
        return tables
    }

    /// Lets the triggers record again.
    package func resumeHistory() { hooks.history.isPaused = false }

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
