/// A version vector with local numbers: for each author its tips, which is one unless there are two contents of one number.
struct LocalVector: Hashable, Sendable {
    /// The tips of each author, ascending, never empty.
    private(set) var tips: [Int64: [Int64]] = [:]

    var isEmpty: Bool { tips.isEmpty }
    var all: [Int64] { tips.keys.sorted().flatMap { tips[$0] ?? [] } }

    func covers(_ n: Int64, _ index: CommitIndex) throws -> Bool {
        guard let own = tips[try index.entry(n).author] else { return false }
        return try own.contains { try index.covers($0, n) }
    }

    func includes(_ other: LocalVector, _ index: CommitIndex) throws -> Bool {
        try other.tips.allSatisfy { author, theirs in
            try tips[author] == theirs || theirs.allSatisfy { try covers($0, index) }
        }
    }

    func union(_ other: LocalVector, _ index: CommitIndex) throws -> LocalVector {
        var union = self
        for n in other.all where try !union.covers(n, index) { try union.advance(to: n, index) }
        return union
    }

    /// Adds a commit that is not covered. It replaces the tips that it follows.
    mutating func advance(to n: Int64, _ index: CommitIndex) throws {
        let author = try index.entry(n).author
        let kept = try (tips[author] ?? []).filter { try !index.covers(n, $0) }
        tips[author] = (kept + [n]).sorted()
    }

    /// Replaces the tips of one author.
    mutating func set(_ tips: [Int64], of author: Int64) { self.tips[author] = tips.isEmpty ? nil : tips.sorted() }

    // MARK: Bytes

    var bytes: [UInt8] {
        var writer = LocalWriter()
        writer.append(all)
        return writer.bytes
    }

    init() {}

    init(_ commits: some Sequence<Int64>, _ index: CommitIndex) throws {
        for n in commits { tips[try index.entry(n).author, default: []].append(n) }
        for author in tips.keys { tips[author]?.sort() }
    }

    init(_ bytes: [UInt8], _ index: CommitIndex) throws {
        var reader = LocalReader(bytes[...])
        try self.init(reader.numbers(), index)
    }

    // MARK: Vectors of others

    /// - Returns: nil if a commit is not known here.
    init?(_ vector: VersionVector, _ index: CommitIndex) throws {
        for entry in vector.entries {
            for tip in entry.tips {
                guard let n = try index.find(entry.author, tip) else { return nil }
                tips[try index.entry(n).author, default: []].append(n)
            }
        }
        for author in tips.keys { tips[author]?.sort() }
    }

    func vector(_ index: CommitIndex) throws -> VersionVector {
        VersionVector(
            try tips.values.map { own in
                let entries = try own.map(index.entry)
                return AuthorTips(
                    author: entries[0].authorID, tips: entries.map { Tip(number: $0.number, tag: $0.tag) })
            })
    }
}
