import StoreCrypto

/// The last commit of a branch: no other commit that the store has follows it.
package struct CommitBranch: Hashable, Sendable {
    let author: ReplicaID
    let number: UInt64
    let hash: CommitHash
}

/// The calls that the exchange needs of a store. "Has" means joined or in the inbox.
package protocol ExchangeStore: AnyObject {
    var repository: RepositoryID { get }
    var keys: ReplicaKeys { get }
    /// 32 bytes that all members have for all time: they seal member records and make the tags of names.
    var rosterSecret: SecretBytes { get }

    /// Another number after each change of what this protocol shows.
    func revision() throws -> UInt64

    // Members
    func memberRecords() throws -> [MemberRecord]
    func add(_ records: [MemberRecord]) throws
    func epochSecrets() throws -> EpochSecrets
    func keep(_ secrets: EpochSecrets) throws

    // Commits
    /// The branches of all commits that the store has, in any order.
    func branches() throws -> [CommitBranch]
    /// The commits of this number that the store has: several if their contents differ.
    func hashes(of author: ReplicaID, _ number: UInt64) throws -> [CommitHash]
    /// The hash of the ancestor of a branch, or of its last commit; nil if the store does not have it.
    func hash(of branch: CommitBranch, at number: UInt64) throws -> CommitHash?
    /// Consecutive commits of a branch whose bodies the store has, from the first one whose number is at least `first`.
    /// They have at most `limitBytes` bytes together; the first one is returned whatever its length.
    func commits(of branch: CommitBranch, from first: UInt64, limitBytes: Int) throws -> [StoredCommit]
    /// Adds commits in one transaction. It skips commits that the store has; a commit may be in the list twice.
    func addToInbox(_ commits: [VerifiedCommit]) throws
    /// Keeps the signature of a commit of this replica.
    func keep(_ signature: [UInt8], of commit: StoredCommit) throws

    // Snapshots
    /// Begins a snapshot; nil while the rows are ahead of the vector (F9).
    func makeSnapshot() throws -> (any SnapshotSource)?
    /// Whether the store lacks a commit that the vector has.
    func lacks(_ vector: VersionVector) throws -> Bool
    /// Whether rows of the store have cells whose values it does not know.
    func lacksValues() throws -> Bool
    /// Stores the parts of a snapshot, which it asks for in their order. If the remote fails, those before are kept, and the
    /// next call asks for the others alone. Nothing is stored if it throws another error.
    func receive(_ snapshot: SnapshotManifest, part: (Int) throws -> [UInt8]) throws

    // Parts of long segments, each by its name
    /// The content of a part that an earlier exchange has fetched.
    func part(_ name: String, of remote: String) throws -> [UInt8]?
    /// Keeps the content of a part, so that an exchange after a kill or a failure goes on from there.
    func keepPart(_ content: [UInt8], _ name: String, of remote: String) throws
    /// Removes the parts that were kept, except some.
    func removeParts(except names: Set<String>, of remote: String) throws

    // The known facts about a remote
    func remembered(_ remote: String) throws -> [String: RememberedObject]
    /// Sets entries, and removes those that are nil.
    func remember(_ changes: [String: RememberedObject?], of remote: String) throws
}

/// A snapshot that is being made.
package protocol SnapshotSource: AnyObject {
    var vector: VersionVector { get }
    var time: HybridTime { get }
    /// The next part, ``ExchangeLimits/segmentBytes`` at most; nil at the end.
    func nextPart() throws -> [UInt8]?
    /// Whether rows of the parts that were given have cells whose values the store does not know.
    var lacksValues: Bool { get }
}

/// The knowledge of a store about an object of a remote, by its name.
package enum RememberedObject: UInt8, Sendable {
    /// The store has all that the object has.
    case held = 0
    /// The bytes are not those of the name.
    case damaged = 1
    /// A member has sealed what is no valid content: evidence.
    case refused = 2
    /// It was refused, and needs no attention: the operator has acknowledged it, or the remote lacks it since.
    case acknowledged = 3
    /// A snapshot of a former member. Nobody has to do anything about it.
    case unused = 4
    /// The operator has acknowledged that it cannot be used. Each exchange tries it again, and reports it no more.
    case retried = 5
}

extension RememberedObject? {
    /// Whether the bytes were not those of the name, or may not be.
    var isDamaged: Bool { self == .damaged || self == .retried }
    /// Whether the object is never fetched again.
    var isSettled: Bool { self == .refused || self == .acknowledged || self == .unused }
}
