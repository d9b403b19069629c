/// What other connections have committed.
package enum ForeignChange: Sendable {
    case nothing
    /// Anything: nothing is recorded, or not all of it.
    case everything
    /// These changes of the tables that are recorded, and perhaps any of the others.
    case recorded(RecordedChanges)
}

/// Changes that the history has recorded.
package struct RecordedChanges: Sendable {
    /// The tables of which all changes were recorded since the last look, in lower case.
    package let tables: Set<String>
    /// Whether these are all tables.
    package let coversAllTables: Bool
    /// The changes by row; those of the store itself are left out.
    package let entries: [HistoryEntry]
    /// The tables that have changed in so many rows that these are not listed, in lower case.
    package let changedTables: Set<String>
}

/// Finds out whether other connections have committed since the last look, by the number that SQLite changes with each
/// of their commits, and what, by the history. The connection's own commits never count.
/// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_data_version>
package struct ForeignCommits {
    private enum Seen {
        /// Nothing: the next look counts as a change.
        case nothing
        /// The number of the open connection. The position is that before the number was read: while it is the same,
        /// nobody has committed.
        case version(Int64, CommitPosition?)
        /// The last commit that a connection saw which was closed since.
        case closed(CommitPosition)
    }

    private var seen = Seen.nothing
    /// What was seen of the history; nil before the first look at it.
    private var history: SeenHistory?

    package init() {}

    /// Begins: what was committed before does not count.
    package mutating func begin(_ db: Database) {
        (seen, history) = (.nothing, nil)
        let position = db.commitPosition
        if let version = try? db.foreignVersion() { seen = .version(version, position) }
        // Changes of the transaction under way may be rolled back, and then others get their numbers.
        if !db.isInsideTransaction { history = try? db.withoutReports { try db.seenHistory() } }
    }

    /// Looks, outside of transactions.
    ///
    /// - Returns: What other connections have committed since the last look.
    /// - Throws: ``DatabaseError``; the next look finds what this one has missed.
    package mutating func look(_ db: Database) throws -> ForeignChange {
        guard try hasCommits(db) else { return .nothing }
        do {
            return try changes(db)
        } catch let error as DatabaseError where error.resultCode != .SQLITE_CORRUPT {
            seen = .nothing
            throw error
        } catch {
            // A history that cannot be read says nothing about what has changed.
            history = nil
            return .everything
        }
    }

    private mutating func hasCommits(_ db: Database) throws -> Bool {
        let position = db.commitPosition
        if case .version(_, let known?) = seen, known == position { return false }
        let version = try db.foreignVersion()
        defer { seen = .version(version, position) }
        guard case .version(let known, _) = seen else { return true }
        return known != version
    }

    /// - Returns: What the history has recorded since the last time, which may include later commits.
    private mutating func changes(_ db: Database) throws -> ForeignChange {
        guard try db.recordedTables() != nil else {
            history = nil
            return .everything
        }
        return try db.withoutReports {
            try db.isolated(readOnly: true) {
                let latest = try db.seenHistory()
                let change = try db.foreignChanges(from: history, to: latest)
                history = latest
                return change
            }
        }
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
        guard case .closed(let known) = seen else { return }
        seen = .nothing
        let position = db.commitPosition
        // Read after the number: what was committed up to it is in this position.
        guard let version = try? db.foreignVersion(), db.commitPosition == known else { return }
        seen = .version(version, position)
    }
}

extension Database {
    /// A number that changes with every commit of another connection, by the last one of them.
    // Not SQLITE_FCNTL_DATA_VERSION, which changes with the connection's own commits too.
    fileprivate func foreignVersion() throws -> Int64 {
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
        guard let catalog = try historyCatalog() else { return nil }
        return SeenHistory(number: try lastHistoryNumber(), recorded: Set(catalog.recording.map(\.id)))
    }

    fileprivate func foreignChanges(from known: SeenHistory?, to latest: SeenHistory?) throws -> ForeignChange {
        guard let known, let latest, known.number <= latest.number, let catalog = try historyCatalog(),
            let state = try historyState(), known.number >= state.purged
        else { return .everything }
        // Of a table whose recording has begun since, earlier changes may be missing.
        let recorded = catalog.recording.filter { known.recorded.contains($0.id) }
        let tables = Set(recorded.map(\.name.lowercasedASCII))
        let limit = Limits.listedForeignChanges
        let isShort = latest.number - known.number <= Int64(limit)
        let entries = isShort ? try historyEntries(after: known.number, limit: limit) : []
        return .recorded(
            RecordedChanges(
                tables: tables, coversAllTables: try state.settings.recordsAllTables && areAllTables(tables),
                entries: entries.filter { !$0.isOwn },
                changedTables: isShort ? [] : try tablesChanged(after: known.number, catalog)))
    }

    private func areAllTables(_ tables: Set<String>) throws -> Bool {
        try String.fetchAll(self, sql: "SELECT name FROM main.sqlite_schema WHERE type = 'table'").allSatisfy { name in
            tables.contains(name.lowercasedASCII) || Self.isStoreInternalObject(name)
                || Self.isSQLiteInternalTable(name) || Self.isGRDBInternalTable(name)
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

/// What a look has seen of the history.
private struct SeenHistory {
    /// The last change.
    let number: Int64
    /// The numbers of the tables that were recorded.
    let recorded: Set<Int64>
}
