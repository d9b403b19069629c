/// Composes deltas that follow each other into one. The time grows with the number of their rows, not with that of the
/// deltas.
///
/// After an error the composer must not be used further.
struct DeltaComposer: Sendable {
    /// The delta, as long as it is the only one.
    private var only: Delta?
    private var tables: [DeltaTable.FoldedName: ComposedTable] = [:]
    /// What the rows of a table have in columns of which no delta says anything.
    private var defaults: [DeltaTable.FoldedName: [ArraySlice<UInt8>]] = [:]

    init() {}

    /// Adds the delta that follows those before it.
    ///
    /// - Throws: ``DeltaError`` when a row is not what the deltas before it left.
    mutating func add(_ delta: Delta) throws(DeltaError) {
        guard !delta.isEmpty else { return }
        if !defaults.isEmpty {
            try merge(delta)
        } else if let first = only {
            only = nil
            try merge(first)
            try merge(delta)
        } else if tables.isEmpty {
            only = delta
        } else {
            try merge(delta)
        }
    }

    /// Adds a delta in whose inserted and deleted rows values may be undefined: a later delta may say what they are.
    ///
    /// - Parameter defaults: What they are where none does, for each column of a table.
    mutating func add(
        open delta: Delta, defaults: [DeltaTable.FoldedName: [ArraySlice<UInt8>]]
    ) throws(DeltaError) {
        self.defaults.merge(defaults) { $1 }
        if let first = only {
            only = nil
            try merge(first)
        }
        try merge(delta)
    }

    /// The one delta with the effect of all of them.
    func result() throws(DeltaError) -> Delta { try result(leavingOldRowsOpen: false) }

    /// - Parameter leavesOldRowsOpen: Whether values of deleted rows of which no delta says anything stay undefined.
    func result(leavingOldRowsOpen leavesOldRowsOpen: Bool) throws(DeltaError) -> Delta {
        if let only { return only }
        var composed: [TableDelta] = []
        for (name, table) in tables {
            let fill = defaults[name].map { ComposedTable.Fill(values: $0, includesOldRows: !leavesOldRowsOpen) }
            let changes = try table.changes(fill)
            if !changes.isEmpty { composed.append(TableDelta(canonical: changes, of: table.table)) }
        }
        return try Delta(composed)
    }

    private mutating func merge(_ delta: Delta) throws(DeltaError) {
        for table in delta.tables {
            let name = DeltaTable.FoldedName(table.table.name)
            guard let index = tables.index(forKey: name) else {
                var fresh = ComposedTable(table: table.table)
                try fresh.add(table)
                tables[name] = fresh
                continue
            }
            try tables.values[index].add(table)
        }
    }
}

/// The composed changes of one table.
private struct ComposedTable: Sendable {
    /// What happened to a row: one change, or several, which are at an index of ``changedAgain``.
    enum Row: Sendable {
        case changedOnce(RowChange)
        case changedAgain(Int)
    }

    let table: DeltaTable
    private var rows: [RowKey: Row] = [:]
    private var changedAgain: [ComposedRow] = []

    init(table: DeltaTable) { self.table = table }

    mutating func add(_ delta: TableDelta) throws(DeltaError) {
        guard delta.table == table else { throw DeltaError(.otherTable, table: table.name) }
        rows.reserveCapacity(max(rows.count, delta.changes.count))
        for change in delta.changes {
            let key = table.key(of: change.keyRecord)
            let former = rows[key]
            switch former {
            case nil: rows[key] = .changedOnce(change)
            case .changedOnce(let first):
                var row = ComposedRow(first, table)
                try row.add(change, table)
                rows[key] = .changedAgain(changedAgain.count)
                changedAgain.append(row)
            case .changedAgain(let index): try changedAgain[index].add(change, table)
            }
        }
    }

    /// What takes the place of undefined values of whole rows.
    struct Fill {
        /// One for each column.
        let values: [ArraySlice<UInt8>]
        let includesOldRows: Bool
    }

    /// The net changes in their canonical order.
    func changes(_ fill: Fill?) throws(DeltaError) -> [RowChange] {
        var changes: [RowChange] = []
        changes.reserveCapacity(rows.count)
        for row in rows.values {
            switch row {
            case .changedOnce(let change): changes.append(fill.map(change.filled) ?? change)
            case .changedAgain(let index):
                if let change = changedAgain[index].change(of: table, fill) { changes.append(change) }
            }
        }
        return try TableDelta.sorted(changes, of: table)
    }
}

/// What is known of a row before the first of its changes and after the last of them. The cells are parts of the
/// deltas, so a large value is not copied with each change.
private struct ComposedRow: Sendable {
    typealias Cells = [ArraySlice<UInt8>]

    private var isIndirect: Bool
    /// Nil where the row did not exist. A cell that no change has named is undefined.
    private var old: Cells?
    /// Nil where the row does not exist any more. A cell is undefined exactly when ``old`` exists and has it undefined,
    /// or where no delta says what an inserted row has there.
    private var new: Cells?
    /// Whether ``old`` is a row that was deleted, and ``new`` one that was inserted, of which all is said that ever is.
    private var (isOldWhole, isNewWhole): (Bool, Bool)

    init(_ change: RowChange, _ table: DeltaTable) {
        isIndirect = change.isIndirect
        old = change.old?.cells
        new = change.new?.cells
        (isOldWhole, isNewWhole) = (change.operation == .delete, change.operation == .insert)
        if change.operation == .update, let old {
            for column in table.keyColumns { new?[column] = old[column] }
        }
    }

    mutating func add(_ change: RowChange, _ table: DeltaTable) throws(DeltaError) {
        isIndirect = isIndirect && change.isIndirect
        if change.operation == .insert {
            guard new == nil else { throw DeltaError(.rowExists, table: table.name) }
            new = change.new?.cells
            isNewWhole = true
            return
        }
        guard new != nil else { throw DeltaError(.rowMissing, table: table.name) }
        let records = change.records
        var index = (old: records.startIndex, new: change.middle)
        for column in 0..<change.columnCount {
            let oldEnd = try Cell.end(of: records, at: index.old)
            if records[index.old] != Cell.undefined { try learn(records[index.old..<oldEnd], of: column, table) }
            index.old = oldEnd
            guard change.operation == .update else { continue }
            let newEnd = try Cell.end(of: records, at: index.new)
            if records[index.new] != Cell.undefined { new?[column] = records[index.new..<newEnd] }
            index.new = newEnd
        }
        if change.operation == .delete {
            if !isNewWhole { isOldWhole = true }
            (new, isNewWhole) = (nil, false)
        }
    }

    /// Compares the value that the next change found with the present one; the first one that is named is also the old
    /// one.
    private mutating func learn(_ cell: ArraySlice<UInt8>, of column: Int, _ table: DeltaTable) throws(DeltaError) {
        guard let present = new?[column] else { return }
        if present.first != Cell.undefined {
            guard ByteOrder.areEqual(present, cell) else { throw DeltaError(.rowDiffers, table: table.name) }
        } else {
            // Before an insertion it was another row.
            if !isNewWhole { old?[column] = cell }
            new?[column] = cell
        }
    }

    /// The net change; nil when the row is as it was.
    func change(of table: DeltaTable, _ fill: ComposedTable.Fill?) -> RowChange? {
        func filled(_ cells: Cells?, _ isWhole: Bool) -> Cells? {
            guard isWhole, let fill, let cells else { return cells }
            return zip(cells, fill.values).map { $0.first == Cell.undefined ? $1 : $0 }
        }
        let old = filled(old, isOldWhole && fill?.includesOldRows == true)
        return switch (old, filled(new, isNewWhole)) {
        case (nil, nil): nil
        case (nil, let new?): .insert(record(new), indirect: isIndirect)
        case (let old?, nil): .delete(record(old), indirect: isIndirect)
        case (let old?, let new?): table.update(from: old, to: new, indirect: isIndirect)
        }
    }

    private func record(_ cells: Cells) -> DeltaRecord {
        DeltaRecord(cells: cells)
    }
}

extension RowChange {
    /// The change with values in the place of those that are undefined in a whole row.
    fileprivate func filled(_ fill: ComposedTable.Fill) -> RowChange {
        if operation == .update || operation == .delete && !fill.includesOldRows { return self }
        let cells = keyRecord.cells
        guard cells.contains(where: { $0.first == Cell.undefined }) else { return self }
        let filled = zip(cells, fill.values).flatMap { $0.first == Cell.undefined ? $1 : $0 }
        let record = DeltaRecord(valid: filled[...], columnCount: columnCount)
        return operation == .insert ? .insert(record, indirect: isIndirect) : .delete(record, indirect: isIndirect)
    }
}
