/// Names one commit: its author, its number among the author's commits, and the beginning of its hash.
///
/// An author that lies, or a restored store, makes two commits of one number (F16): the tag distinguishes them.
package struct Dot: Hashable, Sendable, Comparable {
    package let author: ReplicaID
    /// From 1.
    package let number: UInt64
    /// nil in the writes of a commit, if the context of the commit has one branch of the author and covers the number:
    /// the dot is the ancestor of that tip with this number. The dots of ``Write/seen`` always have a tag.
    package let tag: CommitTag?

    package init(author: ReplicaID, number: UInt64, tag: CommitTag?) {
        self.author = author
        self.number = number
        self.tag = tag
    }

    package static func < (one: Dot, other: Dot) -> Bool {
        if one.author != other.author { return one.author < other.author }
        if one.number != other.number { return one.number < other.number }
        guard let otherTag = other.tag else { return false }
        guard let tag = one.tag else { return true }
        return tag < otherTag
    }
}

/// The order of writes to one cell: the greatest stamp wins.
package struct Stamp: Hashable, Sendable, Comparable {
    /// The least one in which the write is above the cells that it replaces (F1). Zero with right clocks.
    package let era: UInt32
    package let time: HybridTime
    package let dot: Dot

    package init(era: UInt32, time: HybridTime, dot: Dot) {
        self.era = era
        self.time = time
        self.dot = dot
    }

    package static func < (one: Stamp, other: Stamp) -> Bool {
        if one.era != other.era { return one.era < other.era }
        if one.time != other.time { return one.time < other.time }
        return one.dot < other.dot
    }
}
