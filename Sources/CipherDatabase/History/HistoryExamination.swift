// The report of tools about a history. They only read.

/// A recorded table whose changes are no longer recorded as they should be.
package struct HistoryTriggerFault: Equatable, Sendable {
    package let tableName: String
    /// Whether there is no table of this name now.
    package var isTableMissing = false
    /// Triggers that are not there, and triggers that have another definition; without the library's prefix.
    package var missing: [String] = []
    package var changed: [String] = []

    init(tableName: String) { self.tableName = tableName }

    var isEmpty: Bool { !isTableMissing && missing.isEmpty && changed.isEmpty }
}

extension Database {
    /// Whether tables that are created later are recorded, too.
    package func recordsAllTables() throws -> Bool { try historyState()?.settings.recordsAllTables == true }

    /// Whether another program has dropped tables of the history, but not all that needs them.
    package func isHistoryBroken() throws -> Bool {
        try withoutWatching {
            let missing = try missingHistoryTables()
            if missing.isEmpty { return false }
            return try missing.count < HistoryTables.all.count || hasHistoryTriggers()
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
        let definition = HistoryUpkeep.definition(facts, like: former)
        for (name, sql) in HistoryUpkeep.expectedTriggers(table.id, facts, definition).sorted(by: { $0.key < $1.key }) {
            let short = String(name.dropFirst(table.triggerPrefix.count))
            if let found = present[name] {
                if found != sql { fault.changed.append(short) }
            } else {
                fault.missing.append(short)
            }
        }
        return fault
    }
}
