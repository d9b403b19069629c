import CipherDatabase
import StoreCrypto

/// The identity of a store that joins its repository again: the author of commits that others accept or refuse.
struct FormerIdentity: Sendable {
    let id: ReplicaID
    /// The list of members as the store knows it: another remote may have more records than that of the invitation.
    let records: [MemberRecord]
    /// The authors whose commits the store can name.
    private let authors: [ReplicaID]

    /// - Returns: nil unless the store has this repository.
    init?(_ db: Database, of repository: RepositoryID) throws {
        guard try ChangesetRepository.exists(db), try ReplicaState.repository(db) == repository else { return nil }
        let index = CommitIndex(db)
        id = try index.authorID(ReplicaState(db, index).author)
        var authors: [ReplicaID] = []
        try db.cachedStatement(sql: "SELECT id FROM \(EngineTables.author)").forEach([]) { row in
            guard let author = ReplicaID(bytes: row.bytes(0)) else { throw EngineError(.damagedStore) }
            authors.append(author)
        }
        self.authors = authors
        records = try MemberRows(db: db).records()
    }

    /// How many names are tried for each number of bits that they share with the former one.
    private static let tries = 16

    /// Keys of the next identity. No other author stands between its name and the former one: the order of names decides
    /// between commits of one time, so renamed commits keep their places among those of others.
    func nextKeys() throws -> ReplicaKeys {
        var keys = try ReplicaKeys.random()
        for attempt in 0..<8 * ReplicaID.byteCount * Self.tries where !isNext(keys.id) {
            guard let id = try Self.random(sharing: attempt / Self.tries, with: id) else { continue }
            keys = ReplicaKeys(id: id, signing: keys.signing, agreement: keys.agreement)
        }
        return keys
    }

    private func isNext(_ candidate: ReplicaID) -> Bool {
        let (low, high) = (min(id, candidate), max(id, candidate))
        return candidate != id && !authors.contains { $0 != id && low <= $0 && $0 <= high }
    }

    /// - Parameter bits: The number of bits at the beginning that are those of the other name.
    private static func random(sharing bits: Int, with other: ReplicaID) throws -> ReplicaID? {
        let bytes = zip(other.bytes, try SystemRandom.bytes(ReplicaID.byteCount)).enumerated().map { place, pair in
            let mask = UInt8(truncatingIfNeeded: 0xff00 >> min(8, max(0, bits - 8 * place)))
            return pair.0 & mask | pair.1 & ~mask
        }
        return ReplicaID(bytes: bytes)
    }
}

/// The commits of a former identity that a remote, and the members, have.
struct FormerCommits: Sendable {
    let id: ReplicaID
    /// The commits that another commit says that its author had joined.
    private struct Mention: Sendable {
        let author: ReplicaID
        let number: UInt64
        let tips: [Tip]
    }

    private var mentions: [Mention] = []
    /// The tips in snapshots of members.
    private var snapshotTips: Set<Tip> = []
    /// The commits of the identity at the remote, each with the hash before it.
    private var previous: [Tip: CommitHash] = [:]

    init(of id: ReplicaID) { self.id = id }

    mutating func note(_ commit: EncodedCommit) {
        let content = commit.commit
        guard content.author != id else {
            previous[commit.tip] = content.previous
            return
        }
        var tips = content.context.first { $0.author == id }?.tips ?? []
        for write in content.writes where !write.seen.isEmpty { tips += write.seen.compactMap { $0.tip(of: id) } }
        if !tips.isEmpty { mentions.append(Mention(author: content.author, number: content.number, tips: tips)) }
    }

    mutating func noteSnapshot(_ vector: VersionVector) { snapshotTips.formUnion(vector.tips[id] ?? []) }

    /// The last commits that members accept.
    ///
    /// - Returns: nil if they accept all, because the identity is a member that may write.
    func accepted(by list: MemberList) -> Set<Tip>? {
        if let member = list.members[id], member.role >= .writer { return nil }
        var tips = snapshotTips.union(list.removals[id]?.tips[id] ?? [])
        for mention in mentions where list.accepts(mention.author, mention.number) { tips.formUnion(mention.tips) }
        return tips
    }

    /// The commit before one that the remote has.
    ///
    /// - Returns: nil if the remote lacks the commit, or if it is the first one.
    func parent(of tip: Tip) -> Tip? {
        guard tip.number > 1, let hash = previous[tip] else { return nil }
        return Tip(number: tip.number - 1, tag: hash.tag)
    }

    /// Whether the remote has the first commit of the identity under this name.
    func isFirst(_ tip: Tip) -> Bool { tip.number == 1 && previous[tip] != nil }
}

extension MemberList {
    /// Whether a commit is one of a member, or one that the removal of its author knew.
    func accepts(_ author: ReplicaID, _ number: UInt64) -> Bool {
        members[author] != nil || removals[author].map { $0.highest(of: author) >= number } ?? false
    }
}

extension Dot {
    /// The commit as a tip of an author; nil if it is of another one, or has no tag.
    func tip(of author: ReplicaID) -> Tip? {
        guard self.author == author, let tag else { return nil }
        return Tip(number: number, tag: tag)
    }
}
