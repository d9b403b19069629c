import CipherDatabase

/// Makes the last commits of one author the first commits of another one: with the same times, writes and local numbers.
/// Inside a transaction.
///
/// A renamed commit has the whole vector of its author as its context, so it covers the accepted commits of the former author.
final class RenamedCommits {
    /// The local numbers of the commits, in order.
    let numbers: [Int64]
    /// The last commit of the former author before them; nil if it has none.
    let base: Int64?
    let author: ReplicaID
    /// The members that the commits removed. A member that may not do so would have all commits after it refused.
    private(set) var removedMembers: Set<ReplicaID> = []
    /// The store by the former names.
    let work: Work
    /// The store by the present names.
    let index: CommitIndex
    private let former: ReplicaID
    private let places: [Int64: Int]
    /// The branches of the commits, by the former names.
    private let formerBranches: [Int64]
    /// The number of the first commit among those of the former author.
    private let first: UInt64
    private let formerTags: [CommitTag]
    private var formerHashes: [[UInt8]] = []
    private var hashes: [CommitHash] = []
    private lazy var sums = RenamedSums(self)

    init(_ refused: RefusedCommits, _ work: Work, _ index: CommitIndex, author: ReplicaID) throws {
        (numbers, base, self.author, self.work, self.index) = (refused.numbers, refused.base, author, work, index)
        let entries = try refused.numbers.map(work.index.entry)
        former = try work.index.authorID(work.state.author)
        places = Dictionary(uniqueKeysWithValues: refused.numbers.enumerated().map { ($1, $0) })
        formerBranches = entries.map(\.branch)
        first = entries.first?.number ?? 1
        formerTags = entries.map(\.tag)
    }

    func place(of n: Int64) -> Int? { places[n] }

    /// The branch of a commit before, if it is one of the former author; nil if the branch began with a renamed commit.
    func formerBranch(ofPlace place: Int) -> Int64? {
        let branch = formerBranches[place]
        return places[branch] == nil ? branch : nil
    }

    /// A vector by the present names: the former author's part ends before the renamed commits.
    func vector(_ given: [Int64]) throws -> LocalVector {
        var vector = try LocalVector(given.filter { places[$0] == nil }, index)
        guard let last = given.compactMap({ places[$0] }).max() else { return vector }
        if let base, try !vector.covers(base, index) { try vector.advance(to: base, index) }
        try vector.advance(to: numbers[last], index)
        return vector
    }

    // MARK: Commits

    /// - Throws: ``IdentityChange/Impossible`` if a body or context is forgotten.
    func rewrite() throws {
        var known = VersionVector()
        for (place, n) in numbers.enumerated() {
            guard let commit = try work.commits.commit(n, in: work.state.repository)?.commit else {
                throw IdentityChange.Impossible()
            }
            formerHashes.append(try work.commits.hash(of: n).bytes)
            let context = try vector(formerContext(n))
            let encoded = try renamed(commit, place, context, changes: context.vector(index).changes(since: known))
            hashes.append(encoded.hash)
            try store(encoded, n, place, context)
            var after = context
            try after.advance(to: n, index)
            known = try after.vector(index)
        }
        try sums.divideStored()
    }

    private func formerContext(_ n: Int64) throws -> [Int64] {
        let found = try work.db.cachedStatement(
            sql: "SELECT context FROM \(EngineTables.commit) WHERE n = ? AND context IS NOT NULL"
        ).first([.integer(n)]) { row in
            var reader = LocalReader(row.bytes(0)[...])
            return try reader.numbers()
        }
        guard let found else { throw IdentityChange.Impossible() }
        return found
    }

    private func renamed(
        _ commit: Commit, _ place: Int, _ context: LocalVector, changes: [AuthorTips]
    ) throws -> EncodedCommit {
        do {
            var encoder = WritesEncoder(author: author, into: [UInt8]())
            for write in commit.writes { try encoder.append(renamed(write, place, context)) }
            var events: [RepositoryEvent] = []
            for event in commit.events {
                if case .remove(let member) = event { removedMembers.insert(member) } else { events.append(event) }
            }
            return try EncodedCommit(
                Commit(
                    author: author, number: UInt64(place + 1), previous: hashes.last ?? .zero, time: commit.time,
                    context: changes, beginsBranch: commit.beginsBranch, meta: commit.meta, events: events,
                    writes: Writes(encoder)),
                in: work.state.repository)
        } catch is CommitError {
            // With other names it may be longer than a commit may be.
            throw IdentityChange.Impossible()
        }
    }

    private func store(_ encoded: EncodedCommit, _ n: Int64, _ place: Int, _ context: LocalVector) throws {
        let db = work.db
        let long =
            try db.cachedStatement(sql: "SELECT long FROM \(EngineTables.commit) WHERE n = ?")
            .first([.integer(n)]) { $0.optionalInteger(0) } ?? nil
        if let long {
            try db.cachedStatement(sql: "UPDATE \(EngineTables.body) SET bytes = ? WHERE n = ?")
                .execute(exact: [.blob(encoded.wholeBody), .integer(long)])
        }
        try db.cachedStatement(
            sql: """
                UPDATE \(EngineTables.commit)
                SET author = ?, number = ?, hash = ?, parent = ?, line = ?, branch = ?, context = ?, body = ?,
                    signature = NULL
                WHERE n = ?
                """
        ).execute(exact: [
            .integer(try index.author(author)), .integer(Int64(encoded.commit.number)), ExactValue(encoded.hash.bytes),
            ExactValue(place == 0 ? nil : numbers[place - 1]), .integer(numbers[0]),
            .integer(formerBranch(ofPlace: place) == nil ? formerBranches[place] : numbers[0]),
            ExactValue(context.bytes), .blob(long == nil ? encoded.wholeBody : []), .integer(n),
        ])
    }

    // MARK: Writes

    private func renamed(_ write: Write, _ place: Int, _ context: LocalVector) throws -> Write {
        let copied = try write.copied.map { row in
            CopiedRow(
                born: renamed(row.born),
                cells: row.cells.map { .init(column: $0.column, stamp: renamed($0.stamp), value: $0.value) },
                sums: try row.sums.flatMap { try renamed($0, of: write, context) }.sorted())
        }
        let result = Write(
            write.shape, key: write.key, incarnation: write.incarnation.map { renamed($0) }, values: write.values,
            steps: write.steps, seen: write.seen.map { renamed($0) }.sorted(), era: write.era, copied: copied,
            revives: write.revives.map { renamed($0) }.sorted())
        if !write.steps.isEmpty, formerBranch(ofPlace: place) != nil {
            let origin = try result.incarnation.map { try number(of: $0, context) } ?? numbers[place]
            try sums.note(result, of: origin, place)
        }
        return result
    }

    private func renamed(_ stamp: Stamp) -> Stamp {
        Stamp(era: stamp.era, time: stamp.time, dot: renamed(stamp.dot))
    }

    private func renamed(_ dot: Dot) -> Dot {
        guard dot.author == former, dot.number >= first, let place = Int(exactly: dot.number - first),
            place < hashes.count, dot.tag == nil || dot.tag == formerTags[place]
        else { return dot }
        return Dot(author: author, number: UInt64(place + 1), tag: dot.tag == nil ? nil : hashes[place].tag)
    }

    /// The sum of a branch of the former author, which becomes one of each author.
    private func renamed(_ sum: CopiedRow.Sum, of write: Write, _ context: LocalVector) throws -> [CopiedRow.Sum] {
        let (origin, last) = (renamed(sum.origin), renamed(sum.last))
        let whole = CopiedRow.Sum(column: sum.column, origin: origin, last: last, total: sum.total)
        guard last.author == author, let branch = formerBranch(ofPlace: Int(last.number) - 1) else { return [whole] }
        let counter = try sums.counter(
            write.shape.table, write.key, sum.column, of: number(of: origin, context))
        let former = BaseRow.Sum(last: numbers[Int(last.number) - 1], total: sum.total)
        guard let parts = try sums.divided(former, counter, ofBranch: branch) else { return [whole] }
        let translator = WriteTranslator(index, work.catalog)
        return try parts.map { part in
            CopiedRow.Sum(
                column: sum.column, origin: origin, last: try translator.dot(part.sum.last, in: context),
                total: part.sum.total)
        }
    }

    /// The local number of a commit by a present name.
    private func number(of dot: Dot, _ context: LocalVector) throws -> Int64 {
        if dot.author == author { return numbers[Int(dot.number) - 1] }
        return try index.resolve(dot, in: context)
    }

    // MARK: Vectors

    /// Names the vectors of deletions and of unions anew.
    func rewriteVectors() throws {
        guard !numbers.isEmpty else { return }
        var vectors: [(n: Int64, bytes: [UInt8])] = []
        try work.db.cachedStatement(sql: "SELECT n, vector FROM \(EngineTables.known)").forEach([]) { row in
            vectors.append((row.integer(0), row.bytes(1)))
        }
        for (n, bytes) in vectors {
            guard let present = try presentVector(bytes) else { continue }
            try work.db.cachedStatement(sql: "UPDATE \(EngineTables.known) SET vector = ? WHERE n = ?")
                .execute(exact: [ExactValue(present.bytes), .integer(n)])
        }
        try rewriteUnions()
    }

    /// Unions have the names of other unions and of commits, and one that follows from their vector.
    private func rewriteUnions() throws {
        let db = work.db
        var names = Dictionary(uniqueKeysWithValues: zip(formerHashes, hashes.map(\.bytes)))
        var unions: [(n: Int64, names: [[UInt8]], vector: [UInt8])] = []
        try db.cachedStatement(
            sql: """
                SELECT n, vector, uuid, coalesce(parent, x''), coalesce(other, x'') FROM \(EngineTables.merge)
                ORDER BY n
                """
        ).forEach([]) { row in unions.append((row.integer(0), (2...4).map { row.bytes($0) }, row.bytes(1))) }
        for union in unions {
            let present = try presentVector(union.vector)
            if let present {
                names[union.names[0]] = try HeadNames.union(present.vector(index), in: work.state.repository).bytes
            }
            let renamed = union.names.map { names[$0] ?? $0 }
            if present == nil, renamed == union.names { continue }
            try db.cachedStatement(
                sql: "UPDATE \(EngineTables.merge) SET uuid = ?, parent = ?, other = ?, vector = ? WHERE n = ?"
            ).execute(
                exact: renamed.map { $0.isEmpty ? .null : ExactValue($0) } + [
                    ExactValue(present?.bytes ?? union.vector), .integer(union.n),
                ])
        }
    }

    /// - Returns: nil if the vector has no renamed commit.
    private func presentVector(_ bytes: [UInt8]) throws -> LocalVector? {
        var reader = LocalReader(bytes[...])
        let numbers = try reader.numbers()
        return numbers.contains { places[$0] != nil } ? try vector(numbers) : nil
    }
}
