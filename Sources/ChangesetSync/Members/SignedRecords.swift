import StoreCrypto

/// The records whose author was admitted by what they knew and has signed them.
struct SignedRecords: Sendable {
    /// A way in which a replica may have become a member.
    struct Candidate: Sendable {
        let index: Int
        let admission: MemberState.Admission
    }

    let graph: RecordGraph
    /// Ascending.
    private(set) var valid: [Int] = []
    /// The senior admission of each replica.
    private(set) var candidates: [ReplicaID: Candidate] = [:]
    private(set) var removals: [ReplicaID: [Int]] = [:]
    private(set) var withdrawals: [RecordHash: [Int]] = [:]
    /// The devices that accepted an invitation that another one had used. See ``chooseAcceptances()``.
    private(set) var losers: Set<ReplicaID> = []
    /// The invitations by an admin, by their records.
    private(set) var invitations: [RecordHash: Invited] = [:]
    private var ways: [ReplicaID: [Candidate]] = [:]

    /// An invitation.
    struct Invited: Sendable {
        let index: Int
        let key: VerifyingKey
        let role: Role
        let end: UInt64
    }

    init(_ graph: RecordGraph, repository: RepositoryID, verified: inout Set<VerifiedRecord>) throws {
        self.graph = graph
        for (index, record) in graph.records.enumerated() where record.repository == repository {
            try examine(index, record, &verified)
        }
        for (id, found) in ways { candidates[id] = found.min { $0.admission.place < $1.admission.place } }
    }

    private mutating func examine(
        _ index: Int, _ record: MemberRecord, _ verified: inout Set<VerifiedRecord>
    ) throws {
        switch record.content {
        case .founding(let member, _):
            guard record.hash.repository == record.repository, member.id == record.author,
                try isSigned(record, by: member.verifyingKey, &verified)
            else { return }
            admit(index, member, .admin, generation: 0, by: nil)
        case .acceptance(let invitation, let member):
            guard let invited = invitations[invitation], graph.knows(index, invited.index),
                member.id == record.author, record.time <= invited.end,
                try isSigned(record, by: member.verifyingKey, invitation: invited.key, &verified)
            else { return }
            let inviter = graph.records[invited.index].author
            guard let way = way(of: inviter, knownBy: invited.index) else { return }
            admit(
                index, member, invited.role, generation: way.admission.place.generation + 1, by: inviter,
                invitation: invitation)
        default:
            guard let way = way(of: record.author, knownBy: index),
                try isSigned(record, by: way.admission.member.verifyingKey, &verified)
            else { return }
            enter(index, record, way.admission)
        }
        valid.append(index)
    }

    private mutating func enter(_ index: Int, _ record: MemberRecord, _ author: MemberState.Admission) {
        switch record.content {
        case .admission(let member, let role):
            guard author.role == .admin else { return }
            admit(index, member, role, generation: author.place.generation + 1, by: record.author)
        case .invitation(let key, let role, let end):
            guard author.role == .admin else { return }
            invitations[record.hash] = Invited(index: index, key: key, role: role, end: end)
        case .withdrawal(let invitation):
            guard author.role == .admin else { return }
            withdrawals[invitation, default: []].append(index)
        case .removal: removals[record.author, default: []].append(index)
        case .epoch, .founding, .acceptance: break
        }
    }

    private mutating func admit(
        _ index: Int, _ member: Member, _ role: Role, generation: Int, by admitter: ReplicaID?,
        invitation: RecordHash? = nil
    ) {
        let place = MemberState.Place(
            generation: generation, depth: graph.depths[index], hash: graph.records[index].hash)
        let admission = MemberState.Admission(
            member: member, role: role, place: place, admitter: admitter, invitation: invitation)
        ways[member.id, default: []].append(Candidate(index: index, admission: admission))
    }

    /// How the author of a record became a member, as far as the record knew.
    private func way(of author: ReplicaID, knownBy index: Int) -> Candidate? {
        (ways[author] ?? []).filter { graph.knows(index, $0.index) }
            .min { $0.admission.place < $1.admission.place }
    }

    private func isSigned(
        _ record: MemberRecord, by key: VerifyingKey, invitation: VerifyingKey? = nil,
        _ verified: inout Set<VerifiedRecord>
    ) throws -> Bool {
        let entry = VerifiedRecord(record: record.hash, key: key)
        if invitation == nil, verified.contains(entry) { return true }
        guard try record.isSigned(by: key, invitation: invitation) else { return false }
        if invitation == nil { verified.insert(entry) }
        return true
    }

    /// Of several acceptances of one invitation the one counts that another member knew first.
    ///
    /// - Returns: The invitations that were used more than once.
    mutating func chooseAcceptances() -> Set<RecordHash> {
        var uses: [RecordHash: [Candidate]] = [:]
        for candidate in candidates.values {
            if let invitation = candidate.admission.invitation { uses[invitation, default: []].append(candidate) }
        }
        let repeated = uses.filter { $0.value.count > 1 }
        for (_, rivals) in repeated {
            let ranked = rivals.map { (rival: $0, rank: firstWitness(of: $0, among: rivals)) }
                .sorted { ($0.rank, $0.rival.admission.place) < ($1.rank, $1.rival.admission.place) }
            losers.formUnion(ranked.dropFirst().map(\.rival.admission.member.id))
        }
        return Set(repeated.keys)
    }

    /// The first record by another member that knew this acceptance and none of the rivals.
    private func firstWitness(of candidate: Candidate, among rivals: [Candidate]) -> Int {
        let authors = Set(rivals.map(\.admission.member.id))
        return valid.first { index in
            !authors.contains(graph.records[index].author)
                && rivals.allSatisfy { graph.knows(index, $0.index) == ($0.index == candidate.index) }
        } ?? Int.max
    }
}
