import StoreCrypto

/// A commit as a store keeps it: the bytes, without decoding them.
package struct StoredCommit: Hashable, Sendable {
    let author: ReplicaID
    let number: UInt64
    let previous: CommitHash
    let hash: CommitHash
    let body: [UInt8]
    /// The signature of the author, if the commit was the last one of a segment.
    let signature: [UInt8]?
}

/// A commit that came from a remote: its bytes are right, and its author has signed it or a commit after it.
package struct VerifiedCommit: Sendable {
    let encoded: EncodedCommit
    /// The signature of the author, if the commit was the last one of its segment.
    let signature: [UInt8]?

    init(_ encoded: EncodedCommit, signature: [UInt8]?) {
        self.encoded = encoded
        self.signature = signature
    }
}

/// The signature of an author for all commits up to one: of the hash, which covers those before it and the repository.
enum CommitSignature {
    private static let label = Array("cipherstore commit signature v1".utf8)

    static func make(_ hash: CommitHash, by keys: ReplicaKeys) throws(CryptoError) -> [UInt8] {
        try keys.signing.signature(of: label + hash.bytes)
    }

    static func isRight(
        _ signature: [UInt8], _ hash: CommitHash, by key: VerifyingKey
    ) throws(CryptoError) -> Bool {
        try key.isSignature(signature, of: label + hash.bytes)
    }
}

/// Consecutive commits of one author, the last one signed (Docs/Formats/Segment.md).
package enum Segment {
    enum Offset {
        static let version = 0
        static let repository = 1
        static let author = 17
        static let first = 33
        static let count = 41
        static let previous = 45
        static let bodies = 77
    }

    static let version: UInt8 = 1

    /// The plaintext of a segment.
    ///
    /// - Parameter commits: Consecutive, not empty, the last one with a signature.
    static func content(_ commits: [StoredCommit], in repository: RepositoryID) -> [UInt8] {
        guard let first = commits.first, let signature = commits.last?.signature else {
            preconditionFailure("A segment has a commit at least, and the last one has a signature.")
        }
        var bytes: [UInt8] = [version]
        bytes.reserveCapacity(commits.reduce(Offset.bodies + 64) { $0 + $1.body.count + 5 })
        bytes += repository.bytes + first.author.bytes
        bytes.append(bigEndian: first.number)
        bytes.append(bigEndian: UInt32(commits.count))
        bytes += first.previous.bytes
        for commit in commits {
            bytes.append(varint: commit.body.count)
            bytes += commit.body
        }
        return bytes + signature
    }

    /// Reads the plaintext of a segment and verifies every commit of it.
    ///
    /// - Parameters:
    ///   - verifyingKey: Gives the key of an author that may write, or throws.
    /// - Throws: ``ObjectError``; ``CryptoError``.
    package static func commits(
        of bytes: [UInt8], in repository: RepositoryID, verifyingKey: (ReplicaID) throws -> VerifyingKey
    ) throws -> [VerifiedCommit] {
        do {
            var reader = ByteReader(bytes)
            let version = try reader.byte()
            guard version == Self.version else { throw ObjectError.laterVersion(version) }
            guard try reader.identifier(RepositoryID.self) == repository else { throw ObjectError.otherRepository }
            let author = try reader.identifier(ReplicaID.self)
            let key = try verifyingKey(author)
            let first = try reader.integer(as: UInt64.self)
            let count = try reader.integer(as: UInt32.self)
            guard (1...UInt32(ExchangeLimits.segmentCommits)).contains(count),
                first <= UInt64(Int64.max) - UInt64(count)
            else {
                throw reader.error(.number)
            }
            var previous = try reader.identifier(CommitHash.self)
            var commits: [EncodedCommit] = []
            for number in first..<first + UInt64(count) {
                let body = try reader.take(reader.count(limit: CommitLimits.bodyBytes))
                let commit = try EncodedCommit(
                    decoding: body, author: author, number: number, previous: previous, in: repository)
                previous = commit.hash
                commits.append(commit)
            }
            let signature = Array(try reader.take(VerifyingKey.signatureBytes))
            guard reader.isAtEnd else { throw reader.error(.trailingBytes) }
            guard try CommitSignature.isRight(signature, previous, by: key) else { throw ObjectError.wrongSignature }
            return commits.enumerated().map { index, commit in
                VerifiedCommit(commit, signature: index == commits.count - 1 ? signature : nil)
            }
        } catch let error as CommitError {
            throw ObjectError.malformed(error)
        }
    }
}
