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
        let request = HistoryRequest(
            tables: tables, notesColumns: notesColumns, kept: kept, pausing: pausing, keepingFormer: keepingFormer)
        _ = try HistoryParts(beginning: request, tablesInPart: .max).next(self)
    }

    /// Ends the recording of tables. The recorded changes stay.
    ///
    /// - Parameter tables: The tables; nil for all.
    /// - Throws: ``HistoryError`` `.allTablesRecorded` for single tables where all are recorded; ``DatabaseError``.
    package func stopHistory(of tables: [String]?) throws {
        _ = try HistoryParts(ending: tables, tablesInPart: .max).next(self)
    }

    /// Runs a change of the history in a transaction of its own, of which nobody is notified, or in a savepoint of the
    /// one under way.
    package func changingHistory(_ body: () throws -> Void) throws {
        let outer = isInHistoryUpkeep
        isInHistoryUpkeep = true
        defer { isInHistoryUpkeep = outer }
        // No row has changed that others could observe: they are not woken.
        let wasQuiet = writing.isQuiet
        writing.isQuiet = true
        defer { writing.isQuiet = wasQuiet }
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

    /// Whether the triggers of the history and of full-text tables may have to be made again after a statement of this
    /// connection.
    func needsTriggerUpkeep(after effects: StatementEffects) -> Bool {
        effects.contains(.vacuum) || !isInHistoryUpkeep && !effects.isDisjoint(with: [.indexes, .storedSchema])
    }

    /// Called after a statement that has changed the schema, or the rowids: the triggers of the history follow the
    /// tables.
    func keepHistory(hasVacuumed: Bool) throws {
        guard keepsHistory else { return }
        if hasVacuumed {
            return try changingHistory { try HistoryUpkeep(self, followsOwnStatement: true).noteVacuum() }
        }
        _ = try repairHistory(followsOwnStatement: true)
    }

    var keepsHistory: Bool { keepsTriggers && mayHaveHistory }

    /// Whether statements of this connection keep triggers of the library fitting.
    var keepsTriggers: Bool {
        !isInHistoryUpkeep && !configuration.readonly && !access.refusesWrites && !isClosed
    }

    /// Called before a statement that alters a table. SQLite drops no column that a trigger names, so the triggers of the
    /// table are made again after it.
    func historyWillAlterTable(_ name: String, dropsColumn: Bool) throws {
        guard dropsColumn, keepsHistory, !health.hasFailedToSync,
            let table = try historyCatalog()?.recording.first(where: { $0.name.lowercasedASCII == name }),
            table.definition.notesColumns || !table.definition.kept.isEmpty
        else { return }
        try changingHistory { try HistoryUpkeep(self, followsOwnStatement: true).dropTriggers(of: [table]) }
    }

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
        let isOwn = "name".sqlBegins(with: HistoryTables.history + "_")
        let sql = "SELECT EXISTS (SELECT 1 FROM main.sqlite_schema WHERE type = 'trigger' AND \(isOwn))"
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
