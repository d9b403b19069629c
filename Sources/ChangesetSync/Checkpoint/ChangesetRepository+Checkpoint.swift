import CipherDatabase
import Foundation

/// The rows of a checkpoint, which a new replica begins with.
extension ChangesetRepository {
    /// Whether a checkpoint stands in the graph whose rows are not all in the tables.
    func hasUnfinishedCheckpoint() throws -> Bool {
        try writer.unsafeReentrantRead { db in
            try db.isolated { try CheckpointStore(db: db).unfinished() != nil }
        }
    }

    /// Brings the rows of a checkpoint into the tables, some parts in each transaction. Until the last one the store has no
    /// head, and makes no commit. A process that is killed continues with the next part.
    ///
    /// A row that was written outside of commits stays, also where it has the key or a unique value of one of the
    /// checkpoint: ``commitForeignWrites(meta:)`` makes a commit of what differs. A unique value stops it where the tables
    /// are defined otherwise than those of the checkpoint.
    /// - Returns: The checkpoint; nil where there is none to take up.
    @discardableResult
    func pullCheckpoint() throws -> Changeset? {
        var last: Changeset?
        while try hasUnfinishedCheckpoint() {
            guard let step = try applying(takesForeignWrites: true, { try applyParts(&$0) }) else { break }
            last = step
        }
        return last
    }

    /// One transaction's share of the parts.
    private func applyParts(_ transaction: inout RepositoryTransaction) throws -> Changeset? {
        let store = CheckpointStore(db: transaction.db)
        guard let (anchor, stored) = try store.unfinished() else { return nil }
        let keepsRows = try !transaction.hasOtherSchema && transaction.mayHaveForeignWrites()
        if !keepsRows { try transaction.requireOwnWritesOnly() }
        // With other unique keys, two rows of the checkpoint may be equal here.
        let isSame = stored.manifest.anchor.schema == transaction.tables.schema
        let keeping: DeltaApplier.KeptRows = keepsRows ? isSame ? .ofKeysAndValues : .ofKeys : .none
        let end = ContinuousClock.now + Limits.checkpointSlice
        var applied = stored.applied
        while applied < stored.manifest.parts.count {
            let rows = try store.part(applied, of: stored.id).rows
            var changed: [(TrackedTable, DeltaRecord?)] = []
            // Foreign keys were checked where the rows were written; a row may come before the one that it refers to.
            var kept: [String: Set<RowKey>] = [:]
            let applier = DeltaApplier(db: transaction.db, tables: transaction.tables) { changed.append(($0, $2)) }
            try applier.apply(rows, keeping: keeping) { kept[$0.name, default: []].insert($0.table.key(of: $1)) }
            for (table, row) in changed { try transaction.noteChange(of: table, from: nil, to: row) }
            try follow(kept.isEmpty ? rows : transaction.tables.fitting(rows).without(kept), transaction)
            applied += 1
            if ContinuousClock.now >= end { break }
        }
        try store.setApplied(applied, of: stored.id)
        guard applied == stored.manifest.parts.count else {
            try transaction.moveHead(to: nil, passingHistory: !keepsRows)
            return try Self.changeset(anchor, transaction.db)
        }
        try Self.requireDigests(stored.manifest, transaction)
        try transaction.moveHead(to: anchor, passingHistory: !keepsRows)
        return try Self.changeset(anchor, transaction.db)
    }

    private static func requireDigests(_ manifest: CheckpointManifest, _ transaction: RepositoryTransaction) throws {
        // With other columns the rows are others.
        guard manifest.anchor.schema == transaction.tables.schema else { return }
        for table in transaction.tables.all {
            let digest = try transaction.digest(of: table.name)
            if digest.bytes != manifest.digest(of: table.name) { throw SyncError(.digestMismatch, table: table.name) }
        }
    }

    // MARK: Making the parts

    /// Makes a checkpoint and stores its parts, under the name of its commit until ``replaceHistory(by:_:at:)``. Rows are
    /// read without the write lock, some parts in each transaction.
    ///
    /// - Throws: ``SyncError`` `.foreignWrites`; `.digestMismatch` where the rows are not those of the commits for another
    ///   reason; `.checkpointPending` where another process has replaced the commit, or the tables have another schema
    ///   since.
    func makeParts(at place: CheckpointMaker.Place) throws -> CheckpointManifest {
        let name = place.node.id
        // A killed process has left them.
        try writing { try CheckpointStore(db: $0).removeParts(of: name) }
        do {
            var parts = try reading { try CheckpointParts($0, at: place.node) }
            while true {
                let next = try reading { try parts.next($0) }
                if next.isEmpty { break }
                try writing { db in
                    for part in next { try CheckpointStore(db: db).insertPart(part.bytes, part.number, of: name) }
                }
            }
            return try reading { try CheckpointMaker($0).manifest(at: place, parts) }
        } catch {
            try? writing { try CheckpointStore(db: $0).removeParts(of: name) }
            if (error as? SyncError)?.code == .digestMismatch {
                try writing { db in
                    var transaction = try RepositoryTransaction(db)
                    try transaction.requireOwnWritesOnly()
                }
            }
            throw error
        }
    }

    private func reading<T>(_ body: (RepositoryTransaction) throws -> T) throws -> T {
        try writer.unsafeReentrantRead { db in try db.isolated { try body(RepositoryTransaction(db)) } }
    }

    // MARK: Replacing the history

    /// Puts a checkpoint, whose parts were made, in the place of the commits that it replaces. The rows stay.
    func replaceHistory(by manifest: CheckpointManifest, _ id: ObjectID, at place: CheckpointMaker.Place) throws {
        for start in stride(from: 0, to: manifest.parts.count, by: Limits.checkpointPartsAtOnce) {
            try writing { db in
                let end = min(start + Limits.checkpointPartsAtOnce, manifest.parts.count)
                try CheckpointStore(db: db).moveParts(start..<end, of: place.node.id, to: id)
            }
        }
        try writing { db in
            let store = CheckpointStore(db: db)
            // Another process has made it a remote's meanwhile, or has reset the repository.
            let isWanted = try Bool.fetchOne(
                db,
                sql: """
                    SELECT EXISTS (SELECT 1 FROM main.\(SyncTables.outbox) AS o
                        JOIN main.\(SyncTables.commit) AS c ON c.n = o.n WHERE c.generation <= ?)
                    """,
                arguments: [Int64(clamping: place.node.generation)])
            guard try isWanted == false && CommitStore(db: db).node(place.node.id)?.n == place.node.n else {
                throw SyncError(.checkpointPending)
            }
            try store.insert(id, manifest)
            try store.setApplied(manifest.parts.count, of: id)
            try store.replace(place.node.n, by: manifest)
            try CommitStore(db: db).remove(leaves: place.replacedMerges) {
                for n in place.replacedMerges {
                    try db.execute(sql: "DELETE FROM main.\(SyncTables.commit) WHERE n = ?", arguments: [n])
                }
            }
            try store.removeAll(except: id)
        }
        try removeReplacedCommits()
    }

    /// Removes the commits below the checkpoint: nothing leads to them any more. What a killed process has left is removed
    /// by the next call.
    func removeReplacedCommits() throws {
        var isDone = false
        while !isDone {
            isDone = try writing { db in
                guard let anchor = try CheckpointStore(db: db).anchor() else { return true }
                var count = 0
                try CommitStore(db: db).remove {
                    try db.execute(
                        sql: Self.removal,
                        arguments: [
                            Int64(clamping: anchor.generation), anchor.n, Limits.removedCommits, Limits.removedBytes,
                        ])
                    count = db.changesCount
                }
                return count == 0
            }
        }
    }

    /// Removes the next commits below a checkpoint: at least one, where there is one.
    private static let removal = """
        DELETE FROM main.\(SyncTables.commit) WHERE n IN (
            SELECT n FROM (
                SELECT n, sum(delta_bytes + merge_bytes + meta_bytes) OVER (ORDER BY n)
                    - delta_bytes - merge_bytes - meta_bytes AS bytes_before
                FROM main.\(SyncTables.commit) WHERE generation <= ? AND n <> ? ORDER BY n LIMIT ?)
            WHERE bytes_before < ?)
        """

    private func writing<T>(_ body: (Database) throws -> T) throws -> T {
        try writer.unsafeReentrantWrite { db in try Self.inTransaction(db) { try body(db) } }
    }
}

extension Delta {
    /// The delta without the rows of some keys, by table.
    fileprivate func without(_ keys: [String: Set<RowKey>]) throws -> Delta {
        try Delta(
            tables.map { entry in
                let left = keys[entry.table.name] ?? []
                return try TableDelta(
                    table: entry.table,
                    changes: entry.changes.filter { !left.contains(entry.table.key(of: $0.keyRecord)) })
            }.filter { !$0.changes.isEmpty })
    }
}
