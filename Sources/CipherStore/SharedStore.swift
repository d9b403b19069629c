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
/// sidecar beside the file, in two copies. Locks wait for up to 5 seconds unless `Configuration.busyMode` says
/// otherwise.
public final class SharedStore: DatabaseWriter {
    /// The configuration with which the store was opened.
    public let configuration: Configuration
    public let path: String
    /// The store's identifier, which never changes.
    public let storeID: StoreID
    let connections: StoreConnections

    init(
        pool: DatabasePool, lease: Lease?, identity: StoreIdentity, keyring: Keyring
    ) throws {
        configuration = pool.configuration
        path = pool.path
        storeID = identity.storeID
        let keeper = try LeaseKeeper(
            pool.configuration, paths: StorePaths(pool.path), identity: identity, lease: lease)
        connections = StoreConnections(
            pool: pool, keyring: keyring, keeper: keeper, listens: lease != nil)
        suspension.add(
            DatabaseSuspension.Locks(
                release: { [weak connections] in connections?.suspend() },
                recheck: { [weak connections] wait in try connections?.resume(wait) }))
        // A suspension that began while the store was being opened did not know of the lease.
        if suspension.isSuspended { connections.suspend() }
        JobControlSuspension.add(self)
    }

    /// Repairs and risks found while the store was opened: one sentence each, to be logged.
    public var notices: [String] { connections.keyring.opening.notices }

    /// The epoch of the store's data key: 1 at first, incremented by each rotation.
    public var epoch: UInt64 { connections.keeper.identity.epoch }

    var suspension: DatabaseSuspension { connections.suspension }
    /// The keys of the store, for their administration.
    var keyring: Keyring { connections.keyring }

    /// Checks whether the store can be used, without an access of it.
    ///
    /// - Throws: `StoreError` when it was closed, moved or given another key.
    func requireOpen() throws { try connections.requireOpen() }

    /// Whether an opening of the store by this process still holds the opening lock.
    var isOpeningLockHeld: Bool { connections.keyring.opening.isLocked }

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
    /// errors of their closure still run it, and its statements throw `SQLITE_MISUSE`.
    public func close() throws { try connections.close() }

    // MARK: Accesses

    /// Runs an access of this thread, after a switch to a new key that is in progress.
    ///
    /// - Parameter isWrite: Whether it is refused at once while the store is suspended.
    @inline(__always)
    func access<T>(isWrite: Bool = false, _ body: (DatabasePool) throws -> T) throws -> T {
        let access = try connections.enter(isWrite: isWrite)
        defer { connections.leave(access) }
        return try body(access.pool)
    }

    /// Runs an access of this task, after a switch to a new key that is in progress.
    func access<T: Sendable>(
        isWrite: Bool = false, _ body: @Sendable (DatabasePool) async throws -> T
    ) async throws -> T {
        let access = try await connections.enter(isWrite: isWrite)
        defer { connections.leave(access, isOnQueue: true) }
        return try await body(access.pool)
    }
}
