import CipherDatabase
import Foundation

extension ChangesetRepository {
    /// Merges two commits. The rows stay as they are: ``pull()`` moves them to the merge.
    ///
    /// The merge of two commits is the same on every replica that makes it, so replicas that merge at the same time agree.
    /// Each cell that one side has changed is taken; where both have changed one, the later of the two concurrent writes
    /// wins. Of a deletion and a concurrent update the update wins. ``MergePolicy`` has other rules, and asks the program.
    /// What was chosen is in ``conflicts(limit:)``.
    /// - Returns: The merge.
    /// - Throws: ``SyncError`` `.unknownCommit`, `.schemaAhead`, `.columnRemoved`, `.olderSchema`, `.foreignWrites`,
    ///   `.workingStateDiverged`, `.payloadTooLarge`, `.damagedCommit`,
    ///   `.unsuitableTable` where the policy names what is not tracked, `.resolverFailed`; what a closure of the policy
    ///   throws; `DatabaseError`. Nothing is changed then.
    @discardableResult
    public func merge(_ one: CommitID, _ other: CommitID) throws -> Changeset {
        try applying { transaction in
            let (one, other) = try (transaction.store.requireNode(one), transaction.store.requireNode(other))
            let graph = CommitGraph(transaction.store)
            // What one of them has, the other one has too.
            if try graph.isAncestor(one.n, of: other.n) { return try Self.changeset(other, transaction.db) }
            if try graph.isAncestor(other.n, of: one.n) { return try Self.changeset(one, transaction.db) }
            return try Self.changeset(merge(one, other, transaction, graph), transaction.db)
        }
    }

    /// Merges two commits.
    @discardableResult
    public func merge(_ one: Changeset, _ other: Changeset) throws -> Changeset {
        guard let one = CommitID(one.uuid), let other = CommitID(other.uuid) else { throw SyncError(.unknownCommit) }
        return try merge(one, other)
    }

    /// Merges all leaves of the graph that are not a part of another one, two at a time.
    ///
    /// - Returns: The merges; none where there was one leaf only.
    /// - Throws: As ``merge(_:_:)``.
    @discardableResult
    public func mergeAll() throws -> [Changeset] {
        try notingObstacle {
            var merges: [Changeset] = []
            // The rows of a head are needed, and a store that begins with a checkpoint has none before.
            try pullCheckpoint()
            try takeUpSchema()
            while try hasSeveralLeaves() {
                let merge = try applying { transaction in
                    try mergeLeaves(transaction).map { try Self.changeset($0, transaction.db) }
                }
                guard let merge else { break }
                merges.append(merge)
            }
            return merges
        }
    }

    /// Merges two of the leaves; nil where there is one only.
    private func mergeLeaves(_ transaction: RepositoryTransaction) throws -> CommitNode? {
        let graph = CommitGraph(transaction.store)
        let leaves = try graph.uncovered(transaction.store.leaves())
        guard leaves.count > 1 else { return nil }
        // One of them must have the schema of this store. What is older is merged with that.
        let own = try leaves.firstIndex {
            try transaction.store.commit($0.n).schema == transaction.tables.schema
        }
        let first = own ?? 0
        return try merge(leaves[first], leaves[first == 0 ? 1 : 0], transaction, graph)
    }

    /// Merges all leaves and moves the rows to the result. A commit of another process does not come between a merge and
    /// its pull, which would make another merge necessary each time.
    ///
    /// - Returns: The new head; nil where it is the same as before.
    /// - Throws: As ``mergeAll()`` and ``pull()``, but `.needsMerge`.
    func mergeAndPull() throws -> Changeset? {
        try notingObstacle {
            var last = try pullCheckpoint()
            try takeUpSchema()
            var progress = PullProgress()
            while true {
                if progress.way == nil {
                    let plan = try plan()
                    guard plan.needsMerge || plan.way != nil else { return last }
                    progress.way = plan.way
                }
                do {
                    guard let step = try applying({ try mergeAndPullSlice(&$0, &progress) }) else { return last }
                    last = step
                } catch is PullProgress.Repetition {}
            }
        }
    }

    /// A way that was found is gone to its end before other leaves are looked at.
    private func mergeAndPullSlice(
        _ transaction: inout RepositoryTransaction, _ progress: inout PullProgress
    ) throws -> Changeset? {
        if try progress.way?.goesOn(in: transaction) != true {
            progress.way = nil
            while try mergeLeaves(transaction) != nil {}
        }
        return try pullSlice(&transaction, &progress)
    }

    private func merge(
        _ one: CommitNode, _ other: CommitNode, _ transaction: RepositoryTransaction, _ graph: CommitGraph
    ) throws -> CommitNode {
        let outcome = try Merger(transaction, graph, mergePolicy).merge(one, other)
        let node = try transaction.add(outcome.commit)
        try ConflictStore(db: transaction.db).insert(outcome.conflicts, of: node.id)
        return node
    }

    /// Makes a commit where something is to be merged and the tables have another schema than at the last one, or than all
    /// that is to be merged: what a merge repairs depends on it. A store without rows takes those of one of them before.
    private func takeUpSchema() throws {
        let plan = try writer.unsafeReentrantRead { db in
            try db.isolated { try Self.schemaPlan(RepositoryTransaction(db)) }
        }
        guard let plan else { return }
        var progress = PullProgress(way: plan.way)
        while progress.way != nil {
            do { try applying { _ = try pullSlice(&$0, &progress) } } catch is PullProgress.Repetition {}
        }
        try applying { transaction in _ = try transaction.record(.empty, meta: "{}", always: true) }
    }

    /// - Returns: Nil where no commit is needed; else the way to the commit on which it is made, where that is not the head.
    private static func schemaPlan(_ transaction: RepositoryTransaction) throws -> (way: Pull?, Void)? {
        let (store, graph) = (transaction.store, CommitGraph(transaction.store))
        let leaves = try graph.uncovered(store.leaves())
        guard leaves.count > 1 else { return nil }
        let isKnown = try leaves.contains { try store.commit($0.n).schema == transaction.tables.schema }
        if isKnown && (!transaction.hasOtherSchema || transaction.state.head == nil) { return nil }
        // With a column of a newer version there is nothing to merge here.
        if try behind(transaction).isEmpty == false, try obstacle(in: behind(transaction), transaction) != nil {
            return nil
        }
        if transaction.state.head != nil { return (nil, ()) }
        return try leaves.min { $0.id < $1.id }.map { (try Pull(transaction, graph, to: $0), ()) }
    }

    /// Looks without the write lock.
    private func hasSeveralLeaves() throws -> Bool {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let store = try RepositoryTransaction(db).store
                return try CommitGraph(store).uncovered(store.leaves()).count > 1
            }
        }
    }

    /// What is to be done, found without the write lock: leaves to merge, or else the way to the one leaf.
    private func plan() throws -> (needsMerge: Bool, way: Pull?) {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let transaction = try RepositoryTransaction(db)
                let leaves = try CommitGraph(transaction.store).uncovered(transaction.store.leaves())
                return leaves.count > 1 ? (true, nil) : (false, try Pull(transaction))
            }
        }
    }

    /// What the merges of this store had to choose between, the latest first. A bounded number is kept.
    public func conflicts(limit: Int = 100) throws -> [SyncConflict] {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                _ = try RepositoryState(db)
                return try ConflictStore(db: db).conflicts(limit: limit)
            }
        }
    }

    /// Forgets the conflicts, when somebody has looked at them.
    public func removeConflicts() throws {
        try writer.unsafeReentrantWrite { db in
            try Self.inTransaction(db) {
                _ = try RepositoryState(db)
                try db.execute(sql: "DELETE FROM main.\(SyncTables.conflict)")
            }
        }
    }
}

/// Where two replicas have changed the same, and what was chosen.
public struct SyncConflict: Hashable, Sendable {
    /// What it was about.
    public enum Reason: String, Sendable {
        /// Two values of one cell; the later write won.
        case cell
        /// One side has deleted a row that the other one has updated; by default the row stayed.
        case deletedAndChanged
        /// Two rows had the same value of a unique key; the older row kept it.
        case unique
        /// A row referred to one that was deleted.
        case reference
        /// Both have changed a counter, and the sum is no 64-bit integer.
        case overflow
        /// The mixed row did not satisfy the constraints of the table; one side's row was taken as a whole.
        case constraint
    }

    /// The merge.
    public let merge: CommitID
    public let table: String
    /// The values of the key, in the order of the table's columns.
    public let key: [DatabaseValue]
    /// The column; nil where it is about the whole row.
    public let column: String?
    public let reason: Reason
    /// The values of the cell, or of the whole row: at the base, of the two sides, and as chosen. Empty where there was no
    /// row.
    public let base: [DatabaseValue]
    public let ours: [DatabaseValue]
    public let theirs: [DatabaseValue]
    public let chosen: [DatabaseValue]
}

/// The conflicts of a store. Inside a transaction.
struct ConflictStore {
    let db: Database

    func insert(_ conflicts: [MergeConflict], of merge: CommitID) throws {
        guard !conflicts.isEmpty else { return }
        let statement = try db.cachedStatement(
            sql: """
                INSERT INTO main.\(SyncTables.conflict) (merge, name, key, column, base, ours, theirs, chosen, reason)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
                """)
        for conflict in conflicts.suffix(Limits.conflicts) {
            func blob(_ bytes: [UInt8]?) -> ExactValue { bytes.map { .blob($0[...]) } ?? .null }
            try statement.execute(exact: [
                .blob(merge.bytes[...]), .text(Array(conflict.table.utf8)[...]), .blob(conflict.key.cells),
                conflict.column.map { .text(Array($0.utf8)[...]) } ?? .null, blob(conflict.base), blob(conflict.ours),
                blob(conflict.theirs), blob(conflict.chosen), .text(Array(conflict.reason.rawValue.utf8)[...]),
            ])
        }
        try db.execute(
            sql: "DELETE FROM main.\(SyncTables.conflict) WHERE n <= "
                + "(SELECT max(n) FROM main.\(SyncTables.conflict)) - \(Limits.conflicts)")
    }

    func conflicts(limit: Int) throws -> [SyncConflict] {
        let rows = try Row.fetchAll(
            db,
            sql: """
                SELECT merge, name, key, column, base, ours, theirs, chosen, reason
                FROM main.\(SyncTables.conflict) ORDER BY n DESC LIMIT ?
                """,
            arguments: [max(0, limit)])
        return try rows.compactMap { row in
            func values(_ index: Int) throws -> [DatabaseValue] {
                let bytes = Array(try row.storedOrNil(index, as: Data.self) ?? Data())
                return DeltaRecord(valid: bytes[...], columnCount: 0).map(\.databaseValue)
            }
            guard let merge = CommitID(bytes: try row.stored(0, as: Data.self)),
                let reason = SyncConflict.Reason(rawValue: try row.stored(8))
            else { return nil }
            return SyncConflict(
                merge: merge, table: try row.stored(1), key: try values(2), column: try row.storedOrNil(3),
                reason: reason, base: try values(4), ours: try values(5), theirs: try values(6),
                chosen: try values(7))
        }
    }
}

extension DeltaValue {
    /// The value as programs have it: bytes of a text that are not UTF-8 become replacement characters.
    var databaseValue: DatabaseValue {
        switch self {
        case .undefined, .null: .null
        case .integer(let value): value.databaseValue
        case .real(let value): value.databaseValue
        case .text(let bytes): String(decoding: bytes, as: UTF8.self).databaseValue
        case .blob(let bytes): Data(bytes).databaseValue
        }
    }
}
