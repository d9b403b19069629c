import StoreCrypto

/// A signature that was found right.
struct VerifiedRecord: Hashable, Sendable {
    let record: RecordHash
    let key: VerifyingKey
}

/// An epoch of a present or former member.
struct MemberEpoch: Hashable, Sendable {
    let hash: RecordHash
    let author: ReplicaID
    let content: EpochContent
    /// Whether a withdrawn invitation may have the secret.
    let isExposed: Bool
}

/// An invitation in the list of members.
struct ListedInvitation: Hashable, Sendable {
    /// The record of the invitation.
    let hash: RecordHash
    let inviter: ReplicaID
    let role: Role
    /// Milliseconds since 1970, by the clock of the inviting device.
    let time: UInt64
    /// The end of the time in which it may be used, milliseconds since 1970.
    let end: UInt64
    /// Whether a device has accepted it, as far as acceptances count.
    let isUsed: Bool
    let isWithdrawn: Bool
}

/// The members that follow from a set of records. See ``MemberList`` for the rules.
struct MemberState: Sendable {
    /// How a replica became a member.
    struct Admission: Sendable {
        let member: Member
        let role: Role
        let place: Place
        /// The record of the admin that admitted it: nil for the founder.
        let admitter: ReplicaID?
        let invitation: RecordHash?
    }

    /// The place in the signed list. The founder has generation 0, and each member one more than its admin.
    struct Place: Sendable, Comparable {
        let generation: Int
        let depth: Int
        let hash: RecordHash

        static func < (one: Place, other: Place) -> Bool {
            if one.generation != other.generation { return one.generation < other.generation }
            return one.depth != other.depth ? one.depth < other.depth : one.hash < other.hash
        }
    }

    private(set) var admissions: [ReplicaID: Admission] = [:]
    private(set) var removals: [ReplicaID: VersionVector] = [:]
    private(set) var epochs: [MemberEpoch] = []
    /// The invitations of admins, by their records.
    private(set) var invitations: [RecordHash: ListedInvitation] = [:]
    /// The devices whose acceptances do not count: the invitation was withdrawn, or another device had used it.
    private(set) var rejected: Set<ReplicaID> = []
    /// The records whose known ones are all here, each after those.
    private(set) var ordered: [MemberRecord] = []
    private(set) var missing: Set<RecordHash> = []
    private(set) var heads: [RecordHash] = []
    /// Invitations that several devices have accepted.
    private(set) var usedTwice: Set<RecordHash> = []

    init() {}

    init(
        _ records: [RecordHash: MemberRecord], repository: RepositoryID, verified: inout Set<VerifiedRecord>
    ) throws {
        let graph = RecordGraph(records)
        var signed = try SignedRecords(graph, repository: repository, verified: &verified)
        (ordered, missing) = (graph.records, graph.missing)
        usedTwice = signed.chooseAcceptances()
        // Who is an admin follows from the withdrawals of seniors alone. Then the withdrawals of all admins count.
        let removed = decide(signed, withdrawals: nil)
        let withdrawals = countedWithdrawals(signed, removed)
        _ = decide(signed, withdrawals: withdrawals)
        noteInvitations(signed, withdrawals)
        epochs = signed.valid.compactMap { index in
            guard case .epoch(let content) = graph.records[index].content,
                admissions[graph.records[index].author] != nil
            else { return nil }
            return MemberEpoch(
                hash: graph.records[index].hash, author: graph.records[index].author, content: content,
                isExposed: withdrawals.contains { graph.knows($0, index) })
        }
        let known = Set(graph.records.flatMap(\.known))
        heads = graph.records.map(\.hash).filter { !known.contains($0) }.sorted()
    }

    /// A removal that counts.
    private struct CountedRemoval {
        let index: Int
        let vector: VersionVector
    }

    /// Decides by seniority: the records of a senior member first.
    ///
    /// - Parameter withdrawals: The withdrawals that count; nil for those of admins that are senior to the new member.
    /// - Returns: The removals that count, by the removed member.
    private mutating func decide(_ signed: SignedRecords, withdrawals: Set<Int>?) -> [ReplicaID: [CountedRemoval]] {
        (admissions, removals, rejected) = ([:], [:], [])
        var removed: [ReplicaID: [CountedRemoval]] = [:]
        /// Whether all removals of the author that count so far knew the record.
        func wasKnown(_ index: Int, by author: ReplicaID) -> Bool {
            (removed[author] ?? []).allSatisfy { signed.graph.knows($0.index, index) }
        }
        for (id, candidate) in signed.candidates.sorted(by: { $0.value.admission.place < $1.value.admission.place }) {
            let admission = candidate.admission
            if let admitter = admission.admitter {
                guard let senior = admissions[admitter], senior.role == .admin,
                    !rejected.contains(admitter), wasKnown(candidate.index, by: admitter)
                else { continue }
            }
            admissions[id] = admission
            let opposing = admission.invitation.flatMap { signed.withdrawals[$0] } ?? []
            let isWithdrawn = opposing.contains { index in
                let author = signed.graph.records[index].author
                let counts =
                    withdrawals?.contains(index)
                    ?? (admissions[author]?.role == .admin && !rejected.contains(author) && wasKnown(index, by: author))
                return counts && !signed.graph.knows(index, candidate.index)
            }
            if isWithdrawn || signed.losers.contains(id) {
                // Its commits count if a member vouches for them, as those of a removed member (F15).
                rejected.insert(id)
                continue
            }
            for index in signed.removals[id] ?? [] {
                guard case .removal(let member, let vector) = signed.graph.records[index].content,
                    member == id || admission.role == .admin, wasKnown(index, by: id)
                else { continue }
                removed[member, default: []].append(CountedRemoval(index: index, vector: vector))
            }
        }
        for (member, list) in removed where admissions[member] != nil {
            removals[member] = list.map(\.vector).reduce(VersionVector()) { $0.union($1) }
        }
        for member in rejected { removals[member] = removals[member] ?? VersionVector() }
        return removed
    }

    /// The withdrawals by admins, as far as the removals of these knew them.
    private func countedWithdrawals(
        _ signed: SignedRecords, _ removed: [ReplicaID: [CountedRemoval]]
    ) -> Set<Int> {
        Set(
            signed.withdrawals.values.joined().filter { index in
                let author = signed.graph.records[index].author
                return admissions[author]?.role == .admin && !rejected.contains(author)
                    && (removed[author] ?? []).allSatisfy { signed.graph.knows($0.index, index) }
            })
    }

    private mutating func noteInvitations(_ signed: SignedRecords, _ withdrawals: Set<Int>) {
        let used = Set(admissions.values.compactMap(\.invitation))
        for (hash, invited) in signed.invitations {
            let record = signed.graph.records[invited.index]
            guard admissions[record.author]?.role == .admin else { continue }
            invitations[hash] = ListedInvitation(
                hash: hash, inviter: record.author, role: invited.role, time: record.time, end: invited.end,
                isUsed: used.contains(hash),
                isWithdrawn: removals[record.author] != nil
                    || (signed.withdrawals[hash] ?? []).contains(where: withdrawals.contains))
        }
    }
}

extension VersionVector {
    /// The union of two vectors. For each author it has the later tip if each vector has one, otherwise the tips of both.
    func union(_ other: VersionVector) -> VersionVector {
        var entries = tips
        for (author, theirs) in other.tips {
            let mine = entries[author] ?? []
            if mine.count == 1, theirs.count == 1 {
                entries[author] = [max(mine[0], theirs[0])]
            } else {
                entries[author] = Array(Set(mine + theirs))
            }
        }
        return VersionVector(entries.map { AuthorTips(author: $0.key, tips: $0.value) })
    }
}

/// The records in an order in which each comes after those that it knows, and who knows whom.
struct RecordGraph: Sendable {
    /// Those whose known records are here, by depth and hash.
    let records: [MemberRecord]
    let depths: [Int]
    let missing: Set<RecordHash>
    private let closures: [BitSet]

    init(_ all: [RecordHash: MemberRecord]) {
        missing = Set(all.values.flatMap(\.known)).subtracting(all.keys)
        let depths = Self.depths(of: all)
        let ordered = depths.sorted { ($0.value, $0.key) < ($1.value, $1.key) }
        records = ordered.compactMap { all[$0.key] }
        self.depths = ordered.map(\.value)
        var numbers: [RecordHash: Int] = [:]
        for (index, record) in records.enumerated() { numbers[record.hash] = index }
        var closures: [BitSet] = []
        for record in records {
            var closure = BitSet(count: records.count)
            for known in record.known.compactMap({ numbers[$0] }) {
                closure.formUnion(closures[known])
                closure.insert(known)
            }
            closures.append(closure)
        }
        self.closures = closures
    }

    /// Whether the first record knew the second.
    func knows(_ one: Int, _ other: Int) -> Bool { closures[one].contains(other) }

    /// One more than the greatest depth of the known records; nothing for a record that lacks one. Hashes admit no cycles.
    private static func depths(of all: [RecordHash: MemberRecord]) -> [RecordHash: Int] {
        var depths: [RecordHash: Int] = [:]
        var waiting = all.mapValues { $0.known.count }
        var followers: [RecordHash: [RecordHash]] = [:]
        for (hash, record) in all { for known in record.known { followers[known, default: []].append(hash) } }
        var ready = waiting.filter { $0.value == 0 }.map(\.key)
        for hash in ready { depths[hash] = 0 }
        while let hash = ready.popLast() {
            for follower in followers[hash] ?? [] {
                waiting[follower, default: 0] -= 1
                guard waiting[follower] == 0 else { continue }
                depths[follower] = 1 + (all[follower]?.known.compactMap { depths[$0] }.max() ?? 0)
                ready.append(follower)
            }
        }
        return depths
    }
}

/// A set of small numbers.
struct BitSet: Sendable {
    private var words: [UInt64]

    init(count: Int) { words = Array(repeating: 0, count: (count + 63) / 64) }

    mutating func insert(_ number: Int) { words[number / 64] |= 1 << UInt64(number % 64) }
    func contains(_ number: Int) -> Bool { words[number / 64] >> UInt64(number % 64) & 1 == 1 }
    mutating func formUnion(_ other: BitSet) { for index in words.indices { words[index] |= other.words[index] } }
}
