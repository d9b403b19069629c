/// Every bound of this module.
enum Limits {
    /// Compiled statements that one connection keeps.
    static let cachedStatements = 500
    /// The checkpoints that a log may go through without being used anew, before one waits for its readers.
    static let checkpointsBeforeRestart = 4
    /// How long such a checkpoint waits. Nobody writes meanwhile.
    static let restartWait = Duration.milliseconds(20)
    static let restartPauseMicroseconds: UInt32 = 100
    /// Frames after which a checkpoint that another writer prevented is tried again.
    static let framesBeforeRetry = 50
    /// How long a check of the file that fails is repeated before it is believed, in milliseconds.
    static let recheckMilliseconds = 100
    /// How long an opening waits for others that create, migrate or open the same store.
    static let openingWait = Duration.seconds(60)
    /// How long a checkpoint that follows a commit waits for the turn to write.
    static let checkpointTurnWait = Duration.milliseconds(50)
    /// How long setting a connection up waits for SQLite's locks where the configuration would not wait, in seconds.
    static let setUpWait = 10.0
    /// What the write-ahead log keeps of its length when it starts anew, in bytes.
    static let keptLogBytes = 4 << 20
}
