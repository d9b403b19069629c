import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Envelopes")
struct EnvelopeTests {
    private static let chunk = Limits.objectPlaintextBytes

    private func error(_ body: () throws -> some Any) -> EnvelopeError? {
        do {
            _ = try body()
            return nil
        } catch { return error as? EnvelopeError }
    }

    @Test(
        "a commit of any length comes back as it was, and no object is longer than the limit",
        arguments: [0, 1, 511, chunk - 1, chunk, chunk + 1, 5 << 20], [0, 1, 2])
    func roundTrip(byteCount: Int, parents: Int) throws {
        let key = try Samples.key()
        let commit = Samples.commit(Samples.bytes(byteCount), parents: parents)
        let envelopes = try key.seal(commit)
        let expected = byteCount <= Self.chunk ? 1 : (byteCount + Self.chunk - 1) / Self.chunk + 1
        #expect(envelopes.count == expected)
        #expect(envelopes.allSatisfy { $0.bytes.count <= Limits.envelopeBytes })
        let opened = try key.openAll(envelopes)
        // Not by #expect(==): it would print megabytes.
        #expect(opened.parents == commit.parents && opened.author == commit.author && opened.generation == 7)
        let isSame = opened.canonical == commit.canonical
        #expect(isSame)
        let id = try commit.canonical.withUnsafeBytes { try key.commitID(of: $0) }
        #expect(envelopes.last?.id == id)
    }

    @Test("a commit of 250 bytes takes less than 512 bytes at a remote")
    func isSmall() throws {
        let envelopes = try Samples.key().seal(Samples.commit(Samples.bytes(250)))
        #expect(envelopes[0].bytes.count == 250 + EnvelopeHeader.byteCount(parents: 1) + 16)
        #expect(envelopes[0].bytes.count <= 512)
    }

    @Test("the same commit gives the same bytes, whoever seals it", arguments: [0, 300, 2 * chunk + 17])
    func isDeterministic(byteCount: Int) throws {
        let commit = Samples.commit(Samples.bytes(byteCount))
        let first = try Samples.key().seal(commit)
        let second = try Samples.key().seal(commit)
        let isSame = first == second
        #expect(isSame)
    }

    @Test("whatever byte of an envelope is changed, it is refused with its identifier", arguments: [0, 1, 200])
    func everyByte(byteCount: Int) throws {
        let key = try Samples.key()
        let envelope = try key.seal(Samples.commit(Samples.bytes(byteCount), parents: 2))[0]
        for position in envelope.bytes.indices {
            for mask: UInt8 in [1, 0x80, 0xFF] {
                var bytes = envelope.bytes
                bytes[position] ^= mask
                let found = error { try key.open(bytes, id: envelope.id) }
                #expect(found?.object == envelope.id, "byte \(position) ^ \(mask)")
            }
        }
    }

    @Test("whatever byte of a manifest or a chunk is changed, it is refused with its identifier")
    func everyByteOfParts() throws {
        let key = try Samples.key()
        let envelopes = try key.seal(Samples.commit(Samples.bytes(Self.chunk + 40)))
        for envelope in envelopes.suffix(2) {
            for position in envelope.bytes.indices {
                var bytes = envelope.bytes
                bytes[position] ^= 1
                let found = error { try key.open(bytes, id: envelope.id) }
                #expect(found?.object == envelope.id, "byte \(position)")
            }
        }
    }

    @Test("an envelope that was truncated or extended is refused with its identifier")
    func otherLengths() throws {
        let key = try Samples.key()
        let envelope = try key.seal(Samples.commit(Samples.bytes(60)))[0]
        for count in envelope.bytes.indices {
            let found = error { try key.open(Array(envelope.bytes[..<count]), id: envelope.id) }
            #expect(found?.object == envelope.id, "\(count) bytes")
        }
        for extra in [1, 16, 4096] {
            let longer = envelope.bytes + [UInt8](repeating: 0, count: extra)
            let found = error { try key.open(longer, id: envelope.id) }
            #expect(found == .malformed(envelope.id, offset: envelope.bytes.count, "bytes follow its end"))
        }
        // A length that claims gigabytes is refused before memory is taken.
        var huge = envelope.bytes
        huge[EnvelopeHeader.Offset.bodyBytes] = 0xFF
        let found = error { try key.open(huge, id: envelope.id) }
        #expect(found == .malformed(envelope.id, offset: 12, "the length is not possible"))
    }

    @Test("bodies, parents, identifiers and whole envelopes that were exchanged are refused")
    func exchanged() throws {
        let key = try Samples.key()
        let one = try key.seal(Samples.commit(Samples.bytes(100, seed: 1), parents: 2))[0]
        let other = try key.seal(Samples.commit(Samples.bytes(100, seed: 2), parents: 2))[0]
        let start = EnvelopeHeader.byteCount(parents: 2)
        let bodies = Array(one.bytes[..<start] + other.bytes[start...])
        #expect(error { try key.open(bodies, id: one.id) } == .authenticationFailed(one.id))
        let parents = Array(one.bytes[..<88] + one.bytes[120..<152] + one.bytes[88..<120] + one.bytes[152...])
        #expect(error { try key.open(parents, id: one.id) } == .authenticationFailed(one.id))
        #expect(error { try key.open(other.bytes, id: one.id) } == .authenticationFailed(one.id))
        let renamed = Array(other.bytes[..<32] + one.id.bytes + other.bytes[64...])
        #expect(error { try key.open(renamed, id: one.id) } == .authenticationFailed(one.id))
    }

    @Test("an envelope of another repository, epoch or version is told apart")
    func replayed() throws {
        let key = try Samples.key()
        let commit = Samples.commit(Samples.bytes(100))
        let envelope = try key.seal(commit)[0]
        let neighbour = try Samples.key(repository: 0x10)
        #expect(
            error { try neighbour.open(envelope.bytes, id: envelope.id) }
                == .otherRepository(envelope.id, found: key.repository))
        // With the name of the other repository written into it.
        let forged = Array(envelope.bytes[..<16] + neighbour.repository.bytes + envelope.bytes[32...])
        #expect(error { try neighbour.open(forged, id: envelope.id) } == .authenticationFailed(envelope.id))
        let later = try Samples.key(epoch: 2)
        #expect(
            error { try later.open(envelope.bytes, id: envelope.id) }
                == .otherEpoch(envelope.id, found: 1, expected: 2))
        var renumbered = envelope.bytes
        renumbered[EnvelopeHeader.Offset.epoch + 3] = 2
        #expect(error { try later.open(renumbered, id: envelope.id) } == .authenticationFailed(envelope.id))
        var newer = envelope.bytes
        newer[EnvelopeHeader.Offset.version] = 2
        #expect(error { try key.open(newer, id: envelope.id) } == .unknownVersion(envelope.id, version: 2))
        // A newer version may have a shorter header.
        #expect(
            error { try key.open(Array(newer[..<9]), id: envelope.id) } == .unknownVersion(envelope.id, version: 2))
        let stranger = try Samples.key(secret: 9)
        #expect(error { try stranger.open(envelope.bytes, id: envelope.id) } == .authenticationFailed(envelope.id))
        let message = EnvelopeError.otherEpoch(envelope.id, found: 1, expected: 2).description
        #expect(message.contains(envelope.id.description))
    }

    @Test("what a member sealed under an identifier that is not its content's is refused")
    func wrongIdentifier() throws {
        let key = try Samples.key()
        let commit = Samples.commit(Samples.bytes(100))
        let lie = try key.seal(commit, identifier: { _ in Samples.id(5) })[0]
        #expect(error { try key.open(lie.bytes, id: lie.id) } == .authenticationFailed(lie.id))
        let opened = try key.open(lie.bytes, id: lie.id, identifier: { _ in Samples.id(5) })
        guard case .commit(let content) = opened else { return #expect(Bool(false), "not a commit") }
        #expect(content == commit)
    }

    @Test("headers that differ in anything have different keys, so no nonce is used twice")
    func keys() throws {
        let key = try Samples.key()
        let envelope = try key.seal(Samples.commit(Samples.bytes(8), parents: 2))[0]
        let header = Array(envelope.bytes[..<EnvelopeHeader.byteCount(parents: 2)])
        func envelopeKey(_ header: [UInt8], _ key: RepositoryKey) throws -> [UInt8] {
            try header.withUnsafeBytes { try key.envelopeKey(header: $0) }.withBytes { Array($0) }
        }
        var keys = Set([try envelopeKey(header, key)])
        for position in header.indices {
            var changed = header
            changed[position] ^= 1
            keys.insert(try envelopeKey(changed, key))
        }
        keys.insert(try envelopeKey(header, Samples.key(repository: 1)))
        keys.insert(try envelopeKey(header, Samples.key(secret: 1)))
        #expect(keys.count == header.count + 3)
    }

    @Test("chunks are taken in their order, and only those of the commit")
    func assembling() throws {
        let key = try Samples.key()
        let envelopes = try key.seal(Samples.commit(Samples.bytes(2 * Self.chunk + 9)))
        let others = try key.seal(Samples.commit(Samples.bytes(2 * Self.chunk + 9, seed: 2)))
        guard case .manifest(let whole) = try key.open(envelopes[3].bytes, id: envelopes[3].id) else {
            return #expect(Bool(false), "not a manifest")
        }
        #expect(whole.chunks == envelopes.prefix(3).map(\.id))
        var assembly = whole
        #expect(error { try assembly.add(envelopes[1].bytes, with: key) } == .authenticationFailed(envelopes[0].id))
        #expect(error { try assembly.add(others[0].bytes, with: key) } == .authenticationFailed(envelopes[0].id))
        #expect(assembly.next == envelopes[0].id)
        try assembly.add(envelopes[0].bytes, with: key)
        let early = assembly
        #expect(
            error { try early.finish(with: key) } == .chunkMissing(envelopes[1].id, commit: envelopes[3].id))
        try assembly.add(envelopes[1].bytes, with: key)
        try assembly.add(envelopes[2].bytes, with: key)
        #expect(assembly.next == nil)
        #expect(error { try assembly.add(envelopes[2].bytes, with: key) } != nil)
        let finished = try assembly.finish(with: key)
        #expect(finished.canonical.count == 2 * Self.chunk + 9)
        // An identifier that is not made from all the bytes.
        var complete = whole
        for envelope in envelopes.prefix(3) { try complete.add(envelope.bytes, with: key) }
        let kept = complete
        #expect(
            error { try kept.finish(with: key, identifier: { _ in Samples.id(1) }) }
                == .authenticationFailed(envelopes[3].id))
    }

    @Test("equal chunks of one commit, and of two commits, are different objects at the remote")
    func equalChunks() throws {
        let key = try Samples.key()
        let zeros = [UInt8](repeating: 0, count: 2 * Self.chunk)
        let first = try key.seal(Samples.commit(zeros))
        let second = try key.seal(Samples.commit(zeros + [1]))
        let ids = Set((first + second).map(\.id))
        #expect(ids.count == first.count + second.count)
    }

    @Test("a commit with three parents, and one over the limit, are refused when they are sealed")
    func refusedSealing() throws {
        let key = try Samples.key()
        #expect(error { try key.seal(Samples.commit([1], parents: 3)) } == .tooManyParents(3))
        #expect(ChunkManifest.isPossible(byteCount: 8 + 32 * 1800))
        #expect(!ChunkManifest.isPossible(byteCount: 8 + 32 * 1801))
        #expect(!ChunkManifest.isPossible(byteCount: 8 + 32))
        let list = ChunkManifest(byteCount: Self.chunk + 1, chunks: [Samples.id(1), Samples.id(2)])
        #expect(ChunkManifest(decoding: list.encoded()) == list)
        let wrong = ChunkManifest(byteCount: Self.chunk, chunks: list.chunks)
        #expect(ChunkManifest(decoding: wrong.encoded()) == nil)
        #expect(ChunkManifest(decoding: [UInt8](repeating: 0xFF, count: 72)) == nil)
    }

    @Test("the key prints nothing of itself, and its pseudonyms differ from what they stand for")
    func secrets() throws {
        let key = try RepositoryKey.random()
        #expect("\(key)" == "RepositoryKey(32 bytes)")
        #expect(String(reflecting: key) == "RepositoryKey(32 bytes)")
        #expect(Mirror(reflecting: key).children.isEmpty)
        let author = Samples.bytes(16)
        let pseudonym = try author.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) }
        #expect(pseudonym.bytes != author)
        let other = try RepositoryKey.random()
        #expect(try author.withUnsafeBytes { try other.pseudonym(ofAuthor: $0) } != pseudonym)
        #expect(throws: CryptoError.self) {
            try RepositoryKey(repository: key.repository, epoch: 1, secret: SecretBytes(copying: [1]))
        }
    }

    @Test("no plaintext is in an envelope", arguments: [64, chunk + 64])
    func noPlaintext(byteCount: Int) throws {
        let needle = Array("a row that nobody may read at the remote".utf8)
        let canonical = Samples.bytes(byteCount - needle.count) + needle
        let author = Samples.bytes(16, seed: 3)
        for envelope in try Samples.key().seal(Samples.commit(canonical)) {
            for part in [needle, author, Array(canonical[..<24])] {
                let isThere = envelope.bytes.indices.contains { envelope.bytes[$0...].starts(with: part) }
                #expect(!isThere)
            }
        }
    }
}

@Suite("Identifiers of repositories, objects and authors")
struct IdentifierTests {
    @Test("they come back from their bytes and their text, and nothing else makes one")
    func forms() throws {
        let bytes = Samples.bytes(32)
        let id = try #require(ObjectID(bytes: bytes))
        #expect(id.bytes == bytes && ObjectID(id.description) == id && id.description.count == 64)
        #expect(ObjectID(bytes: bytes.dropLast()) == nil && ObjectID(bytes: bytes + [0]) == nil)
        let text = id.description
        #expect(ObjectID(text.uppercased()) == nil && ObjectID(text.dropLast()) == nil && ObjectID("") == nil)
        #expect(ObjectID(text.dropLast() + "g") == nil && ObjectID(text.dropLast() + "é") == nil)
        let author = try #require(AuthorPseudonym("000102030405060708090a0b0c0d0eff"))
        #expect(author.bytes == (0..<15).map { UInt8($0) } + [255])
        #expect(RepositoryID("000102030405060708090a0b0c0d0eff")?.bytes == author.bytes)
    }

    @Test("they are in the order of their bytes")
    func order() {
        let ids = (0..<300).map { ObjectID(bytes: Samples.bytes(32, seed: UInt64($0) + 1))! }
        let sorted = ids.sorted().map(\.bytes)
        #expect(sorted == ids.map(\.bytes).sorted { $0.lexicographicallyPrecedes($1) })
    }
}

extension EnvelopeError {
    /// The object that an error names.
    var object: ObjectID? {
        switch self {
        case .authenticationFailed(let id), .malformed(let id, _, _), .unknownVersion(let id, _),
            .otherRepository(let id, _), .otherEpoch(let id, _, _), .chunkMissing(let id, _):
            id
        case .payloadTooLarge, .tooManyParents: nil
        }
    }
}
