import CipherDatabase

/// What rows were at the head, where the tables do not say so any more. Inside a transaction.
struct ForeignWrites {
    private let transaction: RepositoryTransaction

    init(_ transaction: RepositoryTransaction) { self.transaction = transaction }

    /// All rows that a table has at the head, from the commits up to it.
    func rowsAtHead(of table: TrackedTable) throws -> [RowKey: DeltaRecord] {
        guard let head = transaction.state.head else { return [:] }
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        var composer = DeltaComposer()
        do {
            for step in try graph.path(from: nil, to: head) ?? [] {
                let delta = try store.delta(step.child, fromParent: step.parent)
                try store.reading(step.child) {
                    let own = delta.tables.filter { DeltaTable.areSame($0.table.name, table.name) }
                    try composer.add(try Delta(own.map(table.projecting)))
                }
            }
            var rows: [RowKey: DeltaRecord] = [:]
            for change in try composer.result().tables.flatMap(\.changes) {
                rows[table.table.key(of: change.keyRecord)] = change.new
            }
            return rows
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }
}
