import CipherDatabase
import StoreCrypto

/// Gives a store another identity in the repository that it has. Inside a transaction.
///
/// | commits of the former identity | after the change |
/// |---|---|
/// | accepted by other members, or of a member that may write | as before |
/// | refused by all: of a reader, or made after a removal | the first commits of the new identity, at the same times |
///
/// Local numbers of commits stay, so the rows of the base stay as they are. A kill leaves all of it or nothing.
struct IdentityChange {
    /// The commits cannot be named anew: their contents are forgotten, or copies of the store have other ones.
    struct Impossible: Error {}

    let db: Database
    /// The store by the former names.
    let work: Work
    let keys: ReplicaKeys
    let list: MemberList
    let evidence: FormerCommits

    /// - Throws: ``Impossible``; ``MemberError`` `.alreadyAMember` if another process has changed the identity;
    ///   `DatabaseError`.
    func run(roster: SecretBytes, _ secrets: EpochSecrets) throws {
        guard try work.index.authorID(work.state.author) == evidence.id else { throw MemberError.alreadyAMember }
        let refused = try refusedCommits()
        try sign(after: refused)
        let index = CommitIndex(db)
        let author = try index.author(keys.id)
        let renamed = try RenamedCommits(refused, work, index, author: keys.id)
        try renamed.rewrite()
        try renamed.rewriteVectors()
        try saveState(renamed, index, author)
        try saveIdentity(roster, secrets)
        try forgetRemotes(renamed)
        let after = try Work(db, work.settings, DefinitionCache(), clock: work.clock)
        try after.wakeAll()
    }

    // MARK: Refused commits

    private func refusedCommits() throws -> RefusedCommits {
        let tips = work.state.vector.tips[work.state.author] ?? []
        guard let accepted = evidence.accepted(by: list) else { return RefusedCommits(numbers: [], base: nil) }
        let vector = try local(accepted)
        let chains = try tips.map { try chain(to: $0, after: vector) }.filter { !$0.isEmpty }
        guard var chain = chains.first else { return RefusedCommits(numbers: [], base: nil) }
        if chains.count > 1 { throw Impossible() }
        let mentioned = try mentionedHere(Set(chain))
        if let last = chain.lastIndex(where: mentioned.contains) { chain.removeFirst(last + 1) }
        guard let first = chain.first else { return RefusedCommits(numbers: [], base: nil) }
        let entry = try work.index.entry(first)
        return RefusedCommits(numbers: chain, base: entry.number == 1 ? nil : entry.parent)
    }

    /// The accepted commits that are joined here.
    private func local(_ tips: Set<Tip>) throws -> LocalVector {
        var vector = LocalVector()
        for tip in tips {
            var tip = tip
            var found = try work.index.find(evidence.id, tip)
            while found == nil, let parent = evidence.parent(of: tip) {
                tip = parent
                found = try work.index.find(evidence.id, tip)
            }
            if let found {
                if try !vector.covers(found, work.index) { try vector.advance(to: found, work.index) }
            } else if !evidence.isFirst(tip) {
                throw Impossible()
            }
        }
        return vector
    }

    /// The commits up to a tip that a vector does not cover, in order.
    private func chain(to tip: Int64, after vector: LocalVector) throws -> [Int64] {
        var (chain, n) = ([Int64](), tip)
        while try !vector.covers(n, work.index) {
            chain.append(n)
            let entry = try work.index.entry(n)
            if entry.number == 1 { break }
            guard let parent = entry.parent, parent != n else { throw Impossible() }
            n = parent
        }
        return chain.reversed()
    }

    /// The commits that are in the context of a commit of another member that is here, or in a snapshot.
    private func mentionedHere(_ candidates: Set<Int64>) throws -> Set<Int64> {
        var found: Set<Int64> = []
        var contexts: [(author: Int64, number: UInt64, bytes: [UInt8])] = []
        try db.cachedStatement(
            sql: "SELECT author, number, context FROM \(EngineTables.commit) WHERE author <> ? AND context IS NOT NULL"
        ).forEach([.integer(work.state.author)]) { row in
            var reader = LocalReader(row.bytes(2)[...])
            guard try reader.numbers().contains(where: candidates.contains) else { return }
            contexts.append((row.integer(0), UInt64(row.integer(1)), row.bytes(2)))
        }
        for context in contexts where list.accepts(try work.index.authorID(context.author), context.number) {
            var reader = LocalReader(context.bytes[...])
            found.formUnion(try reader.numbers())
        }
        var tips = Set(try ReceivedSnapshots(db: db).vectors().flatMap { $0.tips[evidence.id] ?? [] })
        for waiting in try work.inbox.all() where list.accepts(waiting.author, waiting.number) {
            tips.formUnion(waiting.context.first { $0.author == evidence.id }?.tips ?? [])
            tips.formUnion(waiting.seen.compactMap { $0.tip(of: evidence.id) })
        }
        for tip in tips { if let n = try work.index.find(evidence.id, tip) { found.insert(n) } }
        return found.intersection(candidates)
    }

    /// Signs the last accepted commits while the former keys are here: other members pass them on only with a signature.
    private func sign(after refused: RefusedCommits) throws {
        guard list.mayWrite(evidence.id) else { return }
        let former = try MemberRows(db: db).identity(evidence.id).keys
        for tip in acceptedTips(refused) {
            try work.commits.keepSignature(CommitSignature.make(work.commits.hash(of: tip), by: former), of: tip)
        }
    }

    /// The last accepted commits of the former identity.
    private func acceptedTips(_ refused: RefusedCommits) -> [Int64] {
        if refused.numbers.isEmpty { return work.state.vector.tips[work.state.author] ?? [] }
        return [refused.base].compactMap { $0 }
    }

    // MARK: State

    private func saveState(_ renamed: RenamedCommits, _ index: CommitIndex, _ author: Int64) throws {
        let former = work.state
        var state = former
        state.former.append(state.author)
        (state.author, state.tip) = (author, renamed.numbers.last)
        state.beginsBranch = false
        state.vector = try renamed.vector(former.vector.all)
        state.ahead = try former.ahead.map { try renamed.vector($0.all) }
        state.removed = try former.removed.mapValues { try renamed.vector($0.all) }
        if list.removals[evidence.id] != nil {
            // Its refused commits may come from a remote before the commit of its removal.
            let accepted = acceptedTips(RefusedCommits(numbers: renamed.numbers, base: renamed.base))
            try state.remove(former.author, knowing: LocalVector(accepted, index), index)
        }
        for member in try list.rejected.map(index.author) where state.removed[member] == nil {
            try state.remove(member, knowing: LocalVector(), index)
        }
        // A removal by a refused commit counts for nobody.
        for member in renamed.removedMembers where list.members[member] != nil {
            guard let n = try index.knownAuthor(member) else { continue }
            state.removed[n] = nil
            try db.execute(sql: "DELETE FROM \(EngineTables.removed) WHERE author = \(n)")
        }
        let names = HeadNames(repository: state.repository, index: index, commits: CommitRows(db: db, index: index))
        state.head = try names.name(of: state.vector)?.hash
        state.revision += 1
        try state.save(db, was: former)
    }

    private func saveIdentity(_ roster: SecretBytes, _ secrets: EpochSecrets) throws {
        let rows = MemberRows(db: db)
        try db.execute(sql: "DELETE FROM \(EngineTables.identity)")
        try rows.setIdentity(keys, roster: roster)
        _ = try rows.add(Array(list.records.values))
        _ = try rows.keep(secrets)
    }

    /// Remotes lack the renamed commits. The former ones may be there, and other members may still need them.
    private func forgetRemotes(_ renamed: RenamedCommits) throws {
        try ReceivedSnapshots(db: db).removeOwn()
        guard let first = renamed.numbers.min() else { return }
        try db.execute(
            sql: """
                UPDATE \(EngineTables.remote) SET upto = min(upto, ?);
                DELETE FROM \(EngineTables.object) WHERE state = ?
                """,
            arguments: [first - 1, Int(RememberedObject.held.rawValue)])
    }
}

/// The last commits of a former identity, which nobody accepts, by their local numbers.
struct RefusedCommits {
    /// In order.
    let numbers: [Int64]
    /// The accepted commit before them; nil if the author has none.
    let base: Int64?
}
