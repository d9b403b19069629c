import StoreCrypto

/// A commit as it goes into envelopes and comes out of them.
package struct CommitContent: Hashable, Sendable {
    package let parents: [ObjectID]
    /// The pseudonym of the commit's author; that of 16 zero bytes in a merge.
    package let author: AuthorPseudonym
    package let generation: UInt64
    /// The canonical bytes, which the identifier is made from.
    package let canonical: [UInt8]

    package init(parents: [ObjectID], author: AuthorPseudonym, generation: UInt64, canonical: [UInt8]) {
        self.parents = parents
        self.author = author
        self.generation = generation
        self.canonical = canonical
    }
}

/// The encrypted form of one object.
package struct Envelope: Hashable, Sendable {
    package let id: ObjectID
    package let bytes: [UInt8]
}

/// What an envelope contains, decrypted and authenticated.
package enum OpenedEnvelope: Sendable {
    case commit(CommitContent)
    /// A long commit: its chunks are to be fetched and added.
    case manifest(CommitAssembly)
    /// A part of the commit that is named.
    case chunk(commit: ObjectID, number: UInt64, bytes: [UInt8])
}

/// How the identifier of a commit is made from its canonical bytes.
package typealias CommitIdentifier = (UnsafeRawBufferPointer) throws -> ObjectID

extension RepositoryKey {
    /// Encrypts a commit. The same commit gives the same bytes, in every process and at any time.
    ///
    /// - Parameter identifier: Makes the identifier; by default ``commitID(of:)``.
    /// - Returns: The envelopes in the order in which they must be put: chunks first, the commit's own last.
    /// - Throws: ``EnvelopeError`` `payloadTooLarge`, `tooManyParents`; ``CryptoError``.
    package func seal(_ commit: CommitContent, identifier: CommitIdentifier? = nil) throws -> [Envelope] {
        let count = commit.canonical.count
        guard count <= Limits.commitBytes else {
            throw EnvelopeError.payloadTooLarge(byteCount: count, limit: Limits.commitBytes)
        }
        guard commit.parents.count <= EnvelopeHeader.maximumParents else {
            throw EnvelopeError.tooManyParents(commit.parents.count)
        }
        return try commit.canonical.withUnsafeBytes { canonical in
            let id = try identifier?(canonical) ?? commitID(of: canonical)
            func own(_ kind: EnvelopeHeader.Kind, bodyBytes: Int) -> EnvelopeHeader {
                EnvelopeHeader(
                    kind: kind, epoch: epoch, repository: repository, id: id, author: commit.author,
                    generation: commit.generation, parents: commit.parents, bodyBytes: bodyBytes)
            }
            guard count > Limits.objectPlaintextBytes else {
                return [try seal(canonical, under: own(.commit, bodyBytes: count))]
            }
            var envelopes = try sealChunks(of: id, canonical)
            let list = ChunkManifest(byteCount: count, chunks: envelopes.map(\.id)).encoded()
            try list.withUnsafeBytes { envelopes.append(try seal($0, under: own(.manifest, bodyBytes: $0.count))) }
            return envelopes
        }
    }

    private func sealChunks(of commit: ObjectID, _ canonical: UnsafeRawBufferPointer) throws -> [Envelope] {
        try stride(from: 0, to: canonical.count, by: Limits.objectPlaintextBytes).enumerated().map { number, start in
            let end = min(start + Limits.objectPlaintextBytes, canonical.count)
            let chunk = UnsafeRawBufferPointer(rebasing: canonical[start..<end])
            let id = try chunkID(of: commit, number: UInt64(number), chunk)
            let header = EnvelopeHeader(
                kind: .chunk, epoch: epoch, repository: repository, id: id, author: .nobody,
                generation: UInt64(number), parents: [commit], bodyBytes: chunk.count)
            return try seal(chunk, under: header)
        }
    }

    private func seal(_ body: UnsafeRawBufferPointer, under header: EnvelopeHeader) throws -> Envelope {
        let headerBytes = header.byteCount
        let total = headerBytes + body.count + EnvelopeHeader.tagBytes
        let bytes = try [UInt8](unsafeUninitializedCapacity: total) { output, written in
            output.initialize(repeating: 0)
            let whole = UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(output)[..<total])
            header.store(in: whole)
            let data = UnsafeRawBufferPointer(rebasing: whole[..<headerBytes])
            try AuthenticatedEncryption.seal(
                body, key: envelopeKey(header: data), nonce: Self.nonce, additionalData: data,
                into: UnsafeMutableRawBufferPointer(rebasing: whole[headerBytes...]))
            written = total
        }
        return Envelope(id: header.id, bytes: bytes)
    }

    /// Zeros: every key seals one content (``envelopeKey(header:)``).
    private static let nonce = [UInt8](repeating: 0, count: AuthenticatedEncryption.nonceBytes)

    /// Decrypts an object of a remote, authenticates it, and verifies its identifier.
    ///
    /// - Parameters:
    ///   - bytes: The object as the remote returned it; nothing is assumed of it.
    ///   - id: The identifier by which it was asked for.
    ///   - identifier: As for ``seal(_:identifier:)``.
    /// - Throws: ``EnvelopeError``, which names `id`; ``CryptoError``.
    package func open(
        _ bytes: [UInt8], id: ObjectID, identifier: CommitIdentifier? = nil
    ) throws -> OpenedEnvelope {
        let header = try EnvelopeHeader(decoding: bytes, id: id)
        guard header.repository == repository else {
            throw EnvelopeError.otherRepository(id, found: header.repository)
        }
        guard header.epoch == epoch else {
            throw EnvelopeError.otherEpoch(id, found: header.epoch, expected: epoch)
        }
        let body = try decrypt(bytes, under: header)
        let actual: ObjectID
        switch header.kind {
        case .manifest:
            guard let list = ChunkManifest(decoding: body) else {
                // Authentic, so a member made it: no remote can.
                throw EnvelopeError.malformed(id, offset: header.byteCount, "the list of its parts is wrong")
            }
            return .manifest(CommitAssembly(header: header, manifest: list))
        case .commit: actual = try body.withUnsafeBytes { try identifier?($0) ?? commitID(of: $0) }
        case .chunk:
            actual = try body.withUnsafeBytes {
                try chunkID(of: header.parents[0], number: header.generation, $0)
            }
        }
        guard actual == id else { throw EnvelopeError.authenticationFailed(id) }
        if header.kind == .chunk {
            return .chunk(commit: header.parents[0], number: header.generation, bytes: body)
        }
        return .commit(header.content(canonical: body))
    }

    private func decrypt(_ bytes: [UInt8], under header: EnvelopeHeader) throws -> [UInt8] {
        var body = [UInt8](repeating: 0, count: header.bodyBytes)
        let isAuthentic = try bytes.withUnsafeBytes { whole in
            try body.withUnsafeMutableBytes { body in
                let data = UnsafeRawBufferPointer(rebasing: whole[..<header.byteCount])
                return try AuthenticatedEncryption.open(
                    UnsafeRawBufferPointer(rebasing: whole[header.byteCount...]), key: envelopeKey(header: data),
                    nonce: Self.nonce, additionalData: data, into: body)
            }
        }
        guard isAuthentic else { throw EnvelopeError.authenticationFailed(header.id) }
        return body
    }
}

extension EnvelopeHeader {
    fileprivate func content(canonical: [UInt8]) -> CommitContent {
        CommitContent(parents: parents, author: author, generation: generation, canonical: canonical)
    }
}

/// A long commit that is put together from its chunks, in their order.
package struct CommitAssembly: Sendable {
    package let id: ObjectID
    /// The objects to fetch, in their order.
    package let chunks: [ObjectID]
    private let header: EnvelopeHeader
    private let byteCount: Int
    private var canonical: [UInt8] = []
    private var added = 0

    fileprivate init(header: EnvelopeHeader, manifest: ChunkManifest) {
        id = header.id
        self.header = header
        chunks = manifest.chunks
        byteCount = manifest.byteCount
    }

    /// The object that must be added next; nil when all are there.
    package var next: ObjectID? { added < chunks.count ? chunks[added] : nil }

    /// Adds the next chunk, as the remote returned it.
    ///
    /// - Throws: ``EnvelopeError``; the assembly is unchanged then.
    package mutating func add(_ bytes: [UInt8], with key: RepositoryKey) throws {
        guard let next else { throw EnvelopeError.malformed(id, offset: 0, "all of its parts are there already") }
        guard case .chunk(let commit, let number, let part) = try key.open(bytes, id: next), commit == id,
            number == UInt64(added), part.count == ChunkManifest.bytes(ofChunk: added, byteCount: byteCount)
        else { throw EnvelopeError.authenticationFailed(next) }
        canonical += part
        added += 1
    }

    /// The commit, when all of its chunks are added.
    ///
    /// - Parameter identifier: As for ``RepositoryKey/seal(_:identifier:)``.
    package consuming func finish(
        with key: RepositoryKey, identifier: CommitIdentifier? = nil
    ) throws -> CommitContent {
        if let next { throw EnvelopeError.chunkMissing(next, commit: id) }
        let actual = try canonical.withUnsafeBytes { try identifier?($0) ?? key.commitID(of: $0) }
        guard actual == id else { throw EnvelopeError.authenticationFailed(id) }
        return header.content(canonical: canonical)
    }
}

/// The body of a manifest: the length of the commit, and its chunks.
struct ChunkManifest: Hashable, Sendable {
    private static let countBytes = 8

    let byteCount: Int
    let chunks: [ObjectID]

    init(byteCount: Int, chunks: [ObjectID]) {
        self.byteCount = byteCount
        self.chunks = chunks
    }

    /// Whether a manifest can have this length.
    static func isPossible(byteCount: Int) -> Bool {
        let list = byteCount - countBytes
        return list >= 2 * ObjectID.byteCount && list % ObjectID.byteCount == 0
            && list / ObjectID.byteCount <= chunkCount(of: Limits.commitBytes)
    }

    static func chunkCount(of byteCount: Int) -> Int {
        (byteCount + Limits.objectPlaintextBytes - 1) / Limits.objectPlaintextBytes
    }

    /// All chunks but the last one are full.
    static func bytes(ofChunk number: Int, byteCount: Int) -> Int {
        min(Limits.objectPlaintextBytes, byteCount - number * Limits.objectPlaintextBytes)
    }

    func encoded() -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.append(bigEndian: UInt64(byteCount))
        for chunk in chunks { bytes += chunk.bytes }
        return bytes
    }

    /// - Returns: nil unless length and number of the chunks fit each other and the limits.
    init?(decoding bytes: [UInt8]) {
        guard Self.isPossible(byteCount: bytes.count) else { return nil }
        (byteCount, chunks) = bytes.withUnsafeBytes { raw in
            let count = UInt64(bigEndian: raw.loadUnaligned(as: UInt64.self))
            let chunks = stride(from: Self.countBytes, to: raw.count, by: ObjectID.byteCount)
                .map { ObjectID(FixedBytes(loading: raw, at: $0)) }
            return (Int(clamping: count), chunks)
        }
        guard byteCount > Limits.objectPlaintextBytes, byteCount <= Limits.commitBytes,
            chunks.count == Self.chunkCount(of: byteCount)
        else { return nil }
    }
}
