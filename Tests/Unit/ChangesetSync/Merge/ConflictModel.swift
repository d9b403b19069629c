import CipherDatabase

@testable import ChangesetSync

/// Finds the conflicts of a merge by brute force: with whole sets of ancestors, and states that are replayed from the
/// first commit on.
final class ConflictModel {
    private struct Node {
        let commit: Commit
        let delta: Delta
        var ancestors: Set<CommitID> = []
        var state: [String: [RowKey: DeltaRecord]] = [:]
    }

    private var nodes: [CommitID: Node] = [:]

    init(_ replica: Replica) throws { try read(replica) }

    /// Takes up the commits that are new.
    func read(_ replica: Replica) throws {
        let commits = try replica.read { db in
            let store = CommitStore(db: db)
            return try Int64.fetchAll(db, sql: "SELECT n FROM cipherstore_sync_commit ORDER BY n")
                .map { (try store.node($0).id, try store.commit($0)) }
        }
        for (id, commit) in commits where nodes[id] == nil {
            var node = Node(commit: commit, delta: try commit.delta())
            for parent in commit.parents { node.ancestors.formUnion(ancestors(parent)) }
            node.state = try DeltaModel.apply(node.delta, to: commit.parents.first.flatMap { nodes[$0]?.state } ?? [:])
            nodes[id] = node
        }
    }

    private func ancestors(_ id: CommitID) -> Set<CommitID> { nodes[id]?.ancestors.union([id]) ?? [] }

    func nextLeaves(_ replica: Replica) throws -> (CommitID, CommitID)? {
        let leaves = try replica.read { db in
            let store = CommitStore(db: db)
            return try CommitGraph(store).uncovered(store.leaves()).map(\.id)
        }
        return leaves.count > 1 ? (leaves[0], leaves[1]) : nil
    }

    /// The rows and columns that the resolver has to be asked about.
    func conflicts(_ one: CommitID, _ other: CommitID) throws -> [String] {
        let heads = [one, other].sorted()
        let all = heads.map(ancestors)
        let base = all[0].intersection(all[1]).max { left, right in
            let (one, other) = (nodes[left]?.commit.generation ?? 0, nodes[right]?.commit.generation ?? 0)
            return (one, left) < (other, right)
        }
        let beyond = all.map { $0.subtracting(base.map(ancestors) ?? []) }
        let states = heads.map { nodes[$0]?.state["item"] ?? [:] }
        var found: [String] = []
        for key in Set(states[0].keys).union(states[1].keys) {
            let id = key.values[0].databaseValue
            let rows = states.map { $0[key]?.cells }
            if let ours = rows[0], let theirs = rows[1] {
                for (column, name) in ["id", "a", "b"].enumerated() where ours[column] != theirs[column] {
                    let writers = beyond.map { last(in: $0, key) { $0.new?.cells[column].first ?? Cell.undefined } }
                    if areConcurrent(writers, all) { found.append("\(id) \(name)") }
                }
                continue
            }
            let live = rows[0] != nil ? 0 : 1
            let write = last(in: beyond[live], key) { $0.operation == .delete ? Cell.undefined : Cell.null }
            let deletion = last(in: beyond[1 - live], key) { $0.operation == .delete ? Cell.null : Cell.undefined }
            let writers = live == 0 ? [write, deletion] : [deletion, write]
            if areConcurrent(writers, all) { found.append("\(id) -") }
        }
        return found
    }

    private func areConcurrent(_ writers: [CommitID?], _ known: [Set<CommitID>]) -> Bool {
        guard let one = writers[0], let other = writers[1] else { return false }
        return !known[1].contains(one) && !known[0].contains(other)
    }

    /// The last ordinary commit that has written something of a row.
    private func last(in commits: Set<CommitID>, _ key: RowKey, _ written: (ChangesetSync.RowChange) -> UInt8)
        -> CommitID?
    {
        let writers = commits.filter { id in
            guard let node = nodes[id], node.commit.kind == .ordinary else { return false }
            return node.delta.tables.contains { entry in
                entry.changes.contains {
                    entry.table.key(of: $0.keyRecord) == key && written($0) != Cell.undefined
                }
            }
        }
        return writers.max { left, right in
            guard let one = nodes[left]?.commit, let other = nodes[right]?.commit else { return false }
            return (one.time, one.author, left) < (other.time, other.author, right)
        }
    }
}
