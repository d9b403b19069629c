import CipherDatabase

/// Rows of tracked tables that were written outside of commits: by another program, or by this one without its repository.
///
/// The change history has their keys. Only the rows with these keys are read: as they are in the table, and as the base has
/// them. Nothing is replayed, so it makes no difference how often a row was written. Inside a transaction.
///
/// | history | what is compared |
/// |---|---|
/// | an entry of a row | that row; of an update the columns that the entry names |
/// | an entry that a table must be read again, after a change of its definition or of its triggers | the table |
/// | entries are purged that were not seen, or the history is another one | all tables |
///
/// ``ReplicaState`` has the name of the history and the number of the last entry that was read. The transaction of the
/// commit updates both, so a kill repeats nothing and leaves nothing out.
///
/// Limits: the rows of several transactions become one commit or several, without a description. Writes that the change
/// history has lost are not found in hidden rows, nor in rows that came by a snapshot.
struct ForeignWrites {
    /// The columns of a row that may have been written; nil for all, and for the row itself.
    typealias Columns = Set<Int>?
    /// The keys of a table that may have been written.
    typealias Keys = [RowKey: Columns]

    let work: Work
    private var db: Database { work.db }

    /// So much was written, or so much has to be compared, that it takes transactions of its own.
    struct Pending: Error {}

    /// The entries that the change history has, and those that the base knows.
    private struct Extent {
        let name: String
        let purged: Int64
        /// The last entry that was seen; less than any other if the history is another one.
        let seen: Int64
        let end: Int64

        var isLost: Bool { seen < purged }
    }

    /// - Returns: nil if there is no history.
    private func extent() throws -> Extent? {
        guard try db.recordedTables() != nil, let history = try db.historyState() else { return nil }
        let name = try db.cachedStatement(sql: "SELECT history_name FROM \(EngineTables.state)")
            .first([]) { $0.optionalText(0) }
        let seen = name == history.history ? work.state.history : -1
        return Extent(name: history.history, purged: history.purged, seen: seen, end: try db.lastHistoryNumber())
    }

    /// Whether it takes transactions of its own.
    func needsTransactions(limit: Int) throws -> Bool {
        guard let extent = try extent(), extent.seen != extent.end else { return false }
        if extent.isLost || extent.end - extent.seen > Int64(limit) { return true }
        var found = try Entries(work)
        try found.readResets(after: extent.seen)
        return !found.tables.isEmpty
    }

    /// Whether rows of tracked tables were perhaps written outside of commits, without reading them.
    func hasAny() throws -> Bool {
        guard let extent = try extent(), extent.seen != extent.end else { return false }
        if extent.isLost { return true }
        guard let found = try db.tablesInHistory(after: extent.seen) else { return true }
        let adopting = try work.adoptingTables()
        return found.changed.union(found.uncertain).contains { name in
            work.catalog.local(name).map { !adopting.contains($0.n) } ?? false
        }
    }

    /// Makes commits of what was written.
    ///
    /// - Parameters:
    ///   - limit: The most entries of the history that are read.
    ///   - compared: Tables that were compared before the transaction.
    /// - Returns: Whether there may be more.
    func take(limit: Int = .max, compared: ComparedTables? = nil) throws -> Bool {
        guard let extent = try extent(), extent.seen != extent.end else { return false }
        var found = try Entries(work)
        if extent.isLost {
            found.addAllTables(upTo: extent.end)
        } else {
            try found.read(after: extent.seen, limit: limit)
        }
        for n in found.tables.sorted() {
            guard let table = work.catalog.tables[n], let definition = table.local else { continue }
            if let known = compared?.keys[n], found.lastReset[n] ?? .max <= compared?.end ?? 0 {
                found.merge(known, of: n)
            } else {
                found.merge(try TableComparison(work, table, definition).keys(), of: n)
            }
        }
        try record(found.keys)
        work.state.history = found.end
        if extent.seen < 0 {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.state) SET history_name = ?")
                .execute(exact: [ExactValue(text: extent.name)])
        }
        return found.end < extent.end
    }

    /// Compares tables as a whole, where the history says that they must be: in a transaction that writes nothing, so that
    /// no writer waits.
    func compareTables() throws -> ComparedTables? {
        guard let extent = try extent(), extent.seen != extent.end else { return nil }
        var found = try Entries(work)
        if extent.isLost {
            found.addAllTables(upTo: extent.end)
        } else {
            try found.readResets(after: extent.seen)
        }
        if found.tables.isEmpty { return nil }
        var compared = ComparedTables(end: extent.end)
        for n in found.tables {
            guard let table = work.catalog.tables[n], let definition = table.local else { continue }
            compared.keys[n] = try TableComparison(work, table, definition).keys()
        }
        return compared
    }

    // MARK: The commit

    private func record(_ keys: [Int64: Keys]) throws {
        var changes = ForeignChanges()
        for (n, keys) in keys.sorted(by: { $0.key < $1.key }) {
            guard let table = work.catalog.tables[n], let definition = table.local else { continue }
            try ForeignRows(work, table, definition).append(keys, to: &changes)
        }
        if !changes.rows.isEmpty {
            _ = try work.record(changes.rows, meta: "{}", isRecorded: true, unknown: changes.unknown)
        }
    }
}

/// The result of comparing tables with the base.
struct ComparedTables {
    /// The last entry of the history when they were compared.
    let end: Int64
    /// The keys of rows that differ, by the number of the table.
    var keys: [Int64: ForeignWrites.Keys] = [:]
}

/// Changes of rows whose former values may be unknown.
struct ForeignChanges {
    var rows: [ProgramChange] = []
    /// The columns of deleted rows whose values are not known, by their numbers in the base.
    var unknown: [RowPlace: Set<Int64>] = [:]
}

/// The keys and tables in entries of the history.
private struct Entries {
    private let work: Work
    private(set) var keys: [Int64: ForeignWrites.Keys] = [:]
    /// The tables that must be compared as a whole.
    private(set) var tables: Set<Int64> = []
    /// The last entry that says so, by table.
    private(set) var lastReset: [Int64: Int64] = [:]
    /// The last entry that was read.
    private(set) var end: Int64 = 0
    private let adopting: Set<Int64>
    private var last: Columns?

    /// How the entries of one recording name the columns of a table.
    private struct Columns {
        let tableName: String
        let keyColumns: [String]
        let n: Int64
        let definition: TableDefinition
        /// The place in the entry of each value of the key.
        let keyPlaces: [Int]?
    }

    private static let batch = 10_000

    init(_ work: Work) throws {
        self.work = work
        adopting = try work.adoptingTables()
    }

    /// The rows of tables that are being adopted are no foreign writes: who adopts reads all of them.
    mutating func addAllTables(upTo end: Int64) {
        tables = Set(work.catalog.tables.filter { $1.local != nil }.keys).subtracting(adopting)
        for n in tables { lastReset[n] = end }
        self.end = end
    }

    mutating func read(after number: Int64, limit: Int) throws {
        end = number
        var left = limit
        while left > 0 {
            let count = min(left, Self.batch)
            let entries = try work.db.historyEntries(after: end, limit: count)
            for entry in entries { add(entry) }
            guard let last = entries.last else { return }
            end = last.number
            left -= entries.count
        }
    }

    /// Finds only the tables that must be compared.
    mutating func readResets(after number: Int64) throws {
        for name in try work.db.tablesInHistory(after: number)?.uncertain ?? [] {
            if let n = work.catalog.local(name)?.n, !adopting.contains(n) { tables.insert(n) }
        }
    }

    mutating func merge(_ found: ForeignWrites.Keys, of n: Int64) {
        for (key, columns) in found { add(key, columns, of: n) }
    }

    private mutating func add(_ key: RowKey, _ columns: ForeignWrites.Columns, of n: Int64) {
        guard let known = keys[n]?[key] else {
            keys[n, default: [:]].updateValue(columns, forKey: key)
            return
        }
        guard let known, let columns else {
            keys[n]?.updateValue(nil, forKey: key)
            return
        }
        keys[n]?.updateValue(known.union(columns), forKey: key)
    }

    private mutating func add(_ entry: HistoryEntry) {
        guard let columns = columns(of: entry) else { return }
        let n = columns.n
        if entry.operation == .reset {
            if adopting.contains(n) { return }
            tables.insert(n)
            lastReset[n] = entry.number
            return
        }
        guard let places = columns.keyPlaces, let key = Self.key(places.map { entry.key[$0] }) else {
            // The key is recorded otherwise, or a text of it is no UTF-8.
            tables.insert(n)
            lastReset[n] = .max
            return
        }
        // Such a row cannot be committed.
        if key.values.contains(where: \.isNull) { return }
        switch entry.operation {
        case .updated:
            add(key, entry.columns.map { Set($0.compactMap { columns.definition.column(named: $0) }) }, of: n)
        // If the row is there, it was not changed.
        case .perhapsDeleted: add(key, [], of: n)
        default: add(key, nil, of: n)
        }
        // The row may have had such a key before: SQLite takes both for the same, and so do the triggers.
        for other in key.withOtherZeros { add(other, [], of: n) }
    }

    private mutating func columns(of entry: HistoryEntry) -> Columns? {
        if let last, last.tableName == entry.tableName, last.keyColumns == entry.keyColumns { return last }
        guard let table = work.catalog.local(entry.tableName), let definition = table.local else { return nil }
        let places = definition.keyColumns.compactMap { column in
            entry.keyColumns.firstIndex { $0.lowercased() == definition.columns[column].name.lowercased() }
        }
        let isWhole = places.count == entry.keyColumns.count && places.count == definition.keyColumns.count
        last = Columns(
            tableName: entry.tableName, keyColumns: entry.keyColumns, n: table.n, definition: definition,
            keyPlaces: isWhole ? places : nil)
        return last
    }

    private static func key(_ values: [DatabaseValue]) -> RowKey? {
        let cells = values.map(CellValue.init)
        for cell in cells { if case .text(let bytes) = cell, bytes.containsReplacement { return nil } }
        return RowKey(cells)
    }
}

extension ArraySlice<UInt8> {
    /// Whether it has the character that stands for bytes that are no UTF-8.
    fileprivate var containsReplacement: Bool {
        contains(0xEF) && String(decoding: self, as: UTF8.self).unicodeScalars.contains("\u{FFFD}")
    }
}

extension CellValue {
    init(_ value: DatabaseValue) {
        switch value.storage {
        case .null: self = .null
        case .int64(let number): self = .integer(number)
        case .double(let number): self = .real(number)
        case .string(let text): self = .string(text)
        case .blob(let data): self = .blob(Array(data)[...])
        }
    }
}

extension Work {
    /// The tables whose rows are being adopted.
    func adoptingTables() throws -> Set<Int64> {
        var found: Set<Int64> = []
        try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.table) WHERE adopting & 1").forEach([]) {
            found.insert($0.integer(0))
        }
        return found
    }
}
