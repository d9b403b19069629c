import CipherDatabase

/// The commits that wait for one that no remote has brought, for the status.
///
/// The commits of removed members that their removals did not know are left out, as are those that wait for a refused one:
/// no device can end that.
struct WaitingCommits {
    let work: Work

    private struct Group {
        let author: ReplicaID
        let lacked: ReplicaID
        let number: UInt64
        let count: Int
    }

    func all() throws -> [Obstacle] {
        try groups().compactMap { group in
            guard let missing = try root(of: group) else { return nil }
            return .waiting(author: group.author.description, commits: group.count, missing: missing)
        }
    }

    /// Of each author and each author that it waits for, the first commit that waits: the others follow it.
    private func groups() throws -> [Group] {
        var authors: [ReplicaID] = []
        try work.db.cachedStatement(
            sql: "SELECT DISTINCT author FROM \(EngineTables.inbox) WHERE lacked IS NOT NULL AND refused = 0"
        ).forEach([]) { row in authors.append(try id(row.bytes(0))) }
        var groups: [Group] = []
        for author in authors.sorted() {
            let last = try work.removedAuthor(author).map { try lastNumber($0) } ?? .max
            try work.db.cachedStatement(
                sql: """
                    SELECT lacked, min(lacked_number), count(*) FROM \(EngineTables.inbox)
                    WHERE author = ? AND number <= ? AND lacked IS NOT NULL AND refused = 0
                    GROUP BY lacked ORDER BY lacked
                    """
            ).forEach([ExactValue(author.bytes), .integer(Int64(clamping: last))]) { row in
                groups.append(
                    Group(
                        author: author, lacked: try id(row.bytes(0)), number: UInt64(row.integer(1)),
                        count: Int(row.integer(2))))
            }
        }
        return groups
    }

    /// The number of the last commit of a removed author that its removals knew; 0 for none.
    private func lastNumber(_ known: LocalVector) throws -> UInt64 {
        try known.all.map { try work.index.entry($0).number }.max() ?? 0
    }

    /// The commit that is not here and for which the group waits, perhaps by others that wait for it.
    ///
    /// - Returns: nil if the commit is here: it is refused, or its author was removed before.
    private func root(of group: Group) throws -> CommitPlace? {
        var place = CommitPlace(author: group.lacked.description, number: group.number)
        var (author, number) = (group.lacked, group.number)
        var seen: Set<CommitPlace> = []
        while seen.insert(place).inserted {
            if try work.inbox.all(author, number).isEmpty { return place }
            let next = try work.db.cachedStatement(
                sql: """
                    SELECT lacked, lacked_number FROM \(EngineTables.inbox)
                    WHERE author = ? AND number = ? AND lacked IS NOT NULL AND refused = 0
                    """
            ).first([ExactValue(author.bytes), .integer(Int64(clamping: number))]) {
                (try id($0.bytes(0)), UInt64($0.integer(1)))
            }
            guard let next else { return nil }
            (author, number) = next
            place = CommitPlace(author: author.description, number: number)
        }
        return place
    }

    private func id(_ bytes: [UInt8]) throws -> ReplicaID {
        guard let id = ReplicaID(bytes: bytes) else { throw EngineError(.damagedStore) }
        return id
    }
}

extension Work {
    /// The commits of an author that its removals knew; nil if it was not removed.
    func removedAuthor(_ author: ReplicaID) throws -> LocalVector? {
        try index.knownAuthor(author).flatMap { state.removed[$0] }
    }
}
