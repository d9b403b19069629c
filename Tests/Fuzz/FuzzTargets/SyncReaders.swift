import ChangesetSync
import StoreCrypto

extension FuzzTarget {
    /// The objects that devices exchange. A remote can put any bytes in the place of an envelope; a member of the
    /// repository any in that of a commit.
    static let syncReaders = [
        FuzzTarget("delta") { bytes in
            let delta = try Delta(encoded: bytes[...])
            try check(delta.encoded() == bytes, "a delta has one encoding")
            let inverse = delta.inverted
            try check(inverse.inverted.encoded() == bytes, "twice inverted it is the same")
        },
        FuzzTarget("commit") { bytes in
            let commit = try Commit(encoded: bytes[...])
            try check(commit.encoded() == bytes, "a commit has one encoding")
            for index in commit.parents.indices { _ = try? commit.delta(fromParent: index) }
        },
        FuzzTarget("session") { bytes in
            let delta = try SessionFormat.decode(bytes[...]) { _, count in (0..<count).map { "c\($0)" } }
            let written = SessionFormat.encode(delta)
            let again = try SessionFormat.decode(written[...]) { _, count in (0..<count).map { "c\($0)" } }
            try check(SessionFormat.encode(again) == written, "a changeset that was read is written and read the same")
        },
        FuzzTarget("envelope") { bytes in
            guard let key = syncKey, bytes.count > ObjectID.byteCount,
                let id = ObjectID(bytes: bytes.prefix(ObjectID.byteCount))
            else { return }
            _ = try key.open(Array(bytes.dropFirst(ObjectID.byteCount)), id: id)
            try check(false, "nobody without the key makes an envelope that opens")
        },
        FuzzTarget("invitation") { bytes in
            // With the right checksum, which anyone can compute: behind it are the fields.
            _ = try Invitation(bytes: bytes + Invitation.checksum(bytes))
        },
        FuzzTarget("remote-address") { bytes in
            _ = try RemoteAddress(String(decoding: bytes, as: UTF8.self))
        },
    ]

    private static let syncKey: RepositoryKey? = RepositoryID(bytes: [UInt8](repeating: 1, count: 16)).flatMap {
        try? RepositoryKey(repository: $0, epoch: 1, secret: FuzzKeys.raw)
    }
}
