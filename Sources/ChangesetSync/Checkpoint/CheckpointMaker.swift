import CipherDatabase
import Foundation

/// Chooses the commit of a checkpoint, and makes its bytes. Inside a transaction, which may be one that reads.
struct CheckpointMaker {
    let transaction: RepositoryTransaction
    let graph: CommitGraph
    private var db: Database { transaction.db }
    private var store: CommitStore { transaction.store }

    init(_ transaction: RepositoryTransaction) {
        (self.transaction, graph) = (transaction, CommitGraph(transaction.store))
    }

    /// A commit, and what a checkpoint of it replaces.
    struct Place: Sendable {
        let node: CommitNode
        /// Its ancestors, without itself.
        let ancestors: Set<Int64>
        /// Merges beside it that another one has replaced.
        let replacedMerges: Set<Int64>
    }

    // MARK: The place

    /// The latest commit that every replica has and that nothing is beside: what is not under it is above it, and so is
    /// all that the replicas will make. Nil where there is none, or none that replaces anything.
    func place() throws -> Place? {
        guard let head = transaction.state.head, try isComplete(), let tips = try acknowledgedHeads() else {
            return nil
        }
        let leaves = try graph.uncovered(store.leaves()).map(\.n)
        let all = Set(try Int64.fetchAll(db, sql: "SELECT n FROM main.\(SyncTables.commit)"))
        // A remote that does not have a commit yet must get it.
        let unpushed = Set(try Int64.fetchAll(db, sql: "SELECT n FROM main.\(SyncTables.outbox)"))
        var place: Place?
        _ = try graph.dominator(of: tips.union(leaves).union([head])) { node, above in
            guard node.kind != .checkpoint, try store.commit(node.n).schema == transaction.tables.schema else {
                return false
            }
            let ancestors = try graph.ancestors(of: node.n, notBelow: 0).subtracting([node.n])
            guard unpushed.isDisjoint(with: ancestors.union([node.n])) else { return false }
            let beside = all.subtracting(above).subtracting(ancestors)
            guard try beside.allSatisfy({ try isReplaced($0, by: node) }) else { return false }
            place = Place(node: node, ancestors: ancestors, replacedMerges: beside)
            return true
        }
        return place.flatMap { $0.ancestors.isEmpty ? nil : $0 }
    }

    /// Whether nothing is known to be missing.
    private func isComplete() throws -> Bool {
        for table in [SyncTables.pending, SyncTables.quarantine] {
            if try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM main.\(table))") == true { return false }
        }
        return true
    }

    /// The heads of the other replicas that are not retired; nil where one is not known here, or what it has pushed.
    private func acknowledgedHeads() throws -> Set<Int64>? {
        let replicas = try CheckpointStore(db: db).replicas()
        let retired = Set(replicas.filter(\.isRetired).map(\.author))
        var cursors: [Int64: RemoteCursor] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT n, cursor FROM main.\(SyncTables.remote)") {
            cursors[try row.stored(0)] = RemoteCursor(decoding: Array(try row.stored(1, as: Data.self)))
        }
        var heads: Set<Int64> = []
        for replica in replicas where !retired.contains(replica.author) {
            if replica.author == transaction.state.author { continue }
            guard let acknowledged = replica.acknowledgement, let cursor = cursors[replica.remote],
                let head = try acknowledged.head.flatMap(store.node),
                cursor.sequence(of: acknowledged.pusher) >= acknowledged.pushed
            else { return nil }
            heads.insert(head.n)
        }
        return heads
    }

    /// Whether nobody will go to a commit, or has worked on it: a merge of what is under the other one, which everybody
    /// prefers.
    private func isReplaced(_ n: Int64, by node: CommitNode) throws -> Bool {
        let other = try graph.node(n)
        guard other.kind == .merge, try graph.ordinaryCommits(of: n, areUnder: node.n) else { return false }
        return try !CommitNode.precedes(other, node) || !graph.ordinaryCommits(of: node.n, areUnder: n)
    }

    // MARK: The manifest

    /// - Parameter parts: All parts of the checkpoint.
    func manifest(at place: Place, _ parts: CheckpointParts) throws -> CheckpointManifest {
        let commit = try store.commit(place.node.n)
        let anchor = Commit(
            kind: .checkpoint, parents: [], generation: commit.generation, author: commit.author,
            authorSequence: commit.authorSequence, time: commit.time, schema: commit.schema, meta: commit.meta,
            digests: parts.digests, deltas: [Delta.empty.encoded()[...]])
        return CheckpointManifest(
            commit: place.node.id, anchor: anchor, authors: try authors(under: place), rowCount: parts.rowCount,
            parts: parts.ids)
    }

    /// For each author the number of its last commit under the place.
    private func authors(under place: Place) throws -> [AuthorID: UInt64] {
        var authors: [AuthorID: UInt64] = [:]
        let rows = try Row.fetchCursor(
            db,
            sql: """
                SELECT c.n, c.kind, c.sequence, a.id, c.id FROM main.\(SyncTables.commit) AS c
                JOIN main.\(SyncTables.author) AS a ON a.n = c.author WHERE c.kind <> ?
                """,
            arguments: [Int(Commit.Kind.merge.rawValue)])
        while let row = try rows.next() {
            let n: Int64 = try row.stored(0)
            guard n == place.node.n || place.ancestors.contains(n) else { continue }
            if try row.stored(1, as: Int.self) == Int(Commit.Kind.checkpoint.rawValue) {
                let id = CommitID(bytes: try row.stored(4, as: Data.self))
                let former = try id.flatMap { try CheckpointStore(db: db).checkpoint(ofCommit: $0) }
                authors.merge(former?.manifest.authors ?? [:]) { max($0, $1) }
            } else if let author = AuthorID(bytes: try row.stored(3, as: Data.self)) {
                authors[author] = max(authors[author] ?? 0, UInt64(clamping: try row.stored(2, as: Int64.self)))
            }
        }
        return authors
    }
}
