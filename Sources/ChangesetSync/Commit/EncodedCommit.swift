import StoreCrypto

/// A commit with its bytes and its hash (Docs/Formats/Commit.md).
package struct EncodedCommit: Sendable {
    package let commit: Commit
    package let hash: CommitHash
    /// The part before the writes.
    private let head: ArraySlice<UInt8>
    /// The bytes that were decoded, of which the other parts are slices; nil if the commit was encoded here.
    private let decoded: ArraySlice<UInt8>?

    static let version: UInt8 = 1
    private static let label = Array("cipherstore commit v1".utf8)

    /// Encodes a commit.
    ///
    /// - Throws: ``CommitError`` if the commit is one that no transaction makes; ``CryptoError``.
    package init(_ commit: Commit, in repository: RepositoryID) throws {
        try commit.check()
        var head: [UInt8] = []
        try commit.appendHead(to: &head)
        guard head.count + commit.writes.bytes.count <= CommitLimits.bodyBytes else { throw CommitError(.bodyTooLong) }
        self.head = head[...]
        self.commit = commit
        decoded = nil
        hash = try Self.hash(of: commit, head[...], in: repository)
    }

    /// Reads a body, which may be damaged or hostile.
    ///
    /// - Parameters:
    ///   - previous: The hash of the author's previous commit, zeros if the number is 1.
    /// - Throws: ``CommitError``; ``CryptoError``.
    package init(
        decoding body: ArraySlice<UInt8>, author: ReplicaID, number: UInt64, previous: CommitHash,
        in repository: RepositoryID
    ) throws {
        guard body.count <= CommitLimits.bodyBytes else { throw CommitError(.bodyTooLong) }
        var reader = ByteReader(body)
        commit = try Commit(reading: &reader, author: author, number: number, previous: previous)
        try commit.check()
        head = body[..<reader.index]
        decoded = body
        var comparison = ByteComparison(head)
        try commit.appendHead(to: &comparison)
        guard comparison.isComplete else { throw CommitError(.notCanonical, at: 0) }
        hash = try Self.hash(of: commit, head, in: repository)
    }

    /// The body in two pieces, which are not copied.
    var pieces: [ArraySlice<UInt8>] { [head, commit.writes.bytes] }
    var bodyBytes: Int { head.count + commit.writes.bytes.count }
    /// The body in one piece. A commit that was decoded has it, so that a long one is not copied.
    var wholeBody: ArraySlice<UInt8> { decoded ?? body[...] }
    package var body: [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(bodyBytes)
        for piece in pieces { body += piece }
        return body
    }
    var dot: Dot { Dot(author: commit.author, number: commit.number, tag: hash.tag) }
    var tip: Tip { Tip(number: commit.number, tag: hash.tag) }

    /// The hash covers the repository, so a commit of another one has another hash.
    private static func hash(
        of commit: Commit, _ head: ArraySlice<UInt8>, in repository: RepositoryID
    ) throws -> CommitHash {
        var start = label + repository.bytes + commit.author.bytes
        start.append(bigEndian: commit.number)
        start += commit.previous.bytes
        var digest = try ContentDigest()
        start.withUnsafeBytes { digest.update($0) }
        head.withUnsafeBytes { digest.update($0) }
        commit.writes.bytes.withUnsafeBytes { digest.update($0) }
        guard let hash = try CommitHash(bytes: digest.finish()) else {
            preconditionFailure("SHA-256 has another length than 32 bytes.")
        }
        return hash
    }
}

extension EncodedCommit: Hashable {
    package static func == (one: EncodedCommit, other: EncodedCommit) -> Bool {
        one.hash == other.hash && one.commit == other.commit
    }
    package func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

extension Commit {
    /// - Throws: ``CommitError`` if no transaction makes the commit.
    fileprivate func check() throws(CommitError) {
        guard (1...UInt64(Int64.max)).contains(number) else { throw CommitError(.number) }
        guard number > 1 || previous == .zero else { throw CommitError(.previousHash) }
        guard writes.author == author else { throw CommitError(.incarnation) }
        guard meta.utf8.count <= CommitLimits.metaBytes else { throw CommitError(.metaTooLong) }
        guard events.count <= CommitLimits.events else { throw CommitError(.tooManyEvents) }
        guard zip(context, context.dropFirst()).allSatisfy({ $0.author < $1.author }) else {
            throw CommitError(.contextOrder)
        }
        for entry in context {
            guard !entry.tips.isEmpty, entry.tips.allSatisfy({ (1...UInt64(Int64.max)).contains($0.number) }),
                zip(entry.tips, entry.tips.dropFirst()).allSatisfy({ $0 < $1 })
            else { throw CommitError(.contextOrder) }
        }
    }

    fileprivate func appendHead(to sink: inout some ByteSink) throws(CommitError) {
        sink.append(EncodedCommit.version)
        sink.append(beginsBranch ? 1 : 0)
        sink.append(bigEndian: time.rawValue)
        sink.append(varint: context.count)
        for entry in context { sink.append(entry) }
        sink.append(text: meta)
        sink.append(varint: events.count)
        for event in events { try sink.append(event) }
    }

    fileprivate init(
        reading reader: inout ByteReader, author: ReplicaID, number: UInt64, previous: CommitHash
    ) throws(CommitError) {
        let version = try reader.byte()
        guard version == EncodedCommit.version else { throw CommitError(.unsupportedVersion(version), at: 0) }
        let flags = try reader.byte()
        guard flags <= 1 else { throw CommitError(.unknownFlags(flags), at: 1) }
        let time = try reader.time()
        var context: [AuthorTips] = []
        for _ in 0..<(try reader.count(limit: reader.remaining)) { context.append(try reader.authorTips()) }
        let meta = try reader.text(limit: CommitLimits.metaBytes)
        var events: [RepositoryEvent] = []
        for _ in 0..<(try reader.count(limit: CommitLimits.events)) { events.append(try reader.event()) }
        let writes: Writes
        do throws(CommitError) {
            writes = try Writes(decoding: reader.rest, author: author)
        } catch {
            throw CommitError(error.code, at: error.offset.map { $0 + reader.offset })
        }
        self.init(
            author: author, number: number, previous: previous, time: time, context: context,
            beginsBranch: flags == 1, meta: meta, events: events, writes: writes)
    }
}

/// The kinds of events in bytes.
private enum EventKind {
    static let remove: UInt8 = 0
    static let rename: UInt8 = 1
    static let vouch: UInt8 = 2
    static let policy: UInt8 = 3
    static let dropped: UInt8 = 4
}

extension ByteSink {
    mutating func append(_ entry: AuthorTips) {
        append(contentsOf: entry.author.bytes)
        append(varint: entry.tips.count)
        for tip in entry.tips {
            append(varint: tip.number)
            append(contentsOf: tip.tag.bytes)
        }
    }

    fileprivate mutating func append(_ event: RepositoryEvent) throws(CommitError) {
        switch event {
        case .remove(let member):
            append(EventKind.remove)
            append(contentsOf: member.bytes)
        case .rename(let table, let column, let name):
            append(EventKind.rename)
            try append(table)
            try append(column)
            try append(name)
        case .vouch: append(EventKind.vouch)
        case .policy(let policy):
            append(EventKind.policy)
            try append(policy.table)
            guard zip(policy.counters, policy.counters.dropFirst()).allSatisfy({ $0 < $1 }),
                policy.counters.count <= CommitLimits.columns
            else { throw CommitError(.policy) }
            append(varint: policy.counters.count)
            for column in policy.counters { try append(column) }
            append(policy.deletionsWin ? 1 : 0)
        case .dropped(let names):
            append(EventKind.dropped)
            try append(names.table)
            guard zip(names.columns, names.columns.dropFirst()).allSatisfy({ $0 < $1 }),
                names.columns.count <= CommitLimits.columns
            else { throw CommitError(.dropped) }
            append(varint: names.columns.count)
            for column in names.columns { try append(column) }
            append(names.isDropped ? 1 : 0)
        }
    }
}

extension ByteReader {
    mutating func authorTips() throws(CommitError) -> AuthorTips {
        let author = try identifier(ReplicaID.self)
        var tips: [Tip] = []
        for _ in 0..<(try count(limit: remaining)) {
            tips.append(Tip(number: try varint(), tag: try identifier(CommitTag.self)))
        }
        return AuthorTips(author: author, tips: tips)
    }

    fileprivate mutating func event() throws(CommitError) -> RepositoryEvent {
        let start = self
        switch try byte() {
        case EventKind.remove: return .remove(try identifier(ReplicaID.self))
        case EventKind.rename: return .rename(table: try name(), column: try column(), to: try name())
        case EventKind.vouch: return .vouch
        case EventKind.policy:
            let table = try name()
            var counters: [ColumnID] = []
            for _ in 0..<(try count(limit: CommitLimits.columns)) { counters.append(try column()) }
            let flag = try byte()
            guard flag <= 1 else { throw start.error(.unknownFlags(flag)) }
            return .policy(TablePolicy(table: table, counters: counters, deletionsWin: flag == 1))
        case EventKind.dropped:
            let table = try name()
            var columns: [ColumnID] = []
            for _ in 0..<(try count(limit: CommitLimits.columns)) { columns.append(try column()) }
            let flag = try byte()
            guard flag <= 1 else { throw start.error(.unknownFlags(flag)) }
            return .dropped(DroppedNames(table: table, columns: columns, isDropped: flag == 1))
        case let kind: throw start.error(.unknownKind(kind))
        }
    }
}
