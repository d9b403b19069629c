/// Every bound of this module.
enum Limits {
    /// Compiled statements that one connection keeps.
    static let cachedStatements = 500
    /// Frames in the write-ahead log after which a commit is followed by a checkpoint.
    static let framesBeforeCheckpoint = 1000
    /// Frames after which a checkpoint that another writer prevented is tried again.
    static let framesBeforeRetry = 50
    /// How long a check of the file that fails is repeated before it is believed, in milliseconds.
    static let recheckMilliseconds = 100
    /// How long an opening waits for others that create, migrate or open the same store.
    static let openingWait = Duration.seconds(60)
    /// How long setting a connection up waits for SQLite's locks where the configuration would not wait, in seconds.
    static let setUpWait = 10.0
    /// What the write-ahead log keeps of its length when it starts anew, in bytes.
    static let keptLogBytes = 4 << 20
    /// Memory that kept rows of one result share, in bytes.
    static let rowBlockBytes = 16 << 10
    /// The longest text or blob that stands in such memory, in bytes.
    static let sharedValueBytes = 1 << 10
}
