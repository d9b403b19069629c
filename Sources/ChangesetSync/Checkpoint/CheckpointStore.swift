import CipherDatabase
import Foundation

/// The checkpoints that a store has, and what it knows of the replicas. Inside a transaction.
///
/// A commit of the kind checkpoint, the anchor, stands in the graph for the commit whose name it has. Its rows are in the
/// parts.
struct CheckpointStore {
    let db: Database

    /// A store that an earlier version has set up has no such tables.
    private var exists: Bool {
        get throws { try db.tableExists(SyncTables.replica, in: "main") }
    }

    // MARK: Manifests and parts

    /// What is stored of one checkpoint.
    struct Stored: Sendable {
        let id: ObjectID
        let manifest: CheckpointManifest
        /// How many parts the rows of the program have.
        let applied: Int
    }

    func checkpoint(_ id: ObjectID) throws -> Stored? { try stored("id = ?", Data(id.bytes)) }

    func checkpoint(ofCommit id: CommitID) throws -> Stored? { try stored("name = ?", Data(id.bytes)) }

    private func stored(_ condition: String, _ value: Data) throws -> Stored? {
        guard try exists else { return nil }
        let row = try Row.fetchOne(
            db,
            sql: "SELECT id, body, applied FROM main.\(SyncTables.checkpoint) WHERE \(condition)",
            arguments: [value])
        guard let row else { return nil }
        guard let id = ObjectID(bytes: try row.stored(0, as: Data.self)),
            let manifest = try? CheckpointManifest(encoded: Array(try row.stored(1, as: Data.self))[...])
        else { throw CommitStore.damaged("A checkpoint has no valid content.") }
        return Stored(id: id, manifest: manifest, applied: try row.stored(2))
    }

    /// Stores a manifest, whose parts may follow.
    func insert(_ id: ObjectID, _ manifest: CheckpointManifest) throws {
        try db.execute(
            sql: "INSERT OR IGNORE INTO main.\(SyncTables.checkpoint) (id, name, applied, body) VALUES (?, ?, 0, ?)",
            arguments: [Data(id.bytes), Data(manifest.commit.bytes), Data(try manifest.encoded())])
    }

    /// Removes all checkpoints but one, and that of the anchor if it is to stay.
    func removeAll(except id: ObjectID?, keepingAnchor: Bool = false) throws {
        guard try exists else { return }
        let anchor = try keepingAnchor ? checkpointOfAnchor()?.id : nil
        let kept = [id, anchor].map { Data($0?.bytes ?? []) }
        try db.execute(
            sql: "DELETE FROM main.\(SyncTables.checkpoint) WHERE id NOT IN (?, ?)", arguments: StatementArguments(kept)
        )
        try db.execute(
            sql: "DELETE FROM main.\(SyncTables.part) WHERE checkpoint NOT IN (?, ?)",
            arguments: StatementArguments(kept))
    }

    func setApplied(_ count: Int, of id: ObjectID) throws {
        try db.execute(
            sql: "UPDATE main.\(SyncTables.checkpoint) SET applied = ? WHERE id = ?",
            arguments: [count, Data(id.bytes)])
    }

    func insertPart(_ bytes: [UInt8], _ number: Int, of id: ObjectID) throws {
        try db.execute(
            sql: "INSERT OR REPLACE INTO main.\(SyncTables.part) (checkpoint, number, body) VALUES (?, ?, ?)",
            arguments: [Data(id.bytes), number, Data(bytes)])
    }

    func removeParts(of id: ObjectID) throws {
        guard try exists else { return }
        try db.execute(sql: "DELETE FROM main.\(SyncTables.part) WHERE checkpoint = ?", arguments: [Data(id.bytes)])
    }

    /// Gives parts that were made under another name that of their checkpoint.
    func moveParts(_ numbers: Range<Int>, of former: ObjectID, to id: ObjectID) throws {
        try db.execute(
            sql: """
                UPDATE OR REPLACE main.\(SyncTables.part) SET checkpoint = ?
                WHERE checkpoint = ? AND number >= ? AND number < ?
                """,
            arguments: [Data(id.bytes), Data(former.bytes), numbers.lowerBound, numbers.upperBound])
    }

    func partNumbers(of id: ObjectID) throws -> Set<Int> {
        try Set(
            Int.fetchAll(
                db, sql: "SELECT number FROM main.\(SyncTables.part) WHERE checkpoint = ?",
                arguments: [Data(id.bytes)]))
    }

    func partBytes(_ number: Int, of id: ObjectID) throws -> [UInt8] {
        let bytes = try Data.fetchOne(
            db, sql: "SELECT body FROM main.\(SyncTables.part) WHERE checkpoint = ? AND number = ?",
            arguments: [Data(id.bytes), number])
        guard let bytes else { throw CommitStore.damaged("A part of a checkpoint is missing.") }
        return Array(bytes)
    }

    /// Its identifier was verified before it was stored.
    func part(_ number: Int, of id: ObjectID) throws -> CheckpointPart {
        do {
            return try CheckpointPart(encoded: partBytes(number, of: id)[...])
        } catch let error as CheckpointError {
            throw SyncError(.damagedCommit, "\(error)")
        }
    }

    /// All rows of the state of a commit for which a checkpoint stands.
    func rows(ofCommit id: CommitID) throws -> Delta {
        guard let stored = try checkpoint(ofCommit: id) else { throw CommitStore.damaged("A checkpoint is missing.") }
        return try rows(of: stored)
    }

    func rows(of stored: Stored) throws -> Delta {
        var composer = DeltaComposer()
        for number in stored.manifest.parts.indices { try composer.add(part(number, of: stored.id).rows) }
        return try composer.result()
    }

    // MARK: The anchor

    /// The commit that stands for what is not here any more. Until the commits below it are removed, one that stood for the
    /// checkpoint before may be among them, without its manifest.
    func anchor() throws -> CommitNode? {
        guard try exists else { return nil }
        // By way of the manifests, of which there are one or two: there may be any number of commits.
        let statement = try db.cachedStatement(
            sql: """
                SELECT c.n FROM main.\(SyncTables.checkpoint) AS k CROSS JOIN main.\(SyncTables.commit) AS c ON c.id = k.name
                WHERE c.kind = ? ORDER BY c.generation DESC LIMIT 1
                """)
        let n = try Int64.fetchOne(statement, arguments: [Int(Commit.Kind.checkpoint.rawValue)])
        return try n.map(CommitStore(db: db).node)
    }

    /// The checkpoint that this store begins with.
    func checkpointOfAnchor() throws -> Stored? { try anchor().flatMap { try checkpoint(ofCommit: $0.id) } }

    /// The anchor, where it is of a later checkpoint than one that a remote has: another remote had that first. Checkpoints
    /// are on one line, so the later one has what the other has.
    func anchor(after announced: Acknowledgement.Announcement) throws -> CommitNode? {
        try anchor().flatMap { $0.generation > announced.generation ? $0 : nil }
    }

    /// Makes a commit that is here the anchor.
    func replace(_ n: Int64, by manifest: CheckpointManifest) throws {
        let anchor = manifest.anchor
        try db.execute(
            sql: """
                UPDATE main.\(SyncTables.commit) SET parent1 = NULL, parent2 = NULL, kind = ?, body = ?,
                    meta_bytes = ?, delta_bytes = ?, merge_bytes = 0 WHERE n = ?
                """,
            arguments: [
                Int(Commit.Kind.checkpoint.rawValue), Data(try anchor.encoded()), anchor.meta.utf8.count,
                anchor.deltas[0].count, n,
            ])
    }

    /// The anchor whose rows are not all here yet; nil where the store has a head.
    func unfinished() throws -> (anchor: CommitNode, checkpoint: Stored)? {
        guard try RepositoryState(db).head == nil, let anchor = try anchor() else { return nil }
        guard let stored = try checkpoint(ofCommit: anchor.id) else {
            throw CommitStore.damaged("A checkpoint is missing.")
        }
        return (anchor, stored)
    }

    // MARK: Replicas

    /// A replica at a remote, as far as this store knows.
    struct Replica: Sendable {
        let remote: Int64
        let author: AuthorID
        let isRetired: Bool
        /// Nil where only its retirement is known.
        let acknowledgement: Acknowledgement?
    }

    func replicas() throws -> [Replica] {
        guard try exists else { return [] }
        let rows = try Row.fetchAll(
            db, sql: "SELECT remote, author, retired, body FROM main.\(SyncTables.replica) ORDER BY remote, author")
        return try rows.map { row in
            guard let author = AuthorID(bytes: try row.stored(1, as: Data.self)) else {
                throw CommitStore.damaged("A replica has no name.")
            }
            let body = try row.storedOrNil(3, as: Data.self)
            return Replica(
                remote: try row.stored(0), author: author, isRetired: try row.stored(2),
                acknowledgement: body.flatMap { try? Acknowledgement(encoded: Array($0)) })
        }
    }

    func note(_ acknowledgement: Acknowledgement, at remote: Int64) throws {
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.replica) (remote, author, retired, body) VALUES (?, ?, 0, ?)
                ON CONFLICT DO UPDATE SET body = excluded.body
                """,
            arguments: [remote, Data(acknowledgement.author.bytes), Data(acknowledgement.encoded())])
    }

    func noteRetired(_ author: AuthorID, at remote: Int64) throws {
        guard try exists else { return }
        try db.execute(
            sql: """
                INSERT INTO main.\(SyncTables.replica) (remote, author, retired) VALUES (?, ?, 1)
                ON CONFLICT DO UPDATE SET retired = 1
                """,
            arguments: [remote, Data(author.bytes)])
    }

    func removeReplicas(at remote: Int64) throws {
        guard try exists else { return }
        try db.execute(sql: "DELETE FROM main.\(SyncTables.replica) WHERE remote = ?", arguments: [remote])
    }

    // MARK: What is known of checkpoints

    /// The checkpoint that replaces most, of those that replicas announce.
    static func best(_ acknowledgements: some Sequence<Acknowledgement>) -> Acknowledgement.Announcement? {
        let all = acknowledgements.compactMap(\.checkpoint)
        guard var best = all.max(by: Acknowledgement.Announcement.precedes) else { return nil }
        // Each maker has seen a part of the logs.
        for other in all where other.manifest == best.manifest {
            best.replaced.formUnion(other.replaced)
        }
        return best
    }

    /// Whether what a replica announces cannot be: the commit is here, and has another place.
    func contradicts(_ announcement: Acknowledgement.Announcement) throws -> Bool {
        let node = try CommitStore(db: db).node(announcement.commit)
        return node.map { $0.generation != announcement.generation } ?? false
    }

    /// What replicas say, without checkpoints that cannot be.
    func possible(_ acknowledgements: [Acknowledgement]) throws -> [Acknowledgement] {
        try acknowledgements.map { acknowledgement in
            var possible = acknowledgement
            if let checkpoint = possible.checkpoint, try contradicts(checkpoint) { possible.checkpoint = nil }
            return possible
        }
    }

    /// Below which commit nothing can be built any more: that of the latest checkpoint.
    func floor() throws -> (commit: CommitID, generation: UInt64)? {
        let known = try possible(replicas().compactMap(\.acknowledgement))
        let announced = Self.best(known).map { ($0.commit, $0.generation) }
        guard let anchor = try anchor() else { return announced }
        if let announced, announced.1 > anchor.generation { return announced }
        return (anchor.id, anchor.generation)
    }
}
