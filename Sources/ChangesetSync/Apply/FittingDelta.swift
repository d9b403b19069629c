import CipherDatabase

extension TrackedTables {
    /// Why a delta cannot be applied to these tables; nil where it can.
    func obstacle(to delta: Delta) -> (table: String, reason: String)? {
        for entry in delta.tables {
            guard let table = self[entry.table.name] else {
                return (
                    entry.table.name,
                    "The table is not tracked in this store: when the program has made it, track it "
                        + "(enable(_:), or `cipherctl sync init` with --table)."
                )
            }
            if table.table == entry.table { continue }
            if let name = entry.table.columns.first(where: { table.index(ofColumn: $0) == nil }) {
                return (table.name, "The table has no column \"\(name)\".")
            }
            let key = entry.table.keyColumns.map { table.index(ofColumn: entry.table.columns[$0]) }
            if key != table.table.keyColumns { return (table.name, "The primary key is another one.") }
        }
        return nil
    }

    /// The delta with the columns that the tables have now: rows that do not name one have its default.
    ///
    /// - Throws: ``SyncError`` `.schemaAhead` where the tables lack a column.
    func fitting(_ delta: Delta) throws -> Delta {
        do {
            return try adapting(delta) { table, entry in
                let changes = try entry.changes.map { change in
                    try table.fitting(change, of: entry.table) { table.columns[$0].defaultCell }
                }
                return try TableDelta(table: table.table, changes: changes)
            }
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    /// The same, but what a row has in a column that its commit did not know is undefined.
    ///
    /// - Returns: Also the defaults of tables that have such columns.
    func open(
        _ delta: Delta
    ) throws -> (delta: Delta, defaults: [DeltaTable.FoldedName: [ArraySlice<UInt8>]]) {
        var defaults: [DeltaTable.FoldedName: [ArraySlice<UInt8>]] = [:]
        let open = try adapting(delta) { table, entry in
            defaults[DeltaTable.FoldedName(table.name)] = table.columns.map { $0.defaultCell[...] }
            let changes = try entry.changes.map { change in
                try table.fitting(change, of: entry.table) { _ in [Cell.undefined] }
            }
            return TableDelta(canonical: try TableDelta.sorted(changes, of: table.table), of: table.table)
        }
        return (open, defaults)
    }

    /// The delta with other changes of each table that is defined otherwise than it says.
    private func adapting(
        _ delta: Delta, _ adapt: (TrackedTable, TableDelta) throws -> TableDelta
    ) throws -> Delta {
        if let obstacle = obstacle(to: delta) {
            throw SyncError(.schemaAhead, table: obstacle.table, obstacle.reason)
        }
        guard delta.tables.contains(where: { self[$0.table.name]?.table != $0.table }) else { return delta }
        return try Delta(
            delta.tables.map { entry in
                guard let table = self[entry.table.name], table.table != entry.table else { return entry }
                return try adapt(table, entry)
            })
    }
}

extension TrackedTable {
    /// Changes as far as they are of columns that the table has now: it may have lost some.
    ///
    /// - Throws: ``SyncError`` `.schemaAhead` where the primary key is another one.
    func projecting(_ entry: TableDelta) throws -> TableDelta {
        if table == entry.table { return entry }
        guard entry.table.keyColumns.map({ index(ofColumn: entry.table.columns[$0]) }) == table.keyColumns else {
            throw SyncError(.schemaAhead, table: name, "The primary key is another one.")
        }
        let changes = try entry.changes.map { change in
            try fitting(change, of: entry.table) { columns[$0].defaultCell }
        }.filter { change in
            // An update of lost columns alone is none.
            change.operation != .update || change.new?.cells.contains { $0.first != Cell.undefined } == true
        }
        return try TableDelta(table: table, changes: changes)
    }

    /// A change of a row with fewer columns, or with the columns in another order.
    ///
    /// - Parameter missing: What a row has in a column that the other table lacks.
    fileprivate func fitting(
        _ change: RowChange, of source: DeltaTable, or missing: (_ column: Int) -> [UInt8]
    ) throws -> RowChange {
        let places = table.columns.map { name in source.columns.firstIndex { DeltaTable.areSame($0, name) } }
        func record(_ record: DeltaRecord, or missing: (Int) -> [UInt8]) -> DeltaRecord {
            let cells = record.cells
            let fitting = places.enumerated().map { column, place in place.map { Array(cells[$0]) } ?? missing(column) }
            return DeltaRecord(cells: fitting)
        }
        switch (change.operation, change.old, change.new) {
        case (.insert, _, let new?):
            return .insert(record(new, or: missing), indirect: change.isIndirect)
        case (.delete, let old?, _):
            return .delete(record(old, or: missing), indirect: change.isIndirect)
        case (.update, let old?, let new?):
            return try .update(
                old: record(old) { _ in [Cell.undefined] }, new: record(new) { _ in [Cell.undefined] },
                indirect: change.isIndirect)
        default: throw CommitStore.damaged("A change has no row.")
        }
    }
}
