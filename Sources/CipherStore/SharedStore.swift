import CipherDatabase
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// An encrypted database that several processes share.
///
/// ```swift
/// let store = try SharedStore.open(at: path, unlockedBy: .keyFile(path: "/etc/app/key"), migrator: migrator)
/// try store.write { db in try db.execute(sql: "INSERT INTO note (text) VALUES (?)", arguments: ["hello"]) }
/// let count = try store.read { db in try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM note") }
/// ```
///
/// The first process creates and migrates the store; the others wait and find it complete. The salt is kept in a
/// sidecar beside the file, in two copies. A write waits up to 5 seconds for the writers of other
/// connections (`Configuration.busyMode`). `open` waits up to 60 seconds for the opening lock.
///
/// `open` and `openReadOnly` are in `Opening/SharedStore+Opening.swift`, backups in `Backup/SharedStore+Backup.swift`,
/// the removal of a store in `Destroying/StoreDestruction.swift`.
public final class SharedStore: DatabaseWriter {
    /// The configuration with which the store was opened.
    public let configuration: Configuration
    /// The path of the database file, made absolute when the store was opened.
    public let path: String
    /// The store's identifier, which never changes.
    public let storeID: StoreID
    let connections: StoreConnections

    init(
        pool: DatabasePool, lease: Lease?, identity: StoreIdentity, fileKey: FileKey
    ) throws {
        configuration = pool.configuration
        path = pool.path
        storeID = identity.storeID
        let keeper = try LeaseKeeper(
            pool.configuration, paths: StorePaths(pool.path), identity: identity, lease: lease)
        connections = StoreConnections(
            pool: pool, fileKey: fileKey, keeper: keeper, listens: lease != nil)
        suspension.add(
            DatabaseSuspension.Locks(
                release: { [weak connections] in connections?.suspend() },
                recheck: { [weak connections] wait in try connections?.resume(wait) }))
        // A suspension that began while the store was being opened did not know of the lease.
        if suspension.isSuspended { connections.suspend() }
        JobControlSuspension.add(self)
    }

    /// Repairs and risks found while the store was opened: one sentence each, to be logged.
    public var notices: [String] { connections.fileKey.opening.notices }

    /// The epoch of the store's data key: 1 at first, incremented by each rotation.
    public var epoch: UInt64 { connections.keeper.identity.epoch }

    /// The files of the store, as links led when it was opened.
    package var paths: StorePaths { connections.paths }

    var suspension: DatabaseSuspension { connections.suspension }
    /// The keys of the store, for their administration.
    var fileKey: FileKey { connections.fileKey }
    /// Whether this opening has created the store, or completed its creation.
    package var hasCreatedStore: Bool { fileKey.hasCreatedStore }

    /// Checks whether the store can be used, without an access of it.
    ///
    /// - Throws: `StoreError` when it was closed, moved or given another key.
    func requireOpen() throws { try connections.requireOpen() }

    /// Whether an opening of the store by this process still holds the opening lock.
    var isOpeningLockHeld: Bool { connections.fileKey.opening.isLocked }

    /// A snapshot of the last commit, which does not change. A switch to a new key waits for its end.
    public func makeSnapshot() throws -> DatabaseSnapshot {
        let access = try connections.enter()
        do {
            let snapshot = try access.pool.makeSnapshot()
            connections.keep(snapshot, as: access)
            return snapshot
        } catch {
            connections.leave(access)
            throw error
        }
    }

    /// A snapshot of the last commit for as many concurrent reads as the configuration has readers; it does not change.
    /// A switch to a new key waits for its end.
    public func makeSnapshotPool() throws -> DatabaseSnapshotPool {
        try DatabaseSnapshotPool(of: self) { try makeSnapshot() }
    }

    // MARK: Upkeep

    @discardableResult
    public func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try access(isWrite: true) { try $0.checkpoint(mode) }
    }

    public func vacuum(into path: String) throws { try access { try $0.vacuum(into: path) } }

    /// Statistics of the writes of this store object since it was opened. For other processes see `StoreHolders`.
    public var writeStatistics: WriteStatistics { connections.carryOver.writeStatistics }

    /// The checkpoints of this process since the store was opened, and the obstacle to a reset of the WAL.
    public var checkpointStatistics: CheckpointStatistics { connections.carryOver.checkpointStatistics }

    public func interrupt() { connections.openPool?.interrupt() }

    /// Closes the store after the running accesses; later ones throw `StoreError.storeClosed`. Accesses that throw only
    /// errors of their closure still run it, and its statements throw `SQLITE_MISUSE`. Observations end with
    /// `StoreError.storeClosed`.
    public func close() throws { try connections.close() }

    // MARK: Accesses

    /// Runs an access of this thread, after a switch to a new key that is in progress.
    ///
    /// - Parameter isWrite: Whether it is refused at once while the store is suspended.
    @inline(__always)
    func access<T>(isWrite: Bool = false, _ body: (DatabasePool) throws -> T) throws -> T {
        let access = try connections.enter(isWrite: isWrite)
        defer { connections.leave(access) }
        do {
            return try body(access.pool)
        } catch {
            throw connections.explain(error)
        }
    }

    /// Runs an access of this task, after a switch to a new key that is in progress.
    func access<T: Sendable>(
        isWrite: Bool = false, _ body: @Sendable (DatabasePool) async throws -> T
    ) async throws -> T {
        let access = try await connections.enter(isWrite: isWrite)
        defer { connections.leave(access, isOnQueue: true) }
        do {
            return try await body(access.pool)
        } catch {
            throw connections.explain(error)
        }
    }
}

extension SharedStore {
    public func read<T>(_ value: (Database) throws -> T) throws -> T { try access { try $0.read(value) } }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access { try await $0.read(value) }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try access { try $0.unsafeRead(value) } }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access { try await $0.unsafeRead(value) }
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        try access { try $0.unsafeReentrantRead(value) }
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.asyncRead($1) }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.asyncUnsafeRead($1) }
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        submit(value) { $0.spawnConcurrentRead($1) }
    }

    /// Passes an access without a waiting caller to a connection.
    func submit(
        _ value: @escaping @Sendable (Result<Database, any Error>) -> Void,
        _ begin: @escaping @Sendable (DatabasePool, @escaping @Sendable (Result<Database, any Error>) -> Void) -> Void
    ) {
        connections.submit { [connections] outcome in
            switch outcome {
            case .failure(let error): value(.failure(error))
            case .success(let access):
                begin(access.pool) { database in
                    defer { connections.leave(access, isOnQueue: true) }
                    value(database.mapError { connections.explain($0) })
                }
            }
        }
    }
}

extension SharedStore {
    public func write<T>(_ updates: (Database) throws -> T) throws -> T {
        try access(isWrite: true) { try $0.write(updates) }
    }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await access(isWrite: true) { try await $0.write(updates) }
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        switch entry {
        case .failure(let reason): return try DatabasePool.refuse(because: reason, configuration, updates)
        case .success(let access):
            defer { connections.leave(access) }
            return try access.pool.writeWithoutTransaction(updates)
        }
    }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await access { try await $0.writeWithoutTransaction(updates) }
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        switch entry {
        case .failure(let reason): return try DatabasePool.refuse(because: reason, configuration, updates)
        case .success(let access):
            defer { connections.leave(access) }
            return try access.pool.unsafeReentrantWrite(updates)
        }
    }

    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try access { try $0.barrierWriteWithoutTransaction(updates) }
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await access { try await $0.barrierWriteWithoutTransaction(updates) }
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        submit(updates) { $0.asyncBarrierWriteWithoutTransaction($1) }
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        connections.submit { [connections] outcome in
            switch outcome {
            case .failure(let error):
                DatabasePool.refuse(because: error.ofClosedConnection, connections.configuration, updates)
            case .success(let access):
                access.pool.asyncWriteWithoutTransaction { db in
                    defer { connections.leave(access, isOnQueue: true) }
                    updates(db)
                }
            }
        }
    }

    /// For an access that throws only what its closure throws: without a connection the closure still runs, and its
    /// statements throw the reason.
    private var entry: Result<StoreAccess, any Error> {
        Result { try connections.enter() }.mapError { $0.ofClosedConnection }
    }
}

extension Error {
    /// The error that a statement throws for this error of a store: `SQLITE_MISUSE` for a closed one, as everywhere.
    fileprivate var ofClosedConnection: any Error {
        (self as? StoreError)?.code == .storeClosed ? DatabaseError.connectionIsClosed() : self
    }
}
