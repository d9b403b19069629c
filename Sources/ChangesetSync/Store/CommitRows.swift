import CipherDatabase

/// The commits that are joined. Inside a transaction.
struct CommitRows {
    let db: Database
    let index: CommitIndex
    private let recent = RecentCommits()

    /// The hashes and contexts of the commits that were stored last: the name of the head needs them.
    private final class RecentCommits {
        private static let most = 16
        private var known: [Int64: (hash: CommitHash, context: LocalVector)] = [:]

        subscript(n: Int64) -> (hash: CommitHash, context: LocalVector)? {
            get { known[n] }
            set {
                if known.count >= Self.most { known.removeAll() }
                known[n] = newValue
            }
        }
    }

    // MARK: Joined

    /// The content of a commit that was stored with it.
    func noteContent(_ n: Int64, _ commit: EncodedCommit, _ context: LocalVector) {
        recent[n] = (commit.hash, context)
    }

    /// - Parameter held: What the inbox has of the commit.
    func setContent(_ n: Int64, _ commit: EncodedCommit, _ context: LocalVector, _ held: Inbox.Held?) throws {
        try db.cachedStatement(
            sql: """
                UPDATE \(EngineTables.commit) SET hash = ?, meta = ?, context = ?, body = ?, signature = ?, long = ?
                WHERE n = ?
                """
        ).execute(exact: [
            ExactValue(commit.hash.bytes), commit.commit.storedMeta, ExactValue(context.bytes),
            .blob(held?.long == nil ? commit.wholeBody : []), held?.signature.map { ExactValue($0) } ?? .null,
            ExactValue(held?.long), .integer(n),
        ])
        noteContent(n, commit, context)
    }

    /// Keeps the signature of a commit that has none here.
    func keepSignature(_ signature: [UInt8], of n: Int64) throws {
        try db.cachedStatement(
            sql: "UPDATE \(EngineTables.commit) SET signature = ? WHERE n = ? AND signature IS NULL"
        ).execute(exact: [ExactValue(signature), .integer(n)])
    }

    func setContext(_ n: Int64, _ context: LocalVector) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.commit) SET context = ? WHERE n = ? AND context IS NULL")
            .execute(exact: [ExactValue(context.bytes), .integer(n)])
        recent[n] = nil
    }

    /// The vector that the author of a commit had joined before it. Of a commit whose context is forgotten, nothing.
    func context(of n: Int64) throws -> LocalVector {
        if let known = recent[n] { return known.context }
        let bytes = try db.cachedStatement(sql: "SELECT context FROM \(EngineTables.commit) WHERE n = ?")
            .first([.integer(n)]) { $0.isNull(0) ? nil : $0.bytes(0) }
        return try bytes.flatMap { $0 }.map { try LocalVector($0, index) } ?? LocalVector()
    }

    func hash(of n: Int64) throws -> CommitHash {
        if let known = recent[n] { return known.hash }
        let bytes = try db.cachedStatement(sql: "SELECT hash FROM \(EngineTables.commit) WHERE n = ?")
            .first([.integer(n)]) { $0.bytes(0) }
        guard let hash = bytes.flatMap({ CommitHash(bytes: $0) }) else { throw EngineError(.damagedStore) }
        return hash
    }

    /// The vector that an author has directly after a commit.
    func vector(after n: Int64?) throws -> LocalVector {
        guard let n else { return LocalVector() }
        var vector = try context(of: n)
        try vector.advance(to: n, index)
        return vector
    }

    /// A commit with its writes.
    ///
    /// - Returns: nil if its body is forgotten, or was never here.
    func commit(_ n: Int64, in repository: RepositoryID) throws -> EncodedCommit? {
        let body = try db.cachedStatement(
            sql: "SELECT \(LongBodies.content(of: "c")) FROM \(EngineTables.commit) AS c WHERE n = ?"
        )
        .first([.integer(n)]) { $0.isNull(0) ? nil : $0.bytes(0) }
        guard let body = body.flatMap({ $0 }) else { return nil }
        let entry = try index.entry(n)
        let previous = try entry.number == 1 ? CommitHash.zero : hash(of: entry.parent ?? n)
        do {
            return try EncodedCommit(
                decoding: body[...], author: entry.authorID, number: entry.number, previous: previous, in: repository)
        } catch is CommitError {
            throw EngineError(.damagedStore)
        }
    }

    func forgetBodies() throws {
        try db.execute(
            sql: """
                DELETE FROM \(EngineTables.body) WHERE n IN (SELECT long FROM \(EngineTables.commit));
                UPDATE \(EngineTables.commit) SET body = NULL, long = NULL WHERE body IS NOT NULL
                """)
    }
}

extension Commit {
    /// The description as tables have it: most commits have none.
    var storedMeta: ExactValue { meta == "{}" ? .null : ExactValue(text: meta) }
}
