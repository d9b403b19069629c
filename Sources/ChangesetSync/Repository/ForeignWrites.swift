import CipherDatabase

/// What rows were at the head, where the tables do not say so any more. Inside a transaction.
struct ForeignWrites {
    private let transaction: RepositoryTransaction

    init(_ transaction: RepositoryTransaction) { self.transaction = transaction }

    /// Whether the rows of a table are others than at the head, after its definition has changed. A column that was added
    /// has its default in each row, unless commits know it from before; the values of a lost column are no difference.
    func differsFromHead(_ table: TrackedTable) throws -> Bool {
        if try hasRowsOfHead(table) { return false }
        var rows: [RowKey: DeltaRecord]
        do {
            rows = try rowsAtHead(of: table)
        } catch let error as SyncError where error.code == .schemaAhead {
            // With another primary key no row can be compared. Other stores stop before such commits.
            return false
        }
        var isSame = true
        try present(table).forEachRecord { row in
            if rows.removeValue(forKey: table.table.key(of: row)) != row { isSame = false }
        }
        return !isSame || !rows.isEmpty
    }

    private func present(_ table: TrackedTable) throws -> Statement {
        try transaction.db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
    }

    /// Whether the digest at the head proves that a table has the rows of the head, with defaults in new columns: without
    /// reading the history, but not for each such table.
    private func hasRowsOfHead(_ table: TrackedTable) throws -> Bool {
        guard let former = try lastDefinition(of: table) else { return false }
        let places = former.columns.compactMap(table.index(ofColumn:))
        guard places.count == former.columns.count else { return false }
        let added = Set(table.table.columns.indices).subtracting(places)
        if try haveCommits(anyOf: added, of: table) { return false }
        var (digest, hasDefaults) = (RowDigest(), true)
        try present(table).forEachRecord { row in
            let cells = row.cells
            if !added.allSatisfy({ ByteOrder.areEqual(cells[$0], table.columns[$0].defaultCell[...]) }) {
                hasDefaults = false
            }
            let known = places.flatMap { cells[$0] }
            try digest.add(DeltaRecord(valid: known[...], columnCount: places.count), transaction.key)
        }
        return try hasDefaults && digest == transaction.digest(of: table.name)
    }

    /// Whether the commits up to the head have values of columns that the last one of them lacks: of a column that was
    /// dropped and is there again, other stores have these values still.
    private func haveCommits(anyOf columns: Set<Int>, of table: TrackedTable) throws -> Bool {
        guard !columns.isEmpty, let head = transaction.state.head else { return false }
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        return try (graph.path(from: nil, to: head) ?? []).contains { step in
            try store.delta(step.child, fromParent: step.parent).tables.contains { entry in
                guard DeltaTable.areSame(entry.table.name, table.name) else { return false }
                return columns.contains { column in
                    entry.table.columns.contains { DeltaTable.areSame($0, table.table.columns[column]) }
                }
            }
        }
    }

    /// A table as the last commit has it that has changed its rows.
    private func lastDefinition(of table: TrackedTable) throws -> DeltaTable? {
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        var place = transaction.state.head
        while let n = place {
            if try store.commit(n).digests.contains(where: { $0.table == table.name }),
                let entry = try store.delta(n).tables.first(where: { DeltaTable.areSame($0.table.name, table.name) })
            {
                return entry.table
            }
            place = try graph.node(n).parents.first
        }
        return nil
    }

    /// All rows that a table has at the head, from the commits up to it, with the columns that it has now. A row has the
    /// default of a column of which no commit says anything.
    func rowsAtHead(of table: TrackedTable) throws -> [RowKey: DeltaRecord] {
        guard let head = transaction.state.head else { return [:] }
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        var rows: [RowKey: DeltaRecord] = [:]
        for step in try graph.path(from: nil, to: head) ?? [] {
            let delta = try store.delta(step.child, fromParent: step.parent)
            try store.reading(step.child) {
                for entry in delta.tables where DeltaTable.areSame(entry.table.name, table.name) {
                    for change in try table.projecting(entry).changes { table.apply(change, to: &rows) }
                }
            }
        }
        return rows
    }
}

extension TrackedTable {
    fileprivate func apply(_ change: RowChange, to rows: inout [RowKey: DeltaRecord]) {
        let key = table.key(of: change.keyRecord)
        if change.operation == .update, let new = change.new {
            rows[key] = rows[key]?.replacing(by: new)
        } else {
            rows[key] = change.new
        }
    }
}
