import CipherDatabase

/// Joining what others have written.
extension ChangesetRepository {
    /// Joins the commits that were fetched, in slices: other writers wait for one slice at most. It never fetches.
    ///
    /// No commit of another member makes it fail: a commit that cannot be joined waits, a row that cannot be shown is kept
    /// hidden, and ``status()`` lists both.
    ///
    /// - Returns: The new head: a commit, or the union of several; nil if the head has not changed.
    /// - Throws: ``EngineError`` `.insideTransaction`; `DatabaseError`. Commits that were joined before it stay.
    @discardableResult
    public func pull() throws -> Changeset? {
        let former = try looking { $0.state.head }
        try join()
        return try looking { work in
            work.state.head == former ? nil : try Changeset.head(work)
        }
    }

    /// Joins what was fetched.
    ///
    /// - Returns: Whether rows were joined.
    @discardableResult
    package func join() throws -> Bool { try join { false } }

    /// Joins what was fetched, until there is no more or it is cancelled: the next call goes on.
    ///
    /// - Parameter isCancelled: Called before each slice.
    /// - Returns: Whether rows were joined.
    package func join(until isCancelled: () -> Bool) throws -> Bool {
        try prepare()
        let former = try looking { $0.state.head }
        var hasMore = true
        var isChanged = false
        while hasMore, !isCancelled() {
            hasMore = try writer.unsafeReentrantWrite { db in
                if db.isInsideTransaction { throw EngineError(.insideTransaction) }
                return try replica.pull(db, clock: clock()).hasMore
            }
            isChanged = isChanged || hasMore
        }
        // The last slice says of itself that nothing follows, also if it has joined something.
        return try isChanged || looking { $0.state.head } != former
    }

    /// Changes nothing: ``pull()`` joins all commits, so no branches are left to merge. It is there for programs that call
    /// it before they pull.
    ///
    /// - Returns: No merges.
    @discardableResult
    public func mergeAll() throws -> [Changeset] { [] }

    /// The union of two commits, of which nothing is stored and which changes no row: ``pull()`` joins both.
    ///
    /// - Parameters:
    ///   - one: A commit that was joined or that waits.
    ///   - other: The same.
    /// - Returns: The later one, if it knew the other; otherwise a record with the name that the head of a store with these
    ///   commits, and what they knew, has.
    /// - Throws: ``EngineError`` `.noSuchCommit`; `DatabaseError`.
    @discardableResult
    public func merge(_ one: Changeset, _ other: Changeset) throws -> Changeset {
        try looking { work in
            let held = HeldCommits(work.db, work.index, work.state)
            let (left, right) = (try held.vector(after: one.uuid), try held.vector(after: other.uuid))
            let union = try held.union(left, right)
            if union == left { return one }
            if union == right { return other }
            return Changeset(
                uuid: try HeadNames.union(union, in: work.state.repository).description, parent_uuid: one.uuid,
                parent_changeset: .init(), merge_uuid: other.uuid, merge_changeset: .init(), pushed: false, meta: "")
        }
    }

    /// The union of two commits by their names.
    @discardableResult
    public func merge(_ one: String, _ other: String) throws -> Changeset {
        let records = try looking { work in
            (try Changeset.named(one, work.db), try Changeset.named(other, work.db))
        }
        return try merge(records.0, records.1)
    }
}

extension HeldCommits {
    /// The vector that a name stands for: that of its author directly after a commit, also of one that waits.
    fileprivate func vector(after name: String) throws -> VersionVector {
        guard let hash = CommitHash(name) else { throw EngineError(.noSuchCommit) }
        let union = try db.cachedStatement(sql: "SELECT vector FROM \(EngineTables.merge) WHERE uuid = ?")
            .first([ExactValue(hash.bytes)]) { $0.bytes(0) }
        if let union { return try LocalVector(union, index).vector(index) }
        let joined = try db.cachedStatement(sql: "SELECT n FROM \(EngineTables.commit) WHERE hash = ?")
            .first([ExactValue(hash.bytes)]) { $0.integer(0) }
        if let joined, try vector.covers(joined, index) { return try vector(afterJoined: joined) }
        let waiting = try inbox.all().first { $0.hash == hash }
        guard var waiting else { throw EngineError(.noSuchCommit) }
        var chain = [waiting]
        var start = VersionVector()
        while let parent = waiting.parent {
            if let n = try index.find(waiting.author, parent), try vector.covers(n, index) {
                start = try vector(afterJoined: n)
                break
            }
            guard let next = try inbox.waiting(waiting.author, parent) else { break }
            waiting = next
            chain.append(next)
        }
        for commit in chain.reversed() {
            start.apply(commit.context)
            start.advance(commit.author, to: commit.tip, after: commit.previous.tag)
        }
        return start
    }

    private func vector(afterJoined n: Int64) throws -> VersionVector {
        try CommitRows(db: db, index: index).vector(after: n).vector(index)
    }

    fileprivate func union(_ one: VersionVector, _ other: VersionVector) throws -> VersionVector {
        var entries: [AuthorTips] = []
        for author in Set(one.tips.keys).union(other.tips.keys) {
            let tips = Set((one.tips[author] ?? []) + (other.tips[author] ?? []))
            let kept = try tips.filter { tip in
                try !tips.contains { try $0.number > tip.number && follows($0, tip, of: author) }
            }
            entries.append(AuthorTips(author: author, tips: Array(kept)))
        }
        return VersionVector(entries)
    }

    private func follows(_ later: Tip, _ tip: Tip, of author: ReplicaID) throws -> Bool {
        guard let hash = try hashes(of: author, later.number).first(where: { $0.tag == later.tag }) else { return true }
        let branch = CommitBranch(author: author, number: later.number, hash: hash)
        return try hash.tag == later.tag && self.hash(of: branch, at: tip.number)?.tag == tip.tag
    }
}
