import CipherDatabase

/// The commits that this store can name, by their local numbers. Inside a transaction.
///
/// A **line** is a run of commits of one author in which each follows the one before; it has the number of its first commit.
/// An author has one line, unless two commits follow one commit (F16). Counters are summed for each **branch**: an author's
/// first commit begins one, and so does each commit with `beginsBranch`, so all stores agree on it.
final class CommitIndex {
    struct Entry {
        let n: Int64
        let author: Int64
        let authorID: ReplicaID
        let number: UInt64
        let tag: CommitTag
        let parent: Int64?
        let line: Int64
        let branch: Int64
        let time: HybridTime

        var dot: Dot { Dot(author: authorID, number: number, tag: tag) }
    }

    private let db: Database
    private var entries: [Int64: Entry] = [:]
    private var numbersOfAuthors: [ReplicaID: Int64] = [:]

    init(_ db: Database) { self.db = db }

    // MARK: Authors

    func author(_ id: ReplicaID) throws -> Int64 {
        if let known = try knownAuthor(id) { return known }
        try db.cachedStatement(sql: "INSERT INTO \(EngineTables.author) (id) VALUES (?)")
            .execute(exact: [ExactValue(id.bytes)])
        numbersOfAuthors[id] = db.lastInsertedRowID
        return db.lastInsertedRowID
    }

    func knownAuthor(_ id: ReplicaID) throws -> Int64? {
        if let known = numbersOfAuthors[id] { return known }
        let found = try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.author) WHERE id = ?")
            .first([ExactValue(id.bytes)]) { $0.integer(0) }
        if let found { numbersOfAuthors[id] = found }
        return found
    }

    func authorID(_ n: Int64) throws -> ReplicaID {
        let found = try db.cachedStatement(sql: "SELECT id FROM \(EngineTables.author) WHERE n = ?")
            .first([.integer(n)]) { ReplicaID(bytes: $0.bytes(0)) }
        guard let found = found.flatMap({ $0 }) else { throw EngineError(.damagedStore) }
        return found
    }

    // MARK: Commits

    private static let columns = """
        c.n, c.author, a.id, c.number, substr(c.hash, 1, \(CommitTag.byteCount)), c.parent, c.line, c.branch, c.time
        FROM \(EngineTables.commit) AS c JOIN \(EngineTables.author) AS a ON a.n = c.author
        """

    func entry(_ n: Int64) throws -> Entry {
        if let known = entries[n] { return known }
        let found = try db.cachedStatement(sql: "SELECT \(Self.columns) WHERE c.n = ?").first([.integer(n)], Self.read)
        guard let entry = found.flatMap({ $0 }) else { throw EngineError(.damagedStore) }
        entries[n] = entry
        return entry
    }

    private static func read(_ row: EngineRow) -> Entry? {
        guard let id = ReplicaID(bytes: row.bytes(2)), let tag = CommitTag(bytes: row.bytes(4)) else { return nil }
        return Entry(
            n: row.integer(0), author: row.integer(1), authorID: id, number: UInt64(row.integer(3)), tag: tag,
            parent: row.optionalInteger(5), line: row.integer(6), branch: row.integer(7),
            time: HybridTime(rawValue: UInt64(row.integer(8))))
    }

    /// Whether the stamp of a commit is less than that of another one.
    func isEarlier(_ n: Int64, than other: Int64) throws -> Bool {
        let (one, two) = (try entry(n), try entry(other))
        return one.time == two.time ? one.dot < two.dot : one.time < two.time
    }

    func find(_ author: ReplicaID, _ tip: Tip) throws -> Int64? {
        guard let author = try knownAuthor(author) else { return nil }
        return try commits(of: author, number: tip.number).first { $0.tag == tip.tag }?.n
    }

    private func commits(of author: Int64, number: UInt64) throws -> [Entry] {
        var found: [Entry] = []
        try db.cachedStatement(sql: "SELECT \(Self.columns) WHERE c.author = ? AND c.number = ?")
            .forEach([.integer(author), .integer(Int64(number))]) { row in
                if let entry = Self.read(row) { found.append(entry) }
            }
        for entry in found { entries[entry.n] = entry }
        return found
    }

    /// The commit that a dot of a commit means.
    ///
    /// - Parameter context: What the commit knew: a dot without a tag is in it.
    /// - Throws: ``EngineError`` `.unknownCommit`
    func resolve(_ dot: Dot, in context: LocalVector) throws -> Int64 {
        if let tag = dot.tag {
            guard let n = try find(dot.author, Tip(number: dot.number, tag: tag)) else {
                throw EngineError(.unknownCommit)
            }
            return n
        }
        guard let author = try knownAuthor(dot.author) else { throw EngineError(.unknownCommit) }
        let all = try commits(of: author, number: dot.number)
        guard let entry = try all.count == 1 ? all[0] : all.first(where: { try context.covers($0.n, self) }) else {
            throw EngineError(.unknownCommit)
        }
        return entry.n
    }

    /// Adds a commit, or finds it.
    ///
    /// - Parameters:
    ///   - hash: The whole hash, or its tag if only that is known.
    ///   - parent: The author's previous commit; nil for the first one, and if it is not known.
    func add(
        author: ReplicaID, number: UInt64, hash: [UInt8], parent: Int64?, time: HybridTime, beginsBranch: Bool
    ) throws -> Int64 {
        try add(
            author: author, number: number, hash: hash, parent: parent, time: time, beginsBranch: beginsBranch,
            content: nil
        ).n
    }

    /// The columns of a commit that is stored whole when it is added.
    struct Content {
        let meta: ExactValue
        let context: [UInt8]
        let body: ArraySlice<UInt8>
    }

    /// Adds a commit with its content, or finds it.
    ///
    /// - Returns: Its number, and whether the content is stored.
    func add(
        author id: ReplicaID, number: UInt64, hash: [UInt8], parent: Int64?, time: HybridTime, beginsBranch: Bool,
        content: Content?
    ) throws -> (n: Int64, isStored: Bool) {
        guard let tag = CommitTag(bytes: hash.prefix(CommitTag.byteCount)) else { throw EngineError(.damagedStore) }
        let author = try self.author(id)
        let others = try commits(of: author, number: number)
        let known = others.first { $0.tag == tag }?.n
        if let known, try parent == nil || entry(known).parent != nil { return (known, false) }
        let former = try parent.map(entry)
        let isNext = former.map { former in !others.contains { $0.line == former.line } } ?? false
        if let known {
            // It was only named so far.
            try set("parent", former?.n ?? known, of: known)
            try set("line", isNext ? former?.line ?? known : known, of: known)
            try set("branch", beginsBranch ? known : former?.branch ?? known, of: known)
            entries[known] = nil
            return (known, false)
        }
        try db.cachedStatement(
            sql: """
                INSERT INTO \(EngineTables.commit) (
                    author, number, hash, parent, line, branch, time, meta, context, body)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                """
        ).execute(exact: [
            .integer(author), .integer(Int64(number)), ExactValue(hash), ExactValue(parent),
            .integer(isNext ? former?.line ?? 0 : 0), .integer(beginsBranch ? 0 : former?.branch ?? 0),
            .integer(Int64(time.rawValue)), content?.meta ?? .null, content.map { ExactValue($0.context) } ?? .null,
            content.map { .blob($0.body) } ?? .null,
        ])
        let n = db.lastInsertedRowID
        let hasOwnBranch = beginsBranch || former == nil
        if !isNext { try set("line", n, of: n) }
        if hasOwnBranch { try set("branch", n, of: n) }
        entries[n] = Entry(
            n: n, author: author, authorID: id, number: number, tag: tag, parent: parent,
            line: isNext ? former?.line ?? n : n, branch: hasOwnBranch ? n : former?.branch ?? n, time: time)
        return (n, content != nil)
    }

    private func set(_ column: String, _ value: Int64, of n: Int64) throws {
        try db.cachedStatement(sql: "UPDATE \(EngineTables.commit) SET \(column) = ? WHERE n = ?")
            .execute(exact: [.integer(value), .integer(n)])
    }

    // MARK: Order

    /// Whether a commit is another one or follows it.
    func covers(_ tip: Int64, _ n: Int64) throws -> Bool {
        if tip == n { return true }
        let (entry, sought) = (try self.entry(tip), try self.entry(n))
        guard entry.author == sought.author else { return false }
        var (line, number) = (entry.line, entry.number)
        while line != sought.line {
            let first = try self.entry(line)
            // Without its parent, the line begins where the chain was forgotten: what is older is covered.
            guard let parent = first.parent else { return first.number > 1 && sought.number < first.number }
            let former = try self.entry(parent)
            (line, number) = (former.line, former.number)
        }
        return sought.number <= number
    }

    /// Whether the stamp of one write is less than that of another.
    func precedes(_ one: LocalStamp, _ other: LocalStamp) throws -> Bool {
        if one.era != other.era { return one.era < other.era }
        if one.commit == other.commit { return false }
        let (left, right) = (try entry(one.commit), try entry(other.commit))
        if left.time != right.time { return left.time < right.time }
        if left.authorID != right.authorID { return left.authorID < right.authorID }
        if left.number != right.number { return left.number < right.number }
        return left.tag < right.tag
    }
}

/// A ``Stamp`` with the local number of the commit.
struct LocalStamp: Hashable, Sendable {
    let era: UInt32
    let commit: Int64
}
