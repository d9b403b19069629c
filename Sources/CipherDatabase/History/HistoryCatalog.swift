import Foundation

/// The recorded changes of a database, by its tables of the history. It changes only together with the schema.
struct HistoryCatalog: Sendable {
    /// Whether the database has a history; it may record no table yet.
    var exists = false
    /// How tables are and were recorded, by number.
    var tables: [Int64: RecordedTable] = [:]
    /// How many columns the history has for keys, and for kept values.
    var keyColumns = 1
    var keptColumns = 0
    /// Those whose triggers record, by their names in lower case.
    var byName: [String: RecordedTable] = [:]
    /// The numbers of those whose triggers pause in commits, by their names in lower case.
    var pausing: [String: Int64] = [:]
    /// The beginning of a query of changes, up to its condition.
    var selection = ""
    /// The query of changes from a number on.
    var continuation = ""

    /// The tables whose triggers record.
    var recording: [RecordedTable] { tables.values.filter { $0.state == .recording }.sorted { $0.id < $1.id } }
    /// Those that are recorded, or would be if they existed.
    var active: [RecordedTable] { tables.values.filter { $0.state != .retired }.sorted { $0.id < $1.id } }
}

/// The recording beyond the tables that are named one by one, and its limits.
package struct HistorySettings: Codable, Equatable, Sendable {
    /// Whether all tables are recorded, those that are created later too.
    package var recordsAllTables = false
    /// For tables that join: whether the changed columns are recorded.
    var notesColumns = false
    /// For tables that join: the columns of which deletions keep the values, by the name of the table.
    var kept: [String: [String]] = [:]
    /// The most changes that are kept for readers.
    package var maximumCount: Int64 = 1_000_000
    /// The most bytes that the kept changes take, about.
    package var maximumBytes: Int64 = 256 << 20
    /// How long changes are kept, in seconds.
    package var maximumSeconds: Double = 30 * 86_400

    func kept(of table: String) -> [String] { Self.kept(of: table, in: kept) }

    /// The columns that are given for a table, under its name in whatever case.
    static func kept(of table: String, in kept: [String: [String]]) -> [String] {
        kept.filter { $0.key.lowercasedASCII == table.lowercasedASCII }.sorted { $0.key < $1.key }.flatMap(\.value)
    }

    /// The columns of two choices, each once: SQLite tells neither tables nor columns apart by their case.
    static func union(_ first: [String: [String]], _ second: [String: [String]]) -> [String: [String]] {
        var union = first
        for (table, columns) in second {
            let key = union.keys.first { $0.lowercasedASCII == table.lowercasedASCII } ?? table
            var names = Set(union[key, default: []].map(\.lowercasedASCII))
            union[key, default: []] += columns.filter { names.insert($0.lowercasedASCII).inserted }
        }
        return union
    }

    /// The same with limits that can be calculated with: a program may have given, or a store may contain, any number.
    func withinRange() -> HistorySettings {
        var settings = self
        settings.maximumCount = max(0, maximumCount)
        settings.maximumBytes = max(0, maximumBytes)
        settings.maximumSeconds =
            maximumSeconds < DatabaseLimits.longestHistoryAge
            ? max(0, maximumSeconds) : DatabaseLimits.longestHistoryAge
        return settings
    }
}

/// The identity of a history, and what was purged of it.
package struct HistoryState: Equatable, Sendable {
    /// A random text that no other history has.
    package let history: String
    /// The last change that was purged; 0 where none was.
    package let purged: Int64
    /// The fingerprint of that change.
    package let fingerprint: Int64
    package var settings: HistorySettings
}

extension HistoryCatalog {
    /// Whether the history has the columns that a definition needs.
    fileprivate func hasColumns(for definition: RecordedTable.Definition) -> Bool {
        definition.key.count <= keyColumns && definition.kept.count <= keptColumns
    }
}

extension RecordedTable {
    /// - Parameter row: Number, name, state and definition.
    /// - Returns: Nil for a row without valid content.
    fileprivate init?(_ row: Row) {
        guard let id = Int64.fromDatabaseValue(row[0]), Self.numbers.contains(id),
            let name = String.fromDatabaseValue(row[1]),
            let state = Int64.fromDatabaseValue(row[2]).flatMap(State.init(rawValue:)),
            let text = String.fromDatabaseValue(row[3]),
            let definition = try? JSONDecoder().decode(Definition.self, from: Data(text.utf8)), definition.isValid
        else { return nil }
        self.init(id: id, name: name, state: state, definition: definition)
    }
}

extension RecordedTable.Definition {
    /// Whether it is one of a table: with a key, and with columns for all that it names.
    fileprivate var isValid: Bool {
        if isRowID { return key.count == 1 && kept.allSatisfy(columns.contains) }
        return !key.isEmpty && (key + kept).allSatisfy(columns.contains)
    }
}

extension Database {
    /// Whether the database has a table of the history, by the schema as SQLite last read it.
    var mayHaveHistory: Bool { HistoryTables.all.contains { handle.hasTable($0.0, column: $0.1) } }

    /// The tables of the history that the database does not have. If it has some, another program has dropped these.
    func missingHistoryTables() throws -> [String] {
        try HistoryTables.all.map(\.0).filter { try !tableExists($0, in: "main") }
    }

    /// - Throws: ``DatabaseError`` `SQLITE_CORRUPT` where tables of the history are missing.
    private func requireWholeHistory(missing: [String]) throws {
        if missing.isEmpty { return }
        throw DatabaseError(
            resultCode: .SQLITE_CORRUPT,
            message: "the history of changes has lost \(missing.joined(separator: ", ")): another program has dropped "
                + "that. Open the database for writing: that makes a new, empty history")
    }

    /// The recorded tables; nil if there is no history.
    func historyCatalog() throws -> HistoryCatalog? {
        try withoutWatching {
            while true {
                try compareSchema()
                if let known = schemaCache.history { return known.exists ? known : nil }
                let generation = schemaCache.generation
                let outcome = Result {
                    let missing = try missingHistoryTables()
                    if missing.count == HistoryTables.all.count { return HistoryCatalog() }
                    try requireWholeHistory(missing: missing)
                    return try readHistoryCatalog()
                }
                // If another connection has changed the schema meanwhile, this may be half of each.
                try compareSchema()
                if schemaCache.generation != generation { continue }
                let read = try outcome.get()
                schemaCache.history = read
                return read.exists ? read : nil
            }
        }
    }

    private func readHistoryCatalog() throws -> HistoryCatalog {
        var catalog = HistoryCatalog(exists: true)
        let names = Set(try columns(in: HistoryTables.history, in: "main").map(\.name))
        func count(_ prefix: String) -> Int {
            var count = 0
            while names.contains("\(prefix)\(count + 1)") { count += 1 }
            return count
        }
        (catalog.keyColumns, catalog.keptColumns) = (count("key"), count("old"))
        for table in try recordedTableRows() {
            guard let table, catalog.hasColumns(for: table.definition) else {
                throw Self.damagedHistory("a row of \(HistoryTables.table)")
            }
            catalog.tables[table.id] = table
        }
        for table in catalog.recording where catalog.byName[table.name.lowercasedASCII] == nil {
            catalog.byName[table.name.lowercasedASCII] = table
        }
        let pausing = try pausingTriggers()
        catalog.pausing = catalog.byName.filter {
            $1.definition.pausesInCommits && pausing.contains($1.triggerPrefix + "insert")
        }.mapValues(\.id)
        var selected = ["seq", "kind", "origin", "columns"]
        selected += (1...max(1, catalog.keyColumns)).map { "key\($0)" }
        selected += (1...(catalog.keptColumns + 1)).dropLast().map { "old\($0)" }
        catalog.selection = "SELECT \(selected.joined(separator: ", ")) FROM main.\(HistoryTables.history) "
        catalog.continuation = catalog.selection + "WHERE seq >= ? ORDER BY seq LIMIT ?"
        return catalog
    }

    /// The triggers that have the condition. An earlier version of this library may have made some again without it.
    private func pausingTriggers() throws -> Set<String> {
        let isOwn = "name".sqlBegins(with: HistoryTables.history + "_")
        let sql = "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND \(isOwn) AND instr(sql, ?)"
        return Set(try String.fetchAll(self, sql: sql, arguments: [HistoryTriggers.isNoCommit]))
    }

    /// How tables are and were recorded; nil for each row without valid content.
    func recordedTableRows() throws -> [RecordedTable?] {
        try Row.fetchAll(
            self, sql: "SELECT id, name, state, definition FROM main.\(HistoryTables.table) ORDER BY id"
        ).map(RecordedTable.init)
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
            guard let history = String.fromDatabaseValue(row[0]), !history.isEmpty,
                let purged = Int64.fromDatabaseValue(row[1]), purged >= 0,
                let fingerprint = Int64.fromDatabaseValue(row[2]), let text = String.fromDatabaseValue(row[3]),
                let settings = try? JSONDecoder().decode(HistorySettings.self, from: Data(text.utf8))
            else { throw Self.damagedHistory(HistoryTables.state) }
            return HistoryState(
                history: history, purged: purged, fingerprint: fingerprint, settings: settings.withinRange())
        }
    }

    /// The tables whose changes are recorded, by their names in lower case; nil where there is no history.
    ///
    /// It is kept as long as the schema is the same.
    package func recordedTables() throws -> Set<String>? {
        try historyCatalog().map { Set($0.recording.map(\.name.lowercasedASCII)) }
    }
}
