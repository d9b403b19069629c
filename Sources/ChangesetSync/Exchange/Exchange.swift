import StoreCrypto

/// Exchanges commits, snapshots and member records with one remote.
///
/// One listing finds what is new. Everything that the listing lacks and the store has is put, no matter who wrote it. So any
/// replica fills a remote again that was emptied or set back. Nothing of the remote is trusted.
package final class Exchange {
    let store: any ExchangeStore
    let remote: CalledRemote
    let remoteName: String
    let roster: ObjectKey
    var list: MemberList
    var secrets: EpochSecrets
    var report = ExchangeReport()
    /// The objects of the listing, with those that this exchange has put.
    var listed: Set<ObjectName> = []
    var memory: [String: RememberedObject]
    var memoryChanges: [String: RememberedObject?] = [:]
    /// Objects that could not be used yet. They are tried again if the members or secrets change.
    var waiting: [ObjectName: ObjectError] = [:]
    var manifests: [ObjectName: SnapshotManifest] = [:]
    /// Whether no deletion was refused.
    var mayDelete = true
    private var authorsByTag: [String: ReplicaID] = [:]
    /// The names of records that were sealed.
    var recordDigests: [RecordHash: String] = [:]
    private var objectKeys: [CommitTag: ObjectKey] = [:]
    /// The commits of snapshots that this exchange has found damaged, by the damaged object.
    var damagedSnapshots: [String: [VersionVector]] = [:]
    private var lastListing: Set<String> = []
    /// The revision of the store after a run that ended in both directions.
    private var lastRevision: UInt64?
    /// Milliseconds since 1970, of the running exchange.
    var now: UInt64 = 0

    /// - Parameter name: The name under which the store remembers the remote.
    package init(_ store: any ExchangeStore, with remote: any ObjectStore, named name: String) throws {
        self.store = store
        self.remote = CalledRemote(remote: remote)
        remoteName = name
        roster = try ObjectKey(secret: store.rosterSecret, id: .zero, repository: store.repository)
        list = MemberList(repository: store.repository)
        secrets = EpochSecrets()
        memory = try store.remembered(name)
    }

    /// The directions of an exchange.
    package enum Direction: Sendable {
        case both
        case fetching
        case putting
    }

    /// Fetches what is new and puts what the remote lacks.
    ///
    /// - Parameter now: Milliseconds since 1970.
    /// - Throws: ``RemoteFailure`` if the listing fails; errors of the store. Other failures are in the report.
    func run(now: UInt64, _ direction: Direction = .both) throws -> ExchangeReport {
        let listing = try remote.list()
        let revision = try store.revision()
        if revision == lastRevision, listing.count == lastListing.count, report.isComplete,
            listing.allSatisfy({ lastListing.contains($0.name) })
        {
            return ExchangeReport()
        }
        self.now = now
        report = ExchangeReport()
        damagedSnapshots = [:]
        lastRevision = nil
        listed = Set(listing.lazy.compactMap { ObjectName($0.name) })
        try loadMembers()
        try withRemoteFailures {
            try fetchRecords()
            if direction != .putting {
                try fetchSegments()
                try fetchSnapshots()
            } else {
                try readKnownManifests()
            }
            if direction != .fetching { try putAll() }
        }
        try leaveOutReplacedRecords()
        try leaveOutReplacedCommits()
        noteGoneEvidence()
        report.waiting = waiting.filter { memory[$0.key.text] != .retried }
            .map { ExchangeReport.Problem(name: $0.key.text, error: $0.value) }
            .sorted { $0.name < $1.name }
        try keepMemory()
        lastListing = Set(listing.map(\.name)).union(listed.map(\.text))
        lastRevision = direction == .both ? try store.revision() : nil
        return report
    }

    private func putAll() throws {
        try answerComplaints()
        if list.needsEpoch(among: secrets) { try step { _ = try sealingKey() } }
        try putRecords()
        try putSegments()
        try tidySegments()
    }

    /// Runs a part of the exchange that ends with the first call that fails for good.
    func withRemoteFailures(_ body: () throws -> Void) throws {
        do { try body() } catch let failure as RemoteFailure { report.failures.append(failure) }
    }

    /// Calls that may fail before an exchange gives up.
    private static let toleratedFailures = 3

    /// Runs one step; a failure of the remote ends that step alone, unless too many fail.
    func step(_ body: () throws -> Void) throws {
        do { try body() } catch let failure as RemoteFailure { try tolerate(failure) }
    }

    /// Notes a failure, and throws it if too many have failed.
    func tolerate(_ failure: RemoteFailure) throws {
        if report.failures.count >= Self.toleratedFailures { throw failure }
        report.failures.append(failure)
    }

    // MARK: Memory

    func remember(_ name: ObjectName, _ what: RememberedObject?) {
        if what == .damaged, memory[name.text] == .retried { return }
        memory[name.text] = what
        memoryChanges[name.text] = .some(what)
    }

    /// Refused objects that the remote lacks need no attention.
    private func noteGoneEvidence() {
        for (text, state) in memory where state == .refused {
            guard let name = ObjectName(text), !listed.contains(name) else { continue }
            remember(name, .acknowledged)
        }
    }

    func keepMemory() throws {
        guard !memoryChanges.isEmpty else { return }
        try store.remember(memoryChanges, of: remoteName)
        memoryChanges = [:]
    }

    // MARK: Members and keys

    func loadMembers() throws {
        let records = try store.memberRecords()
        let former = secrets.secrets.count
        secrets = try store.epochSecrets()
        if try !list.add(records).isEmpty || secrets.secrets.count != former { try membersChanged() }
    }

    /// Opens new epochs, and tries objects that waited again.
    func membersChanged() throws {
        if try secrets.learn(from: list, store.keys) { try store.keep(secrets) }
        authorsByTag = [:]
        for id in list.everMembers { authorsByTag[try tag(ofAuthor: id)] = id }
        waiting = [:]
    }

    func tag(ofAuthor author: ReplicaID) throws -> String { try roster.tag("author", author.bytes) }
    func tag(ofTip hash: CommitHash) throws -> String { try roster.tag("tip", hash.bytes) }
    func author(ofTag tag: String) -> ReplicaID? { authorsByTag[tag] }

    func objectKey(_ id: CommitTag) throws -> ObjectKey? {
        if let key = objectKeys[id] { return key }
        guard let found = secrets.secrets.first(where: { ObjectKey.id(of: $0.key) == id }) else { return nil }
        let key = try ObjectKey(secret: found.value, epoch: found.key, repository: store.repository)
        objectKeys[id] = key
        return key
    }

    /// The key to seal with: that of an epoch for exactly the present members, which is begun if there is none (F20).
    ///
    /// - Returns: nil if the replica is not a member.
    func sealingKey() throws -> ObjectKey? {
        if let epoch = list.sealingEpoch(among: secrets) { return try objectKey(ObjectKey.id(of: epoch)) }
        guard list.members[store.keys.id] != nil else { return nil }
        let record = try list.beginEpoch(store.keys, &secrets, time: now)
        // The secret is kept before the record is put: nobody else has it otherwise.
        try store.keep(secrets)
        try store.add([record])
        // It knows records that the remote may lack.
        try putRecords()
        return try objectKey(ObjectKey.id(of: record.hash))
    }

    /// The key of a member that may write, for its signatures (F18).
    func verifyingKey(_ id: ReplicaID) throws -> VerifyingKey {
        guard let member = list.everMember(id) else { throw ObjectError.unknownAuthor }
        guard member.role >= .writer else { throw ObjectError.notAllowed }
        return member.member.verifyingKey
    }

    // MARK: Objects

    /// Gets an object and opens it.
    ///
    /// - Returns: nil if the remote does not have it.
    /// - Throws: ``ObjectError``; ``RemoteFailure``; ``CryptoError``.
    func open(_ name: ObjectName, _ kind: ObjectKind) throws -> [UInt8]? {
        guard let bytes = try remote.get(name) else { return nil }
        guard try ObjectName.digest(of: bytes) == name.digest else { throw ObjectError.damaged }
        let header = try ObjectHeader(bytes)
        guard header.repository == store.repository else { throw ObjectError.otherRepository }
        let key = kind == .memberRecord ? roster : try objectKey(header.key)
        guard let key else { throw ObjectError.unknownEpoch(header.key) }
        return try key.open(bytes, kind)
    }

    /// Notes why an object was not used.
    func note(_ error: ObjectError, _ name: ObjectName) throws {
        switch error {
        case .damaged:
            remember(name, .damaged)
            if memory[name.text] != .retried { report.damaged.append(name.text) }
            try complain(of: name)
        case .laterVersion, .unknownEpoch, .unknownAuthor: waiting[name] = error
        case .otherRepository, .notAllowed: refuse(name, error)
        case .notAuthentic, .malformed, .otherContent, .wrongSignature:
            refuse(name, error)
            // The store that has the commits of the name may believe that they are here.
            try complain(of: name)
        }
    }

    private func refuse(_ name: ObjectName, _ error: ObjectError) {
        remember(name, .refused)
        report.refused.append(ExchangeReport.Problem(name: name.text, error: error))
    }

    /// Whether an object is to be fetched: it is new, or it was damaged, which may have happened on the way.
    func isWanted(_ name: ObjectName) -> Bool {
        waiting[name] == nil && (memory[name.text] == nil || memory[name.text].isDamaged)
    }

    /// Puts content under the first edition whose name is free of damage.
    ///
    /// - Returns: The name.
    func put(
        _ content: [UInt8], _ kind: ObjectKind, with key: ObjectKey, named: (String) -> ObjectName
    ) throws -> ObjectName {
        for edition in UInt8.min...UInt8.max {
            let bytes = try key.seal(content, kind, edition: edition)
            let name = named(try ObjectName.digest(of: bytes))
            if memory[name.text].isDamaged || memory[name.text].isSettled { continue }
            if try remote.put(name, bytes) == .stored {
                report.sentObjects += 1
                report.sentBytes += bytes.count
            }
            listed.insert(name)
            remember(name, .held)
            return name
        }
        throw ObjectError.damaged
    }
}
