/// Every bound of this module.
enum ConformanceLimits {
    /// Cells of the map of a file; of a larger file each cell stands for several pages.
    static let mapCells = 4096
    /// Initialization vectors that are kept for comparison. Of more pages a sample is kept, chosen by the vector itself,
    /// so that both of two equal ones are in it or neither.
    static let vectors = 4 << 20
    /// Damaged pages that are tried with former keys.
    static let formerKeyPages = 10_000
    /// Lines of evidence of one check.
    static let evidenceLines = 20
    /// How long the connections of a pool are awaited together.
    static let connectionWait = 5.0
    /// Bytes of text that a check sorts, to see whether SQLite writes a temporary file.
    static let sortedBytes = 6 << 20
    /// Bytes that are read from one file at a time when it is searched.
    static let searchedBytes = 1 << 20
    /// The longest log that is searched for a marker, in bytes; of a longer one the end is searched.
    static let traceBytes = 64 << 20
}
