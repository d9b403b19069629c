import CipherDatabase

/// The commits that are joined. Inside a transaction.
struct CommitRows {
    let db: Database
    let index: CommitIndex

    // MARK: Joined

    func setContent(_ n: Int64, _ commit: EncodedCommit, _ context: LocalVector, signature: [UInt8]?) throws {
        try db.cachedStatement(
            sql: """
                UPDATE \(EngineTables.commit) SET hash = ?, meta = ?, context = ?, body = ?, signature = ? WHERE n = ?
                """
        ).execute(exact: [
            ExactValue(commit.hash.bytes), commit.commit.storedMeta, ExactValue(context.bytes), ExactValue(commit.body),
            signature.map { ExactValue($0) } ?? .null, .integer(n),
        ])
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
    }

    /// The vector that the author of a commit had joined before it. Of a commit whose context is forgotten, nothing.
    func context(of n: Int64) throws -> LocalVector {
        let bytes = try db.cachedStatement(sql: "SELECT context FROM \(EngineTables.commit) WHERE n = ?")
            .first([.integer(n)]) { $0.isNull(0) ? nil : $0.bytes(0) }
        return try bytes.flatMap { $0 }.map { try LocalVector($0, index) } ?? LocalVector()
    }

    func hash(of n: Int64) throws -> CommitHash {
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
        let body = try db.cachedStatement(sql: "SELECT body FROM \(EngineTables.commit) WHERE n = ?")
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
        try db.execute(sql: "UPDATE \(EngineTables.commit) SET body = NULL WHERE body IS NOT NULL")
    }
}

extension Commit {
    /// The description as tables have it: most commits have none.
    var storedMeta: ExactValue { meta == "{}" ? .null : ExactValue(text: meta) }
}
