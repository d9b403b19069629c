import TestKit
import Testing

@testable import ChangesetSync

@Suite("Bytes of commits")
struct CommitCodecTests {
    static let repository = RepositoryID(bytes: Array(repeating: 7, count: 16)) ?? .zero
    static let author = ReplicaID(bytes: Array(1...16)) ?? .zero

    private func decode(_ body: ArraySlice<UInt8>, like commit: Commit) throws -> EncodedCommit {
        try EncodedCommit(
            decoding: body, author: commit.author, number: commit.number, previous: commit.previous,
            in: Self.repository)
    }

    @Test("random commits are equal after encoding and decoding, and have the same bytes and hash")
    func roundTrips() throws {
        let seed = Seed()
        for index in 0..<2_000 {
            var random = RandomCommit(seed.numbers(index))
            let commit = try random.commit()
            let encoded = try EncodedCommit(commit, in: Self.repository)
            let decoded = try decode(encoded.body[...], like: commit)
            #expect(decoded.commit == commit, "\(seed) \(index)")
            #expect(Array(decoded.commit.writes) == Array(commit.writes), "\(seed) \(index)")
            #expect(decoded.body == encoded.body && decoded.hash == encoded.hash, "\(seed) \(index)")
        }
    }

    @Test("every truncation of a commit is a typed error, or a commit with exactly these bytes")
    func truncations() throws {
        let seed = Seed()
        for index in 0..<5 {
            var random = RandomCommit(seed.numbers(index))
            let commit = try random.commit()
            let body = try EncodedCommit(commit, in: Self.repository).body
            for count in 0..<body.count { expectRefusalOrSameBytes(body[..<count], like: commit, "\(seed) \(index)") }
        }
    }

    @Test("every flipped byte of a commit is a typed error, or another commit with exactly these bytes")
    func flippedBytes() throws {
        let seed = Seed()
        for index in 0..<2 {
            var random = RandomCommit(seed.numbers(index))
            let commit = try random.commit()
            let encoded = try EncodedCommit(commit, in: Self.repository)
            var body = encoded.body
            for place in body.indices {
                let former = body[place]
                for mask in [0x01, 0x02, 0x7f, 0x80, 0xff] as [UInt8] {
                    body[place] = former ^ mask
                    expectRefusalOrSameBytes(body[...], like: commit, "\(seed) \(index)", hash: encoded.hash)
                }
                body[place] = former
            }
        }
    }

    private func expectRefusalOrSameBytes(
        _ body: ArraySlice<UInt8>, like commit: Commit, _ case: String, hash: CommitHash? = nil
    ) {
        do {
            let decoded = try decode(body, like: commit)
            #expect(decoded.body == Array(body) && decoded.hash != hash, "\(`case`)")
            #expect(Array(decoded.commit.writes).count == decoded.commit.writes.count, "\(`case`)")
        } catch let error as CommitError {
            #expect(error.offset.map { (0...body.count).contains($0) } ?? true, "\(`case`) \(error)")
        } catch {
            Issue.record("\(`case`) \(error)")
        }
    }

    @Test("a name keeps its bytes, also beside a name that Unicode takes for the same")
    func nameBytes() throws {
        let shape = WriteShape(
            .insert, "nai\u{308}ve", keyCount: 1, columns: [ColumnID("naïve"), ColumnID("nai\u{308}ve")].sorted())
        let writes = try Writes(
            [Write(shape, key: Cells([.integer(1)]), values: Cells([.null, .null]))], author: Self.author)
        let read = try Writes(decoding: writes.bytes, author: Self.author).map(\.shape)
        #expect(read == [shape])
        #expect(Set(read[0].columns.map { Array($0.name.text.utf8) }).count == 2)
    }

    @Test("a commit of a later version, with another flag, and of no possible number is refused")
    func versions() throws {
        let writes = try Writes([], author: Self.author)
        let commit = Commit(
            author: Self.author, number: 1, previous: .zero, time: HybridTime(rawValue: 5), writes: writes)
        var body = try EncodedCommit(commit, in: Self.repository).body
        func code() -> CommitError.Code? {
            #expect(throws: CommitError.self) { try decode(body[...], like: commit) }?.code
        }
        body[0] = 2
        #expect(code() == .unsupportedVersion(2))
        (body[0], body[1]) = (1, 2)
        #expect(code() == .unknownFlags(2))
        body[1] = 0
        body[2] = 0x80
        #expect(code() == .timeTooLate)
        #expect(throws: CommitError(.number)) {
            let none = Commit(author: Self.author, number: 0, previous: .zero, time: .latest, writes: writes)
            _ = try EncodedCommit(none, in: Self.repository)
        }
    }

    @Test("the hash depends on the repository, the author, the number, the hash before it and each byte")
    func hashes() throws {
        let writes = try Writes([], author: Self.author)
        let commit = Commit(author: Self.author, number: 2, previous: .zero, time: .latest, writes: writes)
        let body = try EncodedCommit(commit, in: Self.repository).body[...]
        let other = ReplicaID(bytes: Array(repeating: 9, count: 16)) ?? .zero
        let hash = try decode(body, like: commit).hash
        let variants = [
            try EncodedCommit(decoding: body, author: other, number: 2, previous: .zero, in: Self.repository),
            try EncodedCommit(decoding: body, author: Self.author, number: 3, previous: .zero, in: Self.repository),
            try EncodedCommit(decoding: body, author: Self.author, number: 2, previous: hash, in: Self.repository),
            try EncodedCommit(decoding: body, author: Self.author, number: 2, previous: .zero, in: .zero),
        ]
        #expect(Set(variants.map(\.hash) + [hash]).count == 5)
    }

    // MARK: Sizes

    @Test("a commit of one row with ten columns takes 200 bytes at most, and one that changes a cell 100")
    func smallCommits() throws {
        let columns = (0..<10).map { ColumnID(Name("column\($0)")) }.sorted()
        let insert = Write(
            WriteShape(.insert, "player", keyCount: 1, columns: columns), key: Cells([.integer(1_000_000)]),
            values: Cells((0..<10).map { $0 % 2 == 0 ? .integer(Int64($0) * 1000) : .string("text \($0)") }))
        let incarnation = Dot(author: .zero, number: 70_000, tag: nil)
        let update = Write(
            WriteShape(.update, "player", keyCount: 1, columns: [columns[0]]), key: Cells([.integer(1_000_000)]),
            incarnation: incarnation, values: Cells([.integer(77)]))
        let tip = AuthorTips(author: .zero, tips: [Tip(number: 70_001, tag: .zero)])
        func bytes(_ write: Write, _ context: [AuthorTips]) throws -> Int {
            let commit = Commit(
                author: Self.author, number: 100_000, previous: .zero, time: HybridTime(wallClock: 1_800_000_000_000),
                context: context, writes: try Writes([write], author: Self.author))
            return try EncodedCommit(commit, in: Self.repository).bodyBytes
        }
        let sizes = (insert: try bytes(insert, []), update: try bytes(update, []), both: try bytes(update, [tip]))
        #expect(sizes.insert <= 200 && sizes.update <= 100 && sizes.both <= 120, "\(sizes)")
    }

    @Test("100,000 inserted rows take the bytes of their cells and one more each")
    func manyRows() throws {
        let shape = WriteShape(.insert, "player", keyCount: 1, columns: [ColumnID("score")])
        let rows = (0..<100_000).map {
            Write(shape, key: Cells([.integer(Int64($0) + 70_000)]), values: Cells([.integer(Int64($0) % 100 + 2)]))
        }
        let writes = try Writes(rows, author: Self.author)
        #expect(writes.bytes.count < 100_000 * (1 + 4 + 2) + 100)
        #expect(try Writes(decoding: writes.bytes, author: Self.author).count == 100_000)
    }
}
