import CipherDatabase

/// The commits that this store has: joined ones, and fetched ones that wait. Inside a transaction.
struct CommitRows {
    let db: Database
    let index: CommitIndex
    let repository: RepositoryID

    // MARK: Joined

    func setContent(_ n: Int64, _ commit: EncodedCommit, _ context: LocalVector) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.commit) SET hash = ?, context = ?, body = ? WHERE n = ?")
            .execute(exact: [
                ExactValue(commit.hash.bytes), ExactValue(context.bytes), ExactValue(commit.body), .integer(n),
            ])
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

    func forgetBodies() throws {
        try db.execute(sql: "UPDATE \(EngineTables.commit) SET body = NULL WHERE body IS NOT NULL")
    }

    // MARK: Waiting

    /// A fetched commit without its body.
    struct Waiting {
        let n: Int64
        let author: ReplicaID
        let number: UInt64
        let hash: CommitHash
        let previous: CommitHash
        /// The commits that its writes have seen beyond the context.
        let seen: [Dot]
    }

    private static let columns = "n, author, number, hash, previous, seen FROM \(EngineTables.inbox)"

    private static func read(_ row: EngineRow) -> Waiting? {
        guard let author = ReplicaID(bytes: row.bytes(1)), let hash = CommitHash(bytes: row.bytes(3)),
            let previous = CommitHash(bytes: row.bytes(4))
        else { return nil }
        var (seen, reader) = ([Dot](), ByteReader(row.bytes(5)))
        while let author = try? reader.identifier(ReplicaID.self), let number = try? reader.varint(),
            let tag = try? reader.identifier(CommitTag.self)
        {
            seen.append(Dot(author: author, number: number, tag: tag))
        }
        return Waiting(
            n: row.integer(0), author: author, number: UInt64(row.integer(2)), hash: hash, previous: previous,
            seen: seen)
    }

    /// The commits that wait, without those that were refused.
    func waiting() throws -> [Waiting] {
        var found: [Waiting] = []
        try db.cachedStatement(sql: "SELECT \(Self.columns) WHERE NOT refused ORDER BY author, number").forEach([]) {
            row in
            if let waiting = Self.read(row) { found.append(waiting) }
        }
        return found
    }

    func waiting(_ author: ReplicaID, _ tip: Tip) throws -> Waiting? {
        var found: Waiting?
        try db.cachedStatement(sql: "SELECT \(Self.columns) WHERE author = ? AND number = ?")
            .forEach([ExactValue(author.bytes), .integer(Int64(tip.number))]) { row in
                if let waiting = Self.read(row), waiting.hash.tag == tip.tag { found = waiting }
            }
        return found
    }

    func body(of waiting: Waiting) throws -> EncodedCommit {
        let bytes = try db.cachedStatement(sql: "SELECT body FROM \(EngineTables.inbox) WHERE n = ?")
            .first([.integer(waiting.n)]) { $0.bytes(0) }
        guard let bytes else { throw EngineError(.damagedStore) }
        return try EncodedCommit(
            decoding: bytes[...], author: waiting.author, number: waiting.number, previous: waiting.previous,
            in: repository)
    }

    func addWaiting(_ commit: EncodedCommit) throws {
        let (author, tip) = (commit.commit.author, commit.tip)
        if try waiting(author, tip) != nil { return }
        var (seen, bytes) = (Set<Dot>(), [UInt8]())
        for write in commit.commit.writes where !write.seen.isEmpty { seen.formUnion(write.seen) }
        for dot in seen.sorted() {
            bytes += dot.author.bytes
            bytes.append(varint: dot.number)
            bytes += dot.tag?.bytes ?? []
        }
        try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.inbox) (author, number, hash, previous, seen, body) VALUES (?, ?, ?, ?, ?, ?)
                """
        ).execute(exact: [
            ExactValue(author.bytes), .integer(Int64(tip.number)), ExactValue(commit.hash.bytes),
            ExactValue(commit.commit.previous.bytes), ExactValue(bytes), ExactValue(commit.body),
        ])
    }

    /// The commit is none that an honest author makes: it is kept as evidence, and not joined.
    func refuse(_ author: ReplicaID, _ tip: Tip) throws {
        guard let waiting = try waiting(author, tip) else { return }
        try db.cachedStatement(sql: "UPDATE \(EngineTables.inbox) SET refused = 1 WHERE n = ?")
            .execute(exact: [.integer(waiting.n)])
    }

    func removeWaiting(_ author: ReplicaID, _ tip: Tip) throws {
        guard let waiting = try waiting(author, tip) else { return }
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.inbox) WHERE n = ?").execute(exact: [
            .integer(waiting.n)
        ])
    }
}
