// Reading the history in whole transactions, and what its readers have read.

extension Database {
    /// The last change; nil where nothing was recorded.
    package func lastHistoryEntry() throws -> HistoryEntry? {
        try withoutWatching {
            guard let catalog = try historyCatalog() else { throw HistoryError.notRecorded }
            return try historyEntries(catalog, "WHERE seq > 0 ORDER BY seq DESC LIMIT 1", []).last
        }
    }

    /// The last change before the transaction of a change; 0 where that is not there.
    package func historyNumber(beforeTransactionOf number: Int64) throws -> Int64 {
        try withoutWatching {
            try Int64.fetchOne(
                self,
                sql: """
                    SELECT seq FROM main.\(HistoryTables.history)
                    WHERE seq < ?1 AND origin IS NOT (
                        SELECT origin FROM main.\(HistoryTables.history) WHERE seq >= ?1 ORDER BY seq LIMIT 1)
                    ORDER BY seq DESC LIMIT 1
                    """,
                arguments: [number]) ?? 0
        }
    }

    /// Replaces deletions that are not sure by what has happened: a deletion, or nothing.
    ///
    /// - Parameters:
    ///   - entries: Changes that follow each other.
    ///   - isEnd: Whether no change follows them.
    package func resolvingDeletions(in entries: [HistoryEntry], isEnd: Bool) throws -> [HistoryEntry] {
        guard entries.contains(where: { $0.operation == .perhapsDeleted }) else { return entries }
        return try withoutWatching {
            let doubtful = Set(entries.lazy.filter { $0.operation == .perhapsDeleted }.map(Doubt.init))
            let later = isEnd ? [:] : try laterOperations(on: entries, doubtful)
            var next: [RowIdentity: HistoryOperation] = [:]
            var resolved: [HistoryEntry] = []
            for entry in entries.reversed() {
                if entry.operation == .reset {
                    resolved.append(entry)
                    continue
                }
                let row = RowIdentity(entry)
                let following = next[row] ?? later[row]
                switch entry.operation {
                case .perhapsDeleted:
                    let operation = try outcome(of: entry, next: following, isEnd: isEnd)
                    if let operation { resolved.append(entry.with(operation)) }
                case .updated where doubtful.contains(Doubt(entry)):
                    // A REPLACE removes a row after an action of a foreign key has updated it.
                    if try isGone(entry, before: following) { continue }
                    resolved.append(entry)
                default: resolved.append(entry)
                }
                next[row] = entry.operation
            }
            return resolved.reversed()
        }
    }

    /// A row that is perhaps deleted in a transaction.
    private struct Doubt: Hashable {
        private let row: RowIdentity
        private let origin: Int64?

        init(_ entry: HistoryEntry) { (row, origin) = (RowIdentity(entry), entry.origin) }
    }

    /// Whether a row is gone that no later change has deleted.
    ///
    /// - Parameter next: What was recorded of the row next. Only a row that was gone can be inserted.
    private func isGone(_ entry: HistoryEntry, before next: HistoryOperation?) throws -> Bool {
        if entry.key.contains(where: \.isNull) { return false }
        if let next { return next == .inserted }
        return try !rowExists(entry)
    }

    private struct RowIdentity: Hashable {
        let table: Int64
        let key: [DatabaseValue.Storage]

        init(table: Int64, key: [DatabaseValue.Storage]) { (self.table, self.key) = (table, key) }
        init(_ entry: HistoryEntry) { self.init(table: entry.table.id, key: entry.key.map(\.storage)) }
    }

    /// The next recorded changes, after some changes, of those of their rows that are perhaps deleted and that are
    /// missing now: the row may have been deleted by a later change. All later changes are searched, once.
    private func laterOperations(
        on entries: [HistoryEntry], _ doubtful: Set<Doubt>
    ) throws -> [RowIdentity: HistoryOperation] {
        var last: [RowIdentity: HistoryEntry] = [:]
        for entry in entries where entry.operation != .reset { last[RowIdentity(entry)] = entry }
        let open = try last.filter { _, entry in
            let isOpen =
                entry.operation == .perhapsDeleted || entry.operation == .updated && doubtful.contains(Doubt(entry))
            return try isOpen && !entry.key.contains(where: \.isNull) && !rowExists(entry)
        }
        guard let end = entries.last?.number, let catalog = try historyCatalog() else { return [:] }
        var found: [RowIdentity: HistoryOperation] = [:]
        let rows = Array(open.keys)
        for start in stride(from: 0, to: rows.count, by: DatabaseLimits.historyKeys) {
            try search(
                catalog, after: end, for: Set(rows[start..<min(start + DatabaseLimits.historyKeys, rows.count)]), &found
            )
        }
        return found
    }

    /// Finds what was recorded next of each of some rows, after a change.
    private func search(
        _ catalog: HistoryCatalog, after number: Int64, for rows: Set<RowIdentity>,
        _ found: inout [RowIdentity: HistoryOperation]
    ) throws {
        let tables = Set(rows.map(\.table)).sorted().map { String($0) }.joined(separator: ", ")
        // The first value of the key decides in SQLite, all of it here.
        let marks = rows.map { _ in "?" }.joined(separator: ", ")
        let statement = try statement(
            forFetching: catalog.selection + """
                WHERE seq > ? AND kind >> 3 IN (\(tables))
                    AND (key1 IN (\(marks)) OR kind & 7 = \(HistoryRun.operation)) ORDER BY seq
                """)
        let arguments = [number.databaseValue] + rows.map { DatabaseValue($0.key[0]) }
        let later = try Row.fetchCursor(statement, arguments: StatementArguments(plain: arguments))
        var missing = rows
        while !missing.isEmpty, let row = try later.next() {
            // The end of the changes that were read may be inside a run.
            for entry in try self.entries(row, catalog) where entry.operation != .reset && entry.number > number {
                if let known = missing.remove(RowIdentity(entry)) { found[known] = entry.operation }
            }
        }
    }

    /// - Parameter next: What was recorded of the row next. Only a row that was gone can be inserted.
    /// - Returns: Nil where nothing has happened.
    private func outcome(
        of entry: HistoryEntry, next: HistoryOperation?, isEnd: Bool
    ) throws -> HistoryOperation? {
        // Several rows may have NULL in a key: one of them may be gone while another is there.
        if entry.key.contains(where: \.isNull) { return try rowExists(entry) ? .updated : .deleted }
        if let next { return next == .inserted ? .deleted : nil }
        // Nothing later was recorded of it: see `laterOperations(on:_:)`.
        guard try rowExists(entry) else { return .deleted }
        // A row that comes back is inserted in any case: only its former values would be lost. So the search is short.
        if isEnd || entry.former.isEmpty { return nil }
        guard let catalog = try historyCatalog() else { return nil }
        let (key, arguments) = Self.condition(on: entry.key.indices.map { "key\($0 + 1)" }, entry.key)
        let statement = try statement(
            forFetching: catalog.selection + """
                WHERE seq > ? AND seq <= ? AND kind >> 3 = ? AND (kind & 7 = \(HistoryRun.operation) OR \(key))
                ORDER BY seq
                """)
        let later = try Row.fetchCursor(
            statement,
            arguments: StatementArguments(
                plain: [
                    entry.number.databaseValue,
                    (min(entry.number, .max - DatabaseLimits.historySearch) + DatabaseLimits.historySearch)
                        .databaseValue,
                    entry.table.id.databaseValue,
                ] + arguments))
        let identity = RowIdentity(entry)
        while let row = try later.next() {
            let next = try self.entries(row, catalog).first { $0.number > entry.number && RowIdentity($0) == identity }
            if let next, next.operation != .reset { return next.operation == .inserted ? .deleted : nil }
        }
        return nil
    }

    /// Whether the row of a change is in its table now. A table that is gone, or was made again, has no such row.
    private func rowExists(_ entry: HistoryEntry) throws -> Bool {
        guard try tableExists(entry.tableName, in: "main") else { return false }
        let columns = entry.keyColumns.map(\.quotedDatabaseIdentifier)
        let (condition, arguments) = Self.condition(on: columns, entry.key)
        let table = entry.tableName.quotedDatabaseIdentifier
        do {
            return try Int.fetchOne(
                self, sql: "SELECT 1 FROM main.\(table) WHERE \(condition) LIMIT 1",
                arguments: StatementArguments(plain: arguments)) != nil
        } catch let error as DatabaseError where error.resultCode == .SQLITE_ERROR {
            return false
        }
    }

    /// A condition that holds for exactly this key: the first comparison uses an index.
    private static func condition(on columns: [String], _ key: [DatabaseValue]) -> (String, [DatabaseValue]) {
        let terms = columns.map { "\($0) IS ? AND \($0) COLLATE BINARY IS ? AND typeof(\($0)) = typeof(?)" }
        return (terms.joinedAsExpression(by: " AND "), key.flatMap { [$0, $0, $0] })
    }

    /// The authors by their numbers.
    package func historyAuthors(_ numbers: Set<Int64>) throws -> [Int64: (identity: Int64, label: String)] {
        try withoutWatching {
            var authors: [Int64: (Int64, String)] = [:]
            for number in numbers {
                let row = try Row.fetchOne(
                    self, sql: "SELECT identity, label FROM main.\(HistoryTables.author) WHERE id = ?",
                    arguments: [number])
                guard let row else { continue }
                guard let identity = Int64.fromDatabaseValue(row[0]) else {
                    throw Self.damagedHistory("row \(number) of \(HistoryTables.author)")
                }
                authors[number] = (identity, String.fromDatabaseValue(row[1]) ?? "")
            }
            return authors
        }
    }
}

extension HistoryEntry {
    fileprivate func with(_ operation: HistoryOperation) -> HistoryEntry {
        HistoryEntry(
            number: number, tableName: tableName, operation: operation, key: key, keyColumns: keyColumns, rowID: rowID,
            columns: columns, former: operation == .deleted ? former : [:], origin: origin, author: author,
            isOwn: isOwn, table: table, kind: kind)
    }
}
