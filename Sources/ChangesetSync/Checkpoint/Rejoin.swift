import CipherDatabase
import Foundation

/// The return of a replica whose history a checkpoint has replaced: its rows become those of the checkpoint, with what it
/// had not pushed over them. Inside a transaction in which neither the triggers of the database nor foreign keys act.
///
/// What it had not pushed is nowhere else, so it wins: a cell that it has changed keeps its value, a row that it has
/// changed stays. What the others had there is in the checkpoint, in the conflicts, and comes back when the commit is
/// reverted.
struct Rejoin {
    private let transaction: RepositoryTransaction
    private let checkpoint: CheckpointStore.Stored
    /// The number of the remote that has the checkpoint.
    private let remote: Int64
    /// The commits that stay: see ``RejoinedGraph``.
    private let kept: Set<Int64>
    private let graph: CommitGraph
    private let rules: MergeRules
    private var db: Database { transaction.db }
    private var store: CommitStore { transaction.store }
    private var tables: TrackedTables { transaction.tables }

    init(
        _ transaction: RepositoryTransaction, _ checkpoint: CheckpointStore.Stored, at remote: Int64,
        keeping kept: Set<Int64>, _ policy: MergePolicy
    ) throws {
        (self.transaction, self.checkpoint, self.remote, self.kept) = (transaction, checkpoint, remote, kept)
        graph = CommitGraph(transaction.store)
        rules = try MergeRules(policy, transaction.tables)
    }

    /// What is to be done with the rows.
    struct Outcome {
        /// Whether another store has made commits with the numbers of this one's: it was copied, or restored.
        let isCopy: Bool
        /// From the rows as they are.
        let toRows: Delta
        /// From the checkpoint: what is to be committed.
        let toCommit: Delta
        let conflicts: [MergeConflict]
    }

    /// What takes long, as all rows are read for it. It needs no write lock, and holds while the rows stay as they are.
    struct Differences {
        fileprivate let head: Int64
        fileprivate let base: Int64?
        fileprivate let history: Int64
        fileprivate let schema: SchemaID
        /// From the base to the rows.
        fileprivate let own: Delta
        /// From the rows, and from the base, to the checkpoint.
        fileprivate let fromHead: Delta
        fileprivate let fromBase: Delta
    }

    func differences(from head: CommitNode) throws -> Differences {
        let base = try knownCommits(under: head).base
        var composer = PathComposer(store, tables)
        for step in try graph.path(from: base?.n, to: head.n) ?? [] { try composer.add(step) }
        let own = try composer.result()
        let (fromHead, fromBase) = try differences(own)
        return Differences(
            head: head.n, base: base?.n, history: try db.lastHistoryNumber(), schema: tables.schema, own: own,
            fromHead: fromHead, fromBase: fromBase)
    }

    /// - Parameters:
    ///   - head: The commit of the rows.
    ///   - found: What was found before; found again where it does not hold any more.
    /// - Throws: ``SyncError`` `.schemaAhead`, `.digestMismatch`, `.damagedCommit`; `DatabaseError`.
    func outcome(from head: CommitNode, _ found: Differences?) throws -> Outcome {
        do {
            return try merged(head, found)
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    private func merged(_ head: CommitNode, _ found: Differences?) throws -> Outcome {
        let (known, base, isCopy) = try knownCommits(under: head)
        var found = found
        if let former = found {
            let isSame = try former.history == db.lastHistoryNumber() && former.schema == tables.schema
            if !isSame || former.head != head.n || former.base != base?.n { found = nil }
        }
        let all = try found ?? differences(from: head)
        let (own, fromHead, fromBase) = (all.own, all.fromHead, all.fromBase)
        let rows = TableRows(db)
        let views = [StateView(rows, tables), try StateView(rows, tables, delta: fromHead)]
        // The commits on both sides of the base; that of the checkpoint has a number that no commit has.
        let under = try base.map { try graph.ancestors(of: $0.n, notBelow: 0) } ?? []
        let side = try graph.ancestors(of: head.n, notBelow: 0).subtracting(under)
        let other = CommitNode(
            n: .max, id: checkpoint.manifest.commit, parents: [], generation: checkpoint.manifest.anchor.generation,
            kind: .ordinary, author: .max, time: HybridTime(rawValue: 0))
        let writers = [
            try RowWriters(side, graph, author: store.author) { try tables.fitting(store.delta($0)) },
            try RowWriters([other.n], CommitGraph { _ in other }, author: { _ in .none }, delta: { _ in fromBase }),
        ]
        let sides = [side, known.intersection(side).union([other.n])]
        let counters = try MergeCounters(
            rules, tables,
            deltas: known.intersection(side).filter { try graph.node($0).kind == .ordinary }.map {
                try tables.fitting(store.delta($0))
            })
        var state = MergeState(
            db, tables, views: views, startingWith: 0, writers: writers, sides: sides, rules, counters)
        defer { state.states.close() }
        let nets = [own, fromBase]
        for name in Set(nets.flatMap { $0.tables.map(\.table.name) }).sorted(by: Merger.precedes) {
            guard let table = tables[name] else { continue }
            try state.mergeRows(of: table, nets.map { net in net.tables.first { $0.table.name == name } })
        }
        try state.repair()
        let deltas = try state.deltas()
        return Outcome(isCopy: isCopy, toRows: deltas[0], toCommit: deltas[1], conflicts: state.conflicts)
    }

    /// The commits under the head for which the checkpoint stands as well or that stay, and the last of them that has only
    /// such ones under it.
    ///
    /// The number of a commit alone does not show that: a store that was restored from a backup has given numbers again.
    /// What it made since is still to be pushed.
    private func knownCommits(under head: CommitNode) throws -> (Set<Int64>, base: CommitNode?, isCopy: Bool) {
        let (authors, own) = (checkpoint.manifest.authors, transaction.state.author)
        let unpushed = Set(
            try Int64.fetchAll(
                db, sql: "SELECT n FROM main.\(SyncTables.outbox) WHERE remote = ?", arguments: [remote]))
        var isCopy = authors[own].map { $0 > transaction.state.sequence } ?? false
        let nodes = try graph.ancestors(of: head.n, notBelow: 0).map(graph.node).sorted(by: CommitNode.precedes)
        var (known, complete, base): (Set<Int64>, Set<Int64>, CommitNode?) = ([], [], nil)
        for node in nodes {
            if kept.contains(node.n) {
                known.insert(node.n)
            } else if node.kind == .ordinary {
                let sequence = try store.sequence(of: node.n)
                let author = try store.author(node.author)
                let isNumbered = authors[author].map { sequence <= $0 } ?? false
                if isNumbered && !unpushed.contains(node.n) { known.insert(node.n) }
                if isNumbered && unpushed.contains(node.n) && author == own { isCopy = true }
            } else {
                known.insert(node.n)
            }
            guard known.contains(node.n), node.parents.allSatisfy(complete.contains) else { continue }
            complete.insert(node.n)
            base = node
        }
        return (known, base, isCopy)
    }

    /// What differs between the rows, or those of the base, and the checkpoint.
    ///
    /// - Parameter own: From the base to the rows.
    private func differences(_ own: Delta) throws -> (fromHead: Delta, fromBase: Delta) {
        var former = try StateView(TableRows(db), tables, delta: own.inverted)
        let dump = try tables.fitting(CheckpointStore(db: db).rows(of: checkpoint))
        var deltas: [[TableDelta]] = [[], []]
        for table in tables.all {
            var wanted: [RowKey: DeltaRecord] = [:]
            for change in dump.tables.first(where: { $0.table == table.table })?.changes ?? [] {
                wanted[table.table.key(of: change.keyRecord)] = change.new
            }
            try requireDigest(table, wanted)
            var unseen = try former.differingRows(of: table)
            var changes: [[RowChange]] = [[], []]
            func compare(_ key: RowKey, _ row: DeltaRecord?, _ base: DeltaRecord?) throws {
                let new = wanted.removeValue(forKey: key)
                if let change = try table.table.change(from: row, to: new) { changes[0].append(change) }
                if let change = try table.table.change(from: base, to: new) { changes[1].append(change) }
            }
            let statement = try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
            try statement.forEachRecord { row in
                let key = table.table.key(of: row)
                try compare(key, row, unseen.removeValue(forKey: key) ?? row)
            }
            for (key, base) in unseen { try compare(key, nil, base) }
            for key in Array(wanted.keys) { try compare(key, nil, nil) }
            for side in 0...1 where !changes[side].isEmpty {
                deltas[side].append(try TableDelta(table: table.table, changes: changes[side]))
            }
        }
        return (try Delta(deltas[0]), try Delta(deltas[1]))
    }

    private func requireDigest(_ table: TrackedTable, _ rows: [RowKey: DeltaRecord]) throws {
        guard checkpoint.manifest.anchor.schema == tables.schema else { return }
        var digest = RowDigest()
        for row in rows.values { try digest.add(row, transaction.key) }
        guard digest.bytes == checkpoint.manifest.digest(of: table.name) else {
            throw SyncError(.digestMismatch, table: table.name)
        }
    }
}

extension ChangesetRepository {
    /// Puts a checkpoint, whose parts are all here, in the place of all commits, in one transaction. A store without a head
    /// has nothing to keep; its rows come with the next pull.
    ///
    /// - Parameter onlyWithoutHead: Whether to refuse a store that has a head.
    /// - Returns: The commit with what was not pushed; nil where there was nothing.
    func rejoin(
        _ announcement: Acknowledgement.Announcement, at remote: Int64, meta: String, onlyWithoutHead: Bool = false
    ) throws -> Changeset? {
        // Without the write lock; an error shows again with it.
        let found = onlyWithoutHead ? nil : try? differences(to: announcement, at: remote)
        let made = try applying { transaction -> Changeset? in
            let db = transaction.db
            guard let checkpoint = try CheckpointStore(db: db).checkpoint(announcement.manifest) else {
                throw CommitStore.damaged("A checkpoint is missing.")
            }
            let head = try transaction.head()
            if head != nil && onlyWithoutHead { throw SyncError(.baseTooOld, commit: announcement.commit) }
            let graph = try RejoinedGraph(transaction, checkpoint, at: remote)
            let outcome = try head.map {
                try Rejoin(transaction, checkpoint, at: remote, keeping: graph.kept, mergePolicy)
                    .outcome(from: $0, found)
            }
            if let outcome {
                try Pull.applyDelta(outcome.toRows, in: &transaction, admitting: .all)
                try follow(outcome.toRows, transaction)
            }
            let anchor = try graph.replace()
            guard let outcome else {
                // The rows that there are come from another checkpoint.
                try transaction.removeRows()
                try CheckpointStore(db: db).setApplied(0, of: checkpoint.id)
                let last = checkpoint.manifest.authors[transaction.state.author] ?? 0
                try transaction.beginWithoutRows(isRenamed: last > transaction.state.sequence)
                try finishRejoin(announcement.replaced, graph)
                return nil
            }
            try CheckpointStore(db: db).setApplied(checkpoint.manifest.parts.count, of: checkpoint.id)
            // Others do not wait for the name any more, or another store has it as well.
            let isRenamed = try outcome.isCopy || Self.isRetired(transaction)
            try transaction.rebase(
                onto: anchor, changing: outcome.toCommit.tables.map(\.table.name), isRenamed: isRenamed)
            let made = try transaction.record(outcome.toCommit, meta: meta)
            if made == nil { try transaction.moveHead(to: anchor) }
            if let made { try ConflictStore(db: db).insert(outcome.conflicts, of: made.id) }
            try finishRejoin(announcement.replaced, graph)
            return try made.map { try Self.changeset($0, db) }
        }
        try removeReplacedCommits()
        return made
    }

    private func differences(
        to announcement: Acknowledgement.Announcement, at remote: Int64
    ) throws -> Rejoin.Differences? {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let transaction = try RepositoryTransaction(db)
                guard let checkpoint = try CheckpointStore(db: db).checkpoint(announcement.manifest),
                    let head = try transaction.head()
                else { return nil }
                let graph = try RejoinedGraph(transaction, checkpoint, at: remote)
                return try Rejoin(transaction, checkpoint, at: remote, keeping: graph.kept, mergePolicy)
                    .differences(from: head)
            }
        }
    }

    private static func isRetired(_ transaction: RepositoryTransaction) throws -> Bool {
        try CheckpointStore(db: transaction.db).replicas()
            .contains { $0.author == transaction.state.author && $0.isRetired }
    }

    private func finishRejoin(_ replaced: RemoteCursor, _ graph: RejoinedGraph) throws {
        // The log of this store may have entries that nobody can use.
        try RemoteState.beginNewLogs(graph.db)
        try RemoteState.move(graph.remote, over: replaced, graph.db)
        try graph.continuePending()
    }
}

/// The commits of a store that rejoins. The cursor is behind what it has fetched, so what the others need of that must stay:
/// commits that build on the commit of the checkpoint alone, and those that wait for it. All else goes.
private struct RejoinedGraph {
    let db: Database
    let checkpoint: CheckpointStore.Stored
    /// The number of the remote that has the checkpoint.
    let remote: Int64
    /// The commits that stay.
    let kept: Set<Int64>
    /// The commit for which the checkpoint stands, where it was here.
    private let place: CommitNode?
    private let removed: [CommitNode]

    init(_ transaction: RepositoryTransaction, _ checkpoint: CheckpointStore.Stored, at remote: Int64) throws {
        (db, self.checkpoint, self.remote) = (transaction.db, checkpoint, remote)
        let store = transaction.store
        let place = try store.node(checkpoint.manifest.commit)
        let unpushed = Set(
            try Int64.fetchAll(
                db, sql: "SELECT n FROM main.\(SyncTables.outbox) WHERE remote = ?", arguments: [remote]))
        var (kept, removed): (Set<Int64>, [CommitNode]) = ([], [])
        // A parent has a lower number than its children.
        for n in try Int64.fetchAll(db, sql: "SELECT n FROM main.\(SyncTables.commit) ORDER BY n") where n != place?.n {
            let node = try store.node(n)
            let isAbove = !node.parents.isEmpty && node.parents.allSatisfy { $0 == place?.n || kept.contains($0) }
            if isAbove && !unpushed.contains(n) { kept.insert(n) } else { removed.append(node) }
        }
        (self.place, self.kept, self.removed) = (place, kept, removed)
    }

    /// Puts the checkpoint in the place of all that does not stay. Commits that it has replaced are left below it, where
    /// nothing leads to them: to remove them takes long, and ``ChangesetRepository/removeReplacedCommits()`` does it later.
    ///
    /// - Returns: The commit that stands for it.
    func replace() throws -> CommitNode {
        let (store, checkpoints) = (CommitStore(db: db), CheckpointStore(db: db))
        let parents = Set(try kept.flatMap { try store.node($0).parents })
        let leaves = kept.subtracting(parents).sorted()
        try store.remove(leaving: leaves.isEmpty ? place.map { [$0.n] } ?? [] : leaves) {
            let generation = checkpoint.manifest.anchor.generation
            for node in removed {
                if try !isReplaced(node) {
                    try askAgain(for: node)
                } else if node.generation <= generation {
                    continue
                }
                try db.execute(sql: "DELETE FROM main.\(SyncTables.commit) WHERE n = ?", arguments: [node.n])
            }
            // What stays is above the checkpoint.
            try db.execute(
                sql: """
                    DELETE FROM main.\(SyncTables.outbox)
                    WHERE n NOT IN (SELECT n FROM main.\(SyncTables.commit) WHERE generation > ?)
                    """,
                arguments: [Int64(clamping: generation)])
        }
        try checkpoints.removeAll(except: checkpoint.id)
        guard let place else { return try store.insertAnchor(checkpoint) }
        try checkpoints.replace(place.n, by: checkpoint.manifest)
        return try store.node(place.n)
    }

    /// Whether the checkpoint has what a commit did.
    private func isReplaced(_ node: CommitNode) throws -> Bool {
        let store = CommitStore(db: db)
        return try node.kind == .checkpoint
            || checkpoint.manifest.replaces(
                node.kind, generation: node.generation, sequence: store.sequence(of: node.n),
                author: store.author(node.author))
    }

    /// Sets a commit aside at the remotes that have it: the cursors are past it, others may build on it, and it may have its
    /// place when its parents have come.
    private func askAgain(for node: CommitNode) throws {
        try db.execute(
            sql: """
                INSERT OR IGNORE INTO main.\(SyncTables.quarantine) (remote, id, reason)
                SELECT n, ?1, ?2 FROM main.\(SyncTables.remote) AS r WHERE NOT EXISTS (
                    SELECT 1 FROM main.\(SyncTables.outbox) AS o WHERE o.remote = r.n AND o.n = ?3)
                """,
            arguments: [Data(node.id.bytes), Inbox.baseIsReplaced, node.n])
    }

    /// Inserts what has waited for the commit of the checkpoint, and removes what waits for what is gone.
    func continuePending() throws {
        try Inbox(db: db).continuePending(
            after: checkpoint.manifest.commit, generation: checkpoint.manifest.anchor.generation,
            without: removed.map(\.id), from: remote)
    }
}

extension CommitStore {
    /// Inserts the commit that stands for what a checkpoint has replaced.
    func insertAnchor(_ checkpoint: CheckpointStore.Stored) throws -> CommitNode {
        let anchor = checkpoint.manifest.anchor
        guard let node = try insert(anchor, id: checkpoint.manifest.commit, canonical: try anchor.encoded()) else {
            throw Self.damaged("A commit was inserted twice.")
        }
        return node
    }
}

extension RemoteState {
    /// Moves the cursor of a remote over entries that a checkpoint has replaced.
    static func move(_ n: Int64, over replaced: RemoteCursor, _ db: Database) throws {
        let bytes = try Data.fetchOne(
            db, sql: "SELECT cursor FROM main.\(SyncTables.remote) WHERE n = ?", arguments: [n])
        guard let bytes, var cursor = RemoteCursor(decoding: Array(bytes)) else {
            throw CommitStore.damaged("What is known of a remote has no valid content.")
        }
        cursor.formUnion(replaced)
        try db.execute(
            sql: "UPDATE main.\(SyncTables.remote) SET cursor = ? WHERE n = ?",
            arguments: [Data(cursor.encoded), n])
    }
}
