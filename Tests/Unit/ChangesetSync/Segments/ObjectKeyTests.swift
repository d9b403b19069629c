import StoreCrypto
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Sealed objects and their names")
struct ObjectKeyTests {
    private let key: ObjectKey
    private let other: ObjectKey

    init() throws {
        let secret = SecretBytes(copying: [UInt8](repeating: 1, count: 32))
        key = try ObjectKey(secret: secret, id: .zero, repository: CommitCodecTests.repository)
        other = try ObjectKey(secret: secret, id: .zero, repository: .zero)
    }

    @Test("equal content has equal bytes, and another kind, edition, secret or repository has others")
    func deterministic() throws {
        let content = Array("content".utf8)
        let bytes = try key.seal(content, .segment)
        #expect(try key.seal(content, .segment) == bytes)
        let variants = [
            bytes, try key.seal(content, .snapshot), try key.seal(content, .segment, edition: 1),
            try other.seal(content, .segment), try key.seal(content + [0], .segment),
        ]
        #expect(Set(variants).count == 5)
        #expect(try key.open(bytes, .segment) == content)
        #expect(try key.open(variants[2], .segment) == content)
        #expect(throws: ObjectError.otherContent) { try key.open(bytes, .snapshot) }
        #expect(throws: ObjectError.otherRepository) { try other.open(bytes, .segment) }
        let epoch = try ObjectKey(
            secret: SecretBytes(copying: [UInt8](repeating: 1, count: 32)), id: CommitTag(bytes: 1...16) ?? .zero,
            repository: CommitCodecTests.repository)
        #expect(throws: ObjectError.unknownEpoch(.zero)) { try epoch.open(bytes, .segment) }
    }

    @Test("every flipped bit and every truncation of an object is a typed error")
    func hostileObjects() throws {
        let bytes = try key.seal(Array("some content of an object".utf8), .segment)
        for index in bytes.indices {
            for bit in 0..<8 {
                var damaged = bytes
                damaged[index] ^= 1 << bit
                #expect(throws: ObjectError.self) { try key.open(damaged, .segment) }
            }
        }
        for count in 0..<bytes.count {
            #expect(throws: ObjectError.self) { try key.open(Array(bytes.prefix(count)), .segment) }
        }
        #expect(throws: ObjectError.self) { try key.open(bytes + [0], .segment) }
    }

    @Test("10,000 random contents of a segment or a manifest are a typed error, never a trap")
    func randomContents() throws {
        let seed = Seed()
        let keys = try ReplicaKeys.random()
        let manifest = try SnapshotManifest(
            .zero, time: .latest, vector: VersionVector(), parts: [String(repeating: "0a", count: 16)], by: keys
        ).bytes
        let stored = StoredCommit(
            author: keys.id, number: 1, previous: .zero, hash: .zero, body: [1, 2, 3],
            signature: Array(repeating: 1, count: 64))
        let segment = Segment.content([stored, stored.signed(Array(repeating: 2, count: 64))], in: .zero)
        for index in 0..<10_000 {
            var numbers = seed.numbers(index)
            var bytes = index % 2 == 0 ? segment : manifest
            for _ in 0..<Int.random(in: 0...4, using: &numbers) {
                bytes[Int.random(in: 0..<bytes.count, using: &numbers)] = .random(in: 0...255, using: &numbers)
            }
            if index % 5 == 0 { bytes = Array(bytes.prefix(Int.random(in: 0...bytes.count, using: &numbers))) }
            do {
                if index % 2 == 0 {
                    _ = try Segment.commits(of: bytes, in: .zero) { _ in keys.signing.verifyingKey }
                    Issue.record("\(seed) \(index)")
                } else {
                    let read = try SnapshotManifest(decoding: bytes, in: .zero) { _ in keys.signing.verifyingKey }
                    #expect(read.bytes == manifest, "\(seed) \(index)")
                }
            } catch is ObjectError {}
        }
    }

    @Test("a name has one form, and no other text is a name")
    func names() throws {
        let digest = String(repeating: "0a", count: 16)
        let tag = "0123456789abcdef"
        let names = [
            ObjectName(.segment(author: tag, first: 1, last: 20, tip: tag, part: 2, parts: 3), digest: digest),
            ObjectName(.snapshot(author: tag), digest: digest), ObjectName(.snapshotPart, digest: digest),
            ObjectName(.memberRecord, digest: digest), ObjectName(.complaint, digest: digest),
        ]
        for name in names {
            #expect(ObjectName(name.text) == name && ObjectName(name.text)?.content == name.content)
            for index in name.text.indices {
                var text = name.text
                text.remove(at: index)
                if let other = ObjectName(text) { #expect(other.text == text) }
            }
        }
        for text in [
            "", "c/", "p/" + digest.uppercased(), "p/\(digest)0", "q/\(digest)", "c/\(tag)-01-20-\(tag)-1-1-\(digest)",
            "c/\(tag)-2-1-\(tag)-1-1-\(digest)", "c/\(tag)-0-1-\(tag)-1-1-\(digest)",
            "c/\(tag)-1-1-\(tag)-2-1-\(digest)",
            "c/\(tag)-+1-1-\(tag)-1-1-\(digest)", "c/\(tag)-1-9223372036854775808-\(tag)-1-1-\(digest)",
        ] { #expect(ObjectName(text) == nil, "\(text)") }
    }
}
