import StoreCrypto

/// Who is a member of a repository, and who was: a function of the set of its signed records (F15, F20, F22).
///
/// The order in which records arrive is of no importance. A record counts if its author had the right in what the record
/// knew. These rules decide between concurrent records:
///
/// | records | what counts |
/// |---|---|
/// | two admins remove each other | the removal by the senior one |
/// | a removed admin removes somebody, unknown to its removal by a senior | not the later removal |
/// | a removed admin admits somebody, unknown to its removal by a senior | not the admission |
/// | two devices accept one invitation | the one that another member knew first |
/// | an invitation is withdrawn and accepted | the withdrawal by any admin |
/// | a removed admin withdraws an invitation, unknown to its removal | not the withdrawal |
struct MemberList: Sendable {
    let repository: RepositoryID
    private(set) var records: [RecordHash: MemberRecord] = [:]
    /// The consequences of the records.
    private(set) var state = MemberState()
    /// Signatures that were found right, by record and verifying key.
    private var verified: Set<VerifiedRecord> = []

    init(repository: RepositoryID) { self.repository = repository }

    /// Adds records of any origin.
    ///
    /// - Returns: Those that are new and of this repository. Whether they count shows in ``members``.
    /// - Throws: ``CryptoError``.
    @discardableResult
    mutating func add(_ added: [MemberRecord]) throws -> [MemberRecord] {
        let new = added.filter { $0.repository == repository && records[$0.hash] == nil }
        for record in new where records.count < ExchangeLimits.records { records[record.hash] = record }
        if !new.isEmpty { state = try MemberState(records, repository: repository, verified: &verified) }
        return new
    }

    // MARK: What follows

    /// The present members with their roles.
    var members: [ReplicaID: (member: Member, role: Role)] {
        state.admissions.filter { state.removals[$0.key] == nil }.mapValues { ($0.member, $0.role) }
    }

    /// A present or former member: who signed commits.
    func everMember(_ id: ReplicaID) -> (member: Member, role: Role)? {
        state.admissions[id].map { ($0.member, $0.role) }
    }

    /// All that ever were members.
    var everMembers: [ReplicaID] { Array(state.admissions.keys) }

    /// Whether the replica may have written commits and snapshots, also before its removal.
    func mayWrite(_ id: ReplicaID) -> Bool { (state.admissions[id]?.role ?? .reader) >= .writer }

    /// The removed members, each with what all its removals knew: nothing for a device that was never admitted.
    var removals: [ReplicaID: VersionVector] { state.removals }

    /// The devices that accepted an invitation that was withdrawn, or that another device had used: they are no members.
    var rejected: Set<ReplicaID> { state.rejected }

    /// The invitations that can be used: an admin made them, and nobody has used or withdrawn them. Their time may be over.
    var openInvitations: [ListedInvitation] {
        state.invitations.values.filter { !$0.isUsed && !$0.isWithdrawn }.sorted {
            ($0.time, $0.hash) < ($1.time, $1.hash)
        }
    }

    /// The records whose known ones are all here, each after those.
    var ordered: [MemberRecord] { state.ordered }

    /// Records that others refer to and that are not here.
    var missing: Set<RecordHash> { state.missing }

    /// The records that no other one knows: what the next record knows.
    var heads: [RecordHash] { state.heads }

    /// Epochs of members in a fixed order, the newest last.
    var epochs: [MemberEpoch] { state.epochs }

    /// The epoch to seal with: its recipients are exactly the members, and its author, who knows the secret, is one of them
    /// (F20). It carries each secret that this replica has and another member may lack, and no withdrawn invitation has its
    /// secret. nil if one has to be begun.
    func sealingEpoch(among secrets: EpochSecrets) -> RecordHash? {
        let present = Set(members.keys)
        // The secrets that some member lacks: the epoch must carry them (F21).
        let partial = epochs.filter { epoch in
            secrets.secrets[epoch.hash] != nil && !present.isSubset(of: epoch.content.boxes.map(\.member))
        }.map(\.hash)
        return epochs.last {
            !$0.isExposed && present.contains($0.author) && Set($0.content.boxes.map(\.member)) == present
                && secrets.secrets[$0.hash] != nil && Set(partial).isSubset(of: $0.content.carried)
        }?.hash
    }

    /// Whether this replica has a secret that a present member lacks and that no epoch for all members carries. Without a new
    /// epoch that member would wait until somebody writes (F21).
    func needsEpoch(among secrets: EpochSecrets) -> Bool {
        let present = Set(members.keys)
        let isPartial = epochs.contains { epoch in
            secrets.secrets[epoch.hash] != nil && !present.isSubset(of: epoch.content.boxes.map(\.member))
        }
        return isPartial && sealingEpoch(among: secrets) == nil
    }

    // MARK: New records

    /// Begins a repository.
    static func founding(
        _ keys: ReplicaKeys, named name: String, time: UInt64
    ) throws -> (list: MemberList, secrets: EpochSecrets) {
        guard let nonce = ReplicaID(bytes: try SystemRandom.bytes(ReplicaID.byteCount)) else {
            preconditionFailure("The generator gave another number of bytes.")
        }
        let record = try MemberRecord(
            .founding(keys.member(named: name), nonce: nonce), repository: .zero, keys: keys, time: time, known: [])
        var (list, secrets) = (MemberList(repository: record.repository), EpochSecrets())
        try list.add([record])
        _ = try list.beginEpoch(keys, &secrets, time: time)
        return (list, secrets)
    }

    /// Makes a record that knows all others, and adds it. Records that refer to a missing one are left out: a member that
    /// lies would end all invitations and removals by one of them.
    mutating func make(
        _ content: MemberRecord.Content, by keys: ReplicaKeys, time: UInt64, invitation: SigningKey? = nil
    ) throws -> MemberRecord {
        let record = try MemberRecord(
            content, repository: repository, keys: keys, time: time, known: heads, invitation: invitation)
        try add([record])
        return record
    }

    /// Begins an epoch for the present members. Any member may do it.
    mutating func beginEpoch(
        _ keys: ReplicaKeys, _ secrets: inout EpochSecrets, time: UInt64
    ) throws -> MemberRecord {
        guard members[keys.id] != nil else { throw MemberError.notAMember }
        let secret = try SecretBytes.random(count: EpochContent.secretBytes)
        let content = try EpochContent(
            secret: secret, for: members.values.map(\.member), former: secrets.secrets, in: repository)
        let record = try make(.epoch(content), by: keys, time: time)
        secrets.add(secret, of: record.hash)
        return record
    }

    /// - Throws: ``MemberError`` `notAdmin`, `alreadyAMember`.
    mutating func admit(
        _ member: Member, as role: Role, by keys: ReplicaKeys, time: UInt64
    ) throws -> MemberRecord {
        try requireAdmin(keys)
        guard state.admissions[member.id] == nil else { throw MemberError.alreadyAMember }
        return try make(.admission(member, role), by: keys, time: time)
    }

    /// Removes a member, and begins an epoch without it.
    ///
    /// - Parameter vector: All commits that the store has.
    /// - Throws: ``MemberError`` `notAdmin`, `notAMember`, `lastAdmin`.
    mutating func remove(
        _ member: ReplicaID, knowing vector: VersionVector, by keys: ReplicaKeys, _ secrets: inout EpochSecrets,
        time: UInt64
    ) throws -> [MemberRecord] {
        try requireRemovable(member, by: keys.id)
        let removal = try make(.removal(member, vector: vector), by: keys, time: time)
        return member == keys.id ? [removal] : [removal, try beginEpoch(keys, &secrets, time: time)]
    }

    /// - Throws: ``MemberError`` `notAdmin`, `notAMember`, `lastAdmin`.
    func requireRemovable(_ member: ReplicaID, by author: ReplicaID) throws {
        guard members[author]?.role == .admin || author == member else { throw MemberError.notAdmin }
        guard let removed = members[member] else { throw MemberError.notAMember }
        let hasOther = members.contains { $0.key != member && $0.value.role == .admin }
        guard removed.role != .admin || hasOther else { throw MemberError.lastAdmin }
    }

    /// Whether a commit of an author may remove a member.
    func mayRemove(_ member: ReplicaID, by author: ReplicaID) -> Bool {
        member == author || everMember(author)?.role == .admin
    }

    func requireAdmin(_ keys: ReplicaKeys) throws {
        guard members[keys.id]?.role == .admin else { throw MemberError.notAdmin }
    }
}
