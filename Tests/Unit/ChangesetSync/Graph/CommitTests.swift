import Foundation
import StoreCrypto
import Testing

@testable import ChangesetSync

@Suite("Commits")
struct CommitTests {
    typealias F = DeltaFixture

    private static func id(_ first: UInt8) throws -> CommitID {
        try #require(CommitID(bytes: [first] + [UInt8](repeating: 9, count: 31)))
    }

    private func ordinary(parents: [CommitID] = []) throws -> Commit {
        Commit(
            kind: .ordinary, parents: parents, generation: parents.isEmpty ? 1 : 5,
            author: try #require(AuthorID(bytes: 1...16)), authorSequence: 3,
            time: HybridTime(wallClock: 1_700_000_000_000),
            schema: try #require(SchemaID(bytes: 21...36)), meta: "{\"by\": \"Ω\"}",
            digests: [
                try #require(TableDigest(table: "Größe", bytes: 41...56)),
                try #require(TableDigest(table: "player", bytes: 61...76)),
            ],
            deltas: [try F.sample().encoded()[...]])
    }

    private func merge() throws -> Commit {
        var merge = try ordinary(parents: [Self.id(1), Self.id(2)])
        (merge.kind, merge.author, merge.authorSequence, merge.meta) = (.merge, .none, 0, "")
        merge.deltas.append(Delta.empty.encoded()[...])
        return merge
    }

    @Test("the bytes and identifiers of another implementation are reproduced", arguments: ChangesetVectors.all.commits)
    func vectors(vector: ChangesetVectors.Encoded) throws {
        let commit = try Commit(encoded: F.bytes(vector.bytes))
        #expect(F.hex(try commit.encoded()) == vector.bytes)
        // The vectors name the key of identifiers itself, which a repository derives from its secret.
        let key = SecretBytes(copying: F.bytes(try #require(vector.key)))
        let code = try MessageAuthentication.hmac(.sha256, key: key, Array(F.bytes(vector.bytes)))
        #expect(F.hex(code[...]) == vector.id)
        for index in commit.deltas.indices { #expect(throws: Never.self) { try commit.delta(fromParent: index) } }
    }

    @Test("reading gives what was written, for every kind of commit")
    func roundTrips() throws {
        var checkpoint = try ordinary(parents: [Self.id(1)])
        checkpoint.kind = .checkpoint
        for commit in try [ordinary(), ordinary(parents: [Self.id(1)]), merge(), checkpoint] {
            let bytes = try commit.encoded()
            #expect(try Commit(encoded: bytes[...]) == commit)
            #expect(try Commit(encoded: ([0, 0] + bytes)[2...]) == commit)
        }
        #expect(try merge().delta(fromParent: 1) == .empty)
        #expect(try merge().delta(fromParent: 0) == F.sample())
        #expect(throws: DeltaError.self) { try ordinary().delta(fromParent: 1) }
    }

    @Test("the identifier depends on every field and on the key")
    func identifiers() throws {
        let commit = try ordinary(parents: [Self.id(1)])
        let key = try Samples.key(secret: 0)
        var others = [commit]
        func add(_ change: (inout Commit) throws -> Void) rethrows {
            var other = commit
            try change(&other)
            others.append(other)
        }
        try add { $0.parents = [try Self.id(2)] }
        add {
            $0.parents = []; $0.generation = 1
        }
        add { $0.kind = .checkpoint }
        add { $0.generation += 1 }
        try add { $0.author = try #require(AuthorID(bytes: 2...17)) }
        add { $0.authorSequence += 1 }
        add { $0.time = HybridTime(rawValue: $0.time.rawValue + 1) }
        try add { $0.schema = try #require(SchemaID(bytes: 22...37)) }
        add { $0.meta += " " }
        add { $0.digests.removeLast() }
        try add { $0.deltas = [try F.sample().inverted.encoded()[...]] }
        let ids = try others.map { try $0.id(key: key) } + [commit.id(key: Samples.key(secret: 1))]
        #expect(Set(ids).count == ids.count)
        #expect(try commit.id(key: key) == ids[0])
    }

    @Test("a merge is the same whoever makes it: nobody's name, time or words are in it")
    func merges() throws {
        #expect(throws: Never.self) { try merge().encoded() }
        func refuses(_ field: CommitError.Field, _ change: (inout Commit) throws -> Void) throws {
            var commit = try merge()
            try change(&commit)
            #expect(throws: CommitError(.impossible(field))) { try commit.encoded() }
        }
        try refuses(.author) { $0.author = try #require(AuthorID(bytes: 1...16)) }
        try refuses(.authorSequence) { $0.authorSequence = 1 }
        try refuses(.meta) { $0.meta = "{}" }
        try refuses(.parents) { $0.parents.reverse() }
        try refuses(.parents) { $0.parents[1] = $0.parents[0] }
        try refuses(.parents) { $0.parents.removeLast() }
        try refuses(.deltas) { $0.deltas.removeLast() }
        try refuses(.deltas) { $0.deltas[1] = [] }
    }

    @Test("an ordinary commit has one parent or none, an author and one delta")
    func ordinaryCommits() throws {
        func refuses(_ field: CommitError.Field, parents: [CommitID] = [], _ change: (inout Commit) throws -> Void)
            throws
        {
            var commit = try ordinary(parents: parents)
            try change(&commit)
            #expect(throws: CommitError(.impossible(field))) { try commit.encoded() }
        }
        let parent = try Self.id(1)
        try refuses(.parents, parents: [parent, Self.id(2)]) { _ in }
        try refuses(.generation) { $0.generation = 0 }
        try refuses(.generation) { $0.generation = 2 }
        try refuses(.generation, parents: [parent]) { $0.generation = 1 }
        try refuses(.generation, parents: [parent]) { $0.generation = 1 << 63 }
        try refuses(.author) { $0.author = .none }
        try refuses(.authorSequence) { $0.authorSequence = 0 }
        try refuses(.authorSequence) { $0.authorSequence = 1 << 63 }
        try refuses(.time) { $0.time = HybridTime(rawValue: 1 << 63) }
        try refuses(.meta) { $0.meta = String(repeating: "x", count: Limits.commitMetaBytes + 1) }
        try refuses(.digests) { $0.digests.reverse() }
        try refuses(.digests) { $0.digests[1] = $0.digests[0] }
        try refuses(.digests) { $0.digests[0] = try #require(TableDigest(table: "", bytes: 1...16)) }
        try refuses(.deltas) { $0.deltas = [] }
        try refuses(.deltas) { $0.deltas.append([1, 0]) }
    }

    // MARK: Hostile bytes

    @Test("every truncation is an error, and so is a byte at the end")
    func truncations() throws {
        for commit in try [ordinary(), merge()] {
            let bytes = try commit.encoded()
            for count in 0..<bytes.count {
                let error = #expect(throws: CommitError.self, "\(count) bytes") { try Commit(encoded: bytes[..<count]) }
                if let offset = error?.offset { #expect(offset <= count) }
            }
            #expect(throws: CommitError(.trailingBytes, at: bytes.count)) { try Commit(encoded: (bytes + [0])[...]) }
        }
    }

    @Test("each byte with other values is an error or another commit with exactly these bytes")
    func flippedBytes() throws {
        for commit in try [ordinary(parents: [Self.id(1)]), merge()] {
            let bytes = try commit.encoded()
            for index in bytes.indices {
                for value in F.otherValues(of: bytes[index]) {
                    var changed = bytes
                    changed[index] = value
                    guard let other = try? Commit(encoded: changed[...]) else { continue }
                    let again = try other.encoded()
                    #expect(other != commit && again == changed, "byte \(index) as \(value)")
                    _ = try? other.delta()
                }
            }
        }
    }

    @Test("a length beyond the bytes is refused before memory is taken")
    func lengths() throws {
        let bytes = try ordinary().encoded()
        // The lengths of meta, of the list of digests, and of the first delta.
        let meta = Commit.Offset.parents + 8 + 16 + 8 + 8 + 16
        let digests = meta + 4 + 12
        for (offset, field) in [(meta, CommitError.Field.meta), (digests, .digests), (digests + 4, .digests)] {
            for length: [UInt8] in [[0xff, 0xff, 0xff, 0xff], [0x7f, 0xff, 0xff, 0xff], [0x80, 0, 0, 0]] {
                var changed = bytes
                changed.replaceSubrange(offset..<offset + 4, with: length)
                let error = #expect(throws: CommitError.self) { try Commit(encoded: changed[...]) }
                #expect(error?.code == .truncated(field))
            }
        }
    }

    @Test("versions, kinds and numbers of parents are known ones, and texts are UTF-8")
    func kinds() throws {
        let bytes = try ordinary().encoded()
        func code(_ offset: Int, _ value: UInt8) -> CommitError? {
            var changed = bytes
            changed[offset] = value
            return #expect(throws: CommitError.self) { try Commit(encoded: changed[...]) }
        }
        #expect(code(Commit.Offset.version, 2) == CommitError(.unsupportedVersion(2), at: 0))
        #expect(code(Commit.Offset.kind, 3) == CommitError(.impossible(.kind), at: 1))
        #expect(code(Commit.Offset.parentCount, 3) == CommitError(.impossible(.parents), at: 2))
        let meta = Commit.Offset.parents + 8 + 16 + 8 + 8 + 16
        #expect(code(meta + 4, 0xff) == CommitError(.impossible(.meta), at: meta))
    }

    // MARK: Identifiers

    @Test("an identifier is 32 bytes or 64 lower-case hexadecimal digits")
    func texts() throws {
        let bytes = (0..<32).map { UInt8($0 * 8) }
        let id = try #require(CommitID(bytes: bytes))
        #expect(id.bytes == bytes)
        #expect(id.description == F.hex(bytes) && CommitID(id.description) == id)
        let digits = id.description
        let rest = String(digits.dropFirst())
        var refused: [String] = ["", String(digits.dropLast()), digits + "0", digits.uppercased()]
        refused += ["+" + rest, " " + rest, "g" + rest, "é" + String(rest.dropFirst())]
        refused.append(String(digits.prefix(48)) + "-" + String(digits.suffix(15)))
        for text in refused { #expect(CommitID(text) == nil, "\(text)") }
        #expect(CommitID(bytes: bytes.dropLast()) == nil && CommitID(bytes: bytes + [0]) == nil)
        #expect(
            AuthorID(bytes: bytes) == nil && AuthorID(bytes: bytes.prefix(16))?.description == F.hex(bytes.prefix(16)))
        #expect(AuthorID.none.bytes == [UInt8](repeating: 0, count: 16))
        #expect(try AuthorID.random() != AuthorID.random())
    }

    @Test("identifiers have the order of their bytes")
    func order() throws {
        var samples: [[UInt8]] = []
        for place in 0..<32 {
            for value: UInt8 in [0, 1, 0x7f, 0x80, 0xff] {
                var sample = [UInt8](repeating: 0x55, count: 32)
                sample[place] = value
                samples.append(sample)
            }
        }
        let ids = try samples.map { try #require(CommitID(bytes: $0)) }
        for (left, leftID) in zip(samples, ids) {
            for (right, rightID) in zip(samples, ids) {
                #expect((leftID < rightID) == left.lexicographicallyPrecedes(right))
            }
        }
        let authors = try samples.map { try #require(AuthorID(bytes: $0.prefix(16))) }
        #expect(authors[0] < authors[4] && !(authors[4] < authors[0]))
    }
}
