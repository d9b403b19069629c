import CipherDatabase

/// What a pull keeps from one of its transactions to the next.
struct PullProgress {
    /// The rest of the way.
    var way: Pull?
    /// How many times as long as usual the next part is: a later commit may repair what an earlier one has broken.
    var length = 1

    /// Thrown where the part was too short, after the length was doubled.
    struct Repetition: Error {}
}

/// The way of the rows of the tracked tables from the head to another commit. It is found inside any transaction, where
/// that is possible without the write lock. Then it is gone in parts, each inside a transaction in which neither the
/// triggers of the database nor foreign keys act.
struct Pull {
    private let graph: CommitGraph
    private let target: CommitNode
    private let author: AuthorID
    /// The number of the commit that stands for a checkpoint; nil where there is none.
    private let anchor: Int64?
    /// Whether the store had no rows at the beginning of the way.
    private let isFirst: Bool
    /// Where the rows are.
    private var head: CommitNode?
    /// What the head has beyond its common ancestor with the target, to be undone: merges that another one has replaced.
    private var back: ArraySlice<CommitGraph.Step>
    private var forward: ArraySlice<CommitGraph.Step>

    /// - Returns: Nil where the head is the place already.
    /// - Throws: ``SyncError`` `.needsMerge`
    init?(_ transaction: RepositoryTransaction) throws {
        let graph = CommitGraph(transaction.store)
        guard let target = try Self.target(transaction, graph) else { return nil }
        try self.init(transaction, graph, to: target)
    }

    init(_ transaction: RepositoryTransaction, _ graph: CommitGraph, to target: CommitNode) throws {
        let head = try transaction.head()
        (self.graph, self.target, self.head, author) = (graph, target, head, transaction.state.author)
        (anchor, isFirst) = (try CheckpointStore(db: transaction.db).anchor()?.n, head == nil)
        let base = try head.flatMap { head in
            try graph.isAncestor(head.n, of: target.n) ? head.n : graph.base(of: head.n, target.n).base?.n
        }
        let back = head?.n == base ? [] : try head.flatMap { try graph.path(from: base, to: $0.n) }
        guard let back, let forward = try graph.path(from: base, to: target.n) else {
            throw CommitStore.damaged("A commit cannot be reached from its ancestor.")
        }
        (self.back, self.forward) = (back[...], forward[...])
    }

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

    /// Whether the last part ended before a commit that this store does not have the columns for.
    private var isObstructed = false

    var isAtEnd: Bool { forward.isEmpty }

    /// Whether the last part could have been longer.
    var canGoFurther: Bool { !isAtEnd && !isObstructed }

    /// Whether the rows are where the way begins, or the last part has ended, and the rest of it is there. Commits may be
    /// removed meanwhile, as by a reset or a checkpoint, and others may have their numbers then.
    func goesOn(in transaction: RepositoryTransaction) throws -> Bool {
        guard transaction.state.head == head?.n, transaction.state.author == author else { return false }
        let store = transaction.store
        guard try CheckpointStore(db: transaction.db).anchor()?.n == anchor else { return false }
        return try [head, target].compactMap { $0 }.allSatisfy { try store.node($0.id)?.n == $0.n }
    }

    /// One transaction's part of the way: the net delta up to a commit on it.
    struct Slice {
        let delta: Delta
        let end: CommitNode
        /// The names of the tables that the commits are about.
        let tables: Set<String>
    }

    /// Applies the next part of the way and moves the head to its end: as far as the rows of one transaction go. It ends at
    /// a commit that has all that the head has, so that no row of this store goes for a while.
    ///
    /// - Parameter length: How many times as long the part is as usual.
    /// - Throws: ``SyncError`` `.schemaAhead` where the first commit on the way has a table or a column that this store
    ///   does not have, `.foreignKeyViolation`.
    mutating func applyNext(in transaction: inout RepositoryTransaction, length: Int) throws -> Slice {
        graph.read(from: transaction.store)
        let slice = try takeSlice(transaction, length)
        let orphans = isFirst ? AdmittedOrphans.all : .ofMerges(transaction, graph, to: target)
        try Self.applyDelta(slice.delta, in: &transaction, admitting: orphans)
        try transaction.requireDigests(try Self.digests(of: slice.tables, at: slice.end, transaction, graph))
        try transaction.moveHead(to: slice.end)
        head = slice.end
        return slice
    }

    private mutating func takeSlice(_ transaction: RepositoryTransaction, _ length: Int) throws -> Slice {
        var composer = PathComposer(transaction.store, transaction.tables)
        var (changes, bytes) = (0, 0)
        func count(_ delta: Delta) {
            changes += delta.changeCount
            bytes += delta.byteCount
        }
        for step in back.reversed() { count(try composer.undo(step)) }
        let first = try firstEnd(transaction)
        var end: CommitNode?
        for (index, step) in zip(forward.indices, forward) {
            do {
                count(try composer.add(step))
            } catch let error as SyncError where error.code == .schemaAhead {
                // What was before it can be applied.
                isObstructed = true
                if index > first { break }
                throw SyncError(
                    .schemaAhead, table: error.table, commit: try graph.node(step.child).id, error.detail)
            }
            end = try graph.node(step.child)
            forward.removeFirst()
            let isLong = changes / length >= Limits.pulledRows || bytes / length >= Limits.pulledBytes
            if isLong && index >= first { break }
        }
        back = []
        return Slice(
            delta: try composer.result(leavingOldRowsOpen: true), end: end ?? target, tables: composer.changedTables)
    }

    /// The first step that ends at a commit with all that the head has. So do those after it.
    private func firstEnd(_ transaction: RepositoryTransaction) throws -> Int {
        guard let head, let start = forward.first else { return forward.startIndex }
        if try graph.node(start.child).parents.contains(head.n) { return forward.startIndex }
        var (first, end) = (forward.startIndex, forward.endIndex - 1)
        while first < end {
            let middle = (first + end) / 2
            if try graph.ordinaryCommits(of: head.n, areUnder: forward[middle].child) {
                end = middle
            } else {
                first = middle + 1
            }
        }
        return first
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

    /// The digests that tables have at a commit: each is named by the last commit that has changed the table. Those of rows
    /// with other columns are left out.
    static func digests(
        of names: Set<String>, at node: CommitNode, _ transaction: RepositoryTransaction, _ graph: CommitGraph
    ) throws -> [String: RowDigest] {
        var (wanted, digests, place) = (names, [String: RowDigest](), Optional(node.n))
        while !wanted.isEmpty, let n = place {
            let commit = try transaction.store.commit(n)
            let isSame = commit.schema == transaction.tables.schema
            // The author may write the name of a table otherwise.
            let found = commit.digests.map { ($0, transaction.tables[$0.table]?.name ?? $0.table) }
                .filter { wanted.contains($0.1) }
            // With another schema, only the delta says which columns the rows had.
            let delta = try isSame || found.isEmpty ? nil : transaction.store.delta(n)
            for (digest, name) in found {
                wanted.remove(name)
                let table = delta?.tables.first { $0.table.name == digest.table }?.table
                if isSame || table != nil && table == transaction.tables[name]?.table {
                    digests[name] = RowDigest(bytes: digest.bytes)
                }
            }
            place = try graph.node(n).parents.first
        }
        for name in wanted { digests[name] = RowDigest() }
        return digests
    }
}
