import Dispatch

/// Every bound of this module.
enum DatabaseLimits {
    /// How often Linux is polled for memory pressure.
    static let pressureInterval = DispatchTimeInterval.seconds(10)
    /// The memory pressure, in percent of the last ten seconds spent waiting, from which databases release memory.
    static let pressurePercent = 10.0
    /// The most SQL requests with expressions that are in one another: they are written by recursion.
    static let nestedQueries = 60
    /// Objects of a schema that cost as much to list as one costs to be looked up by itself.
    static let objectsForSingleLookup = 20
    /// The longest SQL text that the description of an error has, in characters.
    static let reportedSQLCharacters = 200
    /// The longest path of a database: SQLite's 512 bytes (MAX_PATHNAME), less those that it keeps for its suffixes.
    static let pathBytes = 504
    /// The longest name of a new store, in bytes: a filesystem takes 255, and the longest name beside a store is
    /// `<name>-sidecar.bak.tmp-<process>-<8 digits>`.
    static let newNameBytes = 222
    /// The length from which the statement that does not compile is not looked for further, in bytes of a script.
    static let longestFailingStatement = 10_000
    /// The most terms that SQL has in a chain of one operator, far below the depth at which SQLite refuses an expression.
    static let chainedTerms = 100
    /// The columns of a table, SQLite's limit, and those that the history of changes has besides keys and kept values.
    static let tableColumns = 2_000
    static let historyColumns = 4
    /// Compiled statements that one connection keeps.
    static let cachedStatements = 500
    /// The checkpoints that may pass without a reset of the WAL before one waits for its readers.
    static let checkpointsBeforeRestart = 4
    /// How long the first such checkpoint waits. No connection writes meanwhile.
    static let restartWait = Duration.milliseconds(20)
    /// How long one waits whose WAL is very long.
    static let longestRestartWait = Duration.milliseconds(200)
    static let restartPauseMicroseconds: UInt32 = 100
    /// Frames after which a checkpoint that another writer prevented is tried again.
    static let framesBeforeRetry = 50
    /// How often a close repeats an interrupted checkpoint, without which commits are lost.
    static let interruptedCheckpoints = 100
    /// How long a writer trusts that the WAL and its index are in place, in nanoseconds.
    static let walCheckInterval: UInt64 = 2_000_000
    /// How long an opening waits for a process that is ending and still has the WAL open, and how often it checks.
    static let emptiedWALWait = Duration.seconds(2)
    static let emptiedWALPause = Duration.milliseconds(2)
    /// How long an opening that finds no WAL waits for a process that has the database open to make one, and how often it
    /// checks.
    static let removedWALWait = Duration.seconds(5)
    static let removedWALPause = Duration.milliseconds(10)
    /// How often a snapshot pool is begun again because others have committed meanwhile: before they have to wait, and
    /// by a database that only reads.
    static let snapshotAttempts = 8
    static let readonlySnapshotAttempts = 1_000
    /// The pause between two interruptions of a read that is too old, in nanoseconds.
    static let oldReadPause: UInt64 = 20_000_000
    /// The time in which SQLite repeats a refused opening for reading only, and in which a refusal explains an error.
    static let repeatedOpening = Duration.seconds(1)
    static let recentRefusal = Duration.seconds(10)
    /// Refusals of openings that are kept for their errors, by path.
    static let notedRefusals = 256
    /// Files of others with the name of a WAL index that stay open.
    static let keptForeignFiles = 16
    /// How often an opening starts again because another file has the name of the opened file.
    static let replacementsWhileOpening = 4
    /// How long an opening without SharedStore waits for the end of a switch to a new key, and how often it checks.
    static let switchWait = Duration.seconds(5)
    static let switchLookTime = Duration.milliseconds(10)
    /// How long a wait for the write lock lasts before it is reported (``LockWaitWatch``).
    static let waitBeforeReport = Duration.seconds(2)
    /// How long an opening waits for others that create, migrate or open the same store.
    static let openingWait = Duration.seconds(60)
    /// How long a checkpoint that follows a commit waits for the write turn.
    static let checkpointTurnWait = Duration.milliseconds(50)
    /// How long the setup of a connection waits for SQLite's locks where the configuration would not wait, in seconds.
    static let setUpWait = 10.0
    /// The longest pause between two interruptions of an access that was cancelled, in milliseconds.
    static let interruptionPause = 64
    /// Pages that a backup copies between two checks for a suspension.
    static let backupPages: CInt = 256
    /// The most changes of others that observers look at row by row; of more, only the tables count.
    static let listedExternalChanges = 1_000
    /// How long the poster of a suspension waits for connections that are inside a call into SQLite.
    static let suspensionWait = Duration.milliseconds(500)
    /// The length to which the WAL is truncated after a reset, in bytes.
    static let keptWALBytes = 4 << 20
    /// Memory that the kept rows of one result share, in bytes.
    static let rowBlockBytes = 16 << 10
    /// The longest text or blob in such memory, in bytes.
    static let sharedValueBytes = 1 << 10
    /// Decoders of records that one layout of rows keeps: as many as are in use at once.
    static let idleDecoders = 32
    /// Accesses of tasks run on the thread of the task while they take less than this on average, in nanoseconds.
    static let directAccessNanoseconds: UInt64 = 250_000
    /// The weight of a longer access in that average: some dozens of short ones make up for it.
    static let longestCountedAccess: UInt64 = 100_000_000
    /// How long one part of a purge of the history should hold the write lock.
    static let historyPurgeTime = Duration.milliseconds(20)
    /// Changes that a purge removes between two looks at the time.
    static let historyPurgeStep: Int64 = 100
    /// Triggers of the history from which on they are entered as rows of the schema.
    static let triggerRows = 100
    /// Tables of which one transaction begins or ends the recording, where there are more: other writers wait for it.
    static let historyPartTables = 500
    /// The most changes that a connection records before it purges some, at first as many.
    static let historyPurgeInterval = 5_000
    /// Changes that stay in the history when all registered readers have acknowledged them, for readers that are not
    /// registered.
    static let historyKeptForOthers: Int64 = 1_000
    /// Changes among which a page looks for the return of a row that a REPLACE has perhaps removed.
    static let historySearch: Int64 = 1_000
    /// Rows that a page looks for at once among all later changes: SQLite takes 32,766 values.
    static let historyKeys = 10_000
    /// Authors that the history may have before those without a change are forgotten.
    static let historyAuthors = 1_000
    /// The longest time for which changes are kept, in seconds: about 31 years, which stands for ever.
    static let longestHistoryAge: Double = 1e9
    /// Frames that are compared to tell a WAL whose header is lost from another file.
    static let searchedFrames = 8
    /// Zeros at the beginning of a WAL that are read to find its first frame, in bytes.
    static let searchedZeroBytes = 64 << 20
    /// Regions of 32 KiB that are read to tell an index of a WAL without a header from another file: those of 8 million
    /// frames.
    static let searchedIndexRegions = 2048
}
