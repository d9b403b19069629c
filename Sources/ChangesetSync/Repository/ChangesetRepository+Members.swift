import CipherDatabase
import StoreCrypto

/// The members of the repository.
extension ChangesetRepository {
    /// The part of the store that an exchange sees.
    package func store() throws -> RepositoryStore { try RepositoryStore(writer, replica, clock: clock) }

    func memberList(_ store: RepositoryStore) throws -> MemberList {
        var list = MemberList(repository: store.repository)
        try list.add(store.memberRecords())
        return list
    }

    /// Makes an invitation. Who has its content becomes a member, once, until the end.
    ///
    /// - Parameters:
    ///   - end: Milliseconds since 1970, by the clock of the new device.
    ///   - address: The place of a remote, or nothing.
    /// - Throws: ``MemberError`` `.notAdmin`.
    package func invite(
        as role: Role = .writer, until end: UInt64, address: String = ""
    ) throws -> InvitationContent {
        let store = try store()
        var list = try memberList(store)
        let (record, key) = try list.invite(as: role, until: end, by: store.keys, time: clock().milliseconds)
        try store.add([record])
        return InvitationContent(
            repository: store.repository, record: record.hash, key: key, rosterSecret: store.rosterSecret,
            epochs: try store.epochSecrets(), address: address)
    }

    /// Makes a store a replica of the repository that an invitation is for. The rows of its tracked tables are united with
    /// those of the others.
    ///
    /// A store that has a repository of its own leaves it: its rows stay, its former commits go.
    ///
    /// - Parameter remote: A remote that has the invitation: the inviting device has put it.
    /// - Throws: ``MemberError`` `.invitationMissing` if the remote lacks the invitation, `.invitationExpired`, `.invitationUsed`,
    ///   `.invitationWithdrawn`; ``RemoteFailure``; `DatabaseError`. Nothing is changed then.
    package static func join(
        _ dbWriter: any DatabaseWriter, _ invitation: InvitationContent, at remote: any ObjectStore,
        remoteName: String, tracking: Tracking = .all, named name: String = "",
        settings: Replica.Settings = Replica.Settings(), clock: @escaping @Sendable () -> HybridTime = Clock.now
    ) throws -> ChangesetRepository {
        let keys = try ReplicaKeys.random()
        let now = clock().milliseconds
        // The records are read before anything of the store is changed.
        let roster = RosterReader(invitation, keys)
        let report = try Exchange(roster, with: remote, named: remoteName).run(now: now)
        if let failure = report.failures.first { throw failure }
        var list = roster.list
        _ = try list.accept(invitation.record, with: invitation.key, as: keys, named: name, time: now)
        let records = Array(list.records.values)
        try dbWriter.unsafeReentrantWrite { db in
            try create(db, invitation.repository, keys, roster: invitation.rosterSecret, records, invitation.epochs)
        }
        return try ChangesetRepository(
            dbWriter, tracking: tracking, named: name, settings: settings, clock: clock)
    }

    /// Removes a member. Commits that it makes from here on are refused, and it cannot read those of others.
    ///
    /// - Throws: ``MemberError`` `.notAdmin`, `.notAMember`, `.lastAdmin`.
    package func remove(_ member: ReplicaID) throws {
        let store = try store()
        var (list, secrets) = (try memberList(store), try store.epochSecrets())
        let time = clock().milliseconds
        try list.requireRemovable(member, by: store.keys.id)
        // The commit comes first: it says which commits of the member are known, and a removal without it holds nothing back.
        let vector = try writer.unsafeReentrantWrite { db in
            _ = try replica.commitEvents(db, clock: clock(), [.remove(member)])
            return try replica.inspect(db, clock: clock()) { try $0.vector() }
        }
        let records = try list.remove(member, knowing: vector, by: store.keys, &secrets, time: time)
        try store.keep(secrets)
        try store.add(records)
    }
}

/// A device that is no member yet: it reads the list of members, and puts nothing.
private final class RosterReader: ExchangeStore {
    let repository: RepositoryID
    let keys: ReplicaKeys
    let rosterSecret: SecretBytes
    private(set) var list: MemberList
    private let secrets: EpochSecrets

    init(_ invitation: InvitationContent, _ keys: ReplicaKeys) {
        (repository, self.keys, rosterSecret) = (invitation.repository, keys, invitation.rosterSecret)
        (list, secrets) = (MemberList(repository: invitation.repository), invitation.epochs)
    }

    func revision() throws -> UInt64 { 1 }
    func memberRecords() throws -> [MemberRecord] { Array(list.records.values) }
    func add(_ records: [MemberRecord]) throws { try list.add(records) }
    func epochSecrets() throws -> EpochSecrets { secrets }
    func keep(_ secrets: EpochSecrets) throws {}
    func branches() throws -> [CommitBranch] { [] }
    func hashes(of author: ReplicaID, _ number: UInt64) throws -> [CommitHash] { [] }
    func hash(of branch: CommitBranch, at number: UInt64) throws -> CommitHash? { nil }
    func commits(of branch: CommitBranch, from first: UInt64, limitBytes: Int) throws -> [StoredCommit] { [] }
    func addToInbox(_ commits: [VerifiedCommit]) throws {}
    func keep(_ signature: [UInt8], of commit: StoredCommit) throws {}
    func makeSnapshot() throws -> (any SnapshotSource)? { nil }
    func lacks(_ vector: VersionVector) throws -> Bool { false }
    func lacksValues() throws -> Bool { false }
    func receive(_ snapshot: SnapshotManifest, part: (Int) throws -> [UInt8]) throws {}
    func remembered(_ remote: String) throws -> [String: RememberedObject] { [:] }
    func remember(_ changes: [String: RememberedObject?], of remote: String) throws {}
}
