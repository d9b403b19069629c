import CipherDatabase

/// Values for which the program's schema lacks a place: of a table or a column that was dropped, and rows of a table
/// that has another key.
///
/// The values of plain rows are in the program's table alone. So these rows are kept aside as a whole, with the values that
/// their commits wrote, before anything else reads or writes them. Each slice is a transaction, and may be repeated.
///
/// | the program has | rows that are kept | afterwards |
/// |---|---|---|
/// | dropped or renamed a table | all | shown if a table of the name is there again |
/// | dropped a column | those with a value of it | shown without it, and with it if a column of the name is there again |
/// | given a table another key | all | hidden; the rows of the new table are insertions |
///
/// Limit: values of a column that a program drops and makes again before the next call of the repository are lost.
///
/// A row whose commits are forgotten is kept with the stamps of these values alone (``BaseRow/unknown``). Others that know
/// the values bring them by the join (``UnknownValues``).
struct DroppedValues {
    /// The last row that was examined.
    struct Progress {
        var table: Int64 = 0
        var key: RowKey?
    }

    /// A table of which something was dropped.
    private struct Dropped {
        let n: Int64
        let isRowID: Bool
        /// nil for all, and for the rows themselves.
        let columns: Set<Int64>?
        let reason: HiddenReason
        var isWhole: Bool { columns == nil }
    }

    private let work: Work
    private var db: Database { work.db }

    init(_ work: Work) { self.work = work }

    // MARK: Finding

    /// Whether rows are not kept yet from which the program has dropped something.
    static func areToBeKept(_ work: Work) throws -> Bool {
        let dropped = try DroppedValues(work).all()
        return try dropped.contains { dropped in
            guard let columns = dropped.columns else {
                return try !PlainRows(dropped.n, isRowID: dropped.isRowID, work.db).keys(after: nil, limit: 1).isEmpty
            }
            return !columns.isEmpty
        }
    }

    private func all() throws -> [Dropped] {
        var found: [Dropped] = []
        var keys: [(n: Int64, key: TrackedKey)] = []
        try db.cachedStatement(sql: "SELECT n, key FROM \(EngineTables.table) WHERE key IS NOT NULL ORDER BY n")
            .forEach([]) { keys.append(($0.integer(0), TrackedKey($0.text(1)))) }
        for (n, key) in keys {
            let table = try work.catalog.table(n)
            guard let local = table.local else {
                found.append(Dropped(n: n, isRowID: key.isRowID, columns: nil, reason: .unknownTable))
                continue
            }
            if key.differs(from: local) {
                found.append(Dropped(n: n, isRowID: key.isRowID, columns: nil, reason: .otherKey))
                continue
            }
            let columns = table.columns.values.filter { $0.wasHere && $0.place == nil && $0.dropped == nil }
            if columns.isEmpty { continue }
            found.append(
                Dropped(n: n, isRowID: key.isRowID, columns: Set(columns.map(\.n)), reason: .composed))
        }
        return found
    }

    // MARK: Keeping

    /// Keeps the values of the next rows.
    ///
    /// - Returns: Whether there may be more.
    func keep(after progress: inout Progress, limit: Int) throws -> Bool {
        for dropped in try all() where dropped.n >= progress.table {
            if dropped.n != progress.table { progress = Progress(table: dropped.n) }
            let rows = PlainRows(dropped.n, isRowID: dropped.isRowID, db)
            let keys = try rows.keys(after: progress.key, limit: limit)
            if let last = keys.last {
                try keep(keys, of: dropped, rows)
                progress.key = last
                return true
            }
            try end(dropped, rows)
            progress = Progress(table: dropped.n + 1)
        }
        return false
    }

    private func keep(_ keys: [RowKey], of dropped: Dropped, _ rows: PlainRows) throws {
        var found: [(place: RowPlace, incarnation: Int64, row: BaseRow)] = []
        for key in keys {
            guard let stamps = try rows.stamps(of: key) else { continue }
            let row = try row(RowPlace(table: dropped.n, key: key), stamps)
            if let columns = dropped.columns, columns.isDisjoint(with: row.cells.keys) { continue }
            found.append((RowPlace(table: dropped.n, key: key), stamps.incarnation, row))
        }
        let values = try FormerValues(work).read(found.map { ($0.place, $0.row) })
        for (place, incarnation, row) in found {
            var row = row
            let known = values[place] ?? [:]
            let present = dropped.isWhole ? nil : try work.base.tableRow(place)
            let table = try work.catalog.table(dropped.n)
            let counters = try work.base.stored.counters(of: place).cells
            for n in row.cells.keys {
                let shown = table.columns[n]?.place.flatMap { place in present.map { $0[place] } }
                if let value = known[n]
                    ?? (table.columns[n]?.isCounter == true ? counters[n] : shown)
                {
                    row.cells[n]?.value = value
                } else if let cell = row.cells.removeValue(forKey: n) {
                    row.unknown[n] = cell.stamp
                }
            }
            try rows.remove(place.key)
            try work.base.stored.setAside(place, incarnation, row, dropped.reason)
        }
    }

    /// A plain row with its stamps and counters, and without values.
    private func row(_ place: RowPlace, _ stamps: PlainStamps) throws -> BaseRow {
        var row = BaseRow(born: stamps.born)
        for n in try work.catalog.columns(ofShape: stamps.shape) {
            row.cells[n] = BaseRow.BaseCell(stamp: stamps.insertion, value: .null)
        }
        for (n, stamp) in stamps.others { row.cells[n] = BaseRow.BaseCell(stamp: stamp, value: .null) }
        row.sums = try work.base.stored.counters(of: place).sums
        return row
    }

    /// Notes that the rows are kept. Commits that are joined later count as written since.
    private func end(_ dropped: Dropped, _ rows: PlainRows) throws {
        let last = try db.cachedStatement(sql: "SELECT max(n) FROM \(EngineTables.commit)").first([]) { $0.integer(0) }
        let isKept = try rows.keys(after: nil, limit: 1).isEmpty
        if let columns = dropped.columns {
            for n in columns {
                try db.cachedStatement(sql: "UPDATE \(EngineTables.column) SET dropped = ? WHERE n = ?")
                    .execute(exact: [.integer(last ?? 0), .integer(n)])
            }
        } else if isKept {
            try db.execute(
                sql: "UPDATE \(EngineTables.table) SET key = NULL, definition = NULL, dropped = ? WHERE n = ?",
                arguments: [last ?? 0, dropped.n])
            try db.execute(
                sql: "UPDATE \(EngineTables.column) SET dropped = ? WHERE tbl = ?", arguments: [last ?? 0, dropped.n])
        }
        try work.catalog.read()
        guard dropped.reason != .otherKey, isKept || dropped.columns != nil else { return }
        try work.commitDropped(true, dropped.n, columns: dropped.columns)
    }
}

/// The key of a tracked table, as it was when the table was tracked.
struct TrackedKey {
    let isRowID: Bool
    private let names: [String]

    init(_ table: TableDefinition) {
        isRowID = table.isRowID
        names = table.keyColumns.map { table.columns[$0].name.lowercased() }
    }

    /// - Parameter text: ``text``
    init(_ text: String) {
        isRowID = text.hasPrefix("1")
        names = text.split(separator: "\u{1F}", omittingEmptySubsequences: false).dropFirst().map(String.init)
    }

    var text: String { ([isRowID ? "1" : "0"] + names).joined(separator: "\u{1F}") }

    /// Whether the table has another key than it had. A column of the key that was renamed is still of the key.
    func differs(from table: TableDefinition) -> Bool {
        let present = TrackedKey(table)
        let others = Set(table.columns.map { $0.name.lowercased() }).subtracting(present.names)
        return isRowID != present.isRowID || names.count != present.names.count
            || names.contains(where: others.contains)
    }
}
