import CipherDatabase

/// The merge of two commits: a pure function of them, so that every replica that makes it makes the same commit. Inside a
/// transaction of the repository, whose head is any commit.
struct Merger {
    private let transaction: RepositoryTransaction
    private let graph: CommitGraph
    private let rows: TableRows
    private let rules: MergeRules
    private var store: CommitStore { transaction.store }
    private var tables: TrackedTables { transaction.tables }

    /// What a merge has decided.
    struct Outcome {
        let commit: Commit
        let conflicts: [MergeConflict]
    }

    /// - Throws: ``SyncError`` `.unsuitableTable` where the policy names what the tables do not have.
    init(_ transaction: RepositoryTransaction, _ graph: CommitGraph, _ policy: MergePolicy) throws {
        (self.transaction, self.graph) = (transaction, graph)
        rows = TableRows(transaction.db)
        rules = try MergeRules(policy, transaction.tables)
    }

    /// - Throws: ``SyncError`` `.schemaAhead`, `.damagedCommit`, `.workingStateDiverged`, `.resolverFailed`; what a
    ///   closure of the policy throws; `DatabaseError`.
    func merge(_ one: CommitNode, _ other: CommitNode) throws -> Outcome {
        do {
            return try mergeSorted([one, other].sorted { $0.id < $1.id })
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    private func mergeSorted(_ heads: [CommitNode]) throws -> Outcome {
        let commits = try heads.map { try store.commit($0.n) }
        let (base, sides) = try graph.base(of: heads[0].n, heads[1].n)
        let paths = try heads.map { try path(from: base?.n, to: $0.n) }
        let nets = try paths.map { try $0.result() }
        // What a merge repairs depends on the schema, and everybody has to repair the same.
        guard commits.contains(where: { $0.schema == tables.schema }) else {
            throw SyncError(.olderSchema, commit: heads[0].id)
        }
        // A delta may say of a row what it was for its author alone, who had another default of a column, or not that one.
        var readsAll = paths.contains(where: \.isOpen) || !heads.contains { $0.n == transaction.state.head }
        let views = try heads.indices.map { place in
            let (head, tables) = (heads[place], paths[place].changedTables)
            do {
                return try requiringDigests(at: head, of: tables, view(of: head))
            } catch let error as SyncError where [.digestMismatch, .damagedCommit].contains(error.code) {
                readsAll = true
                return try requiringDigests(at: head, of: tables, wholeView(of: head))
            }
        }
        let writers = try sides.map { side in
            try RowWriters(side, graph, author: store.author) { n in
                try tables.fitting(store.delta(n))
            }
        }
        let counters = try counters(of: sides[0].intersection(sides[1]))
        let start = heads.firstIndex { $0.n == transaction.state.head } ?? 0
        var state = MergeState(
            transaction.db, tables, views: views, startingWith: start, writers: writers, sides: sides, rules, counters)
        defer { state.states.close() }
        let names = nets.flatMap { $0.tables.map(\.table.name) } + counters.tables
        for name in Set(names).sorted(by: Self.precedes) {
            guard let table = tables[name] else { continue }
            let changes = nets.map { net in net.tables.first { $0.table.name == name } }
            try state.mergeRows(of: table, changes, readingAll: readsAll)
        }
        try state.repair()
        return Outcome(commit: try commit(of: heads, &state), conflicts: state.conflicts)
    }

    static func precedes(_ left: String, _ right: String) -> Bool { left.utf8.lexicographicallyPrecedes(right.utf8) }

    private func counters(of common: Set<Int64>) throws -> MergeCounters {
        guard rules.hasCounters else { return MergeCounters() }
        let deltas = try common.filter { try graph.node($0).kind == .ordinary }.map {
            try tables.fitting(store.delta($0))
        }
        return MergeCounters(rules, tables, deltas: deltas)
    }

    // MARK: States

    /// The way from an ancestor to a commit.
    private func path(from ancestor: Int64?, to n: Int64) throws -> PathComposer {
        var composer = PathComposer(store, tables)
        for step in try steps(from: ancestor, to: n) { try composer.add(step) }
        return composer
    }

    private func steps(from ancestor: Int64?, to n: Int64) throws -> [CommitGraph.Step] {
        guard let steps = try graph.path(from: ancestor, to: n) else {
            throw CommitStore.damaged("A commit cannot be reached from its ancestor.")
        }
        return steps
    }

    /// The rows of a commit: those of the tables, with what lies between the head and the commit.
    private func view(of node: CommitNode) throws -> StateView {
        let head = transaction.state.head
        if head == node.n { return StateView(rows, tables) }
        var composer = PathComposer(store, tables)
        let base = try head.flatMap { try graph.base(of: $0, node.n).base?.n }
        if let head, head != base {
            for step in try steps(from: base, to: head).reversed() { try composer.undo(step) }
        }
        if base != node.n {
            for step in try steps(from: base, to: node.n) { try composer.add(step) }
        }
        return try StateView(rows, tables, delta: composer.result())
    }

    /// The same by all commits up to it. Where somebody has added a column with another default, and corrected that, the
    /// way from the head leads over values that only the author of a commit saw.
    private func wholeView(of node: CommitNode) throws -> StateView {
        let whole = try path(from: nil, to: node.n).result()
        let deltas = try tables.all.map { table in
            let changes = whole.tables.first { $0.table == table.table }?.changes ?? []
            let wanted = changes.compactMap { change in change.new.map { (table.table.key(of: $0), $0) } }
            return try table.changes(from: Dictionary(wanted) { $1 }, in: transaction.db).inverted
        }
        return try StateView(rows, tables, delta: Delta(deltas))
    }

    /// Throws where this store makes other rows of the commits of a side than they describe, as with another default of a
    /// column: it would make another merge than others.
    private func requiringDigests(
        at head: CommitNode, of names: Set<String>, _ view: StateView
    ) throws -> StateView {
        if head.n == transaction.state.head { return view }
        var view = view
        for (name, wanted) in try Pull.digests(of: names, at: head, transaction, graph) {
            guard let table = tables[name] else { continue }
            if try digest(of: table, &view) != wanted {
                throw SyncError(.digestMismatch, table: name, commit: head.id)
            }
        }
        return view
    }

    /// The digest of a table in a view: that of the rows as they are, with those that differ.
    private func digest(of table: TrackedTable, _ view: inout StateView) throws -> RowDigest {
        var digest = try transaction.digest(of: table.name)
        for (key, row) in try view.differingRows(of: table) {
            if let old = try rows.row(table, key) { try digest.remove(old, transaction.key) }
            if let row { try digest.add(row, transaction.key) }
        }
        return digest
    }

    // MARK: The commit

    private func commit(of heads: [CommitNode], _ state: inout MergeState) throws -> Commit {
        let deltas = try state.deltas()
        let names = Set(deltas.flatMap { $0.tables.map(\.table.name) }).sorted(by: Self.precedes)
        return Commit(
            kind: .merge, parents: heads.map(\.id), generation: max(heads[0].generation, heads[1].generation) + 1,
            author: .none, authorSequence: 0, time: HybridTime(mergeOf: heads[0].time, heads[1].time),
            schema: tables.schema, digests: try names.compactMap { try digest(of: $0, &state) },
            deltas: try deltas.map { try Self.encoded($0)[...] })
    }

    private func digest(of name: String, _ state: inout MergeState) throws -> TableDigest? {
        guard let table = tables[name] else { return nil }
        let digest = try digest(of: table, &state.merged)
        guard let entry = TableDigest(table: name, bytes: digest.bytes) else {
            throw CommitStore.damaged("A digest has another length.")
        }
        return entry
    }

    /// - Throws: ``SyncError`` `.payloadTooLarge`
    static func encoded(_ delta: Delta, limit: Int = Limits.deltaBytes) throws -> [UInt8] {
        let bytes = delta.encoded()
        guard bytes.count <= limit else {
            throw SyncError(
                .payloadTooLarge, "A merge may change \(limit) bytes. Undo a part of one side before, by a revert.")
        }
        return bytes
    }
}
