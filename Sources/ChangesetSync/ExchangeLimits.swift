/// The bounds of what replicas exchange, apart from commits (``CommitLimits``).
package enum ExchangeLimits {
    /// Segments of several commits end before they are longer. A longer commit is a segment of its own, in parts of this
    /// length.
    package static let segmentBytes = 4 * 1024 * 1024
    /// The most commits of one segment.
    static let segmentCommits = 65_536
    /// The most parts of one commit.
    static let parts = CommitLimits.bodyBytes / segmentBytes + 1
    /// The longest sealed object: a part that is full, its padding and its header.
    package static let objectBytes = segmentBytes + segmentBytes / 8 + 4096
    /// The longest name of an object at a remote.
    static let nameBytes = 200
    /// The most names of a listing that are read.
    package static let listedObjects = 4_000_000
    /// The longest member record.
    static let recordBytes = 4 * 1024 * 1024
    /// The most member records of a repository.
    static let records = 16_384
    static let memberNameBytes = 255
    /// The most parts of a snapshot.
    static let snapshotParts = 65_536
    /// The longest address of a remote in an invitation.
    static let addressBytes = 1024
}
