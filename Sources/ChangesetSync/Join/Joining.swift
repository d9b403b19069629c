/// A join that has begun. It is in memory: after a kill it begins again, which does no harm.
enum Joining {
    case commit(JoiningCommit)
    case snapshot(JoiningSnapshot)
}

/// A commit of which some writes are joined.
struct JoiningCommit {
    let n: Int64
    let commit: EncodedCommit
    /// The vector that its author had joined.
    let context: LocalVector
    private var writes: Writes.Iterator
    /// The number of writes that were read.
    private(set) var joined = 0

    init(n: Int64, commit: EncodedCommit, context: LocalVector) {
        (self.n, self.commit, self.context) = (n, commit, context)
        writes = commit.commit.writes.makeIterator()
    }

    var isAtEnd: Bool { joined == commit.commit.writes.count }

    mutating func next() -> Write? {
        guard let write = writes.next() else { return nil }
        joined += 1
        return write
    }
}
