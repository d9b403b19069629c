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
/// in a sidecar beside the file, in two copies. Locks wait for up to 5 seconds unless ``Configuration/busyMode`` says
/// otherwise.
public final class SharedStore: DatabaseWriter {
    /// What was mended or looked risky while the store was opened: plain sentences, for a log.
    public let notices: [String]
    /// The store's name for life.
    public let storeID: StoreID
    /// Which data key the store has; 1 at first, one more for each rotation.
    public let epoch: UInt64
    private let pool: DatabasePool
    private let lease: Lease?

    init(pool: DatabasePool, lease: Lease?, identity: StoreIdentity, notices: [String]) {
        self.pool = pool
        self.lease = lease
        self.notices = notices
        storeID = identity.storeID
        epoch = identity.epoch
    }

    public var configuration: Configuration { pool.configuration }
    public var path: String { pool.path }

    // MARK: Reading

    public func read<T>(_ value: (Database) throws -> T) throws -> T { try open { try pool.read(value) } }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.read(value)
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try open { try pool.unsafeRead(value) } }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.unsafeRead(value)
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try open { try pool.unsafeReentrantRead(value) }
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) { pool.asyncRead(value) }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        pool.asyncUnsafeRead(value)
    }

    /// A view of the last commit that stays as it is.
    public func makeSnapshot() throws -> DatabaseSnapshot { try open { try pool.makeSnapshot() } }

    // MARK: Writing

    public func write<T>(_ updates: (Database) throws -> T) throws -> T { try open { try pool.write(updates) } }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try requireOpen()
        return try await pool.write(updates)
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try open { try pool.writeWithoutTransaction(updates) }
    }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try requireOpen()
        return try await pool.writeWithoutTransaction(updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) throws -> T {
        try open { try pool.unsafeReentrantWrite(updates) }
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

    /// What checkpoints of this process did since the store was opened, and what keeps the log from shrinking.
    public var checkpointStatistics: CheckpointStatistics { pool.checkpointStatistics }

    public func interrupt() { pool.interrupt() }

    /// Closes the store after the accesses under way; later ones throw `StoreError.storeClosed`.
    public func close() throws {
        try pool.close()
        isClosed.withLock { $0 = true }
        lease?.release()
    }

    // MARK: Closed stores

    private let isClosed = Mutex(false)

    private func open<T>(_ body: () throws -> T) throws -> T {
        try requireOpen()
        return try body()
    }

    private func requireOpen() throws {
        guard isClosed.withLock({ $0 }) else { return }
        throw StoreError(
            .storeClosed,
            what: "The store \"\(path)\" was closed.",
            why: "close() was called on it.",
            remedy: "Open it again with SharedStore.open.")
    }
}
