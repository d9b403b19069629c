import CipherDatabase
import Foundation

/// What a store knows of its repository, without any remote.
public struct RepositorySummary: Hashable, Sendable {
    public let repository: RepositoryID
    /// The number of the repository's key.
    public let epoch: UInt32
    /// This store, as the author of its commits.
    public let author: AuthorID
    public let head: CommitID?
    public let commitCount: Int
    /// The tracked tables.
    public let tables: [String]
    /// Those of them that are gone, as they were dropped or renamed. Until they are back nothing is committed or pulled.
    public let missingTables: [String]
    /// The leaves that are no part of another one. With more than one of them there is something to merge.
    public let leafCount: Int
    /// Commits that are not under the head, merges left out.
    public let behind: Int
    /// Conflicts that nobody has looked at.
    public let conflicts: Int
    /// Tracked tables that were written outside of commits.
    public let foreignWrites: [String]
    /// Why the next pull or merge stops: another schema made one of the commits that it needs. `.schemaAhead` or
    /// `.columnRemoved`; nil where none is known.
    public let schemaObstacle: SyncError?
    /// The error with which the last pull or merge of this store has stopped, while there is something to pull. An error of
    /// SQLite is `.databaseError` with its extended code; an error of a block of the program is `.programError`.
    public let pullObstacle: SyncError?
}

/// A commit under the head.
public struct SyncLogEntry: Hashable, Sendable {
    public let id: CommitID
    public let parents: [CommitID]
    public let isMerge: Bool
    /// Nil of a merge, which every replica makes alike.
    public let author: AuthorID?
    /// By the clock of its author, but never before its parents.
    public let date: Date
    /// Whether every remote of this store has it.
    public let isPushed: Bool
    /// What the program says of it.
    public let meta: String
}

extension ChangesetRepository {
    /// What the store knows of its repository.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    public func summary() throws -> RepositorySummary {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let transaction = try RepositoryTransaction(db, isLooking: true)
                let (state, graph) = (transaction.state, CommitGraph(transaction.store))
                func count(_ table: String) throws -> Int {
                    try Int.fetchOne(db, sql: "SELECT count(*) FROM main.\(table)") ?? 0
                }
                let leaves = try graph.uncovered(transaction.store.leaves())
                let behind = try Self.behind(transaction)
                return RepositorySummary(
                    repository: state.repository, epoch: state.epoch, author: state.author,
                    head: try state.head.map { try graph.node($0).id }, commitCount: try count(SyncTables.commit),
                    tables: transaction.tables.all.map(\.name) + transaction.missingTables,
                    missingTables: transaction.missingTables, leafCount: leaves.count,
                    behind: behind.count { $0.kind != .merge }, conflicts: try count(SyncTables.conflict),
                    foreignWrites: try transaction.writtenTables(),
                    schemaObstacle: transaction.missingTables.isEmpty
                        ? try Self.obstacle(in: behind, transaction) : nil,
                    pullObstacle: behind.isEmpty ? nil : try PullObstacle(db: db).current())
            }
        }
    }

    /// The commits that are not under the head, the latest first.
    static func behind(_ transaction: RepositoryTransaction) throws -> [CommitNode] {
        let (graph, head) = (CommitGraph(transaction.store), transaction.state.head)
        var found: Set<Int64> = []
        for leaf in try graph.uncovered(transaction.store.leaves()) {
            guard let head else {
                found.formUnion(try graph.ancestors(of: leaf.n, notBelow: 0))
                continue
            }
            if try graph.isAncestor(leaf.n, of: head) { continue }
            found.formUnion(try graph.base(of: head, leaf.n).sides[1])
        }
        if let head, !found.isEmpty {
            let lowest = try found.map { try graph.node($0).generation }.min() ?? 0
            found.subtract(try graph.ancestors(of: head, notBelow: lowest))
        }
        return try found.map(graph.node).sorted { CommitNode.precedes($1, $0) }
    }

    /// Why one of the latest commits does not fit the tables.
    static func obstacle(in nodes: [CommitNode], _ transaction: RepositoryTransaction) throws -> SyncError? {
        for node in nodes.prefix(Limits.comparedCommits) where node.kind != .checkpoint {
            let commit = try transaction.store.commit(node.n)
            for index in commit.deltas.indices {
                let delta = try transaction.store.delta(node.n, fromParent: index)
                if let obstacle = transaction.tables.obstacle(to: delta) {
                    return try transaction.whichSchemaIsNewer(
                        SyncError(.schemaAhead, table: obstacle.table, commit: node.id, obstacle.reason))
                }
            }
        }
        return nil
    }

    /// The commits under the head as ``log(limit:)`` lists them, with their authors and times.
    ///
    /// - Throws: ``SyncError`` `.notEnabled`; `DatabaseError`.
    public func logEntries(limit: Int = 100) throws -> [SyncLogEntry] {
        let changesets = try log(limit: limit)
        return try writer.unsafeReentrantRead { db in
            try db.isolated {
                let store = CommitStore(db: db)
                return try changesets.map { changeset in
                    guard let id = CommitID(changeset.uuid) else { throw SyncError(.unknownCommit) }
                    let node = try store.requireNode(id)
                    let author = try store.author(node.author)
                    return SyncLogEntry(
                        id: id, parents: try node.parents.map { try store.node($0).id }, isMerge: node.kind == .merge,
                        author: author == .none ? nil : author,
                        date: Date(timeIntervalSince1970: Double(node.time.milliseconds) / 1000),
                        isPushed: changeset.pushed, meta: changeset.meta)
                }
            }
        }
    }

    /// The commit that a person names: `HEAD`, or the first digits of its identifier, four at least.
    ///
    /// - Throws: ``SyncError`` `.unknownCommit` where there is none, or several begin so; `.notEnabled`.
    public func commit(named text: String) throws -> CommitID {
        try writer.unsafeReentrantRead { db in
            try db.isolated {
                let (state, store) = (try RepositoryState(db), CommitStore(db: db))
                if text == "HEAD", let head = state.head { return try store.node(head).id }
                let digits = text.lowercased()
                let isPossible = (4...2 * CommitID.byteCount).contains(digits.utf8.count)
                guard isPossible, digits.utf8.allSatisfy({ (48...57).contains($0) || (97...102).contains($0) }) else {
                    throw SyncError(.unknownCommit, "Give HEAD, or four digits at least of its identifier.")
                }
                let zeros = String(repeating: "0", count: 2 * CommitID.byteCount - digits.utf8.count)
                let found = try Data.fetchAll(
                    db,
                    sql: """
                        SELECT id FROM main.\(SyncTables.commit) WHERE id >= ? AND lower(hex(id)) GLOB ? || '*'
                        ORDER BY id LIMIT 2
                        """,
                    arguments: [CommitID(digits + zeros).map { Data($0.bytes) } ?? Data(), digits])
                guard found.count < 2 else { throw SyncError(.unknownCommit, "Several commits begin so.") }
                guard let bytes = found.first, let id = CommitID(bytes: bytes) else { throw SyncError(.unknownCommit) }
                return id
            }
        }
    }
}
