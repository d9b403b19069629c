import CipherDatabase

/// The fetched commits that wait. Inside a transaction.
///
/// Each has the first commit that it needs and that is not joined. A commit that is joined asks for those that lack it, so
/// nothing is examined twice without a reason.
struct Inbox {
    let db: Database
    let repository: RepositoryID

    /// A fetched commit without its body.
    struct Waiting {
        let n: Int64
        let author: ReplicaID
        let number: UInt64
        let hash: CommitHash
        let previous: CommitHash
        /// The context of the commit: what its author has joined since its previous commit.
        let context: [AuthorTips]
        /// The commits that its writes have seen beyond the context.
        let seen: [Dot]
        /// The number of its body in ``LongBodies``, if it is long.
        let long: Int64?

        var tip: Tip { Tip(number: number, tag: hash.tag) }
        /// The commit before it; nil for the first one of its author.
        var parent: Tip? { number == 1 ? nil : Tip(number: number - 1, tag: previous.tag) }
    }

    private static let columns = "n, author, number, hash, previous, context, seen, long FROM \(EngineTables.inbox)"

    private static func read(_ row: EngineRow) throws -> Waiting {
        guard let author = ReplicaID(bytes: row.bytes(1)), let hash = CommitHash(bytes: row.bytes(3)),
            let previous = CommitHash(bytes: row.bytes(4))
        else { throw EngineError(.damagedStore) }
        do throws(CommitError) {
            var (context, seen) = ([AuthorTips](), [Dot]())
            var reader = ByteReader(row.bytes(5))
            while !reader.isAtEnd { context.append(try reader.authorTips()) }
            reader = ByteReader(row.bytes(6))
            while !reader.isAtEnd {
                seen.append(
                    Dot(
                        author: try reader.identifier(ReplicaID.self), number: try reader.varint(),
                        tag: try reader.identifier(CommitTag.self)))
            }
            return Waiting(
                n: row.integer(0), author: author, number: UInt64(row.integer(2)), hash: hash, previous: previous,
                context: context, seen: seen, long: row.optionalInteger(7))
        } catch {
            throw EngineError(.damagedStore)
        }
    }

    private func find(_ condition: String, _ arguments: [ExactValue] = []) throws -> [Waiting] {
        var found: [Waiting] = []
        try db.cachedStatement(sql: "SELECT \(Self.columns) \(condition)").forEach(arguments) {
            found.append(try Self.read($0))
        }
        return found
    }

    // MARK: Reading

    func isEmpty() throws -> Bool {
        try db.cachedStatement(sql: "SELECT NOT EXISTS (SELECT 1 FROM \(EngineTables.inbox))").first([]) {
            $0.integer(0) != 0
        } ?? true
    }

    /// The commits that wait, without those that were refused.
    func all() throws -> [Waiting] { try find("WHERE refused = 0") }

    /// The commits that were refused.
    func refused() throws -> [Waiting] { try find("WHERE refused = 1 ORDER BY author, number") }

    /// The commits that lack no other, in the order in which they are joined.
    func complete(limit: Int, offset: Int) throws -> [Waiting] {
        try find(
            "WHERE lacked IS NULL AND refused = 0 ORDER BY time, author, number, hash LIMIT ? OFFSET ?",
            [.integer(Int64(limit)), .integer(Int64(offset))])
    }

    /// The commits that were found to lack a commit with this number.
    func lacking(_ author: ReplicaID, _ number: UInt64) throws -> [Waiting] {
        try find(
            "WHERE lacked = ? AND lacked_number = ?", [ExactValue(author.bytes), .integer(Int64(number))])
    }

    /// The contents of one number.
    func all(_ author: ReplicaID, _ number: UInt64) throws -> [Waiting] {
        try find("WHERE author = ? AND number = ?", [ExactValue(author.bytes), .integer(Int64(number))])
    }

    func waiting(_ author: ReplicaID, _ tip: Tip) throws -> Waiting? {
        try all(author, tip.number).first { $0.hash.tag == tip.tag }
    }

    func commit(of waiting: Waiting) throws -> EncodedCommit {
        let bytes = try db.cachedStatement(
            sql: "SELECT \(LongBodies.content(of: "i")) FROM \(EngineTables.inbox) AS i WHERE n = ?"
        )
        .first([.integer(waiting.n)]) { $0.bytes(0) }
        guard let bytes else { throw EngineError(.damagedStore) }
        return try EncodedCommit(
            decoding: bytes[...], author: waiting.author, number: waiting.number, previous: waiting.previous,
            in: repository)
    }

    /// The columns that a joined commit takes over.
    struct Held {
        let signature: [UInt8]?
        let long: Int64?
    }

    /// Takes a commit that is joined out of the inbox. A long body stays where it is.
    func take(_ author: ReplicaID, _ tip: Tip) throws -> Held? {
        guard let waiting = try waiting(author, tip) else { return nil }
        let signature = try db.cachedStatement(sql: "SELECT signature FROM \(EngineTables.inbox) WHERE n = ?")
            .first([.integer(waiting.n)]) { $0.isNull(0) ? nil : $0.bytes(0) }
        try remove(waiting)
        return Held(signature: signature ?? nil, long: waiting.long)
    }

    private func remove(_ waiting: Waiting) throws {
        try db.cachedStatement(sql: "DELETE FROM \(EngineTables.inbox) WHERE n = ?").execute(exact: [
            .integer(waiting.n)
        ])
    }

    /// The long commit that is joined next, decoded: to verify megabytes takes longer than others should wait.
    ///
    /// - Returns: nil if the next one is short.
    func nextLong() throws -> EncodedCommit? {
        guard let next = try complete(limit: 1, offset: 0).first, next.long != nil else { return nil }
        return try commit(of: next)
    }

    // MARK: Writing

    /// Adds a commit, or the signature of one that is there.
    ///
    /// - Returns: The commit, if it is new.
    func add(_ commit: EncodedCommit, signature: [UInt8]?) throws -> Waiting? {
        let (author, tip) = (commit.commit.author, commit.tip)
        let sealing = signature.map { ExactValue($0) } ?? .null
        if let known = try waiting(author, tip) {
            if signature != nil {
                try db.cachedStatement(sql: "UPDATE \(EngineTables.inbox) SET signature = ? WHERE n = ?")
                    .execute(exact: [sealing, .integer(known.n)])
            }
            return nil
        }
        var (seen, context) = ([UInt8](), [UInt8]())
        for dot in Self.seen(commit) {
            seen += dot.author.bytes
            seen.append(varint: dot.number)
            seen += dot.tag?.bytes ?? []
        }
        for entry in commit.commit.context { context.append(entry) }
        let body = commit.wholeBody
        let long = try body.count < LongBodies.fewestBytes ? nil : LongBodies(db: db).add(body)
        try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.inbox)
                    (author, number, hash, previous, time, context, seen, meta, signature, body, long)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(exact: [
            ExactValue(author.bytes), .integer(Int64(tip.number)), ExactValue(commit.hash.bytes),
            ExactValue(commit.commit.previous.bytes), .integer(Int64(commit.commit.time.rawValue)),
            ExactValue(context), ExactValue(seen), commit.commit.storedMeta, sealing,
            .blob(long == nil ? body : []), ExactValue(long),
        ])
        return try waiting(author, tip)
    }

    private static func seen(_ commit: EncodedCommit) -> [Dot] {
        var seen: Set<Dot> = []
        for write in commit.commit.writes where !write.seen.isEmpty { seen.formUnion(write.seen) }
        return seen.sorted()
    }

    /// Notes the first commit that a waiting one lacks; nil if it lacks none.
    func setLacked(_ dot: Dot?, by waiting: Waiting) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.inbox) SET lacked = ?, lacked_number = ? WHERE n = ?")
            .execute(exact: [
                dot.map { ExactValue($0.author.bytes) } ?? .null, dot.map { .integer(Int64($0.number)) } ?? .null,
                .integer(waiting.n),
            ])
    }

    /// The commit is none that an honest author makes: it is kept as evidence, and not joined.
    func refuse(_ author: ReplicaID, _ tip: Tip) throws {
        guard let waiting = try waiting(author, tip) else { return }
        try db.cachedStatement(sql: "UPDATE \(EngineTables.inbox) SET refused = 1 WHERE n = ?")
            .execute(exact: [.integer(waiting.n)])
    }

    /// Removes a commit that a snapshot covers, with its body.
    func remove(_ author: ReplicaID, _ tip: Tip) throws {
        guard let waiting = try waiting(author, tip) else { return }
        if let long = waiting.long { try LongBodies(db: db).remove(long) }
        try remove(waiting)
    }
}
