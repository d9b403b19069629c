/// The last commit of one branch of an author.
struct Tip: Hashable, Sendable, Comparable {
    /// From 1.
    let number: UInt64
    let tag: CommitTag

    package static func < (one: Tip, other: Tip) -> Bool {
        one.number != other.number ? one.number < other.number : one.tag < other.tag
    }
}

/// The tips of one author: one tip, unless there are two contents of one number.
struct AuthorTips: Hashable, Sendable {
    let author: ReplicaID
    /// Ascending, at least one.
    let tips: [Tip]

    init(author: ReplicaID, tips: [Tip]) {
        self.author = author
        self.tips = tips.sorted()
    }
}

/// The tips of each author, up to which all commits are known.
package struct VersionVector: Hashable, Sendable {
    /// Ascending tips of each author, never empty.
    private(set) var tips: [ReplicaID: [Tip]]

    init() { tips = [:] }

    init(_ entries: some Sequence<AuthorTips>) {
        tips = [:]
        apply(entries)
    }

    /// The greatest number of the author; zero if the vector has no commit of the author.
    func highest(of author: ReplicaID) -> UInt64 { tips[author]?.last?.number ?? 0 }

    /// Replaces the tips of some authors: a vector follows from the changes of all commits of its author.
    mutating func apply(_ changes: some Sequence<AuthorTips>) {
        for change in changes where !change.tips.isEmpty { tips[change.author] = change.tips }
    }

    /// Adds a commit. It replaces the tip before it; without such a tip it begins a branch.
    ///
    /// - Parameter previous: The tag of the author's previous commit; ignored if the number is 1.
    mutating func advance(_ author: ReplicaID, to tip: Tip, after previous: CommitTag) {
        var own = tips[author] ?? []
        own.removeAll { $0 == tip || (tip.number > 1 && $0 == Tip(number: tip.number - 1, tag: previous)) }
        own.append(tip)
        tips[author] = own.sorted()
    }

    /// The difference of this vector to an earlier one, by ascending authors: the context of a commit.
    func changes(since earlier: VersionVector) -> [AuthorTips] {
        tips.filter { earlier.tips[$0.key] != $0.value }.map { AuthorTips(author: $0.key, tips: $0.value) }
            .sorted { $0.author < $1.author }
    }

    /// All tips, by ascending authors.
    var entries: [AuthorTips] { changes(since: VersionVector()) }
}
