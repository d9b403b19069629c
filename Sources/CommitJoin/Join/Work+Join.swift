import CipherDatabase

/// Receiving commits.
extension Work {
    /// Stores a commit and joins nothing.
    func fetch(_ commit: EncodedCommit) throws {
        if let n = try index.find(commit.commit.author, commit.tip), try state.vector.covers(n, index) { return }
        try commits.addWaiting(commit)
    }

    /// The fetched commits that can be joined now, in the order in which they are.
    func ready() throws -> [EncodedCommit] {
        var ready: [EncodedCommit] = []
        for waiting in try commits.waiting() where try isNext(waiting) {
            let commit = try commits.body(of: waiting)
            if try isReady(commit, seen: waiting.seen) { ready.append(commit) }
        }
        return ready.sorted {
            ($0.commit.time, $0.commit.author, $0.tip) < ($1.commit.time, $1.commit.author, $1.tip)
        }
    }

    /// Whether the author's previous commit is joined, and this one is not.
    private func isNext(_ waiting: CommitRows.Waiting) throws -> Bool {
        let tip = Tip(number: waiting.number, tag: waiting.hash.tag)
        if let n = try index.find(waiting.author, tip), try state.vector.covers(n, index) { return false }
        if waiting.number == 1 { return true }
        return try covers(waiting.author, Tip(number: waiting.number - 1, tag: waiting.previous.tag))
    }

    private func covers(_ author: ReplicaID, _ tip: Tip) throws -> Bool {
        guard let n = try index.find(author, tip) else { return false }
        return try state.vector.covers(n, index)
    }

    private func isReady(_ commit: EncodedCommit, seen: [Dot]) throws -> Bool {
        guard try isAccepted(commit) else { return false }
        // The context before the author's previous commit is covered, because that one is joined.
        for entry in commit.commit.context {
            for tip in entry.tips where try !covers(entry.author, tip) { return false }
        }
        for dot in seen {
            guard let tag = dot.tag, try covers(dot.author, Tip(number: dot.number, tag: tag)) else { return false }
        }
        return true
    }

    /// Joins a commit, or its first slice.
    ///
    /// - Returns: What is left of it.
    func begin(_ author: ReplicaID, _ tip: Tip) throws -> Joining? {
        guard let waiting = try commits.waiting(author, tip), try isNext(waiting) else { throw EngineError(.notReady) }
        let commit = try commits.body(of: waiting)
        guard try isReady(commit, seen: waiting.seen) else { throw EngineError(.notReady) }
        let parent =
            try waiting.number == 1
            ? nil : index.find(author, Tip(number: waiting.number - 1, tag: waiting.previous.tag))
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
        return .commit(joining)
    }

    /// Joins the next slice of a commit.
    func step(_ joining: JoiningCommit) throws -> Joining? {
        var rest = joining
        try join(&rest, count: settings.sliceRows)
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
        for event in joining.commit.commit.events { try apply(event, joining.context) }
        try finish(joining.n, joining.commit, joining.context)
        let removes = joining.commit.commit.events.contains { if case .remove = $0 { true } else { false } }
        if removes { try vouch() }
    }

    // MARK: Removed members

    /// Whether the author may write, or a member vouches for what it wrote before its removal was known (F15).
    private func isAccepted(_ commit: EncodedCommit) throws -> Bool {
        guard let author = try index.knownAuthor(commit.commit.author), let removal = state.removed[author] else {
            return true
        }
        if let n = try index.find(commit.commit.author, commit.tip), try removal.covers(n, index) { return true }
        return try commits.waiting().contains { waiting in
            let voucher = try index.knownAuthor(waiting.author)
            if let voucher, state.removed[voucher] != nil { return false }
            let context = try commits.body(of: waiting).commit.context
            guard let entry = context.first(where: { $0.author == commit.commit.author }) else { return false }
            return try entry.tips.contains { try follows($0, commit) }
        }
    }

    /// Whether a tip of the author of a waiting commit is that commit, or follows it.
    private func follows(_ tip: Tip, _ commit: EncodedCommit) throws -> Bool {
        var tip = tip
        while tip.number > commit.tip.number {
            guard let waiting = try commits.waiting(commit.commit.author, tip) else { return false }
            tip = Tip(number: tip.number - 1, tag: waiting.previous.tag)
        }
        return tip == commit.tip
    }

    /// Says by an empty commit which commits of removed members this store has that their removal did not know.
    private func vouch() throws {
        guard state.removed[state.author] == nil else { return }
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
