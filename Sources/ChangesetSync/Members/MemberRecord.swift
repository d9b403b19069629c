import StoreCrypto

/// SHA-256 of the body of a member record.
struct RecordHash: FixedIdentifier {
    let content: FixedBytes<SIMD4<UInt64>>
}

/// One signed entry of the list of members (Docs/Formats/Members.md).
///
/// Records never change. Replicas exchange them in any order, and the list is a function of their set.
package struct MemberRecord: Sendable {
    enum Content: Hashable, Sendable {
        /// The first member, an admin. The name of the repository is the beginning of the hash of this record.
        case founding(Member, nonce: ReplicaID)
        case admission(Member, Role)
        /// Who has the private key of the invitation becomes a member until `end`, in milliseconds since 1970.
        case invitation(VerifyingKey, Role, end: UInt64)
        /// The new member. Signed by the key of the invitation and by the member's own.
        case acceptance(invitation: RecordHash, Member)
        case withdrawal(invitation: RecordHash)
        /// `vector` is what the author of the removal knew of all commits (F15).
        case removal(ReplicaID, vector: VersionVector)
        case epoch(EpochContent)
    }

    let repository: RepositoryID
    let author: ReplicaID
    /// Milliseconds since 1970 by the clock of the author.
    let time: UInt64
    /// The records that the author knew and that no other known record knew, ascending.
    let known: [RecordHash]
    let content: Content
    /// All bytes, with the signatures.
    package let bytes: [UInt8]
    let hash: RecordHash

    static let version: UInt8 = 1
    private static let label = Array("cipherstore member record v1".utf8)

    // MARK: Making

    /// Makes a record and signs it.
    ///
    /// - Parameters:
    ///   - repository: Ignored in a founding record, whose hash is the name of the repository.
    ///   - invitation: The private key of the invitation, for an acceptance.
    /// - Throws: ``MemberError`` if a name is too long; ``CryptoError``.
    init(
        _ content: Content, repository: RepositoryID, keys: ReplicaKeys, time: UInt64, known: [RecordHash],
        invitation: SigningKey? = nil
    ) throws {
        var isFounding = false
        if case .founding = content { isFounding = true }
        var body: [UInt8] = [Self.version, content.kind]
        body += isFounding ? RepositoryID.zero.bytes : repository.bytes
        body += keys.id.bytes
        body.append(bigEndian: time)
        body.append(varint: known.count)
        for hash in known.sorted() { body += hash.bytes }
        try body.append(content)
        hash = try Self.hash(of: body)
        let message = Self.label + hash.bytes
        let first = try invitation.map { try $0.signature(of: message) } ?? []
        bytes = body + first + (try keys.signing.signature(of: message))
        self.repository = isFounding ? hash.repository : repository
        author = keys.id
        self.time = time
        self.known = known.sorted()
        self.content = content
    }

    // MARK: Reading

    /// Reads a record, which may be damaged or hostile. Signatures are verified by ``MemberList``.
    ///
    /// - Throws: ``CommitError`` with an offset; ``CryptoError``.
    package init(decoding bytes: [UInt8]) throws {
        guard bytes.count <= ExchangeLimits.recordBytes else { throw CommitError(.bodyTooLong) }
        var reader = ByteReader(bytes)
        let version = try reader.byte()
        guard version == Self.version else { throw CommitError(.unsupportedVersion(version), at: 0) }
        let kind = try reader.byte()
        let repository = try reader.identifier(RepositoryID.self)
        author = try reader.identifier(ReplicaID.self)
        time = try reader.integer(as: UInt64.self)
        var known: [RecordHash] = []
        for _ in 0..<(try reader.count(limit: ExchangeLimits.records)) {
            known.append(try reader.identifier(RecordHash.self))
        }
        guard zip(known, known.dropFirst()).allSatisfy({ $0 < $1 }) else { throw reader.error(.contextOrder) }
        self.known = known
        content = try Content(kind: kind, reading: &reader)
        let signatureBytes = content.signatureCount * VerifyingKey.signatureBytes
        guard reader.remaining == signatureBytes else {
            throw reader.error(reader.remaining < signatureBytes ? .truncated : .trailingBytes)
        }
        self.bytes = bytes
        let body = Array(bytes.dropLast(signatureBytes))
        hash = try Self.hash(of: body)
        var again: [UInt8] = []
        try again.append(content)
        guard body.suffix(again.count).elementsEqual(again) else { throw CommitError(.notCanonical, at: 0) }
        if case .founding = content {
            guard repository == .zero else { throw CommitError(.notCanonical, at: 2) }
            self.repository = hash.repository
        } else {
            self.repository = repository
        }
    }

    private static func hash(of body: [UInt8]) throws -> RecordHash {
        var digest = try ContentDigest()
        label.withUnsafeBytes { digest.update($0) }
        body.withUnsafeBytes { digest.update($0) }
        guard let hash = try RecordHash(bytes: digest.finish()) else {
            preconditionFailure("SHA-256 has another length than 32 bytes.")
        }
        return hash
    }

    /// Whether the signatures are right.
    ///
    /// - Parameters:
    ///   - author: The key of the author.
    ///   - invitation: The key of the invitation of an acceptance.
    func isSigned(by author: VerifyingKey, invitation: VerifyingKey?) throws(CryptoError) -> Bool {
        let message = Self.label + hash.bytes
        let own = Array(bytes.suffix(VerifyingKey.signatureBytes))
        guard try author.isSignature(own, of: message) else { return false }
        guard content.signatureCount == 2 else { return true }
        guard let invitation else { return false }
        let first = Array(bytes.suffix(2 * VerifyingKey.signatureBytes).prefix(VerifyingKey.signatureBytes))
        return try invitation.isSignature(first, of: message)
    }
}

extension RecordHash {
    /// The repository that this founding record begins.
    var repository: RepositoryID {
        guard let id = RepositoryID(bytes: bytes.prefix(RepositoryID.byteCount)) else {
            preconditionFailure("A hash has fewer bytes than the name of a repository.")
        }
        return id
    }
}

extension MemberRecord: Hashable {
    package static func == (one: MemberRecord, other: MemberRecord) -> Bool { one.bytes == other.bytes }
    package func hash(into hasher: inout Hasher) { hasher.combine(hash) }
}

// MARK: Bytes of the content

extension MemberRecord.Content {
    fileprivate enum Kind {
        static let founding: UInt8 = 0
        static let admission: UInt8 = 1
        static let invitation: UInt8 = 2
        static let acceptance: UInt8 = 3
        static let withdrawal: UInt8 = 4
        static let removal: UInt8 = 5
        static let epoch: UInt8 = 6
    }

    fileprivate var kind: UInt8 {
        switch self {
        case .founding: Kind.founding
        case .admission: Kind.admission
        case .invitation: Kind.invitation
        case .acceptance: Kind.acceptance
        case .withdrawal: Kind.withdrawal
        case .removal: Kind.removal
        case .epoch: Kind.epoch
        }
    }

    fileprivate var signatureCount: Int { kind == Kind.acceptance ? 2 : 1 }

    fileprivate init(kind: UInt8, reading reader: inout ByteReader) throws(CommitError) {
        switch kind {
        case Kind.founding: self = .founding(try reader.member(), nonce: try reader.identifier(ReplicaID.self))
        case Kind.admission: self = .admission(try reader.member(), try reader.role())
        case Kind.invitation:
            self = .invitation(
                try reader.verifyingKey(), try reader.role(), end: try reader.integer(as: UInt64.self))
        case Kind.acceptance:
            self = .acceptance(invitation: try reader.identifier(RecordHash.self), try reader.member())
        case Kind.withdrawal: self = .withdrawal(invitation: try reader.identifier(RecordHash.self))
        case Kind.removal:
            self = .removal(try reader.identifier(ReplicaID.self), vector: try reader.vector())
        case Kind.epoch: self = .epoch(try EpochContent(reading: &reader))
        default: throw CommitError(.unknownKind(kind), at: 1)
        }
    }
}

extension [UInt8] {
    fileprivate mutating func append(_ content: MemberRecord.Content) throws {
        switch content {
        case .founding(let member, let nonce):
            try append(member)
            self += nonce.bytes
        case .admission(let member, let role):
            try append(member)
            append(role.rawValue)
        case .invitation(let key, let role, let end):
            self += key.bytes
            append(role.rawValue)
            append(bigEndian: end)
        case .acceptance(let invitation, let member):
            self += invitation.bytes
            try append(member)
        case .withdrawal(let invitation): self += invitation.bytes
        case .removal(let member, let vector):
            self += member.bytes
            append(vector)
        case .epoch(let epoch): append(epoch)
        }
    }

    private mutating func append(_ member: Member) throws {
        guard member.name.utf8.count <= ExchangeLimits.memberNameBytes,
            member.agreementBytes.count == AgreementKey.byteCount
        else { throw MemberError.nameTooLong }
        self += member.id.bytes + member.verifyingKey.bytes + member.agreementBytes
        append(text: member.name)
    }

    mutating func append(_ vector: VersionVector) {
        let entries = vector.entries
        append(varint: entries.count)
        for entry in entries {
            self += entry.author.bytes
            append(varint: entry.tips.count)
            for tip in entry.tips {
                append(varint: tip.number)
                self += tip.tag.bytes
            }
        }
    }
}

extension ByteReader {
    mutating func verifyingKey() throws(CommitError) -> VerifyingKey {
        let start = self
        guard let key = VerifyingKey(bytes: try take(VerifyingKey.byteCount)) else { throw start.error(.truncated) }
        return key
    }

    fileprivate mutating func member() throws(CommitError) -> Member {
        Member(
            id: try identifier(ReplicaID.self), verifyingKey: try verifyingKey(),
            agreementBytes: Array(try take(AgreementKey.byteCount)),
            name: try text(limit: ExchangeLimits.memberNameBytes))
    }

    fileprivate mutating func role() throws(CommitError) -> Role {
        let start = self
        let byte = try byte()
        guard let role = Role(rawValue: byte) else { throw start.error(.unknownKind(byte)) }
        return role
    }

    /// Reads a vector in its one form: by ascending authors, tips ascending.
    mutating func vector() throws(CommitError) -> VersionVector {
        let start = self
        var entries: [AuthorTips] = []
        for _ in 0..<(try count(limit: remaining)) { entries.append(try authorTips()) }
        guard zip(entries, entries.dropFirst()).allSatisfy({ $0.author < $1.author }),
            entries.allSatisfy({ entry in
                !entry.tips.isEmpty && entry.tips.allSatisfy { $0.number > 0 && $0.number <= UInt64(Int64.max) }
                    && zip(entry.tips, entry.tips.dropFirst()).allSatisfy { $0 < $1 }
            })
        else { throw start.error(.contextOrder) }
        return VersionVector(entries)
    }
}
