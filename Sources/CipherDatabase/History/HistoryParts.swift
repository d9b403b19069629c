/// Begins or ends the recording of very many tables in several transactions, so that no writer waits for all of them.
///
/// | moment of a kill | what it leaves |
/// |---|---|
/// | within a part | the state before that part, which is one transaction |
/// | between parts, beginning | tables that are recorded as a whole, and tables that are not recorded at all |
/// | between parts, ending | tables that are still recorded; those that are created later are not |
///
/// In each case the same call continues with the remaining tables.
package final class HistoryParts {
    private enum Work {
        case begin(HistoryRequest)
        case end(tables: Set<String>?)
    }

    private let work: Work
    private let tablesInPart: Int
    private var begun: [HistoryRequest.Change] = []
    private var ended: [RecordedTable] = []
    /// Of all tables, those whose triggers do not work in this program, each with a sentence that says why.
    package private(set) var leftOut: [String: String] = [:]
    /// The triggers of the tables that end.
    private var places: HistoryTriggerPlaces?
    /// The version of the schema for which the remaining work was determined; nil before that.
    private var schemaVersion: Int32?

    /// - Parameter tablesInPart: The most tables of one transaction; nil for 500.
    package init(beginning request: HistoryRequest, tablesInPart: Int? = nil) {
        work = .begin(request)
        self.tablesInPart = tablesInPart ?? DatabaseLimits.historyPartTables
    }

    /// - Parameter tables: The tables; nil for all.
    package init(ending tables: [String]?, tablesInPart: Int? = nil) {
        work = .end(tables: tables.map { Set($0.map(\.lowercasedASCII)) })
        self.tablesInPart = tablesInPart ?? DatabaseLimits.historyPartTables
    }

    /// Does the next part, in a transaction of its own, or in a savepoint of the one under way.
    ///
    /// - Returns: Whether it was the last one.
    /// - Throws: ``HistoryError`` `.unsuitableTable`, `.noSuchColumn`, `.allTablesRecorded`; ``DatabaseError``. The part
    ///   has changed nothing then.
    package func next(_ db: Database) throws -> Bool {
        let known = schemaVersion
        // After an error the work is determined again.
        schemaVersion = nil
        // SQLite reads a changed schema before it compiles the next statement. That takes long where there are very many
        // triggers: here no other writer waits for it.
        if !db.isInsideTransaction { _ = try db.withoutWatching { try db.makeStatement(sql: Self.reading) } }
        var isLast = false
        var version: Int32 = 0
        try db.changingHistory {
            let isKnown = try known == db.schemaVersion()
            switch work {
            case .begin(let request): isLast = try begin(request, db, isKnown: isKnown)
            case .end(let tables): isLast = try end(tables, db, isKnown: isKnown)
            }
            version = try db.schemaVersion()
        }
        schemaVersion = version
        return isLast
    }

    private static let reading = "SELECT 1 FROM main.sqlite_schema"

    private func begin(_ request: HistoryRequest, _ db: Database, isKnown: Bool) throws -> Bool {
        if !isKnown {
            if try (1..<HistoryTables.all.count).contains(db.missingHistoryTables().count) {
                var upkeep = HistoryUpkeep(db, followsOwnStatement: false)
                try upkeep.run()
            }
            try db.createHistory()
            begun = try request.changes(db, db.historyCatalog() ?? HistoryCatalog())
        }
        let part = begun.prefix(tablesInPart)
        begun.removeFirst(part.count)
        // With the last part: otherwise the next upkeep would record all remaining tables in one transaction.
        if begun.isEmpty, request.tables == nil, let settings = try db.historyState()?.settings {
            try db.store(request.settings(settings))
        }
        if request.tables == nil {
            try beginSuitable(Array(part), db)
        } else {
            try begin(Array(part), db)
        }
        return begun.isEmpty
    }

    private func begin(_ changes: [HistoryRequest.Change], _ db: Database) throws {
        let upkeep = HistoryUpkeep(db, followsOwnStatement: true)
        try db.inSavepoint {
            try upkeep.end(changes.flatMap(\.ended))
            try upkeep.begin(changes.map { ($0.facts, $0.definition) })
            return .commit
        }
    }

    /// Begins to record those of the tables whose triggers work here. The others stay as they are.
    private func beginSuitable(_ changes: [HistoryRequest.Change], _ db: Database) throws {
        do {
            try begin(changes, db)
        } catch let error as HistoryError {
            guard changes.count > 1 else {
                if let change = changes.first { leftOut[change.facts.name] = error.message }
                return
            }
            let middle = changes.count / 2
            try beginSuitable(Array(changes[..<middle]), db)
            try beginSuitable(Array(changes[middle...]), db)
        }
    }

    private func end(_ tables: Set<String>?, _ db: Database, isKnown: Bool) throws -> Bool {
        if !isKnown {
            guard let catalog = try db.historyCatalog() else { return true }
            // With the first part: otherwise the next upkeep would record the tables again.
            if var settings = try db.historyState()?.settings, settings.recordsAllTables {
                guard tables == nil else { throw HistoryError.allTablesRecorded }
                settings.recordsAllTables = false
                try db.store(settings)
            }
            ended = catalog.active.filter { tables?.contains($0.name.lowercasedASCII) != false }
            places = try HistoryTriggerPlaces(db)
        }
        let part = ended.prefix(tablesInPart)
        ended.removeFirst(part.count)
        try HistoryUpkeep(db, followsOwnStatement: true).end(Array(part), places)
        return ended.isEmpty
    }
}

extension RecordedTable.Definition {
    fileprivate func keeps(_ column: String) -> Bool {
        kept.contains { $0.lowercasedASCII == column.lowercasedASCII }
    }
}

/// The tables to record from now on.
package struct HistoryRequest {
    /// The tables; nil for all, those that are created later too.
    let tables: [String]?
    /// Whether the changed columns of updates are recorded.
    let notesColumns: Bool
    /// The columns of which deletions keep the values, by table.
    let kept: [String: [String]]
    /// Whether the triggers pause in commits of a repository. Those of tables that do so already stay so.
    let pausing: Bool
    /// Whether all this is added to what is recorded of the tables already, and otherwise replaces it.
    let keepingFormer: Bool

    package init(
        tables: [String]?, notesColumns: Bool, kept: [String: [String]], pausing: Bool = false,
        keepingFormer: Bool = false
    ) {
        self.tables = tables
        self.notesColumns = notesColumns
        self.kept = kept
        self.pausing = pausing
        self.keepingFormer = keepingFormer
    }

    /// A table that is to be recorded, and its recordings that end.
    fileprivate struct Change {
        let ended: [RecordedTable]
        let facts: TableFacts
        let definition: RecordedTable.Definition
    }

    /// The recordings that end, and those that begin. It only reads.
    fileprivate func changes(_ db: Database, _ catalog: HistoryCatalog) throws -> [Change] {
        var names: Set<String> = []
        let active = Dictionary(grouping: catalog.active, by: \.name.lowercasedASCII)
        var changes: [Change] = []
        let directory = try TableDirectory(db)
        for name in try tables ?? ProgramTables(db).names {
            // Once for each table, however often and in whatever case it is named.
            guard names.insert(name.lowercasedASCII).inserted else { continue }
            let facts: TableFacts
            do {
                guard let found = try TableFacts(of: name, in: db, directory) else {
                    throw DatabaseError.noSuchTable(name)
                }
                facts = found
            } catch let error as HistoryError {
                // Of all tables, those are recorded that can be.
                if tables == nil { continue }
                throw error
            }
            let former = active[name.lowercasedASCII] ?? []
            let definition = try definition(facts, former: former)
            if former.count == 1, former[0].state == .recording, former[0].definition == definition { continue }
            changes.append(Change(ended: former, facts: facts, definition: definition))
        }
        return changes
    }

    private func definition(_ facts: TableFacts, former: [RecordedTable]) throws -> RecordedTable.Definition {
        let added = keepingFormer ? former.map(\.definition) : []
        // Columns that are gone are no reason to refuse others.
        let present = added.flatMap(\.kept).filter { facts.columns.map(\.name).contains($0) }
        let columns = present + HistorySettings.kept(of: facts.name, in: kept)
        let definition = HistoryUpkeep.definition(
            facts, notesColumns: notesColumns || added.contains(where: \.notesColumns), kept: columns,
            pausing: pausing || former.contains(where: \.definition.pausesInCommits))
        if let missing = columns.first(where: { !definition.keeps($0) }) {
            throw HistoryError(
                .noSuchColumn, "The table \"\(facts.name)\" has no column \"\(missing)\" to keep values of.")
        }
        return definition
    }

    /// The settings of the history once all tables are recorded.
    fileprivate func settings(_ former: HistorySettings) -> HistorySettings {
        var settings = former
        let adds = keepingFormer && settings.recordsAllTables
        settings.recordsAllTables = true
        settings.notesColumns = notesColumns || adds && settings.notesColumns
        settings.kept = adds ? HistorySettings.union(settings.kept, kept) : kept
        return settings
    }
}
