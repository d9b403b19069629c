import PageFormat

/// A position in a WAL: everything committed up to a frame.
package struct WALPosition: Hashable, Sendable {
    /// The run of the WAL; after a reset it has other salts.
    package let salts: WALSalts
    /// The last committed frame of the run, as the wal-index says (SQLite's mxFrame); 0 when the run has none yet.
    package let frame: UInt32
    /// The running checksum at that frame.
    let checksum: WALChecksum
}

/// What was committed between two moments.
package struct WALDelta: Sendable {
    /// The last frame of each page that was written, in the order of pages, without pages beyond the end of the
    /// database.
    package let pages: [(page: UInt32, frame: UInt32)]
    /// The later of the two moments.
    package let position: WALPosition
    /// Pages of the database at that moment.
    package let databasePages: UInt32
    /// The length of the WAL file up to that moment, in bytes.
    package let walBytes: Int
}
