/// Every bound of this module.
package enum Limits {
    /// The greatest number of columns of a table. <https://www.sqlite.org/limits.html#max_column>
    static let columns = 32_767
    /// The greatest number of columns of a primary key: a delta has one byte for the place of a column in it.
    static let keyColumns = 255
    /// The encoded delta of a commit. With two of them a commit is not longer than ``commitBytes``.
    static let deltaBytes = 448 * 1024 * 1024
    /// The description of a commit, in bytes.
    static let commitMetaBytes = 1024 * 1024
    /// The leaves and the digests that the row of a commit keeps for the state of the store. With more of them the state
    /// is saved, which takes one page more.
    static let leavesOfCommit = 16
    static let digestsOfCommit = 8

    /// The longest plaintext of one object. A longer commit is divided into chunks of this length.
    static let objectPlaintextBytes = 512 * 1024
    /// The longest canonical commit. Its manifest lists 1,800 chunks. It fits into the 1,000,000,000 bytes that SQLite
    /// admits in a row. <https://www.sqlite.org/limits.html#max_length>
    package static let commitBytes = 900 * 1024 * 1024
    /// The longest envelope: the header with two parents, the plaintext, the tag.
    package static let envelopeBytes =
        EnvelopeHeader.byteCount(parents: 2) + objectPlaintextBytes + EnvelopeHeader.tagBytes

    /// The most entries of one page of a remote's log.
    package static let remotePageEntries = 10_000
    /// The most authors whose logs are read.
    package static let remoteAuthors = 65_536
    /// The most temporary files that are looked at for abandoned ones.
    static let remoteTemporaryFiles = 100_000
    /// How far after a missing log entry is looked for later ones, in powers of two.
    static let remoteGapProbes = 11
    /// Objects whose folders are synced together.
    static let remoteObjectsAtOnce = 64
    /// After this time a temporary file at a remote is abandoned. It belongs to a machine whose processes are not visible
    /// here, and an upload takes seconds.
    static let abandonedUploadAge = Duration.seconds(24 * 60 * 60)

    /// The changed rows, and the bytes of their deltas, after which one transaction of a pull ends, at a commit. They are
    /// written in a tenth of a second.
    static let pulledRows = 10_000
    static let pulledBytes = 2 * 1024 * 1024
    /// The changed rows up to which foreign keys are looked up row by row.
    static let foreignKeyLookups = 2_000
    /// Conflicts that a store keeps; the oldest are removed first.
    static let conflicts = 10_000
    /// The latest commits that are read to find out which of two schemas is the newer one.
    static let comparedCommits = 256
    /// How often a merge asks for values of a row that no other row has.
    static let renames = 16
    /// Commits that one transaction of a fetch stores, and that are put at once.
    static let commitsAtOnce = 256
    /// The bytes of the commits that are put at once.
    static let bytesAtOnce = 8 * 1024 * 1024
    /// Objects that are asked for at once; each may have ``envelopeBytes``.
    static let objectsAtOnce = 32
    /// The longest acknowledgement of a replica.
    package static let acknowledgementBytes = 256 * 1024
    /// All acknowledgements of a remote together.
    package static let acknowledgementsBytes = 64 * 1024 * 1024
    /// The bytes and the rows after which a part of a checkpoint ends.
    static let checkpointPartBytes = 448 * 1024
    static let checkpointPartRows = 8_000
    /// The keys that the making of a checkpoint keeps in memory. A table with more of them is read several times, unless
    /// its rows are in the order of their keys.
    static let checkpointKeys = 256 * 1024
    /// Rows that it looks up at once.
    static let checkpointLookups = 1_000
    /// Parts that are got, made and stored at once.
    static let checkpointPartsAtOnce = 8
    /// How long one transaction applies parts of a checkpoint.
    static let checkpointSlice = Duration.milliseconds(100)
    /// Commits that one transaction of a compaction removes, and the bytes of their deltas after which it ends.
    static let removedCommits = 1_000
    static let removedBytes = 4 * 1024 * 1024

    /// The longest wait for another process that syncs the same store.
    static let turnWait = Duration.seconds(60)
    /// The first and the longest pause of that wait.
    static let firstTurnPause = Duration.milliseconds(1)
    static let longestTurnPause = Duration.milliseconds(50)
    /// The longest address of a remote.
    static let remoteAddressBytes = 1024
    /// How far ahead of this clock another one may be without being named.
    static let namedSkew = Duration.seconds(24 * 60 * 60)
    /// After how many seconds a log that stands still at a missing entry or object needs attention.
    static let stallSeconds: Double = 60 * 60
}
