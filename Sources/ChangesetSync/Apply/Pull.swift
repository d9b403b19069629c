import CipherDatabase

/// Moves the rows of the tracked tables from one commit to another. Inside a transaction in which neither the triggers of
/// the database nor foreign keys act.
struct Pull {
    /// The commit to go to; nil where the head is the place already.
    static func target(_ transaction: RepositoryTransaction, _ graph: CommitGraph) throws -> CommitNode? {
        let leaves = try graph.uncovered(transaction.store.leaves())
        let head = transaction.state.head
        let candidates = try leaves.filter { leaf in
            try head.map { try graph.ordinaryCommits(of: $0, areUnder: leaf.n) } ?? true
        }
        if candidates.isEmpty && leaves.isEmpty { return nil }
        guard candidates.count == 1, let target = candidates.first else { throw SyncError(.needsMerge) }
        return target.n == head ? nil : target
    }

    /// One transaction's part of the way to a commit: the net delta up to a commit on the way.
    struct Slice {
        let delta: Delta
        let end: CommitNode
        /// Where the whole way leads to.
        let target: CommitNode
    }

    /// The first part of the way from the head to a commit: back to a common ancestor, then forward, as far as the rows of
    /// one transaction go. It ends at a commit that has all that the head has, so that no row of this store goes for a while.
    ///
    /// - Throws: ``SyncError`` `.schemaAhead` where the first commit on the way has a table or a column that this store
    ///   does not have.
    static func slice(
        _ transaction: RepositoryTransaction, _ graph: CommitGraph, to target: CommitNode
    ) throws -> Slice {
        let store = transaction.store
        var composer = DeltaComposer()
        var (changes, bytes) = (0, 0)
        func add(_ delta: Delta, of n: Int64) throws {
            changes += delta.changeCount
            bytes += delta.byteCount
            try store.reading(n) { try composer.add(delta) }
        }
        do {
            let start = try goBack(transaction, graph, target, add)
            guard let steps = try graph.path(from: start, to: target.n) else {
                throw CommitStore.damaged("A commit cannot be reached from its ancestor.")
            }
            let first = try firstEnd(of: steps, transaction, graph)
            var end: CommitNode?
            for (index, step) in steps.enumerated() {
                let delta = try store.delta(step.child, fromParent: step.parent)
                if let obstacle = transaction.tables.obstacle(to: delta) {
                    // What was before it can be applied.
                    if index > first { break }
                    throw SyncError(
                        .schemaAhead, table: obstacle.table, commit: try graph.node(step.child).id, obstacle.reason)
                }
                try add(try transaction.tables.fitting(delta), of: step.child)
                end = try graph.node(step.child)
                let isLong = changes >= Limits.pulledRows || bytes >= Limits.pulledBytes
                if isLong && index >= first { break }
            }
            return Slice(delta: try composer.result(), end: end ?? target, target: target)
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    /// The first step that ends at a commit with all that the head has. So do those after it.
    private static func firstEnd(
        of steps: [CommitGraph.Step], _ transaction: RepositoryTransaction, _ graph: CommitGraph
    ) throws -> Int {
        guard let head = transaction.state.head, let start = steps.first else { return 0 }
        if try graph.node(start.child).parents.contains(head) { return 0 }
        var (first, end) = (0, steps.count - 1)
        while first < end {
            let middle = (first + end) / 2
            if try graph.ordinaryCommits(of: head, areUnder: steps[middle].child) {
                end = middle
            } else {
                first = middle + 1
            }
        }
        return first
    }

    /// Undoes what the head has beyond its common ancestor with a commit: merges that another one has replaced.
    private static func goBack(
        _ transaction: RepositoryTransaction, _ graph: CommitGraph, _ target: CommitNode,
        _ add: (Delta, Int64) throws -> Void
    ) throws -> Int64? {
        guard let head = transaction.state.head else { return nil }
        if try graph.isAncestor(head, of: target.n) { return head }
        let base = try graph.base(of: head, target.n).base?.n
        guard let steps = try graph.path(from: base, to: head) else {
            throw CommitStore.damaged("A commit cannot be reached from its ancestor.")
        }
        for step in steps.reversed() {
            let delta = try transaction.store.delta(step.child, fromParent: step.parent)
            try add(try transaction.tables.fitting(delta).inverted, step.child)
        }
        return base
    }

    /// Applies a part of the way and moves the head to its end.
    static func apply(_ slice: Slice, in transaction: inout RepositoryTransaction, _ graph: CommitGraph) throws {
        try applyDelta(slice.delta, in: &transaction, admitting: .ofMerges(transaction, graph, to: slice.target))
        let names = Set(slice.delta.tables.map(\.table.name))
        try transaction.requireDigests(try digests(of: names, at: slice.end, transaction, graph))
        try transaction.moveHead(to: slice.end)
    }

    /// Applies a delta and checks foreign keys; the digests of the transaction follow.
    ///
    /// - Parameter orphans: The rows that may refer to nothing.
    static func applyDelta(
        _ delta: Delta, in transaction: inout RepositoryTransaction, admitting orphans: AdmittedOrphans = .none
    ) throws {
        var check = ForeignKeyCheck(transaction.db, transaction.tables, admitting: orphans)
        var changed: [(TrackedTable, DeltaRecord?, DeltaRecord?)] = []
        let applier = DeltaApplier(db: transaction.db, tables: transaction.tables) { changed.append(($0, $1, $2)) }
        try applier.apply(delta)
        for (table, old, new) in changed {
            try transaction.noteChange(of: table, from: old, to: new)
            check.note(table, old, new)
        }
        try check.run()
    }

    /// The digests that tables have at a commit: each is named by the last commit that has changed the table. Those before
    /// a change of the schema are of rows with other columns, and left out.
    static func digests(
        of names: Set<String>, at node: CommitNode, _ transaction: RepositoryTransaction, _ graph: CommitGraph
    ) throws -> [String: RowDigest] {
        var (wanted, digests, place) = (names, [String: RowDigest](), Optional(node.n))
        while !wanted.isEmpty, let n = place {
            let commit = try transaction.store.commit(n)
            guard commit.schema == transaction.tables.schema else { return digests }
            for digest in commit.digests where wanted.remove(digest.table) != nil {
                digests[digest.table] = RowDigest(bytes: digest.bytes)
            }
            place = try graph.node(n).parents.first
        }
        for name in wanted { digests[name] = RowDigest() }
        return digests
    }
}
