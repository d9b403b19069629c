/// A store of a repository and the author of its commits: 16 random bytes. A copy of a store takes another one.
package struct ReplicaID: FixedIdentifier {
    package let content: FixedBytes<SIMD2<UInt64>>
    package init(content: FixedBytes<SIMD2<UInt64>>) { self.content = content }
}

/// The name of a repository: 16 random bytes. It is no secret.
package struct RepositoryID: FixedIdentifier {
    package let content: FixedBytes<SIMD2<UInt64>>
    package init(content: FixedBytes<SIMD2<UInt64>>) { self.content = content }
}

/// SHA-256 of a commit and of the hash before it (Docs/Formats/Commit.md).
package struct CommitHash: FixedIdentifier {
    package let content: FixedBytes<SIMD4<UInt64>>
    package init(content: FixedBytes<SIMD4<UInt64>>) { self.content = content }

    /// The part of the hash that dots have.
    var tag: CommitTag {
        guard let tag = CommitTag(bytes: bytes.prefix(CommitTag.byteCount)) else {
            preconditionFailure("A hash has fewer bytes than its tag.")
        }
        return tag
    }
}

/// The first 16 bytes of a ``CommitHash``: distinguishes two commits of one author and number.
package struct CommitTag: FixedIdentifier {
    package let content: FixedBytes<SIMD2<UInt64>>
    package init(content: FixedBytes<SIMD2<UInt64>>) { self.content = content }
}
