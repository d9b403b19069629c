import CipherDatabase
import KeyCustody
import StoreCrypto

/// Joining a repository, also again.
extension ChangesetRepository {
    /// Makes a store a member of the repository that an invitation is for, at a remote in a folder.
    ///
    /// The store may have:
    /// - no repository, or another one, which it leaves: its rows stay, and become commits of the present time. They are
    ///   united with those of the others, by ``SyncManager/sync()``.
    /// - the same repository: it becomes a new member, and keeps its rows and commits. Commits that other members refuse,
    ///   those of a reader and those after a removal, become commits of the new member, under other names. The former member
    ///   stays in the list.
    ///
    /// Open the store anew in other processes after that.
    ///
    /// - Parameters:
    ///   - source: The key of the invitation.
    ///   - path: The folder of the remote.
    ///   - name: The name of this device for other members, at most 255 bytes.
    /// - Throws: ``MemberError`` `.wrongKeyOfInvitation`, `.invitationMissing` if the remote lacks the invitation,
    ///   `.invitationExpired`, `.invitationUsed`, `.invitationWithdrawn`; the error of the remote; `DatabaseError`. The
    ///   store is not changed then.
    public static func join(
        _ dbWriter: any DatabaseWriter, _ invitation: Invitation, unlockedBy source: KeySource, folder path: String,
        tracking: Tracking = .all, named name: String = ""
    ) throws -> ChangesetRepository {
        try join(
            dbWriter, invitation.open(with: source.read()),
            at: FolderStore(path: path, repository: invitation.repository),
            remoteName: path, tracking: tracking, named: name)
    }

    /// Makes a store a member of the repository that an invitation is for.
    ///
    /// - Parameter remote: A remote that has the invitation: the inviting device has put it.
    /// - Throws: ``MemberError`` `.invitationMissing` if the remote lacks the invitation, `.invitationExpired`, `.invitationUsed`,
    ///   `.invitationWithdrawn`; ``RemoteFailure``; `DatabaseError`. Nothing is changed then.
    package static func join(
        _ dbWriter: any DatabaseWriter, _ invitation: InvitationContent, at remote: any ObjectStore,
        remoteName: String, tracking: Tracking = .all, named name: String = "",
        settings: Replica.Settings = Replica.Settings(), clock: @escaping @Sendable () -> HybridTime = Clock.now
    ) throws -> ChangesetRepository {
        let former = try dbWriter.read { try FormerIdentity($0, of: invitation.repository) }
        let keys = try former?.nextKeys() ?? .random()
        let now = clock().milliseconds
        // The records, and what others have of the store, are read before anything of the store is changed.
        let roster = RosterReader(invitation, keys, former: former?.id)
        let report = try Exchange(roster, with: remote, named: remoteName).run(now: now)
        if let failure = report.failures.first { throw failure }
        var list = roster.list
        try list.add(former?.records ?? [])
        _ = try list.accept(invitation.record, with: invitation.key, as: keys, named: name, time: now)
        if try !changeIdentity(dbWriter, roster, list, invitation.epochs, settings, clock()) {
            try dbWriter.unsafeReentrantWrite { db in
                try create(
                    db, invitation.repository, keys, roster: invitation.rosterSecret, Array(list.records.values),
                    invitation.epochs, adoptsAsOld: former != nil)
            }
        }
        return try ChangesetRepository(
            dbWriter, tracking: tracking, named: name, settings: settings, clock: clock)
    }

    /// Lets a store that has the repository keep its commits.
    ///
    /// - Returns: false if it has another repository or none, or if its commits cannot be kept. Nothing is changed then.
    private static func changeIdentity(
        _ dbWriter: any DatabaseWriter, _ roster: RosterReader, _ list: MemberList, _ secrets: EpochSecrets,
        _ settings: Replica.Settings, _ clock: HybridTime
    ) throws -> Bool {
        guard let evidence = roster.evidence else { return false }
        do {
            try dbWriter.unsafeReentrantWrite { db in
                if db.isInsideTransaction { throw EngineError(.insideTransaction) }
                try db.writingOwnRows {
                    try db.inTransaction(.immediate) {
                        let work = try Work(db, settings, DefinitionCache(), clock: clock)
                        try IdentityChange(db: db, work: work, keys: roster.keys, list: list, evidence: evidence)
                            .run(roster: roster.rosterSecret, secrets)
                        return .commit
                    }
                }
            }
            return true
        } catch is IdentityChange.Impossible {
            return false
        }
    }
}

/// A device that is no member yet: it reads the list of members, and puts nothing. If the store has the repository, it also
/// reads what the remote has of the commits of the store.
private final class RosterReader: ExchangeStore {
    let repository: RepositoryID
    let keys: ReplicaKeys
    let rosterSecret: SecretBytes
    private(set) var list: MemberList
    private(set) var evidence: FormerCommits?
    private let secrets: EpochSecrets

    init(_ invitation: InvitationContent, _ keys: ReplicaKeys, former: ReplicaID?) {
        (repository, self.keys, rosterSecret) = (invitation.repository, keys, invitation.rosterSecret)
        (list, secrets) = (MemberList(repository: invitation.repository), invitation.epochs)
        evidence = former.map { FormerCommits(of: $0) }
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
    func addToInbox(_ commits: [VerifiedCommit]) throws {
        for commit in commits { evidence?.note(commit.encoded) }
    }
    func keep(_ signature: [UInt8], of commit: StoredCommit) throws {}
    func makeSnapshot() throws -> (any SnapshotSource)? { nil }
    func lacksValues() throws -> Bool { false }
    func lacks(_ vector: VersionVector) throws -> Bool {
        evidence?.noteSnapshot(vector)
        return false
    }
    func receive(_ snapshot: SnapshotManifest, part: (Int) throws -> [UInt8]) throws {}
    // It reads commits once, and keeps nothing of them.
    func part(_ name: String, of remote: String) throws -> [UInt8]? { nil }
    func keepPart(_ content: [UInt8], _ name: String, of remote: String) throws {}
    func removeParts(except names: Set<String>, of remote: String) throws {}
    func remembered(_ remote: String) throws -> [String: RememberedObject] { [:] }
    func remember(_ changes: [String: RememberedObject?], of remote: String) throws {}
}
