import CipherDatabase

/// Looking at commits.
extension ChangesetRepository {
    /// The joined commits, the latest first, each before those that it knew.
    ///
    /// - Parameter limit: The most commits.
    /// - Throws: `DatabaseError`.
    public func log(limit: Int = 100) throws -> [Changeset] {
        try looking { work in
            try work.latestCommits(limit).map { try Changeset.joined($0, work.db) }
        }
    }

    /// The changes of a commit, in its order.
    ///
    /// - Parameter uuid: ``Changeset/uuid``
    /// - Throws: ``EngineError`` `.noSuchCommit`, `.forgottenCommit`; `DatabaseError`.
    public func changes(of uuid: String) throws -> [RowChange] {
        try looking { work in
            guard let hash = CommitHash(uuid) else { throw EngineError(.noSuchCommit) }
            let commit = try work.commits.commit(work.joined(hash), in: work.state.repository)
            guard let commit else { throw EngineError(.forgottenCommit) }
            return commit.commit.writes.map(RowChange.init)
        }
    }

    /// The changes of the commits that one head has and another one lacks, each row once.
    ///
    /// Of concurrent writes of one cell it has the later one by time.
    ///
    /// - Parameters:
    ///   - former: ``Changeset/uuid`` or ``Head/uuid``; nil for a store without commits.
    ///   - uuid: The same. With both exchanged, the call lists what only `former` has.
    /// - Throws: ``EngineError`` `.noSuchCommit`, also for a union that this store has not had among its latest 1,000;
    ///   `.forgottenCommit` if a snapshot stands for one of the commits; `DatabaseError`.
    public func diff(from former: String?, to uuid: String) throws -> [RowChange] {
        try looking { work in
            let start = try former.map { try work.vector(named: $0) } ?? LocalVector()
            var changes = ComposedChanges()
            for n in try work.commits(in: work.vector(named: uuid), notIn: start) {
                guard let commit = try work.commits.commit(n, in: work.state.repository) else {
                    throw EngineError(.forgottenCommit)
                }
                for write in commit.commit.writes { changes.append(RowChange(write)) }
            }
            return changes.all
        }
    }
}

/// The changes of several commits, each row once.
private struct ComposedChanges {
    private struct Place: Hashable {
        let table: String
        let key: [DatabaseValue]
    }

    private var changes: [Place: RowChange] = [:]
    private var order: [Place] = []
    private var seen: Set<Place> = []

    mutating func append(_ change: RowChange) {
        let place = Place(table: change.table, key: change.key)
        guard let former = changes[place] else {
            if seen.insert(place).inserted { order.append(place) }
            changes[place] = change
            return
        }
        changes[place] = former.followed(by: change)
    }

    var all: [RowChange] { order.compactMap { changes[$0] } }
}

extension Work {
    /// The joined commits, the latest first, each before those that it knew.
    func latestCommits(_ limit: Int) throws -> [Int64] {
        var found: [Int64] = []
        try db.cachedStatement(
            sql: """
                SELECT c.n FROM \(EngineTables.commit) AS c JOIN \(EngineTables.author) AS a ON a.n = c.author
                WHERE length(c.hash) = \(CommitHash.byteCount)
                ORDER BY c.time DESC, a.id DESC, c.number DESC, c.hash DESC
                """
        ).forEach([]) { row in
            guard found.count < limit, try state.vector.covers(row.integer(0), index) else { return }
            found.append(row.integer(0))
        }
        return found
    }

    /// The commits that one vector has and another one lacks, the earliest first: each after those that it knew.
    func commits(in vector: LocalVector, notIn former: LocalVector) throws -> [Int64] {
        var candidates: [Int64] = []
        try db.cachedStatement(
            sql: """
                SELECT c.n FROM \(EngineTables.commit) AS c JOIN \(EngineTables.author) AS a ON a.n = c.author
                ORDER BY c.time, a.id, c.number, c.hash
                """
        ).forEach([]) { candidates.append($0.integer(0)) }
        return try candidates.filter { try vector.covers($0, index) && !former.covers($0, index) }
    }
}
