import CipherDatabase

/// Receiving commits.
extension Work {
    /// Stores a commit and joins nothing.
    func fetch(_ commit: EncodedCommit, signature: [UInt8]? = nil) throws {
        if let n = try index.find(commit.commit.author, commit.tip), try state.vector.covers(n, index) {
            if let signature { try commits.keepSignature(signature, of: n) }
            return
        }
        guard let waiting = try inbox.add(commit, signature: signature) else { return }
        state.revision += 1
        vouchedTips = nil
        try examine(waiting)
    }

    /// Stores a commit that came from a remote.
    func receive(_ commit: VerifiedCommit) throws {
        let (author, tip) = (commit.encoded.commit.author, commit.encoded.tip)
        let isKnown = try covers(author, tip) || inbox.waiting(author, tip) != nil
        // Another store has this one's name, or this one was restored: sums of counters go on in a branch (F16).
        if !isKnown, try index.knownAuthor(author) == state.author { state.beginsBranch = true }
        try fetch(commit.encoded, signature: commit.signature)
    }

    /// The fetched commits that can be joined now, in the order in which they are.
    func ready() throws -> [EncodedCommit] { try accepted(limit: .max).map(inbox.commit) }

    /// Notes which commit a waiting one lacks.
    private func examine(_ waiting: Inbox.Waiting) throws { try inbox.setLacked(lacked(by: waiting), by: waiting) }

    /// Examines the commits that waited for a commit that is joined.
    func wake(_ author: ReplicaID, _ number: UInt64) throws {
        for waiting in try inbox.lacking(author, number) { try examine(waiting) }
    }

    /// Examines all commits that wait, after the vector has grown by more than one commit. Those that it covers go.
    func wakeAll() throws {
        for waiting in try inbox.all() {
            if try covers(waiting.author, waiting.tip) {
                try inbox.remove(waiting.author, waiting.tip)
            } else {
                try examine(waiting)
            }
        }
    }

    private func covers(_ author: ReplicaID, _ tip: Tip) throws -> Bool {
        guard let n = try index.find(author, tip) else { return false }
        return try state.vector.covers(n, index)
    }

    /// The first commit that has to be joined before a waiting one.
    private func lacked(by waiting: Inbox.Waiting) throws -> Dot? {
        if let parent = waiting.parent, try !covers(waiting.author, parent) { return parent.dot(of: waiting.author) }
        // The context before the author's previous commit is covered, because that one is joined.
        for entry in waiting.context {
            for tip in entry.tips where try !covers(entry.author, tip) { return tip.dot(of: entry.author) }
        }
        return try waiting.seen.first { dot in
            guard let tag = dot.tag else { return true }
            return try !covers(dot.author, Tip(number: dot.number, tag: tag))
        }
    }

    /// How many commits are read at once in the search for one that can be joined.
    private static let candidates = 16

    /// The number of commits that can be joined, without reading them.
    func readyCount() throws -> Int {
        if state.removed.isEmpty { return try count("\(EngineTables.inbox) WHERE lacked IS NULL AND refused = 0") }
        return try accepted(limit: .max).count
    }

    /// The hashes of the commits that can be joined.
    func readyHashes() throws -> Set<CommitHash> { Set(try accepted(limit: .max).map(\.hash)) }

    /// The first commits that can be joined.
    private func accepted(limit: Int) throws -> [Inbox.Waiting] {
        var (found, offset) = ([Inbox.Waiting](), 0)
        while found.count < limit {
            // Most stores have removed nobody: the first one is accepted.
            let most = limit == 1 && state.removed.isEmpty ? 1 : Self.candidates
            let candidates = try inbox.complete(limit: most, offset: offset)
            if candidates.isEmpty { break }
            offset += candidates.count
            for candidate in candidates where try found.count < limit && isAccepted(candidate) {
                found.append(candidate)
            }
        }
        return found
    }

    /// Joins commits that can be joined, whole ones until the transaction has enough rows.
    ///
    /// - Parameter decoded: A long commit that was decoded before.
    /// - Returns: A commit that is too long for one transaction and has begun, and whether anything was joined.
    func joinReady(_ decoded: EncodedCommit? = nil) throws -> (rest: Joining?, isAtEnd: Bool) {
        let limit = settings.sliceRows > 0 ? settings.sliceRows : Int.max
        let start = ContinuousClock.now
        var rows = 0
        // To show and to store the rows takes about as long as to join them.
        while rows < limit, settings.sliceTime.map({ .now - start < $0 / 2 }) ?? true {
            guard let waiting = try accepted(limit: 1).first else { return (nil, true) }
            let isDecoded = decoded?.hash == waiting.hash
            // A long commit begins a transaction, before which it is decoded.
            if rows > 0, waiting.long != nil, !isDecoded { break }
            joining = waiting
            let commit = if isDecoded, let decoded { decoded } else { try inbox.commit(of: waiting) }
            let count = commit.commit.writes.count
            // A commit that does not fit has its own transactions.
            if rows > 0, count > limit - rows { break }
            if let rest = try begin(waiting, commit) { return (rest, false) }
            joining = nil
            rows += max(count, 1)
        }
        return (nil, false)
    }

    /// Joins a commit, or its first slice.
    ///
    /// - Returns: What is left of it.
    func begin(_ author: ReplicaID, _ tip: Tip) throws -> Joining? {
        guard let waiting = try inbox.waiting(author, tip), try lacked(by: waiting) == nil, try isAccepted(waiting)
        else { throw EngineError(.notReady) }
        return try begin(waiting, inbox.commit(of: waiting))
    }

    private func begin(_ waiting: Inbox.Waiting, _ commit: EncodedCommit) throws -> Joining? {
        try requireRights(commit.commit)
        let author = waiting.author
        let parent = try waiting.parent.flatMap { try index.find(author, $0) }
        var context = try commits.vector(after: parent)
        for entry in commit.commit.context {
            let tips = try entry.tips.compactMap { try index.find(entry.author, $0) }
            context.set(tips, of: try index.author(entry.author))
        }
        let n = try index.add(
            author: author, number: waiting.number, hash: commit.hash.bytes, parent: parent, time: commit.commit.time,
            beginsBranch: commit.commit.beginsBranch)
        let joining = JoiningCommit(n: n, commit: commit, context: context)
        guard settings.sliceRows > 0, commit.commit.writes.count > settings.sliceRows else {
            var whole = joining
            try join(&whole, count: .max)
            try end(whole)
            return nil
        }
        var reached = context
        try reached.advance(to: n, index)
        try state.enter(reached, index)
        adopt(commit.commit.time)
        var begun = joining
        if case .commit(commit.hash, let joined)? = try JoinPlace.read(db) { begun.resume(at: joined) }
        return .commit(begun)
    }

    /// Joins the next slice of a commit.
    ///
    /// - Parameter joined: Set to the number of its rows.
    func step(_ joining: JoiningCommit, rows: Int, _ joined: inout Int) throws -> Joining? {
        var rest = joining
        if rest.isSkipping {
            rest.skip()
            return .commit(rest)
        }
        try join(&rest, count: rows)
        joined = rest.joined - joining.joined
        if !rest.isAtEnd { return .commit(rest) }
        try end(rest)
        return nil
    }

    private func join(_ joining: inout JoiningCommit, count: Int) throws {
        var losses: [Loss] = []
        var left = count
        while left > 0 {
            var block: [LocalWrite] = []
            while block.count < min(left, Self.block), let write = joining.next() {
                block.append(try translator.local(write, in: joining.context))
            }
            if block.isEmpty { break }
            left -= block.count
            if try isBulk(block) { block = try insertBulk(block, joining.n) }
            for write in block {
                try apply(write, joining.n, joining.context, isOwn: false, &losses)
                try findOrphans(write, &losses)
            }
        }
        try revive(losses, seen: [joining.n])
    }

    /// How many writes are read before they are joined.
    private static let block = 1_000

    private func end(_ joining: JoiningCommit) throws {
        for event in joining.commit.commit.events { try apply(event, joining.n, joining.context) }
        try finish(joining.n, joining.commit, joining.context)
        let removes = joining.commit.commit.events.contains { if case .remove = $0 { true } else { false } }
        if removes { try vouch() }
    }

    // MARK: Removed members

    /// Whether the author may write, or a member vouches for what it wrote before its removal was known (F15).
    private func isAccepted(_ waiting: Inbox.Waiting) throws -> Bool {
        if state.removed.isEmpty { return true }
        guard let author = try index.knownAuthor(waiting.author), let removal = state.removed[author] else {
            return true
        }
        if let n = try index.find(waiting.author, waiting.tip), try removal.covers(n, index) { return true }
        let vouched = try vouchedTips ?? tipsInContexts()
        vouchedTips = vouched
        return try (vouched[waiting.author] ?? []).contains { try follows($0, waiting) }
    }

    /// - Throws: ``EngineError`` `notAllowed` if the author removes another member and is no admin.
    private func requireRights(_ commit: Commit) throws {
        for case .remove(let member) in commit.events where member != commit.author {
            let records = try MemberRows(db: db).records()
            // A replica that exchanges with nobody has no list of members.
            if records.isEmpty { continue }
            var list = MemberList(repository: state.repository)
            try list.add(records)
            if !list.mayRemove(member, by: commit.author) { throw EngineError(.notAllowed) }
        }
    }

    /// The tips of removed members in the contexts of waiting commits by other members.
    private func tipsInContexts() throws -> [ReplicaID: Set<Tip>] {
        let removed = try Set(state.removed.keys.map(index.authorID))
        var tips: [ReplicaID: Set<Tip>] = [:]
        for waiting in try inbox.all() where !removed.contains(waiting.author) {
            for entry in waiting.context where removed.contains(entry.author) {
                tips[entry.author, default: []].formUnion(entry.tips)
            }
        }
        return tips
    }

    /// Whether a tip of the author of a waiting commit is that commit, or follows it.
    private func follows(_ tip: Tip, _ commit: Inbox.Waiting) throws -> Bool {
        var tip = tip
        while tip.number > commit.number {
            guard let waiting = try inbox.waiting(commit.author, tip), let parent = waiting.parent else { return false }
            tip = parent
        }
        return tip == commit.tip
    }

    /// Says by an empty commit which commits of removed members this store has that their removal did not know.
    func vouch() throws {
        guard try state.removed[state.author] == nil && mayCommit() else { return }
        for (member, known) in state.removed {
            var own = LocalVector()
            own.set(state.vector.tips[member] ?? [], of: member)
            if try !known.includes(own, index) {
                try commit([], events: [.vouch])
                return
            }
        }
    }
}

extension Tip {
    func dot(of author: ReplicaID) -> Dot { Dot(author: author, number: number, tag: tag) }
}
