import Dispatch
import Foundation
import StorePlatform

/// How a database is opened and used.
///
/// ```swift
/// var config = Configuration()
/// config.prepareDatabase { db in try db.usePassphrase(passphrase) }
/// let pool = try DatabasePool(path: path, configuration: config)
/// ```
public struct Configuration: Sendable {
    // MARK: Files and keys

    /// Whether the database is opened read-only. Default: false.
    public var readonly = false

    /// Whether a file may be opened without a key, and so be readable on disk. Default: false; then a file without a
    /// key is refused with `StoreError.keyMissing`.
    public var allowsUnencrypted = false

    /// The permissions of a database that is created, as for `chmod`: 0600, its owner alone, or 0640, 0644, 0660 or
    /// 0664. Default: 0600.
    ///
    /// The database gets exactly these permissions; the umask neither removes nor adds one. Every file beside it has
    /// the permissions of the database while that exists: where a database exists, its mode counts, not this.
    public var fileMode = 0o600

    /// The valid values of ``fileMode``: the owner reads and writes, nobody executes, others do not write, and have no
    /// more than the group.
    package static let fileModes: Set = [0o600, 0o640, 0o644, 0o660, 0o664]

    /// How a store that `SharedStore.open` creates keeps its key. Default: in keyslots. An existing store is opened by
    /// the scheme that it has; a database whose key is set in ``prepareDatabase(_:)`` is direct whatever this says.
    public var keyScheme = KeyScheme.slots

    /// Whether opening permanently forbids core dumps of this process, and reading of its memory by other processes of
    /// the same user. Default: false. The memory of an open store contains its keys. Debuggers and profilers cannot
    /// attach then, nor can a crash reporter that runs in another process.
    public var disablesCoreDumps = false

    /// The journal mode that opening sets. Default: WAL for pools; queues keep the mode of the file.
    public var journalMode: JournalModeConfiguration = .default

    /// Whether the -wal and -shm files stay after the last close, truncated, so that a process that may not write the
    /// directory can open the database. Default: false; `SharedStore` sets it.
    public var persistentWAL = false

    /// Whether a shared store may be on a filesystem whose locks several machines or kernels do not agree on, such as
    /// NFS or SMB. Default: false. Setting it risks silent corruption and loss of committed data.
    public var risksCorruptionOnUnsafeFilesystem = false

    // MARK: SQL

    /// Whether foreign keys are enforced. Default: true.
    public var foreignKeysEnabled = true

    /// Whether SQL may write strings in double quotes, as old SQL does. Default: false.
    public var acceptsDoubleQuotedStringLiterals = false

    /// Whether the schema may call every function of the program from triggers, views, defaults, checks, generated columns
    /// and indexes. Default: true, for the schema of the program itself.
    ///
    /// Set it to false for a file that somebody else has made: then its schema calls only functions that are `pure`, and
    /// reads only virtual tables that SQLite calls innocuous. A function that is `directOnly` is called by no schema.
    /// SQLite applies neither to functions in a CHECK constraint that are not `pure`.
    /// - SeeAlso: <https://www.sqlite.org/pragma.html#pragma_trusted_schema>
    public var trustsSchema = true

    /// Whether a tool that reads a file of others with the program's functions trusts its schema: only where there are
    /// such functions, and the program trusts it.
    package var trustsSchemaOfOthers: Bool { prepareDatabase != nil && trustsSchema }

    /// The configuration of a tool's connection: it has the functions of a program, if there is one. Without a program it
    /// trusts no schema. It plays no rollback journal back that another user can have put beside the file.
    package static func ofTool(_ program: Configuration = Configuration()) -> Configuration {
        var configuration = Configuration()
        configuration.prepareDatabase = program.prepareDatabase
        configuration.trustsSchema = program.trustsSchemaOfOthers
        configuration.ignoresRollbackJournal = true
        return configuration
    }

    /// Whether errors and traces show the values bound to statements. Default: false; values are private.
    public var publicStatementArguments = false

    // MARK: Transactions and waiting

    /// The kind of transactions that are begun without naming one. Default: immediate for writers. Read-only
    /// connections begin deferred ones whatever this says.
    public var defaultTransactionKind: Database.TransactionKind = .immediate

    /// Whether an access may end inside a transaction. Default: false; then the program traps. Readers of a pool may
    /// never do so.
    public var allowsUnsafeTransactions = false

    /// The busy timeout: what a statement does while another connection holds the lock it needs; readers included.
    /// Default: it fails at once with `SQLITE_BUSY`; a `SharedStore` waits for 5 seconds. `PRAGMA busy_timeout` changes
    /// it for one connection.
    public var busyMode: Database.BusyMode {
        get { chosenBusyMode ?? .immediateError }
        set { chosenBusyMode = newValue }
    }

    /// Whether the file is known not to change while it is open, so that it is read without locks, without a WAL and
    /// without a file beside it. Requires ``readonly``.
    ///
    /// - SeeAlso: <https://www.sqlite.org/uri.html#uriimmutable>
    package var isImmutable = false

    /// The busy mode that was set; nil leaves the choice to the kind of database.
    package var chosenBusyMode: Database.BusyMode?

    /// The source of the dates of transactions. Default: the system clock.
    public var transactionClock: any TransactionClock = .default

    /// How long a write may keep others from writing before ``onLongWrite`` is called. Default: nil, never.
    public var longWriteLimit: Duration?

    /// Called for writes that took at least ``longWriteLimit``, on the thread of the write, when others may write
    /// again. Default: nil.
    public var onLongWrite: (@Sendable (WriteEvent) -> Void)?

    /// Called for every write, for metrics, on the thread of the write, when others may write again. Default: nil.
    public var onWrite: (@Sendable (WriteEvent) -> Void)?

    /// Whether writes wait in one writer queue with those of other connections and processes, where the file is
    /// encrypted. Only measurements set it to false.
    package var usesWriterQueue = true

    // MARK: Schema

    /// Describes the schema beyond what SQLite knows, such as the primary keys of views. Default: nil.
    public var schemaSource: (any DatabaseSchemaSource)?

    // MARK: Connections and queues

    /// A name for connections, queues and errors. Default: nil.
    public var label: String?

    /// How many connections of a pool may read at the same time. Default: 5; at least 1.
    public var maximumReaderCount = 5

    /// Whether memory is released automatically: while the database is suspended, and under memory pressure - on Apple
    /// platforms when they warn, on Linux when `/proc/pressure/memory` shows that tasks wait for memory. Default: true.
    public var automaticMemoryManagement = true

    /// Whether readers stay open when memory is released. Default: false.
    public var persistentReadOnlyConnections = false

    /// The quality of service of the queues. Default: user-initiated.
    public var qos: DispatchQoS = .userInitiated

    /// The target queue of the connections' own queues; it must be concurrent, or readers wait for each other. Default:
    /// nil.
    public var targetQueue: DispatchQueue?

    /// The target queue of the writer's queue; nil uses ``targetQueue``, and so does a read-only database. Default:
    /// nil.
    public var writeTargetQueue: DispatchQueue?

    /// The effective target queue of the writer's queue: a read-only database has no queue for writes.
    var queueOfWriter: DispatchQueue? { readonly ? targetQueue : writeTargetQueue ?? targetQueue }

    /// The quality of service of the reading queues.
    public var readQoS: DispatchQoS { targetQueue?.qos ?? qos }

    /// The quality of service of the writing queue.
    public var writeQoS: DispatchQoS { queueOfWriter?.qos ?? qos }

    // MARK: Suspension

    /// Whether the database is suspended by ``Database/suspendNotification`` and resumed by
    /// ``Database/resumeNotification``. Default: false.
    public var observesSuspensionNotifications = false

    /// The former name of ``observesSuspensionNotifications``.
    public var suspendsOnBackgroundTimeExpiration: Bool {
        get { observesSuspensionNotifications }
        set { observesSuspensionNotifications = newValue }
    }

    // MARK: Checkpoints

    /// The length of the WAL, in frames of one page each, after which a commit is followed by a checkpoint. Default:
    /// 1000.
    ///
    /// When another process has just checkpointed the WAL, or tried to, the next checkpoint follows after another
    /// interval.
    public var checkpointFrames = 1000

    /// How long readers may keep the WAL from being reset before ``onOldReader`` is called. Default: 60 seconds.
    public var readerAgeLimit = Duration.seconds(60)

    /// Called, on a queue of its own, when readers have kept the WAL from being reset for longer than
    /// ``readerAgeLimit``, and again after each further such time. Default: nil; then ``onNotice`` is called.
    ///
    /// It is detected at checkpoints, so only while this database is written.
    public var onOldReader: (@Sendable (WALBlockage) -> Void)?

    /// How long a read of a pool may take before ``onOldRead`` is called. Default: nil, never.
    ///
    /// Reads of snapshots, and those on the writing connection, are not watched.
    public var maximumReadAge: Duration?

    /// Called once for each read of a pool that takes longer than ``maximumReadAge``, while it is under way, on a queue
    /// of its own. It says whether the read continues. Default: nil; then ``onNotice`` is called, and the read
    /// continues.
    ///
    /// A read that is ended throws ``DatabaseError`` `.SQLITE_INTERRUPT` from its statement, or, while the program's
    /// own code runs, from the next one.
    public var onOldRead: (@Sendable (OldRead) -> OldRead.Decision)?

    // MARK: Hooks

    /// Called when something was repaired or is risky although an opening succeeds, such as a sidecar that was restored
    /// from its second copy. Default: nil.
    public var onNotice: (@Sendable (String) -> Void)?

    /// Whether the database is a shared store.
    package var isShared = false
    /// Whether SQL must keep the database in WAL mode, as in a shared store.
    package var requiresWAL = false
    /// Whether SQLite must find no rollback journal beside the database (``JournalFilter``).
    package var ignoresRollbackJournal = false
    /// Whether an opening for writing refuses to create a store.
    package var requiresStore = false
    /// Called while an opening waits for other processes; true ends it with `CancellationError`.
    package var isOpeningCancelled: (@Sendable () -> Bool)?
    var preparations: [@Sendable (Database) throws -> Void] = []

    public init() {}

    /// Applies ``disablesCoreDumps``.
    package func forbidDumpsIfAsked() throws {
        if disablesCoreDumps { try ProcessInspector.disableCoreDumps() }
    }

    /// Adds a function that prepares each new connection; functions run in the order in which they were added.
    ///
    /// This is the place to set the key.
    public mutating func prepareDatabase(_ prepare: @escaping @Sendable (Database) throws -> Void) {
        preparations.append(prepare)
    }

    /// All functions that prepare a connection, as one. Setting it replaces them; nil removes them.
    public var prepareDatabase: (@Sendable (Database) throws -> Void)? {
        get {
            guard !preparations.isEmpty else { return nil }
            return { [preparations] db in for prepare in preparations { try prepare(db) } }
        }
        set { preparations = newValue.map { [$0] } ?? [] }
    }

    /// The journal mode that opening sets.
    public enum JournalModeConfiguration: Sendable {
        /// WAL for pools; queues keep the mode of the file.
        case `default`
        /// WAL.
        case wal
    }
}

/// How a new store keeps the key of its pages.
public enum KeyScheme: String, Sendable, Hashable, CaseIterable {
    /// A random data key, wrapped by a master key that each keyslot wraps: passphrases can be changed, added and
    /// removed in an instant, and the data key is rotated without any of them.
    case slots
    /// SQLCipher's own derivation: any SQLCipher 4 opens the file with the passphrase. A new passphrase requires
    /// encrypting every page again.
    case direct
}
