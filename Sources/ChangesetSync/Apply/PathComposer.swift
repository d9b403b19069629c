/// Composes the changes of commits that follow each other, with the columns that the tables have now.
///
/// A row has in a column that its commit did not know what a later commit says of it, and else the default: the authors may
/// have had other ones.
struct PathComposer {
    private let store: CommitStore
    private let tables: TrackedTables
    private var composer = DeltaComposer()
    /// The names of the tables that the commits have changed; they may have undone it again, or say of a table that its
    /// rows were other ones.
    private(set) var changedTables: Set<String> = []
    /// Whether a commit did not know a column.
    private(set) var isOpen = false

    init(_ store: CommitStore, _ tables: TrackedTables) { (self.store, self.tables) = (store, tables) }

    /// - Returns: The changes of the step.
    /// - Throws: ``SyncError`` `.schemaAhead` where the tables lack a column, `.damagedCommit`.
    @discardableResult
    mutating func add(_ step: CommitGraph.Step) throws -> Delta {
        try add(step) { $0 }
    }

    /// Adds the way back.
    @discardableResult
    mutating func undo(_ step: CommitGraph.Step) throws -> Delta {
        try add(step, \.inverted)
    }

    private mutating func add(_ step: CommitGraph.Step, _ direction: (Delta) -> Delta) throws -> Delta {
        let commit = try store.commit(step.child)
        return try store.reading(step.child) {
            let (open, defaults) = try tables.open(store.delta(of: commit, step.child, fromParent: step.parent))
            let delta = direction(open)
            try defaults.isEmpty ? composer.add(delta) : composer.add(open: delta, defaults: defaults)
            if !defaults.isEmpty { isOpen = true }
            changedTables.formUnion(delta.tables.map(\.table.name))
            changedTables.formUnion(commit.digests.compactMap { tables[$0.table]?.name })
            return delta
        }
    }

    /// - Parameter leavesOldRowsOpen: Whether values of deleted rows of which no commit says anything stay undefined, for
    ///   rows that may have others there: somebody who had the column has dropped it.
    func result(leavingOldRowsOpen leavesOldRowsOpen: Bool = false) throws -> Delta {
        do {
            return try composer.result(leavingOldRowsOpen: leavesOldRowsOpen)
        } catch {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }
}
