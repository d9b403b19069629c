import KeyCustody
import StorePlatform
import Synchronization

/// An encrypted database that several processes share.
///
/// ```swift
/// let store = try SharedStore.open(at: path, unlockedBy: .keyFile(path: "/etc/app/key"), migrator: migrator)
/// try store.write { db in try db.execute(sql: "INSERT INTO note (text) VALUES (?)", arguments: ["hello"]) }
/// let count = try store.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM note") }
/// ```
///
/// Whichever process comes first creates and migrates the store; the others wait and find it complete. The salt is kept
/// in a sidecar beside the file, in two copies. Locks wait for up to 5 seconds unless `Configuration.busyMode` says
/// otherwise.
public final class SharedStore: DatabaseWriter {
    /// What was mended or looked risky while the store was opened: plain sentences, for a log.
    public let notices: [String]
    /// The store's name for life.
    public let storeID: StoreID
    /// Which data key the store has; 1 at first, one more for each rotation.
    public let epoch: UInt64
    let pool: DatabasePool
    let keeper: LeaseKeeper
    let suspension: DatabaseSuspension
    let keyring: Keyring

    init(pool: DatabasePool, lease: Lease?, identity: StoreIdentity, keyring: Keyring) throws {
        self.pool = pool
        self.keyring = keyring
        notices = keyring.notices
        storeID = identity.storeID
        epoch = identity.epoch
        suspension = keyring.suspension
        keeper = try LeaseKeeper(
            paths: StorePaths(pool.path), isReadonly: pool.configuration.readonly,
            label: pool.configuration.holderLabel, identity: identity, lease: lease)
        suspension.add(
            DatabaseSuspension.Locks(
                release: { [keeper, weak pool] in
                    pool?.showSuspended(true)
                    keeper.release { released in pool?.afterReadsUnderWay(released) ?? released() }
                },
                recheck: { [keeper, weak pool] wait in
                    try keeper.retake(wait)
                    pool?.showSuspended(false)
                }))
        // A suspension that came while the store was being opened did not know of the lease yet.
        if suspension.isSuspended { keeper.releaseNow() }
        JobControlSuspension.add(self)
    }

    /// Whether an opening of the store by this process still holds the lock for that.
    var isOpeningLockHeld: Bool { keyring.holdsOpeningLock }

    public var configuration: Configuration { pool.configuration }
    public var path: String { pool.path }

    // MARK: Reading

    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try open { try pool.read { db in try leased { try value(db) } } }
    }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.read { [self] db in try leased { try value(db) } }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T {
        try open { try pool.unsafeRead { db in try leased { try value(db) } } }
    }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.unsafeRead { [self] db in try leased { try value(db) } }
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try open { try pool.unsafeReentrantRead { db in try leased { try value(db) } } }
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        pool.asyncRead(leased(value))
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        pool.asyncUnsafeRead(leased(value))
    }

    /// A function for a read without a thread that waits: it gets the error where the store is not to be read.
    private func leased(
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) -> @Sendable (Result<Database, any Error>) -> Void {
        { [self] outcome in
            guard suspension.isSuspended else { return value(outcome) }
            do {
                try requireSameStore()
                let db = try outcome.get()
                try leased { value(.success(db)) }
            } catch {
                value(.failure(error))
            }
        }
    }

    /// A view of the last commit that stays as it is.
    public func makeSnapshot() throws -> DatabaseSnapshot { try open { try pool.makeSnapshot() } }

    // MARK: Writing

    public func write<T>(_ updates: (Database) throws -> T) throws -> T { try open { try pool.write(updates) } }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.write(updates)
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try pool.writeWithoutTransaction(updates)
    }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try requireOpen()
        return try await pool.writeWithoutTransaction(updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try pool.unsafeReentrantWrite(updates)
    }

    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try open { try pool.barrierWriteWithoutTransaction(updates) }
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try requireOpen()
        return try await pool.barrierWriteWithoutTransaction(updates)
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        pool.asyncBarrierWriteWithoutTransaction(updates)
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        pool.asyncWriteWithoutTransaction(updates)
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        pool.spawnConcurrentRead(value)
    }

    /// How the writes of this store object went since it was opened. What other processes did: `StoreHolders`.
    public var writeStatistics: WriteStatistics { pool.writeStatistics }

    // MARK: Upkeep

    @discardableResult
    public func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try open { try pool.checkpoint(mode) }
    }

    public func vacuum(into path: String) throws { try open { try pool.vacuum(into: path) } }

    /// What checkpoints of this process did since the store was opened, and what keeps the log from shrinking.
    public var checkpointStatistics: CheckpointStatistics { pool.checkpointStatistics }

    public func interrupt() { pool.interrupt() }

    /// Closes the store after the accesses under way; later ones throw `StoreError.storeClosed`. Those that throw only
    /// what their closure throws run it, and its statements throw `SQLITE_MISUSE`.
    public func close() throws {
        try pool.close()
        CrashPoint.reach(.closingConnectionsClosed)
        isClosed.withLock { $0 = true }
        suspension.close()
        keeper.releaseNow()
    }

    // MARK: Closed stores

    private let isClosed = Mutex(false)

    private func open<T>(_ body: () throws -> T) throws -> T {
        try requireOpen()
        return try body()
    }

    func requireOpen() throws {
        guard isClosed.withLock({ $0 }) else { return try requireSameStore() }
        throw StoreError(
            .storeClosed,
            what: "The store \"\(path)\" was closed.",
            why: "close() was called on it.",
            remedy: "Open it again with SharedStore.open.")
    }
}
