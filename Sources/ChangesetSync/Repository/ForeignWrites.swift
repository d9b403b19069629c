import CipherDatabase

/// What rows were at the head, where the tables do not say so any more. Inside a transaction.
struct ForeignWrites {
    private let transaction: RepositoryTransaction

    init(_ transaction: RepositoryTransaction) { self.transaction = transaction }

    /// All rows that a table has at the head, from the commits up to it, with the columns that it has now.
    func rowsAtHead(of table: TrackedTable) throws -> [RowKey: DeltaRecord] {
        guard let head = transaction.state.head else { return [:] }
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        var rows: [RowKey: DeltaRecord] = [:]
        var former: DeltaTable?
        for step in try graph.path(from: nil, to: head) ?? [] {
            let delta = try store.delta(step.child, fromParent: step.parent)
            try store.reading(step.child) {
                for entry in delta.tables where DeltaTable.areSame(entry.table.name, table.name) {
                    if let former { table.addColumns(of: entry.table, beyond: former, to: &rows) }
                    former = entry.table
                    for change in try table.projecting(entry).changes { table.apply(change, to: &rows) }
                }
            }
        }
        if let former { table.addColumns(of: table.table, beyond: former, to: &rows) }
        return rows
    }
}

extension TrackedTable {
    /// Gives rows the defaults of columns that were added. They may have been there before, with other values.
    fileprivate func addColumns(of next: DeltaTable, beyond former: DeltaTable, to rows: inout [RowKey: DeltaRecord]) {
        func has(_ columns: [String], _ name: String) -> Bool { columns.contains { DeltaTable.areSame($0, name) } }
        let added = table.columns.indices.filter { column in
            has(next.columns, table.columns[column]) && !has(former.columns, table.columns[column])
        }
        if added.isEmpty { return }
        let cells = table.columns.indices.map { added.contains($0) ? columns[$0].defaultCell : [Cell.undefined] }
        let defaults = DeltaRecord(valid: Array(cells.joined())[...], columnCount: cells.count)
        rows = rows.mapValues { $0.replacing(by: defaults) }
    }

    fileprivate func apply(_ change: RowChange, to rows: inout [RowKey: DeltaRecord]) {
        let key = table.key(of: change.keyRecord)
        if change.operation == .update, let new = change.new {
            rows[key] = rows[key]?.replacing(by: new)
        } else {
            rows[key] = change.new
        }
    }
}
