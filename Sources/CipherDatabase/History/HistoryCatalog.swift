import Foundation

/// What a database records, by its tables of the history. It changes only together with the schema.
struct HistoryCatalog: Sendable {
    /// Whether the database has a history; it may record no table yet.
    var exists = false
    /// How tables are and were recorded, by number.
    var tables: [Int64: RecordedTable] = [:]
    /// How many columns the history has for keys, and for kept values.
    var keyColumns = 1
    var keptColumns = 0
    /// The beginning of a query of changes, up to its condition.
    var selection = ""
    /// The query of changes from a number on.
    var continuation = ""

    /// The tables whose triggers record.
    var recording: [RecordedTable] { tables.values.filter { $0.state == .recording }.sorted { $0.id < $1.id } }
    /// Those that are recorded, or would be if they existed.
    var active: [RecordedTable] { tables.values.filter { $0.state != .retired }.sorted { $0.id < $1.id } }
}

/// What is to be recorded beyond the tables that are named one by one, and how much is kept.
package struct HistorySettings: Codable, Equatable, Sendable {
    /// Whether all tables are recorded, those that are created later too.
    package var recordsAllTables = false
    /// For tables that join: whether the changed columns are recorded.
    package var notesColumns = false
    /// For tables that join: the columns of which deletions keep the values, by the name of the table.
    package var kept: [String: [String]] = [:]
    /// The most changes that are kept for readers.
    package var maximumCount: Int64 = 1_000_000
    /// The most bytes that the kept changes take, about.
    package var maximumBytes: Int64 = 256 << 20
    /// How long changes are kept, in seconds.
    package var maximumSeconds: Double = 30 * 86_400

    func kept(of table: String) -> [String] {
        kept.first { $0.key.lowercasedASCII == table.lowercasedASCII }?.value ?? []
    }
}

/// The identity of a history, and what was purged of it.
package struct HistoryState: Equatable, Sendable {
    /// A random text that no other history has.
    package let history: String
    /// The last change that was purged; 0 where none was.
    package let purged: Int64
    /// The fingerprint of that change.
    package let print: Int64
    package var settings: HistorySettings
}

extension Database {
    /// Whether the database has the tables of the history, by the schema as SQLite last read it.
    var mayHaveHistory: Bool { handle.hasTable(HistoryTables.table, column: "definition") }

    /// What is recorded; nil where there is no history.
    func historyCatalog() throws -> HistoryCatalog? {
        try withoutWatching {
            try compareSchema()
            if let known = schemaCache.history { return known.exists ? known : nil }
            let read = try tableExists(HistoryTables.table, in: "main") ? readHistoryCatalog() : HistoryCatalog()
            schemaCache.history = read
            return read.exists ? read : nil
        }
    }

    private func readHistoryCatalog() throws -> HistoryCatalog {
        var catalog = HistoryCatalog(exists: true)
        let rows = try Row.fetchAll(self, sql: "SELECT id, name, state, definition FROM main.\(HistoryTables.table)")
        for row in rows {
            let id: Int64 = row[0]
            let (stored, text): (Int64, String) = (row[2], row[3])
            guard let state = RecordedTable.State(rawValue: stored),
                let definition = try? JSONDecoder().decode(RecordedTable.Definition.self, from: Data(text.utf8))
            else { throw Self.damagedHistory("row \(id) of \(HistoryTables.table)") }
            catalog.tables[id] = RecordedTable(id: id, name: row[1], state: state, definition: definition)
        }
        let names = try columns(in: HistoryTables.history, in: "main").map(\.name)
        catalog.keyColumns = names.count { $0.hasPrefix("key") }
        catalog.keptColumns = names.count { $0.hasPrefix("old") }
        var selected = ["seq", "kind", "origin", "columns"]
        selected += (1...max(1, catalog.keyColumns)).map { "key\($0)" }
        selected += (1...(catalog.keptColumns + 1)).dropLast().map { "old\($0)" }
        catalog.selection = "SELECT \(selected.joined(separator: ", ")) FROM main.\(HistoryTables.history) "
        catalog.continuation = catalog.selection + "WHERE seq >= ? ORDER BY seq LIMIT ?"
        return catalog
    }

    static func damagedHistory(_ part: String) -> DatabaseError {
        DatabaseError(
            resultCode: .SQLITE_CORRUPT, message: "the history of changes is damaged: \(part) has no valid content")
    }

    /// The identity and the settings of the history; nil where there is none.
    package func historyState() throws -> HistoryState? {
        try withoutWatching {
            guard try tableExists(HistoryTables.state, in: "main") else { return nil }
            let row = try Row.fetchOne(
                self, sql: "SELECT history, purged, print, settings FROM main.\(HistoryTables.state) WHERE id = 1")
            guard let row else { return nil }
            let text: String = row[3]
            guard let settings = try? JSONDecoder().decode(HistorySettings.self, from: Data(text.utf8)) else {
                throw Self.damagedHistory(HistoryTables.state)
            }
            return HistoryState(history: row[0], purged: row[1], print: row[2], settings: settings)
        }
    }

    /// The tables whose changes are recorded, by their names in lower case; nil where there is no history.
    ///
    /// It is kept as long as the schema is the same.
    package func recordedTables() throws -> Set<String>? {
        try historyCatalog().map { Set($0.recording.map(\.name.lowercasedASCII)) }
    }
}
