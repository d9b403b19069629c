import ChangesetSync
import KeyCustody
import StoreCrypto

extension FuzzTarget {
    /// The objects that members exchange. A remote can put any bytes in the place of an object; a member of the repository
    /// any in that of a commit, a snapshot or a record.
    static let syncReaders = [
        FuzzTarget("commit") { bytes in
            let commit = try EncodedCommit(
                decoding: bytes[...], author: author, number: 1, previous: .zero, in: repository)
            try check(commit.body == bytes, "a commit has one encoding")
            let again = try EncodedCommit(commit.commit, in: repository)
            try check(again.hash == commit.hash && again.body == bytes, "a commit that was read is written the same")
            try check(Array(commit.commit.writes).count >= 0, "every write can be read")
        },
        FuzzTarget("segment") { bytes in
            _ = try Segment.commits(of: bytes, in: repository) { _ in try signer() }
            try check(false, "nobody without the key of an author makes a segment of it")
        },
        FuzzTarget("snapshot-manifest") { bytes in
            _ = try SnapshotManifest(decoding: bytes, in: repository) { _ in try signer() }
            try check(false, "nobody without the key of a maker makes a manifest of it")
        },
        FuzzTarget("snapshot") { bytes in
            var whole = SnapshotReader()
            var items: [SnapshotItem] = []
            try whole.add(bytes) { items.append($0) }
            var pieces = SnapshotReader()
            var others: [SnapshotItem] = []
            for start in stride(from: 0, to: bytes.count, by: 7) {
                try pieces.add(Array(bytes[start..<min(start + 7, bytes.count)])) { others.append($0) }
            }
            try check(items == others, "a snapshot has the same items, however it is divided into parts")
        },
        FuzzTarget("member-record") { bytes in
            let record = try MemberRecord(decoding: bytes)
            try check(record.bytes == bytes, "a record is the bytes that were read")
        },
        FuzzTarget("object") { bytes in
            guard let kind = ObjectKind(rawValue: bytes.first ?? 0) else { return }
            _ = try objectKey().open(Array(bytes.dropFirst()), kind)
            try check(false, "nobody without the key makes an object that opens")
        },
        FuzzTarget("object-name") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            guard let name = ObjectName(text) else { return }
            try check(ObjectName(name.content, digest: name.digest).text == text, "a name has one form")
        },
        FuzzTarget("invitation") { bytes in
            let invitation = try Invitation(bytes: bytes)
            _ = try invitation.open(with: .rawKey(DataKey(FuzzKeys.raw)))
            try check(false, "nobody without the key makes an invitation that opens")
        },
        FuzzTarget("remote-address") { bytes in
            let address = try RemoteAddress(String(decoding: bytes, as: UTF8.self))
            _ = try RemoteAddress(address.text)
        },
    ]

    private static let repository = RepositoryID(bytes: [UInt8](repeating: 1, count: 16)) ?? .zero
    private static let author = ReplicaID(bytes: [UInt8](repeating: 2, count: 16)) ?? .zero

    private static func signer() throws -> VerifyingKey { try SigningKey(secret: FuzzKeys.raw).verifyingKey }

    private static func objectKey() throws -> ObjectKey {
        try ObjectKey(secret: FuzzKeys.raw, id: .zero, repository: repository)
    }
}
