/// The commits of other connections.
package enum PollFinding: Sendable {
    case nothing
    /// Anything: nothing is recorded, or not all of it.
    case everything
    /// These changes of the tables that are recorded, and perhaps any of the others.
    case recorded(RecordedChanges)
}

/// Changes that the history has recorded.
package struct RecordedChanges: Sendable {
    /// The tables of which all changes were recorded since the last poll, in lower case.
    let tables: Set<String>
    /// Whether these are all tables.
    let coversAllTables: Bool
    /// The changes by row; those of the store itself are left out.
    let entries: [HistoryEntry]
    /// The tables that have changed in so many rows that these are not listed, in lower case.
    let changedTables: Set<String>
}

/// Finds out whether other connections have committed since the last poll, by the number that SQLite changes with each
/// of their commits, and what, by the history. The connection's own commits never count.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_data_version>
package struct ExternalCommits {
    private enum Seen {
        /// Nothing: the next poll counts as a change.
        case nothing
        /// The number of the open connection. The position is that before the number was read: while it is the same,
        /// nobody has committed.
        case version(Int64, CommitPosition?)
        /// The last commit that a connection saw which was closed since.
        case closed(CommitPosition)
    }

    private var seen = Seen.nothing
    /// The last poll of the history; nil if there was no history, or no poll.
    private var history: SeenHistory?
    /// The version of the schema at the last poll that found commits; nil before the first one.
    package private(set) var schemaVersion: Int32?

    package init() {}

    /// Begins: what was committed before does not count.
    package mutating func begin(_ db: Database) {
        (seen, history) = (.nothing, nil)
        let position = db.commitPosition
        if let version = try? db.externalVersion() { seen = .version(version, position) }
        // Changes of the transaction under way may be rolled back, and then others get their numbers.
        if !db.isInsideTransaction { history = try? db.withoutReports { try db.seenHistory() } }
        schemaVersion = try? db.schemaVersion()
    }

    /// The finding of a poll in its transaction.
    private struct Finding {
        let version: Int64
        var change = PollFinding.nothing
        var history: SeenHistory?
    }

    /// Polls, outside of transactions.
    ///
    /// - Returns: What other connections have committed since the last poll.
    /// - Throws: ``DatabaseError``; the next poll finds what this one has missed.
    package mutating func poll(_ db: Database) throws -> PollFinding {
        // Before the snapshot: after a commit in between, the next poll reads once more than necessary, and misses nothing.
        let position = db.commitPosition
        if case .version(_, let known?) = seen, known == position { return .nothing }
        let former: Int64? = if case .version(let number, _) = seen { number } else { nil }
        // All reads share one transaction: the last of many processes waits for the polls of all.
        let finding = try db.withoutReports { [history] in
            try db.isolated(readOnly: true) {
                var finding = Finding(version: try db.externalVersion())
                if finding.version == former { return finding }
                do {
                    (finding.change, finding.history) = try db.externalChanges(since: history)
                } catch let error as DatabaseError where error.resultCode != .SQLITE_CORRUPT {
                    throw error
                } catch {
                    // A history that cannot be read says nothing about what has changed.
                    finding.change = .everything
                }
                return finding
            }
        }
        seen = .version(finding.version, position)
        if case .nothing = finding.change { return .nothing }
        history = finding.history
        schemaVersion = db.schemaCache.version
        return finding.change
    }

    private mutating func hasCommits(_ db: Database) throws -> Bool {
        let position = db.commitPosition
        if case .version(_, let known?) = seen, known == position { return false }
        let version = try db.externalVersion()
        defer { seen = .version(version, position) }
        guard case .version(let known, _) = seen else { return true }
        return known != version
    }

    /// Called in the last access of a connection in whose place another one will be opened.
    package mutating func connectionWillClose(_ db: Database) {
        let position = db.isInsideTransaction ? nil : db.commitPosition
        guard let position, position.lastsBeyondConnections, let isChanged = try? hasCommits(db), !isChanged
        else { return seen = .nothing }
        seen = .closed(position)
    }

    /// Called before the first use of a connection that was opened in place of another one.
    package mutating func connectionDidOpen(_ db: Database) {
        // Counted by the former connection.
        history?.generation = nil
        guard case .closed(let known) = seen else { return }
        seen = .nothing
        let position = db.commitPosition
        // Read after the number: what was committed up to it is in this position.
        guard let version = try? db.externalVersion(), db.commitPosition == known else { return }
        seen = .version(version, position)
    }
}

extension Database {
    /// A number that changes with every commit of another connection, by the last one of them.
    // Not SQLITE_FCNTL_DATA_VERSION, which changes with the connection's own commits too.
    fileprivate func externalVersion() throws -> Int64 {
        if isClosed { throw closedError }
        return try withoutReports {
            try readOnly { try Int64.fetchOne(self, sql: "PRAGMA data_version") ?? 0 }
        }
    }

    /// Runs statements of the library's own, of which no observer is notified, neither of the ends of their
    /// transactions.
    fileprivate func withoutReports<T>(_ body: () throws -> T) rethrows -> T {
        let outer = transaction.isUpkeep
        transaction.isUpkeep = true
        defer { transaction.isUpkeep = outer }
        return try withoutWatching(body)
    }

    /// - Returns: Nil where there is no history.
    fileprivate func seenHistory() throws -> SeenHistory? {
        guard try historyCatalog() != nil else { return nil }
        return try seenHistory(number: lastHistoryNumber(), after: nil)
    }

    /// - Parameter former: What was seen before, which still holds while the schema is the same.
    private func seenHistory(number: Int64, after former: SeenHistory?) throws -> SeenHistory? {
        if var former, former.generation == schemaCache.generation {
            former.number = number
            return former
        }
        guard let catalog = try historyCatalog() else { return nil }
        let triggers = try historyTriggerNames()
        // Another program may have dropped triggers of a table: then it is not recorded before they are made again.
        let recording = catalog.recording.filter { HistoryTriggers.essential($0.id).isSubset(of: triggers) }
        let recorded = Dictionary(
            recording.map { ($0.id, $0.name.lowercasedASCII) }, uniquingKeysWith: { first, _ in first })
        return SeenHistory(
            number: number, generation: schemaCache.generation, recorded: recorded,
            coversAllTables: try historyState()?.settings.recordsAllTables == true
                && areAllTables(Set(recorded.values)))
    }

    /// The commits, and the part of the history that shows them.
    fileprivate func externalChanges(since known: SeenHistory?) throws -> (PollFinding, SeenHistory?) {
        guard let catalog = try historyCatalog() else { return (.everything, nil) }
        guard let known else { return (.everything, try seenHistory()) }
        let limit = DatabaseLimits.listedExternalChanges
        if let entries = try historyEntries(catalog, following: known.number, limit: limit) {
            let latest = try seenHistory(number: entries.last?.number ?? known.number, after: known)
            return (recorded(known, latest, entries), latest)
        }
        // The last known change was purged, there was none, or there are too many new ones.
        guard let latest = try seenHistory(number: lastHistoryNumber(), after: known), known.number <= latest.number,
            let state = try historyState(), known.number >= state.purged
        else { return (.everything, try seenHistory()) }
        let isShort = latest.number - known.number <= Int64(limit)
        let entries = isShort ? try historyEntries(after: known.number, limit: limit) : []
        let changed = isShort ? [] : try tablesChanged(after: known.number, catalog)
        return (recorded(known, latest, entries, changedTables: changed), latest)
    }

    private func recorded(
        _ known: SeenHistory, _ latest: SeenHistory?, _ entries: [HistoryEntry], changedTables: Set<String> = []
    ) -> PollFinding {
        guard let latest else { return .everything }
        var (tables, coversAll) = (latest.tables, latest.coversAllTables)
        if known.generation != latest.generation {
            // Of a table whose recording has begun since, earlier changes may be missing.
            let kept = latest.recorded.filter { known.recorded[$0.key] != nil }
            coversAll = coversAll && kept.count == latest.recorded.count
            tables = Set(kept.values)
        }
        return .recorded(
            RecordedChanges(
                tables: tables, coversAllTables: coversAll, entries: entries.filter { !$0.isOwn },
                changedTables: changedTables))
    }

    private func historyTriggerNames() throws -> Set<String> {
        let isOwn = "name".sqlBegins(with: HistoryTables.history + "_")
        return try Set(
            String.fetchAll(self, sql: "SELECT name FROM main.sqlite_schema WHERE type = 'trigger' AND \(isOwn)"))
    }

    private func areAllTables(_ tables: Set<String>) throws -> Bool {
        // Virtual tables and their shadow tables have no history, nor has a table whose name begins with "pragma_".
        try String.fetchAll(self, sql: "SELECT name FROM main.sqlite_schema WHERE type = 'table'").allSatisfy { name in
            name.hasPrefix("sqlite_") || tables.contains(name.lowercasedASCII) || Self.isStoreInternalObject(name)
                || Self.isGRDBInternalTable(name)
        }
    }

    /// The tables that others have changed.
    private func tablesChanged(after known: Int64, _ catalog: HistoryCatalog) throws -> Set<String> {
        let rows = try Row.fetchAll(
            self,
            sql: """
                SELECT DISTINCT kind >> 3, CASE WHEN origin > 0 THEN origin & \(HistoryStamp.authors) END
                FROM main.\(HistoryTables.history) WHERE seq > ?
                """,
            arguments: [known])
        let own = try ownHistoryAuthors(among: Set(rows.compactMap { $0[1] as Int64? }))
        let others = rows.filter { row in (row[1] as Int64?).map(own.contains) != true }
        return Set(others.compactMap { $0[0] as Int64? }.compactMap { catalog.tables[$0]?.name.lowercasedASCII })
    }
}

/// The finding of a poll of the history.
private struct SeenHistory {
    /// The last change.
    var number: Int64
    /// The state of the schema, as the connection counts them, for which the rest was found; nil where it was another
    /// connection.
    var generation: Int?
    /// The tables that were recorded, by their numbers, in lower case.
    let recorded: [Int64: String]
    /// The same without the numbers.
    let tables: Set<String>
    /// Whether these were all tables.
    let coversAllTables: Bool

    init(number: Int64, generation: Int, recorded: [Int64: String], coversAllTables: Bool) {
        self.number = number
        self.generation = generation
        self.recorded = recorded
        tables = Set(recorded.values)
        self.coversAllTables = coversAllTables
    }
}

extension PollFinding {
    /// Whether it touches a region, as far as that is known.
    package func touches(_ region: DatabaseRegion) -> Bool {
        switch self {
        case .nothing: false
        case .everything: !region.isEmpty
        case .recorded(let changes): changes.touch(region)
        }
    }
}

extension RecordedChanges {
    fileprivate func touch(_ region: DatabaseRegion) -> Bool {
        guard let names = region.tableNames else {
            return !coversAllTables || !entries.isEmpty || !changedTables.isEmpty
        }
        for name in names.map(\.lowercasedASCII) where !tables.contains(name) || changedTables.contains(name) {
            return true
        }
        return entries.contains { $0.touches(region) }
    }
}

extension HistoryEntry {
    fileprivate func touches(_ region: DatabaseRegion) -> Bool {
        // Of what is not recorded, any kind of change counts.
        var kind = DatabaseEventKind.delete(tableName: tableName)
        var eventKind = DatabaseEvent.Kind.delete
        switch operation {
        case .inserted: (kind, eventKind) = (.insert(tableName: tableName), .insert)
        case .updated:
            eventKind = .update
            if let columns { kind = .update(tableName: tableName, columnNames: columns) }
        case .deleted, .perhapsDeleted, .reset: break
        }
        guard region.isModified(byEventsOfKind: kind) else { return false }
        guard let rowID else { return true }
        return region.isModified(
            by: DatabaseEvent(kind: eventKind, rowID: rowID, databaseName: "main", tableName: tableName))
    }
}
