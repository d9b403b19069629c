import StoreCrypto

@testable import ChangesetSync

/// A store of commits without rows, for tests of the exchange: whatever it has in its inbox counts as joined.
final class TestStore: ExchangeStore {
    struct Known {
        let author: ReplicaID
        let number: UInt64
        let previous: CommitHash
    }

    let repository: RepositoryID
    let keys: ReplicaKeys
    let rosterSecret: SecretBytes
    var list: MemberList
    var secrets: EpochSecrets
    private(set) var bodies: [CommitHash: StoredCommit] = [:]
    private(set) var known: [CommitHash: Known] = [:]
    private var numbers: [ReplicaID: [UInt64: [CommitHash]]] = [:]
    private var followed: Set<CommitHash> = []
    private var memory: [String: [String: RememberedObject]] = [:]
    private var segmentParts: [String: [UInt8]] = [:]
    private var changes: UInt64 = 1
    private var clock: UInt64 = 1_700_000_000_000
    /// The last commit that this store made.
    var own: CommitHash?
    var canMakeSnapshots = true

    init(_ list: MemberList, _ secrets: EpochSecrets, _ keys: ReplicaKeys, roster: SecretBytes) {
        repository = list.repository
        (self.list, self.secrets, self.keys, rosterSecret) = (list, secrets, keys, roster)
    }

    /// A repository with its founder.
    static func founder() throws -> TestStore {
        let keys = try ReplicaKeys.random()
        let (list, secrets) = try MemberList.founding(keys, named: "founder", time: 1)
        return TestStore(list, secrets, keys, roster: try SecretBytes.random(count: 32))
    }

    /// A new member, which knows the list and its own keys, and gets secrets by its box.
    func admit(_ role: Role = .writer, named name: String = "member") throws -> TestStore {
        let keys = try ReplicaKeys.random()
        _ = try list.admit(keys.member(named: name), as: role, by: self.keys, time: now)
        if list.sealingEpoch(among: secrets) == nil { _ = try list.beginEpoch(self.keys, &secrets, time: now) }
        changes += 1
        let store = TestStore(list, EpochSecrets(), keys, roster: rosterSecret)
        try store.secrets.learn(from: store.list, keys)
        return store
    }

    /// A store with the same content, as a copy of the file is.
    func copy(_ keys: ReplicaKeys? = nil) -> TestStore {
        let other = TestStore(list, secrets, keys ?? self.keys, roster: rosterSecret)
        (other.bodies, other.known, other.numbers, other.followed) = (bodies, known, numbers, followed)
        (other.memory, other.changes, other.clock, other.own) = (memory, changes, clock, own)
        return other
    }

    var now: UInt64 { clock }
    func pass(_ milliseconds: UInt64) { clock += milliseconds }

    // MARK: The program

    @discardableResult
    func commit(_ value: CellValue = .string("value"), key: Int64 = 1) throws -> EncodedCommit {
        clock += 1
        let shape = WriteShape(.insert, "player", keyCount: 1, columns: [ColumnID("name"), ColumnID("score")])
        let write = Write(shape, key: Cells([.integer(key)]), values: Cells([value, .integer(key * 3)]))
        let last = own.flatMap { known[$0] }
        let commit = Commit(
            author: keys.id, number: (last?.number ?? 0) + 1, previous: own ?? .zero,
            time: HybridTime(wallClock: Int64(clock)), writes: try Writes([write], author: keys.id))
        let encoded = try EncodedCommit(commit, in: repository)
        own = encoded.hash
        add(encoded, signature: nil)
        return encoded
    }

    func remove(_ member: ReplicaID) throws {
        _ = try list.remove(member, knowing: vector, by: keys, &secrets, time: now)
        changes += 1
    }

    /// Bodies go, as after a snapshot.
    func forgetBodies() {
        bodies = [:]
        changes += 1
    }

    var hashes: Set<CommitHash> { Set(known.keys) }
    var vector: VersionVector {
        var tips: [ReplicaID: [Tip]] = [:]
        for (hash, commit) in known where !followed.contains(hash) {
            tips[commit.author, default: []].append(Tip(number: commit.number, tag: hash.tag))
        }
        return VersionVector(tips.map { AuthorTips(author: $0.key, tips: $0.value) })
    }

    private func add(_ commit: EncodedCommit, signature: [UInt8]?) {
        let content = commit.commit
        let stored = StoredCommit(
            author: content.author, number: content.number, previous: content.previous, hash: commit.hash,
            body: commit.body, signature: signature ?? bodies[commit.hash]?.signature)
        bodies[commit.hash] = stored
        learn(commit.hash, Known(author: content.author, number: content.number, previous: content.previous))
    }

    private func learn(_ hash: CommitHash, _ commit: Known) {
        changes += 1
        followed.insert(commit.previous)
        guard known.updateValue(commit, forKey: hash) == nil else { return }
        numbers[commit.author, default: [:]][commit.number, default: []].append(hash)
    }

    // MARK: ExchangeStore

    func revision() throws -> UInt64 { changes }
    func memberRecords() throws -> [MemberRecord] { Array(list.records.values) }
    func add(_ records: [MemberRecord]) throws {
        if try !list.add(records).isEmpty { changes += 1 }
    }
    func epochSecrets() throws -> EpochSecrets { secrets }
    func keep(_ secrets: EpochSecrets) throws { self.secrets = secrets }

    func branches() throws -> [CommitBranch] {
        known.filter { !followed.contains($0.key) }
            .map { CommitBranch(author: $0.value.author, number: $0.value.number, hash: $0.key) }
    }
    func hashes(of author: ReplicaID, _ number: UInt64) throws -> [CommitHash] { numbers[author]?[number] ?? [] }

    func hash(of branch: CommitBranch, at number: UInt64) throws -> CommitHash? {
        // With one content of a number, which is the common case, the chain need not be followed.
        if let only = numbers[branch.author]?[number], only.count == 1,
            numbers[branch.author]?[branch.number]?.count == 1
        {
            return only[0]
        }
        var (hash, current) = (branch.hash, branch.number)
        while current > number {
            guard let commit = known[hash] else { return nil }
            (hash, current) = (commit.previous, current - 1)
        }
        return current == number && known[hash] != nil ? hash : nil
    }

    func commits(of branch: CommitBranch, from first: UInt64, limitBytes: Int) throws -> [StoredCommit] {
        var (found, byteCount) = ([StoredCommit](), 0)
        guard first <= branch.number else { return [] }
        for number in first...branch.number {
            guard let hash = try hash(of: branch, at: number), let commit = bodies[hash] else {
                if found.isEmpty { continue } else { break }
            }
            byteCount += commit.body.count
            if !found.isEmpty, byteCount > limitBytes { break }
            found.append(commit)
        }
        return found
    }

    func addToInbox(_ commits: [VerifiedCommit]) throws {
        for commit in commits { add(commit.encoded, signature: commit.signature) }
    }
    func keep(_ signature: [UInt8], of commit: StoredCommit) throws {
        bodies[commit.hash] = bodies[commit.hash]?.signed(signature)
    }

    // MARK: Snapshots

    private static let entryBytes = 16 + 8 + 32 + 32

    final class Source: SnapshotSource {
        let vector: VersionVector
        let time = HybridTime(rawValue: 9)
        let lacksValues = false
        private var parts: ArraySlice<[UInt8]>

        init(_ vector: VersionVector, _ parts: [[UInt8]]) { (self.vector, self.parts) = (vector, parts[...]) }
        func nextPart() throws -> [UInt8]? { parts.popFirst() }
    }

    func makeSnapshot() throws -> (any SnapshotSource)? {
        // A snapshot has what was joined, and nothing after a gap is.
        guard try canMakeSnapshots && !lacks(vector) else { return nil }
        let entries = known.sorted { $0.key < $1.key }.map { hash, commit in
            var entry = commit.author.bytes
            entry.append(bigEndian: commit.number)
            return entry + commit.previous.bytes + hash.bytes
        }
        let parts = stride(from: 0, to: entries.count, by: 100).map { start in
            Array(entries[start..<min(start + 100, entries.count)].joined())
        }
        return Source(vector, parts)
    }

    func lacks(_ vector: VersionVector) throws -> Bool {
        for (author, tips) in vector.tips {
            for tip in tips {
                guard var hash = (numbers[author]?[tip.number] ?? []).first(where: { $0.tag == tip.tag }) else {
                    return true
                }
                var number = tip.number
                while number > 1 {
                    guard let commit = known[hash], known[commit.previous] != nil else { return true }
                    (hash, number) = (commit.previous, number - 1)
                }
            }
        }
        return false
    }

    func lacksValues() throws -> Bool { false }

    func receive(_ snapshot: SnapshotManifest, part: (Int) throws -> [UInt8]) throws {
        let parts = try snapshot.parts.indices.map { try part($0) }
        for content in parts {
            var reader = ByteReader(content)
            while !reader.isAtEnd {
                let author = try reader.identifier(ReplicaID.self)
                let number = try reader.integer(as: UInt64.self)
                let previous = try reader.identifier(CommitHash.self)
                learn(try reader.identifier(CommitHash.self), Known(author: author, number: number, previous: previous))
            }
        }
    }

    // MARK: Memory

    func part(_ name: String, of remote: String) throws -> [UInt8]? { segmentParts[remote + name] }
    func keepPart(_ content: [UInt8], _ name: String, of remote: String) throws {
        segmentParts[remote + name] = content
    }
    func removeParts(except names: Set<String>, of remote: String) throws {
        segmentParts = segmentParts.filter { entry in
            !entry.key.hasPrefix(remote) || names.contains { remote + $0 == entry.key }
        }
    }

    func remembered(_ remote: String) throws -> [String: RememberedObject] { memory[remote] ?? [:] }
    func remember(_ changes: [String: RememberedObject?], of remote: String) throws {
        for (name, state) in changes { memory[remote, default: [:]][name] = state }
    }
}

extension TestStore {
    /// Exchanges with a remote once.
    @discardableResult
    func sync(_ remote: any ObjectStore, named name: String = "remote") throws -> ExchangeReport {
        try Exchange(self, with: remote, named: name).run(now: now)
    }
}
