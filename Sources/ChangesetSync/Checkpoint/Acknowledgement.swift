import StoreCrypto

/// What a replica says of itself at a remote, in a place that it alone writes: up to where it has pushed and pulled, which
/// replicas it takes for retired, and the checkpoint that it knows. Docs/Formats/Envelope.md tabulates it.
struct Acknowledgement: Hashable, Sendable {
    static let magic = Array("CSAK".utf8)
    static let version: UInt8 = 1

    /// A checkpoint that a new replica begins with.
    struct Announcement: Hashable, Sendable {
        /// The object of the manifest.
        let manifest: ObjectID
        let commit: CommitID
        let generation: UInt64
        /// For each log the last entry up to which all are replaced.
        var replaced: RemoteCursor

        /// The one that replaces more.
        static func precedes(_ one: Announcement, _ other: Announcement) -> Bool {
            (one.generation, one.manifest) < (other.generation, other.manifest)
        }
    }

    let author: AuthorID
    /// The number of its last commit.
    var sequence: UInt64 = 0
    /// The log in which it pushes, and the last entry of it.
    let pusher: AuthorPseudonym
    var pushed: UInt64 = 0
    /// The commit that its rows are the state of: nothing that it makes later lacks it. Where it carries commits of other
    /// remotes over, nothing that it brings later does.
    var head: CommitID?
    /// By its clock, in milliseconds since 1970; for people only.
    var time: UInt64 = 0
    var retired: [AuthorID] = []
    var checkpoint: Announcement?
    /// One that it is making: it is not used before its maker has seen that no further replica has come meanwhile.
    var prepared: Announcement?

    func encoded() -> [UInt8] {
        var bytes = Self.magic
        bytes.append(Self.version)
        bytes += author.bytes
        bytes.append(bigEndian: sequence)
        bytes += pusher.bytes
        bytes.append(bigEndian: pushed)
        bytes.append(bigEndian: time)
        bytes.append(head == nil ? 0 : 1)
        bytes += head?.bytes ?? []
        bytes.append(bigEndian: UInt32(clamping: retired.count))
        for author in retired.sorted() { bytes += author.bytes }
        for announcement in [checkpoint, prepared] {
            bytes.append(announcement == nil ? 0 : 1)
            guard let announcement else { continue }
            bytes += announcement.manifest.bytes + announcement.commit.bytes
            bytes.append(bigEndian: announcement.generation)
            let replaced = announcement.replaced.encoded
            bytes.append(bigEndian: UInt32(clamping: replaced.count))
            bytes += replaced
        }
        return bytes
    }
}

extension Acknowledgement {
    /// Reads the bytes of ``encoded()``; every other encoding is refused.
    ///
    /// - Throws: ``CheckpointError``
    init(encoded bytes: [UInt8]) throws(CheckpointError) {
        var reader = ByteReader(bytes[...])
        try CheckpointError.begin(&reader, Self.magic, Self.version)
        guard let author = reader.take(AuthorID.byteCount).flatMap({ AuthorID(bytes: $0) }),
            let sequence = reader.integer(as: UInt64.self),
            let pusher = reader.take(AuthorPseudonym.byteCount).flatMap({ AuthorPseudonym(bytes: $0) }),
            let pushed = reader.integer(as: UInt64.self), let time = reader.integer(as: UInt64.self),
            let hasHead = reader.byte()
        else { throw CheckpointError(.truncated) }
        self.init(author: author, sequence: sequence, pusher: pusher, pushed: pushed, time: time)
        guard hasHead <= 1, author != .none else { throw CheckpointError(.impossible) }
        if hasHead == 1 {
            head = reader.take(CommitID.byteCount).flatMap { CommitID(bytes: $0) }
            guard head != nil else { throw CheckpointError(.truncated) }
        }
        guard let count = reader.integer(as: UInt32.self), Int(count) <= reader.remaining / AuthorID.byteCount else {
            throw CheckpointError(.truncated)
        }
        retired = (0..<count).compactMap { _ in reader.take(AuthorID.byteCount).flatMap { AuthorID(bytes: $0) } }
        guard zip(retired, retired.dropFirst()).allSatisfy({ $0 < $1 }) else { throw CheckpointError(.impossible) }
        checkpoint = try Self.announcement(&reader)
        prepared = try Self.announcement(&reader)
        guard reader.isAtEnd else { throw CheckpointError(.impossible) }
    }

    private static func announcement(_ reader: inout ByteReader) throws(CheckpointError) -> Announcement? {
        guard let isThere = reader.byte() else { throw CheckpointError(.truncated) }
        guard isThere <= 1 else { throw CheckpointError(.impossible) }
        if isThere == 0 { return nil }
        guard let manifest = reader.take(ObjectID.byteCount).flatMap({ ObjectID(bytes: $0) }),
            let commit = reader.take(CommitID.byteCount).flatMap({ CommitID(bytes: $0) }),
            let generation = reader.integer(as: UInt64.self), let length = reader.integer(as: UInt32.self),
            let replaced = reader.take(Int(length)).flatMap({ RemoteCursor(decoding: Array($0)) })
        else { throw CheckpointError(.truncated) }
        // That of a commit is a positive number of 64 bits in each store.
        guard (1...UInt64(Int64.max)).contains(generation) else { throw CheckpointError(.impossible) }
        return Announcement(manifest: manifest, commit: commit, generation: generation, replaced: replaced)
    }

    // MARK: At a remote

    /// Encrypts it for the place of its author.
    func sealed(with key: RepositoryKey) throws -> RemoteAcknowledgement {
        let name = try author.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        let content = CommitContent(parents: [], author: name, generation: 0, canonical: encoded())
        guard let envelope = try key.seal(content).first, envelope.bytes.count <= Limits.acknowledgementBytes else {
            throw SyncError(.payloadTooLarge, "Too many replicas are retired.")
        }
        return RemoteAcknowledgement(author: name, bytes: envelope.bytes)
    }

    /// Decrypts what a remote returned; nil where it is none of the author in whose place it was.
    init?(_ object: RemoteAcknowledgement, with key: RepositoryKey) throws {
        let place = EnvelopeHeader.Offset.id
        guard object.bytes.count >= EnvelopeHeader.byteCount(parents: 0),
            let id = ObjectID(bytes: object.bytes[place..<place + ObjectID.byteCount]),
            case .commit(let content)? = try? key.open(object.bytes, id: id),
            let read = try? Acknowledgement(encoded: content.canonical),
            try read.author.bytes.withUnsafeBytes({ try key.pseudonym(ofAuthor: $0) }) == object.author
        else { return nil }
        self = read
    }
}
