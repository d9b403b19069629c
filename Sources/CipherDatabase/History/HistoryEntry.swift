import Foundation

/// The change of one row of a table, as the history has it.
package struct HistoryEntry: Sendable {
    /// Its place in the order of all changes.
    package let number: Int64
    /// The table, by the name that it had then.
    package let tableName: String
    /// ``HistoryOperation/perhapsDeleted`` is left to the reader: where the row still exists nothing has happened to
    /// it, unless a later entry inserts it again.
    package let operation: HistoryOperation
    /// The values of the key, in the order of its columns; empty for ``HistoryOperation/reset``.
    package let key: [DatabaseValue]
    /// The names of the columns of the key.
    package let keyColumns: [String]
    /// The key where it is the rowid.
    package let rowID: Int64?
    /// The columns that have changed, where an update recorded them.
    package let columns: Set<String>?
    /// The kept values of a deleted row.
    package let former: [String: DatabaseValue]
    /// A number that the entries of one transaction share, and that differs from one transaction to the next; nil for
    /// writers without this library.
    package let origin: Int64?
    /// The number of the author; nil where it is not known.
    package let author: Int64?
    /// Whether this store object wrote it.
    package fileprivate(set) var isOwn = false
    /// The number of the row that describes the table.
    let table: RecordedTable
    let kind: Int64

    /// When the transaction began, in seconds of Unix time; nil where it is not known.
    package var seconds: Double? { origin.flatMap(HistoryStamp.init)?.seconds }

    /// Names the entry among those that could have its number in other copies of the database.
    package var fingerprint: Int64 {
        var hash = Fingerprint()
        hash.add(kind)
        hash.add(origin ?? 0)
        for value in key { hash.add(value) }
        return hash.value
    }
}

/// FNV-1a of 64 bits: the same in every process and version, and not meant to withstand an attack.
/// - SeeAlso: <https://datatracker.ietf.org/doc/html/draft-eastlake-fnv>
private struct Fingerprint {
    private var state: UInt64 = 0xcbf2_9ce4_8422_2325
    /// Of 53 bits, so that any program reads it from JSON without loss.
    var value: Int64 { Int64(state >> 11) }

    mutating func add(_ number: Int64) { withUnsafeBytes(of: number.littleEndian) { add($0) } }

    mutating func add(_ bytes: some Sequence<UInt8>) {
        for byte in bytes { state = (state ^ UInt64(byte)) &* 0x100_0000_01b3 }
    }

    mutating func add(_ value: DatabaseValue) {
        switch value.storage {
        case .null: add(Int64(0))
        case .int64(let number): add(number)
        case .double(let number): add(Int64(bitPattern: number.bitPattern))
        case .string(let text): add(text.utf8)
        case .blob(let data): add(data)
        }
    }
}

extension Database {
    /// The number of the last change; 0 where nothing was recorded.
    ///
    /// - Throws: ``HistoryError`` `.notRecorded` where there is no history; ``DatabaseError``.
    package func lastHistoryNumber() throws -> Int64 {
        try withoutWatching {
            guard try historyCatalog() != nil else { throw HistoryError.notRecorded }
            // Numbers are positive.
            return max(0, try Int64.fetchOne(self, sql: "SELECT max(seq) FROM main.\(HistoryTables.history)") ?? 0)
        }
    }

    /// The changes after one of them, in their order.
    ///
    /// - Parameters:
    ///   - number: The number of a change, or 0.
    ///   - limit: The most changes that are returned.
    /// - Throws: ``HistoryError`` `.notRecorded` where there is no history, `.expired` where changes after the number
    ///   were purged; ``DatabaseError``.
    package func historyEntries(after number: Int64, limit: Int) throws -> [HistoryEntry] {
        try withoutWatching {
            guard let catalog = try historyCatalog(), let state = try historyState() else {
                throw HistoryError.notRecorded
            }
            if number < state.purged { throw HistoryError.expired(because: "changes after it were purged") }
            return try historyEntries(
                catalog, "WHERE seq > ? ORDER BY seq LIMIT ?", [number, limit], after: number, limit: limit)
        }
    }

    /// The change with a number; nil where there is none.
    package func historyEntry(_ number: Int64) throws -> HistoryEntry? {
        try withoutWatching {
            guard let catalog = try historyCatalog() else { throw HistoryError.notRecorded }
            return try historyEntries(catalog, "WHERE seq >= ? ORDER BY seq LIMIT 1", [number])
                .first { $0.number == number }
        }
    }

    /// The changes of some rows of the history.
    ///
    /// - Parameters:
    ///   - number: Changes up to this one are left out: a row may have several.
    ///   - limit: The most changes that are returned.
    func historyEntries(
        _ catalog: HistoryCatalog, _ clause: String, _ arguments: StatementArguments, after number: Int64 = 0,
        limit: Int = .max
    ) throws -> [HistoryEntry] {
        var entries: [HistoryEntry] = []
        let rows = try Row.fetchCursor(
            statement(forFetching: catalog.selection + clause), arguments: arguments)
        while entries.count < limit, let row = try rows.next() {
            let found = try self.entries(row, catalog)
            entries += found.count == 1 ? found : found.filter { $0.number > number }
        }
        if entries.count > limit { entries.removeSubrange(limit...) }
        try markOwn(&entries)
        return entries
    }

    private func markOwn(_ entries: inout [HistoryEntry]) throws {
        let own = try ownHistoryAuthors(among: Set(entries.compactMap(\.author)))
        if own.isEmpty { return }
        for index in entries.indices { entries[index].isOwn = entries[index].author.map(own.contains) ?? false }
    }

    /// The changes after a change that is still recorded, by one statement. For the connection that writes.
    ///
    /// If a change is still recorded, no later change was purged.
    /// - Returns: Nil if the change was purged, or if more than `limit` changes follow it.
    func historyEntries(
        _ catalog: HistoryCatalog, following number: Int64, limit: Int
    ) throws -> [HistoryEntry]? {
        let rows = try Row.fetchCursor(
            statement(forFetching: catalog.continuation), arguments: [number, limit + 2])
        guard let first = try rows.next().map({ try self.entries($0, catalog) }),
            let place = first.firstIndex(where: { $0.number == number })
        else { return nil }
        var entries = Array(first[(place + 1)...])
        while entries.count <= limit, let row = try rows.next() { entries += try self.entries(row, catalog) }
        if entries.count > limit { return nil }
        // Own changes that are in the history have the number of this store's latest one, so the table of authors, which
        // is a page of its own, need not be read for those of others. A number that is the same may be another's.
        if let number = connectionKey.author.number, entries.contains(where: { $0.author == number }) {
            try markOwn(&entries)
        }
        return entries
    }

    /// The changes of a row of the history: one, or those of a ``HistoryRun``.
    func entries(_ row: Row, _ catalog: HistoryCatalog) throws -> [HistoryEntry] {
        let number: Int64 = row[0]
        guard number > 0, let kind = Int64.fromDatabaseValue(row[1]), let table = catalog.tables[kind >> 3] else {
            throw Self.damagedHistory("change \(number)")
        }
        if kind & 7 == HistoryRun.operation { return try runEntries(row, number, table) }
        guard let operation = HistoryOperation(rawValue: kind & 7) else {
            throw Self.damagedHistory("change \(number)")
        }
        let definition = table.definition
        let hasKey = operation != .reset
        let key = hasKey ? definition.key.indices.map { row[4 + $0] as DatabaseValue } : []
        var former: [String: DatabaseValue] = [:]
        if operation == .deleted || operation == .perhapsDeleted {
            for (index, name) in definition.kept.enumerated() { former[name] = row[4 + catalog.keyColumns + index] }
        }
        let origin = Int64.fromDatabaseValue(row[2])
        let author = origin.flatMap(HistoryStamp.init).flatMap { $0.author == 0 ? nil : $0.author }
        let mask = operation == .updated ? Int64.fromDatabaseValue(row[3]) : nil
        return [
            HistoryEntry(
                number: number, tableName: table.name, operation: operation, key: key, keyColumns: definition.key,
                rowID: hasKey && definition.isRowID ? Int64.fromDatabaseValue(key[0]) : nil,
                columns: mask.map(table.columns(of:)), former: former, origin: origin, author: author, table: table,
                kind: kind)
        ]
    }

    private func runEntries(_ row: Row, _ last: Int64, _ table: RecordedTable) throws -> [HistoryEntry] {
        let definition = table.definition
        guard let count = Int64.fromDatabaseValue(row[3]), count <= last, let content = Data.fromDatabaseValue(row[4]),
            let changes = HistoryRun.changes(Array(content), count: count, of: definition)
        else { throw Self.damagedHistory("change \(last)") }
        let origin = Int64.fromDatabaseValue(row[2])
        let author = origin.flatMap(HistoryStamp.init).flatMap { $0.author == 0 ? nil : $0.author }
        var entries: [HistoryEntry] = []
        var number = last - count
        for change in changes {
            number += 1
            var former: [String: DatabaseValue] = [:]
            for (name, value) in zip(definition.kept, change.kept) { former[name] = value }
            entries.append(
                HistoryEntry(
                    number: number, tableName: table.name, operation: change.operation, key: change.key,
                    keyColumns: definition.key,
                    rowID: definition.isRowID ? Int64.fromDatabaseValue(change.key[0]) : nil,
                    columns: change.columns.map(table.columns(of:)), former: former, origin: origin, author: author,
                    table: table, kind: table.kind(change.operation)))
        }
        return entries
    }
}
