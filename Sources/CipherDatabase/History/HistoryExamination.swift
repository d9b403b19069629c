// What tools report of a history. They only read.

/// A recorded table whose changes are no longer recorded as they should be.
package struct HistoryTriggerFault: Equatable, Sendable {
    package let tableName: String
    /// Whether there is no table of this name any more.
    package var isTableMissing = false
    /// Triggers that are not there, and triggers that have another definition; without the library's prefix.
    package var missing: [String] = []
    package var changed: [String] = []

    package init(tableName: String) { self.tableName = tableName }

    package var isEmpty: Bool { !isTableMissing && missing.isEmpty && changed.isEmpty }
}

extension Database {
    /// The tables whose changes are recorded, by name; nil where there is no history.
    package func recordedTableNames() throws -> [String]? { try historyCatalog()?.recording.map(\.name).sorted() }

    /// Whether tables that are created later are recorded, too.
    package func recordsAllTables() throws -> Bool { try historyState()?.settings.recordsAllTables == true }

    /// How many changes the history has, and about how many bytes they take.
    package func historySize() throws -> (changes: Int64, bytes: Int64) {
        try withoutWatching {
            let row = try Row.fetchOne(
                self,
                sql: """
                    SELECT (SELECT min(seq) FROM main.\(HistoryTables.history)),
                        (SELECT max(seq) FROM main.\(HistoryTables.history))
                    """)
            guard let row, let first = row[0] as Int64?, let last = row[1] as Int64? else { return (0, 0) }
            let count = last - first + 1
            return (count, Int64(Double(count) * (try bytesPerChange(first, last))))
        }
    }

    /// The recorded tables whose triggers another program has dropped or changed.
    package func historyTriggerFaults() throws -> [HistoryTriggerFault] {
        try withoutWatching {
            guard let catalog = try historyCatalog() else { return [] }
            let rows = try Row.fetchAll(self, sql: "SELECT name, sql FROM main.sqlite_schema WHERE type = 'trigger'")
            let present: [String: String] = Dictionary(
                rows.map { ($0[0], ($0[1] as String?) ?? "") }, uniquingKeysWith: { first, _ in first })
            return try catalog.recording.map { try fault(of: $0, present) }.filter { !$0.isEmpty }
        }
    }

    private func fault(of table: RecordedTable, _ present: [String: String]) throws -> HistoryTriggerFault {
        var fault = HistoryTriggerFault(tableName: table.name)
        // A table that can no longer be recorded has no facts either.
        guard try tableExists(table.name, in: "main"), let facts = try? TableFacts(of: table.name, in: self) else {
            fault.isTableMissing = true
            return fault
        }
        let former = table.definition
        let definition = HistoryUpkeep.definition(facts, notesColumns: former.notesColumns, kept: former.kept)
        for trigger in HistoryTriggers(id: table.id, facts: facts, definition: definition).all {
            let name = String(trigger.name.dropFirst(table.triggerPrefix.count))
            guard let sql = present[trigger.name] else {
                fault.missing.append(name)
                continue
            }
            // SQLite stores the text without the name of the schema.
            if sql != "CREATE TRIGGER " + trigger.definition { fault.changed.append(name) }
        }
        return fault
    }
}
