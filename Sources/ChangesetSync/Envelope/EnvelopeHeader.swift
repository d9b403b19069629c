import StoreCrypto

/// The readable part of an envelope: what a remote learns of an object. Authenticated with the body.
///
/// A pure value; Docs/Formats/Envelope.md tabulates the offsets.
package struct EnvelopeHeader: Hashable, Sendable {
    /// What the body is.
    package enum Kind: UInt8, Sendable {
        /// A canonical commit.
        case commit = 0
        /// The list of the chunks of a commit that is too long for one object.
        case manifest = 1
        /// A part of a commit; its one parent is that commit, its generation the number of the part.
        case chunk = 2
    }

    package enum Offset {
        package static let magic = 0
        package static let version = 4
        package static let kind = 5
        static let parentCount = 6
        package static let reserved = 7
        package static let epoch = 8
        package static let bodyBytes = 12
        package static let repository = 16
        package static let id = 32
        package static let author = 64
        package static let generation = 80
        package static let parents = 88
    }

    package static let magic = Array("CSE1".utf8)
    package static let version: UInt8 = 1
    /// The most parents of a commit.
    static let maximumParents = 2
    package static let tagBytes = AuthenticatedEncryption.tagBytes

    package let kind: Kind
    package let epoch: UInt32
    package let repository: RepositoryID
    package let id: ObjectID
    package let author: AuthorPseudonym
    package let generation: UInt64
    package let parents: [ObjectID]
    /// Of the plaintext, and of the ciphertext without its tag.
    package let bodyBytes: Int

    /// The length of a header.
    package static func byteCount(parents: Int) -> Int { Offset.parents + parents * ObjectID.byteCount }

    package var byteCount: Int { Self.byteCount(parents: parents.count) }

    /// Writes the header to a buffer of at least ``byteCount`` bytes. The caller has checked ``parents`` and
    /// ``bodyBytes``.
    func store(in buffer: UnsafeMutableRawBufferPointer) {
        buffer.copyBytes(from: Self.magic)
        buffer[Offset.version] = Self.version
        buffer[Offset.kind] = kind.rawValue
        buffer[Offset.parentCount] = UInt8(truncatingIfNeeded: parents.count)
        buffer[Offset.reserved] = 0
        buffer.storeBytes(of: epoch.bigEndian, toByteOffset: Offset.epoch, as: UInt32.self)
        let count = UInt32(truncatingIfNeeded: bodyBytes)
        buffer.storeBytes(of: count.bigEndian, toByteOffset: Offset.bodyBytes, as: UInt32.self)
        repository.content.store(in: buffer, at: Offset.repository)
        id.content.store(in: buffer, at: Offset.id)
        author.content.store(in: buffer, at: Offset.author)
        buffer.storeBytes(of: generation.bigEndian, toByteOffset: Offset.generation, as: UInt64.self)
        for (index, parent) in parents.enumerated() {
            parent.content.store(in: buffer, at: Self.byteCount(parents: index))
        }
    }
}

extension EnvelopeHeader {
    /// Reads the header of an envelope, and checks that the envelope is as long as it says. Nothing is authenticated.
    ///
    /// - Parameters:
    ///   - bytes: The whole envelope.
    ///   - id: The identifier by which a remote has returned it. The header must have the same one.
    package init(decoding bytes: [UInt8], id: ObjectID) throws(EnvelopeError) {
        func refuse(_ offset: Int, _ what: String) -> EnvelopeError { .malformed(id, offset: offset, what) }
        // The magic and the version come first: a newer version may have another header.
        guard bytes.count > Offset.version else { throw refuse(bytes.count, "it ends inside the header") }
        guard bytes.starts(with: Self.magic) else { throw refuse(Offset.magic, "it does not begin with CSE1") }
        guard bytes[Offset.version] == Self.version else {
            throw .unknownVersion(id, version: bytes[Offset.version])
        }
        guard bytes.count >= Offset.parents else { throw refuse(bytes.count, "it ends inside the header") }
        guard let kind = Kind(rawValue: bytes[Offset.kind]) else { throw refuse(Offset.kind, "the kind is unknown") }
        let parentCount = Int(bytes[Offset.parentCount])
        guard kind == .chunk ? parentCount == 1 : parentCount <= Self.maximumParents else {
            throw refuse(Offset.parentCount, "the number of parents is wrong")
        }
        guard bytes[Offset.reserved] == 0 else { throw refuse(Offset.reserved, "a reserved byte is not zero") }
        let header = bytes.withUnsafeBytes { raw in
            EnvelopeHeader(
                loading: raw, kind, parentCount: bytes.count < Self.byteCount(parents: parentCount) ? 0 : parentCount)
        }
        guard Self.isPossible(header.bodyBytes, kind) else {
            throw refuse(Offset.bodyBytes, "the length is not possible")
        }
        let end = Self.byteCount(parents: parentCount) + header.bodyBytes + Self.tagBytes
        guard bytes.count == end else {
            throw refuse(min(bytes.count, end), bytes.count < end ? "it is truncated" : "bytes follow its end")
        }
        guard header.id == id else { throw .authenticationFailed(id) }
        self = header
    }

    /// Reads the fields of at least ``byteCount(parents:)`` bytes.
    private init(loading bytes: UnsafeRawBufferPointer, _ kind: Kind, parentCount: Int) {
        func integer<Value: FixedWidthInteger>(_ offset: Int) -> Value {
            Value(bigEndian: bytes.loadUnaligned(fromByteOffset: offset, as: Value.self))
        }
        self.init(
            kind: kind, epoch: integer(Offset.epoch),
            repository: RepositoryID(FixedBytes(loading: bytes, at: Offset.repository)),
            id: ObjectID(FixedBytes(loading: bytes, at: Offset.id)),
            author: AuthorPseudonym(FixedBytes(loading: bytes, at: Offset.author)),
            generation: integer(Offset.generation),
            parents: (0..<parentCount).map { ObjectID(FixedBytes(loading: bytes, at: Self.byteCount(parents: $0))) },
            bodyBytes: Int(integer(Offset.bodyBytes) as UInt32))
    }

    private static func isPossible(_ bodyBytes: Int, _ kind: Kind) -> Bool {
        switch kind {
        case .commit: bodyBytes <= Limits.objectPlaintextBytes
        case .chunk: bodyBytes > 0 && bodyBytes <= Limits.objectPlaintextBytes
        case .manifest: ChunkManifest.isPossible(byteCount: bodyBytes)
        }
    }
}

/// Why an object of a remote was refused. Every case names the object; nothing of it was used.
public enum EnvelopeError: Error, Hashable, Sendable {
    /// The object is not what was sealed under this identifier: it was changed, exchanged, or made without the key.
    case authenticationFailed(ObjectID)
    /// The object is not a whole envelope; `offset` is where it deviates.
    case malformed(ObjectID, offset: Int, String)
    /// The object was written by a newer version of this library.
    case unknownVersion(ObjectID, version: UInt8)
    /// The object belongs to another repository.
    case otherRepository(ObjectID, found: RepositoryID)
    /// The object was sealed with another secret of the repository.
    case otherEpoch(ObjectID, found: UInt32, expected: UInt32)
    /// The commit is longer than ``Limits/commitBytes``.
    case payloadTooLarge(byteCount: Int, limit: Int)
    /// A commit has more than two parents.
    case tooManyParents(Int)
    /// The parts of a commit are not complete yet, or not the next one.
    case chunkMissing(ObjectID, commit: ObjectID)
}

extension EnvelopeError: CustomStringConvertible {
    public var description: String {
        switch self {
        case .authenticationFailed(let id):
            "authenticationFailed: Object \(id) is not what was sealed under this identifier. It was changed at the "
                + "remote, exchanged with another one, or made without the key. Let a store that has the commit reset this "
                + "remote and push; if that does not help, do not trust the remote."
        case .malformed(let id, let offset, let what):
            "malformed: Object \(id) is not a whole envelope: \(what) (offset \(offset)). It may still be on its way, as "
                + "in a folder that is synced. Fetch again later; if that does not help, let a store that has the commit reset "
                + "this remote and push."
        case .unknownVersion(let id, let version):
            "unknownVersion: Object \(id) has version \(version), which this version of CipherStore does not know. A "
                + "newer version wrote it. Update this program."
        case .otherRepository(let id, let found):
            "otherRepository: Object \(id) belongs to repository \(found). Remotes of two repositories were mixed up. "
                + "Check the address of the remote."
        case .otherEpoch(let id, let found, let expected):
            "otherEpoch: Object \(id) was sealed in epoch \(found) of the repository's key, and this key is of epoch "
                + "\(expected). Join the repository again with an invitation of that epoch."
        case .payloadTooLarge(let byteCount, let limit):
            "payloadTooLarge: A commit of \(byteCount) bytes cannot be pushed, the limit is \(limit). Divide the change "
                + "into several commits."
        case .tooManyParents(let count):
            "tooManyParents: A commit has \(count) parents, and two are the most. This is a defect of the program that "
                + "made it."
        case .chunkMissing(let id, let commit):
            "chunkMissing: Part \(id) of commit \(commit) is not there. It may still be on its way. Fetch again later."
        }
    }
}
