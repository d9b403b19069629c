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
        var place: Place?
        _ = try graph.dominator(of: tips.union(leaves).union([head])) { node, above in
            guard node.kind != .checkpoint, try store.commit(node.n).schema == transaction.tables.schema else {
                return false
            }
            let ancestors = try graph.ancestors(of: node.n, notBelow: 0).subtracting([node.n])
            let beside = all.subtracting(above).subtracting(ancestors)
            guard try beside.allSatisfy({ try isReplaced($0, by: node) }) else { return false }
            place = Place(node: node, ancestors: ancestors, replacedMerges: beside)
            return true
        }
        return place.flatMap { $0.ancestors.isEmpty ? nil : $0 }
    }

    /// Whether nothing is known to be missing, or on its way out.
    private func isComplete() throws -> Bool {
        for table in [SyncTables.pending, SyncTables.quarantine, SyncTables.outbox] {
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

    // MARK: The bytes

    /// A checkpoint as it goes to a remote.
    struct Made: Sendable {
        let manifest: CheckpointManifest
        /// The bytes of the parts.
        let parts: [[UInt8]]
    }

    /// - Throws: ``SyncError`` `.digestMismatch` where the rows are not those of the commits.
    func make(at place: Place) throws -> Made {
        let node = place.node
        var composer = DeltaComposer()
        do {
            for step in try graph.path(from: node.n, to: transaction.state.head ?? node.n) ?? [] {
                try composer.add(transaction.tables.fitting(store.delta(step.child, fromParent: step.parent)))
            }
        } catch let error as DeltaError {
            throw SyncError(.damagedCommit, "\(error)")
        }
        let view = try StateView(TableRows(db), transaction.tables, delta: composer.result().inverted)
        var writer = PartWriter(commit: node.id, key: transaction.key)
        var digests: [TableDigest] = []
        let expected = try Pull.digests(
            of: Set(transaction.tables.all.map(\.name)), at: node, transaction, graph)
        for table in transaction.tables.all {
            let rows = try rows(of: table, view)
            var digest = RowDigest()
            for row in rows {
                try digest.add(row.record, transaction.key)
                try writer.append(row.record, of: table.table)
            }
            guard expected[table.name] ?? digest == digest else {
                throw SyncError(.digestMismatch, table: table.name)
            }
            if !rows.isEmpty, let entry = TableDigest(table: table.name, bytes: digest.bytes) { digests.append(entry) }
        }
        let parts = try writer.finish()
        let commit = try store.commit(node.n)
        let anchor = Commit(
            kind: .checkpoint, parents: [], generation: commit.generation, author: commit.author,
            authorSequence: commit.authorSequence, time: commit.time, schema: commit.schema, meta: commit.meta,
            digests: digests, deltas: [Delta.empty.encoded()[...]])
        return Made(
            manifest: CheckpointManifest(
                commit: node.id, anchor: anchor, authors: try authors(under: place), rowCount: writer.rowCount,
                parts: writer.ids),
            parts: parts)
    }

    /// The rows that a table has at the commit, in the order of their keys.
    private func rows(of table: TrackedTable, _ view: StateView) throws -> [(key: RowKey, record: DeltaRecord)] {
        let changed = view.overlay[table.name] ?? [:]
        var rows: [(key: RowKey, record: DeltaRecord)] = []
        let statement = try db.makeStatement(sql: "SELECT \(table.columnList) FROM \(table.qualifiedName)")
        try statement.forEachRecord { record in
            let key = table.table.key(of: record)
            if changed[key] == nil { rows.append((key, record)) }
        }
        for case (let key, let record?) in changed { rows.append((key, record)) }
        return rows.sorted { $0.key < $1.key }
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

/// Divides the rows of a checkpoint into parts: a new one begins where the last one is full.
private struct PartWriter {
    let commit: CommitID
    let key: RepositoryKey
    private(set) var ids: [ObjectID] = []
    private(set) var rowCount: UInt64 = 0
    private var parts: [[UInt8]] = []
    private var tables: [TableDelta] = []
    private var table: DeltaTable?
    private var changes: [RowChange] = []
    private var (bytes, rows) = (0, 0)

    init(commit: CommitID, key: RepositoryKey) { (self.commit, self.key) = (commit, key) }

    mutating func append(_ record: DeltaRecord, of next: DeltaTable) throws {
        let isFull = rows == Limits.checkpointPartRows || bytes + record.bytes.count > Limits.checkpointPartBytes
        if isFull && rows > 0 { try endPart() }
        if table != next { endTable() }
        table = next
        changes.append(.insert(record))
        (bytes, rows, rowCount) = (bytes + record.bytes.count, rows + 1, rowCount + 1)
    }

    mutating func finish() throws -> [[UInt8]] {
        if rows > 0 { try endPart() }
        return parts
    }

    private mutating func endTable() {
        // They come in the order of their keys.
        if let table, !changes.isEmpty { tables.append(TableDelta(canonical: changes, of: table)) }
        changes = []
    }

    private mutating func endPart() throws {
        endTable()
        let part = CheckpointPart(commit: commit, number: UInt32(parts.count), rows: try Delta(tables))
        let encoded = part.encoded()
        ids.append(try encoded.withUnsafeBytes { try key.commitID(of: $0) })
        parts.append(encoded)
        (tables, table, bytes, rows) = ([], nil, 0, 0)
    }
}
