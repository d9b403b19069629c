/// A join that has begun. It is in memory: after a kill it goes on from the ``JoinPlace``, or begins again, which does no harm.
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

    /// The writes that another process has joined, and that are not read over yet.
    private var skipped = 0
    /// How many writes are read over in one transaction.
    private static let skippedWrites = 50_000

    /// The number of writes that are joined.
    var place: Int { joined + skipped }
    var isSkipping: Bool { skipped > 0 }

    mutating func resume(at place: Int) { skipped = max(0, min(place, commit.commit.writes.count) - joined) }

    mutating func skip() {
        for _ in 0..<min(skipped, Self.skippedWrites) where next() != nil { skipped -= 1 }
    }

    var isAtEnd: Bool { joined == commit.commit.writes.count }

    mutating func next() -> Write? {
        guard let write = writes.next() else { return nil }
        joined += 1
        return write
    }
}
