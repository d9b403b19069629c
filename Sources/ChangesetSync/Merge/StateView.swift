import CipherDatabase

/// The rows of the tables, for a merge that looks at a row several times: each is read and decrypted once. Inside a
/// transaction that does not change them.
final class TableRows {
    let db: Database
    private var lookups: [String: RowLookup] = [:]
    private var known: [String: [RowKey: DeltaRecord?]] = [:]

    init(_ db: Database) { self.db = db }

    /// The row with exactly this key.
    func row(_ table: TrackedTable, _ key: RowKey) throws -> DeltaRecord? {
        if let known = known[table.name]?[key] { return known }
        let lookup = try lookups[table.name] ?? RowLookup(table, in: db)
        lookups[table.name] = lookup
        let row = try lookup.row(key)
        known[table.name, default: [:]].updateValue(row, forKey: key)
        return row
    }
}

/// The rows of a commit's state: the rows of the tables, which are the state of the head, with a net delta over them.
struct StateView {
    private let base: TableRows
    private let tables: TrackedTables
    /// Rows that differ from those of the tables; nil for rows that do not exist.
    private var overlay: [String: [RowKey: DeltaRecord?]] = [:]
    /// The changes of the delta whose rows are not in the overlay: most of the rows are never asked for.
    private var changes: [String: [RowKey: RowChange]] = [:]
    /// The rows of the overlay by what is searched for.
    private var indexes: [String: [OverlayIndex]] = [:]

    init(_ base: TableRows, _ tables: TrackedTables) {
        (self.base, self.tables) = (base, tables)
    }

    /// - Parameter delta: From the head to the commit, with the columns of the tables.
    init(_ base: TableRows, _ tables: TrackedTables, delta: Delta) throws {
        self.init(base, tables)
        for entry in delta.tables {
            guard let table = tables[entry.table.name] else { continue }
            changes[table.name] = Dictionary(
                entry.changes.map { (table.table.key(of: $0.keyRecord), $0) }, uniquingKeysWith: { $1 })
        }
    }

    /// The rows of a table that may differ from those of the tables; nil for rows that do not exist.
    mutating func differingRows(of table: TrackedTable) throws -> [RowKey: DeltaRecord?] {
        try takeChanges(of: table)
        return overlay[table.name] ?? [:]
    }

    /// Puts the rows of the delta into the overlay.
    private mutating func takeChanges(of table: TrackedTable) throws {
        guard let changes = changes.removeValue(forKey: table.name) else { return }
        for (key, change) in changes where overlay[table.name]?.index(forKey: key) == nil {
            try set(table, key, try row(table, key, after: change))
        }
    }

    private func row(_ table: TrackedTable, _ key: RowKey, after change: RowChange) throws -> DeltaRecord? {
        guard change.operation == .update, let new = change.new else { return change.new }
        guard let row = try base.row(table, key) else { throw SyncError(.workingStateDiverged, table: table.name) }
        return row.replacing(by: new)
    }

    mutating func set(_ table: TrackedTable, _ key: RowKey, _ row: DeltaRecord?) throws {
        let former = overlay[table.name, default: [:]].updateValue(row, forKey: key) ?? nil
        for place in indexes[table.name]?.indices ?? 0..<0 {
            try indexes[table.name]?[place].replace(former, by: row, key)
        }
    }

    func row(_ table: TrackedTable, _ key: RowKey) throws -> DeltaRecord? {
        if let known = overlay[table.name]?[key] { return known }
        if let change = changes[table.name]?[key] { return try row(table, key, after: change) }
        return try base.row(table, key)
    }

    // MARK: Searching

    /// The rows that have values, in the order of their keys.
    ///
    /// - Parameter cells: One for each column of the search; none is NULL.
    mutating func rows(_ search: RowSearch, equal cells: [ArraySlice<UInt8>]) throws -> [DeltaRecord] {
        guard let form = try search.comparison.form(cells, in: base.db) else { return [] }
        let table = search.table
        let changed = try differingRows(of: table)
        var found = try search.rows(form, cells).filter { changed[table.table.key(of: $0)] == nil }
        for key in try keys(search, form) {
            if let row = changed[key] ?? nil { found.append(row) }
        }
        if !search.comparison.isDecidedByForm { found = try found.filter { try search.isEqual($0, to: cells) } }
        return found.sorted { table.table.key(of: $0) < table.table.key(of: $1) }
    }

    /// The rows of the overlay with values of a form.
    private mutating func keys(_ search: RowSearch, _ form: KeyComparison.Form) throws -> Set<RowKey> {
        let name = search.table.name
        if let index = indexes[name]?.first(where: { $0.search === search }) { return index.keys[form] ?? [] }
        var index = OverlayIndex(search)
        for case (let key, let row?) in overlay[name] ?? [:] { try index.replace(nil, by: row, key) }
        indexes[name, default: []].append(index)
        return index.keys[form] ?? []
    }
}

/// Rows by the form of their values.
private struct OverlayIndex {
    let search: RowSearch
    private(set) var keys: [KeyComparison.Form: Set<RowKey>] = [:]

    init(_ search: RowSearch) { self.search = search }

    mutating func replace(_ former: DeltaRecord?, by row: DeltaRecord?, _ key: RowKey) throws {
        if let form = try former.flatMap(search.form) { keys[form]?.remove(key) }
        if let form = try row.flatMap(search.form) { keys[form, default: []].insert(key) }
    }
}
