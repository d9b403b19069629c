import Foundation
import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

/// The examples were made by `Keys/generators/read_commits.py --example`, which follows the documents alone.
@Suite("Docs/Formats/Commit.md, Segment.md and Members.md")
struct JoinDocumentTests {
    private static let root = (0..<5).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

    private let repository = RepositoryID(bytes: 0xa0...0xaf) ?? .zero
    private let author = ReplicaID(bytes: 1...16) ?? .zero

    private func text(_ name: String) throws -> String {
        try String(contentsOf: Self.root.appending(path: "Docs/Formats/\(name).md"), encoding: .utf8)
    }

    private func block(_ mark: String, _ name: String) throws -> String {
        let parts = try text(name).components(separatedBy: "<!-- \(mark) -->\n```\n")
        return try #require(parts.count == 2 ? parts[1].components(separatedBy: "\n```").first : nil)
    }

    /// The bytes of a dump with an offset before each line.
    private func bytes(_ mark: String, _ name: String) throws -> [UInt8] {
        try block(mark, name).split(separator: "\n").flatMap { line in
            line.split(separator: " ").dropFirst().flatMap { TestKeys.bytes(String($0)) }
        }
    }

    private func commit() throws -> Commit {
        let other = try #require(ReplicaID(bytes: Array(repeating: 0x11, count: 16)))
        let tag = try #require(CommitTag(bytes: Array(repeating: 0x77, count: 16)))
        let (name, score) = (ColumnID("name"), ColumnID("score"))
        let insert = WriteShape(.insert, "player", keyCount: 1, columns: [name, score])
        let update = WriteShape(.update, "player", keyCount: 1, columns: [score])
        let writes = [
            Write(insert, key: Cells([.integer(42)]), values: Cells([.string("Ann"), .integer(1000)])),
            Write(insert, key: Cells([.integer(43)]), values: Cells([.string("Bob"), .null])),
            Write(
                update, key: Cells([.integer(5)]), incarnation: Dot(author: other, number: 7, tag: nil),
                values: Cells([.integer(1)])),
        ]
        return Commit(
            author: author, number: 1, previous: .zero, time: HybridTime(wallClock: 1_800_000_000_000),
            context: [AuthorTips(author: other, tips: [Tip(number: 7, tag: tag)])],
            writes: try Writes(writes, author: author))
    }

    private func signer() throws -> SigningKey {
        try SigningKey(secret: SecretBytes(copying: [UInt8](repeating: 0x22, count: 32)))
    }

    @Test("the code makes the body and the hash of the example, and reads them")
    func commitExample() throws {
        let encoded = try EncodedCommit(commit(), in: repository)
        let bytes = try bytes("commit", "Commit")
        #expect(encoded.body == bytes)
        #expect(try encoded.hash.description == block("hash", "Commit"))
        let decoded = try EncodedCommit(
            decoding: bytes[...], author: author, number: 1, previous: .zero, in: repository)
        #expect(try decoded.commit == commit())
    }

    @Test("the code makes the segment, the object and the name of the example")
    func segmentExample() throws {
        let encoded = try EncodedCommit(commit(), in: repository)
        let keys = ReplicaKeys(id: author, signing: try signer(), agreement: try .random())
        let stored = StoredCommit(
            author: author, number: 1, previous: .zero, hash: encoded.hash, body: encoded.body,
            signature: try CommitSignature.make(encoded.hash, by: keys))
        let content = Segment.content([stored], in: repository)
        #expect(try content == bytes("segment", "Segment"))
        let epoch = try #require(CommitTag(bytes: 0xc0...0xcf))
        let key = try ObjectKey(
            secret: SecretBytes(copying: [UInt8](repeating: 0x33, count: 32)), id: epoch, repository: repository)
        let object = try key.seal(content, .segment)
        #expect(try object == bytes("object", "Segment"))
        #expect(try key.open(object, .segment) == content)
        let roster = try ObjectKey(
            secret: SecretBytes(copying: [UInt8](repeating: 0x44, count: 32)), id: .zero, repository: repository)
        let name = try ObjectName(
            .segment(
                author: roster.tag("author", author.bytes), first: 1, last: 1,
                tip: roster.tag("tip", encoded.hash.bytes), part: 1, parts: 1), of: object)
        #expect(try name.text == block("name", "Segment"))
    }

    @Test("the code reads the founding record of the example and makes the same one")
    func memberExample() throws {
        let agreement = try AgreementKey(secret: SecretBytes(copying: [UInt8](repeating: 0x55, count: 32)))
        let keys = ReplicaKeys(id: author, signing: try signer(), agreement: agreement)
        let nonce = try #require(ReplicaID(bytes: Array(repeating: 0x66, count: 16)))
        let record = try MemberRecord(
            .founding(keys.member(named: "laptop"), nonce: nonce), repository: .zero, keys: keys,
            time: 1_800_000_000_000, known: [])
        #expect(try record.bytes == bytes("founding", "Members"))
        #expect(try record.hash.description == block("hash", "Members"))
        var list = MemberList(repository: record.repository)
        try list.add([MemberRecord(decoding: bytes("founding", "Members"))])
        #expect(list.members[author]?.role == .admin)
    }

    @Test("the offsets of the documents are those of the code")
    func offsets() throws {
        let expected: [(String, String, Int)] = [
            ("Segment", "ObjectKey.Offset.edition", ObjectKey.Offset.edition),
            ("Segment", "ObjectKey.Offset.key", ObjectKey.Offset.key),
            ("Segment", "ObjectKey.Offset.repository", ObjectKey.Offset.repository),
            ("Segment", "ObjectKey.Offset.salt", ObjectKey.Offset.salt),
            ("Segment", "ObjectKey.Offset.sealed", ObjectKey.Offset.sealed),
            ("Segment", "Segment.Offset.first", Segment.Offset.first),
            ("Segment", "Segment.Offset.count", Segment.Offset.count),
            ("Segment", "Segment.Offset.previous", Segment.Offset.previous),
            ("Segment", "Segment.Offset.bodies", Segment.Offset.bodies),
            ("Members", "Invitation.Offset.derivation", Invitation.Offset.derivation),
            ("Members", "Invitation.Offset.salt", Invitation.Offset.salt),
            ("Members", "Invitation.Offset.nonce", Invitation.Offset.nonce),
            ("Members", "Invitation.Offset.sealed", Invitation.Offset.sealed),
        ]
        for (document, name, offset) in expected {
            let row = try text(document).split(separator: "\n").first { $0.contains("`\(name)`") }
            #expect(row?.hasPrefix("| \(offset) |") == true, "\(name)")
        }
    }
}
