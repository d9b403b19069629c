import CipherDatabase

/// The changes of the program's tables in one transaction: for the change history, whose triggers do not fire, and for the
/// program's block after a pull.
final class ShownHistory {
    private let db: Database
    private let catalog: Catalog
    private var tables: [Int64: RowHistory?] = [:]
    /// Whether the changes are collected for the program.
    var collects = false
    private(set) var collected: [SyncRowChange] = []

    init(_ db: Database, _ catalog: Catalog) { (self.db, self.catalog) = (db, catalog) }

    private func history(of n: Int64) throws -> RowHistory? {
        if let known = tables[n] { return known }
        let history = try catalog.table(n).local.flatMap { try RowHistory($0, db) }
        tables.updateValue(history, forKey: n)
        return history
    }

    // MARK: Changes

    /// Rows were inserted with the row ids of a range.
    func noteInserted(_ n: Int64, _ rowIDs: ClosedRange<Int64>) throws {
        try history(of: n)?.runs.add(inserted: rowIDs)
    }

    /// A row was inserted that was in no work.
    func noteInserted(_ n: Int64, _ key: RowKey, _ row: [CellValue]) throws {
        if let rowID = key.rowID, let history = try history(of: n), history.isRowID {
            try history.runs.add(inserted: rowID...rowID)
        } else {
            try history(of: n)?.record(nil, row)
        }
        if collects { try collect(n, nil, row) }
    }

    /// A row was updated, of a table whose key is the row id, and was in no work.
    ///
    /// - Parameter changed: The places of the columns that have changed.
    func noteUpdated(_ n: Int64, _ rowID: Int64, changed: Set<Int>) throws {
        try history(of: n)?.recordUpdate([.integer(rowID)], changed)
    }

    /// Notes the rows of the base's work that have changed: table by table, deletions first, then by the keys.
    func note(_ rows: [RowPlace: [CellValue]?], _ base: Base) throws {
        var changes: [(place: RowPlace, old: [CellValue]?, new: [CellValue]?)] = []
        for (place, old) in rows {
            let new = try base.presentRow(place)
            if old != new { changes.append((place, old, new)) }
        }
        changes.sort { one, other in
            if one.place.table != other.place.table { return one.place.table < other.place.table }
            if (one.new == nil) != (other.new == nil) { return one.new == nil }
            return one.place.key < other.place.key
        }
        for change in changes {
            try history(of: change.place.table)?.record(change.old, change.new)
            if collects { try collect(change.place.table, change.old, change.new) }
        }
    }

    /// Writes what was noted.
    func flush() throws { for table in tables.values { try table?.runs.flush() } }

    private func collect(_ n: Int64, _ old: [CellValue]?, _ new: [CellValue]?) throws {
        guard let definition = try catalog.table(n).local, let change = SyncRowChange(definition, old, new) else {
            return
        }
        collected.append(change)
    }
}

/// Writes the change history of one table.
private struct RowHistory {
    let runs: HistoryRuns
    /// Whether the recorded key is the row id.
    let isRowID: Bool
    /// The places of the recorded key's columns in a row.
    private let keyPlaces: [Int]
    /// The places of the columns in a row; nil for generated ones, of which a commit has no values.
    private let keptPlaces: [Int?]
    private let notedPlaces: [Int?]

    /// - Returns: nil if the table is not recorded.
    init?(_ table: TableDefinition, _ db: Database) throws {
        guard let recorder = try db.historyRecorder(of: table.name) else { return nil }
        runs = try HistoryRuns(recorder, db)
        isRowID = table.isRowID
        keyPlaces = try recorder.keyColumns.map { name in
            guard let place = table.column(named: name) else { throw EngineError(.damagedStore) }
            return place
        }
        keptPlaces = recorder.keptColumns.map { table.column(named: $0) }
        notedPlaces = recorder.notedColumns.map { table.column(named: $0) }
    }

    /// - Parameter changed: The places of the columns that have changed.
    func recordUpdate(_ key: [ExactValue], _ changed: Set<Int>) throws {
        // A generated column counts as changed: what it depends on may have.
        let noted = notedPlaces.indices.filter { index in notedPlaces[index].map(changed.contains) ?? true }
        try runs.add(.updated, key: key, changed: noted)
    }

    func record(_ old: [CellValue]?, _ new: [CellValue]?) throws {
        guard let row = new ?? old else { return }
        let key = keyPlaces.map { row[$0].exact }
        switch (old, new) {
        case (let old?, let new?):
            try recordUpdate(key, Set(new.indices.filter { old[$0] != new[$0] }))
        case (nil, _): try runs.add(.inserted, key: key)
        case (let old?, nil):
            try runs.add(.deleted, key: key, kept: keptPlaces.map { $0.map { old[$0].exact } ?? .null })
        }
    }
}
