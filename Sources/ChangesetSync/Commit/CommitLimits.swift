/// The bounds of a commit. Its decoder refuses what is beyond them, and its encoder too.
enum CommitLimits {
    /// The longest body. It fits into the 1,000,000,000 bytes that SQLite admits in a row.
    /// <https://www.sqlite.org/limits.html#max_length>
    static let bodyBytes = 900 * 1024 * 1024
    /// The longest description of a commit.
    static let metaBytes = 1024 * 1024
    /// The longest name of a table or column.
    static let nameBytes = 64 * 1024
    /// The most columns of a table. <https://www.sqlite.org/limits.html#max_column>
    static let columns = 32_767
    /// The most columns of a primary key.
    static let keyColumns = 255
    /// The most events of one commit.
    static let events = 4_096
}
