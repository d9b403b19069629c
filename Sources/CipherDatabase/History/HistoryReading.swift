// Reading the history in whole transactions, and what its readers have read.

extension Database {
    /// The last change; nil where nothing was recorded.
    package func lastHistoryEntry() throws -> HistoryEntry? {
        try withoutWatching {
            guard let catalog = try historyCatalog() else { throw HistoryError.notRecorded }
            return try historyEntries(catalog, "ORDER BY seq DESC LIMIT 1", []).first
        }
    }

    /// The last change before the transaction of a change; 0 where that is not there.
    package func historyNumber(beforeTransactionOf number: Int64) throws -> Int64 {
        try withoutWatching {
            try Int64.fetchOne(
                self,
                sql: """
                    SELECT seq FROM main.\(HistoryTables.history)
                    WHERE seq < ?1 AND origin IS NOT (SELECT origin FROM main.\(HistoryTables.history) WHERE seq = ?1)
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
            var next: [RowIdentity: HistoryOperation] = [:]
            var resolved: [HistoryEntry] = []
            for entry in entries.reversed() {
                if entry.operation == .reset {
                    resolved.append(entry)
                    continue
                }
                let row = RowIdentity(entry)
                if entry.operation == .perhapsDeleted {
                    let operation = try outcome(of: entry, next: next[row], isEnd: isEnd)
                    if let operation { resolved.append(entry.with(operation)) }
                } else {
                    resolved.append(entry)
                }
                next[row] = entry.operation
            }
            return resolved.reversed()
        }
    }

    private struct RowIdentity: Hashable {
        let table: Int64
        let key: [DatabaseValue.Storage]

        init(_ entry: HistoryEntry) {
            table = entry.table.id
            key = entry.key.map(\.storage)
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
        guard try rowExists(entry) else { return .deleted }
        // A row that comes back is inserted in any case: only its former values would be lost. So the search is short.
        if isEnd || entry.former.isEmpty { return nil }
        let (key, arguments) = Self.condition(on: entry.key.indices.map { "key\($0 + 1)" }, entry.key)
        let kind = try Int64.fetchOne(
            self,
            sql: """
                SELECT kind FROM main.\(HistoryTables.history)
                WHERE seq BETWEEN ? AND ? AND kind >> 3 = ? AND kind & 7 <> ? AND \(key) ORDER BY seq LIMIT 1
                """,
            arguments: StatementArguments(
                plain: [
                    (entry.number + 1).databaseValue, (entry.number + Limits.historySearch).databaseValue,
                    entry.table.id.databaseValue, HistoryOperation.reset.rawValue.databaseValue,
                ] + arguments))
        return kind.map { $0 & 7 } == HistoryOperation.inserted.rawValue ? .deleted : nil
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
        return (terms.joined(separator: " AND "), key.flatMap { [$0, $0, $0] })
    }

    /// The authors by their numbers.
    package func historyAuthors(_ numbers: Set<Int64>) throws -> [Int64: (identity: Int64, label: String)] {
        try withoutWatching {
            var authors: [Int64: (Int64, String)] = [:]
            for number in numbers {
                let row = try Row.fetchOne(
                    self, sql: "SELECT identity, label FROM main.\(HistoryTables.author) WHERE id = ?",
                    arguments: [number])
                if let row { authors[number] = (row[0], row[1] ?? "") }
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
