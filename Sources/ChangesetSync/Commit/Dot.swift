/// Names one commit: its author, its number among the author's commits, and the beginning of its hash.
///
/// An author that lies, or a restored store, makes two commits of one number (F16): the tag distinguishes them.
struct Dot: Hashable, Sendable, Comparable {
    let author: ReplicaID
    /// From 1.
    let number: UInt64
    /// nil in the writes of a commit, if the context of the commit has one branch of the author and covers the number:
    /// the dot is the ancestor of that tip with this number. The dots of ``Write/seen`` always have a tag.
    let tag: CommitTag?

    package static func < (one: Dot, other: Dot) -> Bool {
        if one.author != other.author { return one.author < other.author }
        if one.number != other.number { return one.number < other.number }
        guard let otherTag = other.tag else { return false }
        guard let tag = one.tag else { return true }
        return tag < otherTag
    }
}

/// The order of writes to one cell: the greatest stamp wins.
struct Stamp: Hashable, Sendable, Comparable {
    /// The least one in which the write is above the cells that it replaces (F1). Zero with right clocks.
    let era: UInt32
    let time: HybridTime
    let dot: Dot

    package static func < (one: Stamp, other: Stamp) -> Bool {
        if one.era != other.era { return one.era < other.era }
        if one.time != other.time { return one.time < other.time }
        return one.dot < other.dot
    }
}
