import Dispatch

/// Every bound of this module.
enum Limits {
    /// How often Linux is asked whether it lacks memory.
    static let pressureInterval = DispatchTimeInterval.seconds(10)
    /// From which share of waiting for memory on, in percent of the last ten seconds, databases give theirs back.
    static let pressurePercent = 10.0
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
    /// How often an opening begins anew because another file took the name of the one that it had opened.
    static let replacementsWhileOpening = 4
    /// How long an opening by hand waits for the end of a switch to a new key, and how often it looks.
    static let switchWait = Duration.seconds(5)
    static let switchLookTime = Duration.milliseconds(10)
    /// How long the write lock is waited for before the wait is reported (``LockWaitWatch``).
    static let waitBeforeReport = Duration.seconds(2)
    /// How long an opening waits for others that create, migrate or open the same store.
    static let openingWait = Duration.seconds(60)
    /// How long a checkpoint that follows a commit waits for the write slot.
    static let checkpointSlotWait = Duration.milliseconds(50)
    /// How long setting a connection up waits for SQLite's locks where the configuration would not wait, in seconds.
    static let setUpWait = 10.0
    /// Pages that a backup copies between two looks for a suspension.
    static let backupPages: CInt = 256
    /// How long the poster of a suspension waits for connections that are inside a call into SQLite.
    static let suspensionWait = Duration.milliseconds(500)
    /// What the write-ahead log keeps of its length when it starts anew, in bytes.
    static let keptLogBytes = 4 << 20
    /// Memory that kept rows of one result share, in bytes.
    static let rowBlockBytes = 16 << 10
    /// The longest text or blob that stands in such memory, in bytes.
    static let sharedValueBytes = 1 << 10
}
