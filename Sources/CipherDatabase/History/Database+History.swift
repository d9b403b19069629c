import StorePlatform

extension Database {
    // MARK: Recording

    /// Begins to record the changes of tables. Tables that are recorded already, with the same options, stay as they
    /// are.
    ///
    /// - Parameters:
    ///   - tables: The tables; nil for all, those that are created later too.
    ///   - notesColumns: Whether the changed columns of updates are recorded.
    ///   - kept: The columns of which deletions keep the values, by table.
    ///   - keepingFormer: Whether that is added to what is recorded of the tables already, and otherwise replaces it.
    ///   - pausing: Whether the triggers pause in commits of a repository. Those of tables that do so already stay so.
    /// - Throws: ``HistoryError`` `.unsuitableTable`, `.noSuchColumn`; ``DatabaseError``. Nothing is changed then.
    package func startHistory(
        of tables: [String]?, notesColumns: Bool, kept: [String: [String]], pausing: Bool = false,
        keepingFormer: Bool = false
    ) throws {
        try changingHistory {
            if try (1..<HistoryTables.all.count).contains(missingHistoryTables().count) {
                var upkeep = HistoryUpkeep(self, followsOwnStatement: false)
                try upkeep.run()
            }
            try createHistory()
            let catalog = try historyCatalog() ?? HistoryCatalog()
            if tables == nil, var settings = try historyState()?.settings {
                let adds = keepingFormer && settings.recordsAllTables
                settings.recordsAllTables = true
                settings.notesColumns = notesColumns || adds && settings.notesColumns
                settings.kept = adds ? HistorySettings.union(settings.kept, kept) : kept
                try store(settings)
            }
            let request = HistoryRequest(
                tables: tables, notesColumns: notesColumns, kept: kept, pausing: pausing, keepingFormer: keepingFormer)
            let changes = try historyChanges(request, catalog)
            let upkeep = HistoryUpkeep(self, followsOwnStatement: true)
            try upkeep.end(changes.ended)
            try upkeep.begin(changes.begun)
        }
    }

    /// What is to be recorded: the parameters of ``startHistory(of:notesColumns:kept:pausing:keepingFormer:)``.
    private struct HistoryRequest {
        let tables: [String]?
        let notesColumns: Bool
        let kept: [String: [String]]
        let pausing: Bool
        let keepingFormer: Bool

        func definition(_ facts: TableFacts, former: [RecordedTable]) throws -> RecordedTable.Definition {
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
    }

    /// The recordings that end, and those that begin. It only reads.
    private func historyChanges(
        _ request: HistoryRequest, _ catalog: HistoryCatalog
    ) throws -> (ended: [RecordedTable], begun: [(TableFacts, RecordedTable.Definition)]) {
        var names: Set<String> = []
        let active = Dictionary(grouping: catalog.active, by: \.name.lowercasedASCII)
        var ended: [RecordedTable] = []
        var begun: [(TableFacts, RecordedTable.Definition)] = []
        let directory = try TableDirectory(self)
        for name in try request.tables ?? ProgramTables(self).names {
            // Once for each table, however often and in whatever case it is named.
            guard names.insert(name.lowercasedASCII).inserted else { continue }
            let facts: TableFacts
            do {
                guard let found = try TableFacts(of: name, in: self, directory) else {
                    throw DatabaseError.noSuchTable(name)
                }
                facts = found
            } catch let error as HistoryError {
                // Of all tables, those are recorded that can be.
                if request.tables == nil { continue }
                throw error
            }
            let former = active[name.lowercasedASCII] ?? []
            let definition = try request.definition(facts, former: former)
            if former.count == 1, former[0].state == .recording, former[0].definition == definition { continue }
            ended += former
            begun.append((facts, definition))
        }
        return (ended, begun)
    }

    /// Ends the recording of tables. What was recorded stays.
    ///
    /// - Parameter tables: The tables; nil for all.
    /// - Throws: ``HistoryError`` `.allTablesRecorded` for single tables where all are recorded; ``DatabaseError``.
    package func stopHistory(of tables: [String]?) throws {
        try changingHistory {
            guard let catalog = try historyCatalog() else { return }
            if var settings = try historyState()?.settings, settings.recordsAllTables {
                // The next upkeep would record the table again.
                guard tables == nil else { throw HistoryError.allTablesRecorded }
                settings.recordsAllTables = false
                try store(settings)
            }
            let names = tables.map { Set($0.map(\.lowercasedASCII)) }
            let upkeep = HistoryUpkeep(self, followsOwnStatement: true)
            try upkeep.end(catalog.active.filter { names?.contains($0.name.lowercasedASCII) != false })
        }
    }

    /// Runs a change of the history in a transaction of its own, of which nobody is notified, or in a savepoint of the
    /// one under way.
    package func changingHistory(_ body: () throws -> Void) throws {
        let outer = isInHistoryUpkeep
        isInHistoryUpkeep = true
        defer { isInHistoryUpkeep = outer }
        // No row has changed that others could observe: they are not woken.
        let wasQuiet = isQuiet
        isQuiet = true
        defer { isQuiet = wasQuiet }
        try withoutWatching {
            let block: () throws -> TransactionCompletion = {
                try body()
                return .commit
            }
            if isInsideTransaction { return try inSavepoint(block) }
            let outer = transaction.isUpkeep
            transaction.isUpkeep = true
            defer { transaction.isUpkeep = outer }
            try inTransaction(.immediate, block)
        }
    }

    // MARK: Upkeep

    /// Runs a block that copies a whole database, with its history and the triggers of that: none of its statements makes
    /// triggers fit.
    package func withoutHistoryUpkeep<T>(_ body: () throws -> T) rethrows -> T {
        let outer = isInHistoryUpkeep
        isInHistoryUpkeep = true
        defer { isInHistoryUpkeep = outer }
        return try body()
    }

    /// Called after a statement that has changed the schema, or the rowids: the triggers of the history and of
    /// full-text tables follow the tables.
    func keepHistory() throws {
        needsHistoryUpkeep = false
        let hasVacuumed = hasVacuumed
        self.hasVacuumed = false
        if keepsTriggers {
            if hasVacuumed { try FullTextUpkeep.didVacuum(self) }
            if fullText.keysMayDiffer { try FullTextUpkeep.followKeys(self) }
        }
        guard keepsHistory else { return }
        if hasVacuumed {
            return try changingHistory { try HistoryUpkeep(self, followsOwnStatement: true).noteVacuum() }
        }
        _ = try repairHistory(followsOwnStatement: true)
    }

    private var keepsHistory: Bool { keepsTriggers && mayHaveHistory }

    private var keepsTriggers: Bool {
        !isInHistoryUpkeep && !configuration.readonly && !refusesWrites && !isClosed
    }

    /// Called before VACUUM.
    func willVacuum() throws {
        if keepsTriggers && !isInsideTransaction && !hasFailedToSync { try FullTextUpkeep.willVacuum(self) }
    }

    /// Called before a statement that changes the schema. SQLite drops no column that a trigger names, so the triggers
    /// of the table are made again after it.
    func willChangeSchema(_ statement: Statement) throws {
        if keying.isKeyed, !mayChangeStoreTables { try Self.requireOwnName(statement.sql) }
        guard syncStorage != nil || keepsHistory, let (name, dropsColumn) = Self.alteredTable(statement.sql) else {
            return
        }
        if !refusesWrites && !hasFailedToSync {
            try syncStorage?.willAlterTable(name, dropsColumn: dropsColumn, self)
        }
        guard dropsColumn, keepsHistory, !hasFailedToSync,
            let table = try historyCatalog()?.recording.first(where: { $0.name.lowercasedASCII == name }),
            table.definition.notesColumns || !table.definition.kept.isEmpty
        else { return }
        try changingHistory { try HistoryUpkeep(self, followsOwnStatement: true).dropTriggers(of: [table]) }
    }

    /// Refuses to give a table the name of one of the library's own: SQLite reports no new name to the authorizer.
    private static func requireOwnName(_ sql: String) throws {
        var reader = DefinitionReader(sql)
        guard reader.skip("alter", "table"), (try? reader.takeQualifiedName()) != nil, reader.skip("rename", "to"),
            let name = try? reader.takeName(), StoreTables.protects(name)
        else { return }
        throw DatabaseError(
            resultCode: .SQLITE_AUTH,
            message: "\(name) is the name of a table of the store: give the table another name", sql: sql)
    }

    /// The table, in lower case, of a statement that alters one; nil for another statement.
    private static func alteredTable(_ sql: String) -> (name: String, dropsColumn: Bool)? {
        var reader = DefinitionReader(sql)
        guard reader.skip("alter", "table"), let name = try? reader.takeQualifiedName() else { return nil }
        return (name, reader.skip("drop"))
    }

    /// Makes the triggers follow tables that another program may have changed. Inside a transaction.
    package func updateHistory() throws { _ = try repairHistory(followsOwnStatement: false) }

    /// Checks the triggers of the history, and repairs what differs from what the tables require.
    private func repairHistory(followsOwnStatement: Bool) throws -> HistoryRepairs {
        isInHistoryUpkeep = true
        defer { isInHistoryUpkeep = false }
        return try withoutWatching {
            var upkeep = HistoryUpkeep(self, followsOwnStatement: followsOwnStatement)
            if try upkeep.isInOrder() { return HistoryRepairs() }
            try changingHistory { try upkeep.run() }
            return upkeep.repairs
        }
    }

    /// Checks the triggers when the database is opened: a program without this library may have changed tables.
    ///
    /// - Returns: What the program should know, as sentences.
    func repairHistoryAtOpening() -> [String] {
        guard !configuration.readonly, !isClosed else { return [] }
        var notices: [String] = []
        do {
            notices += try FullTextUpkeep.catchUp(self)
        } catch {
            notices.append("full-text tables could not be checked, or made again: \(error)")
        }
        do {
            // Without tables of the history, there may be triggers that need them.
            if !mayHaveHistory { guard try hasHistoryTriggers() else { return notices } }
            return notices + (try repairHistory(followsOwnStatement: false).notices)
        } catch {
            return notices + ["the triggers of the history of changes could not be checked: \(error)"]
        }
    }

    /// Whether there are triggers that record changes.
    func hasHistoryTriggers() throws -> Bool {
        let sql = """
            SELECT EXISTS (
                SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND name GLOB '\(HistoryTables.history)_*')
            """
        return try withoutWatching { try Bool.fetchOne(self, sql: sql) ?? false }
    }

    /// Whether all triggers of the history are there and fit their tables; it only reads.
    package func isHistoryInOrder() throws -> Bool {
        try withoutWatching { try HistoryUpkeep(self, followsOwnStatement: false).isInOrder() }
    }
}

extension HistoryRepairs {
    var notices: [String] {
        tables.map { name in
            "the triggers that record changes of the table \"\(name)\" were missing: another program has dropped them. "
                + "They were made again; readers of the history will read that table again."
        } + lost + (rebuilding.map { [$0.notice] } ?? [])
    }
}

extension HistoryRepairs.Rebuilding {
    fileprivate var notice: String {
        let names = tables.map { "\"\($0)\"" }.joined(separator: ", ")
        return "tables of the history of changes were missing: another program has dropped them. A new, empty history "
            + "was made" + (names.isEmpty ? "" : " that records \(names)") + "; every token and reader has expired."
            + (hasDefaultSettings ? " Its limits and options are those of a new history." : "")
    }
}

extension RecordedTable.Definition {
    fileprivate func keeps(_ column: String) -> Bool {
        kept.contains { $0.lowercasedASCII == column.lowercasedASCII }
    }
}
