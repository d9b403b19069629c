/// Every bound of this module.
enum ToolLimits {
    /// How long a tool waits for other processes that open or create the store at its target.
    static let openingWait = Duration.seconds(30)
    /// How long a rotation that replaces the file at this moment is waited for.
    static let switchWait = Duration.seconds(5)
    /// The pause between two attempts to read it.
    static let switchPause = Duration.milliseconds(5)
    /// How often a store is read before a rotation that ends during each reading is an error.
    static let readings = 5
    /// How often a read transaction is begun before it is used although its place in the WAL is not known.
    static let beginnings = 100
    /// Messages of `integrity_check`.
    static let integrityMessages = 100
    /// Bytes of a full-text index that are copied into memory to check it.
    static let indexBytes: Int64 = 512 << 20
    /// Lines of these messages that are problems of a report.
    static let integrityLines = 10
    /// Bytes of a file that are copied in one step.
    static let copiedBytes = 1 << 20
    /// Pages of which one must fit the keys of a sidecar, unless the sidecar is that of another store.
    static let firstPages: UInt32 = 9
    /// The size from which a WAL needs attention.
    static let largeWALBytes = 256 << 20
    /// How far the clocks of machines may differ before a time is treated as a future one, in seconds.
    static let clockTolerance: UInt64 = 300
    /// Rows of a page without a parent that are compared with the columns of a table.
    static let comparedRows = 1000
    /// Lost rows that a salvage names for each table.
    static let listedRows = 1000
    /// Columns that a statement can return: SQLITE_LIMIT_COLUMN.
    static let resultColumns = 2000
    /// Rows without a parent that a report names.
    static let listedOrphans = 20
    /// Columns of a row of an unknown table that are listed: SQLite permits 2,000 with the two of the listing.
    static let listedColumns = 1998
    /// How long a value of a plain database of another person may be: so many bytes in any case, and in a larger one so many
    /// times the length of the file.
    static let longestSmallValue = 1 << 20
    static let valuesInFile = 4
    /// How many bytes all values of another person's database may have: so many in any case, and in a larger one so many
    /// times the length of the file.
    static let smallContentBytes = 64 << 20
    static let contentsInFile = 32
    /// The free space with which a full copy is one that has reached its bound.
    static let freeBytesOfFullCopy = 4 << 20
    /// The most pages of a database: SQLITE_MAX_PAGE_COUNT.
    static let databasePages = 4_294_967_294
    /// Findings of `quick_check` after which SQLite has not looked at all pages.
    static let quickCheckFindings = 100
    /// Damaged frames of a WAL that a salvage names.
    static let namedFrames = 20
    /// The longest record of a CSV file: SQLite's rows are bounded in memory as well.
    static let csvRecordBytes = 256 << 20
    /// The most fields of a CSV record: SQLite permits 32,767 parameters.
    static let csvFields = 32_766
    /// Bad lines of a CSV file that a report names.
    static let listedBadLines = 20
}
