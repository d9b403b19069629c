import PageFormat

/// A moment of a write-ahead log: everything committed up to a frame.
package struct LogCut: Hashable, Sendable {
    /// The run of the log; a log that begins anew has others.
    package let salts: WALSalts
    /// The last committed frame of the run, as the wal-index says (SQLite's mxFrame); 0 when the run has none yet.
    package let frame: UInt32
    /// The running checksum at that frame.
    let checksum: WALChecksum
}

/// What was committed between two moments.
package struct LogDelta: Sendable {
    /// The last frame of each page that was written, in the order of pages, without pages beyond the end of the database.
    package let pages: [(page: UInt32, frame: UInt32)]
    /// The later of the two moments.
    package let cut: LogCut
    /// Pages of the database at that moment.
    package let databasePages: UInt32
    /// How much of the log file that moment takes, in bytes.
    package let walBytes: Int
}
