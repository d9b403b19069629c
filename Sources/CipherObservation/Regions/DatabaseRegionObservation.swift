import CipherDatabase
import Synchronization

/// Tells of each transaction that changes a part of the database.
///
/// ```swift
/// let observation = DatabaseRegionObservation(tracking: Player.all(), Team.all())
/// let cancellable = observation.start(in: pool) { error in ... } onChange: { db in ... }
/// ```
///
/// Changes of rows that this connection makes are seen; see ``TransactionObserver`` for those that are not. Each commit of
/// another connection or process counts as a change of everything; several of them may be told as one.
public struct DatabaseRegionObservation: Sendable {
    private let region: @Sendable (Database) throws -> DatabaseRegion

    /// An observation of all of these regions.
    ///
    /// - Parameter regions: Requests, tables and regions.
    public init(tracking regions: any DatabaseRegionConvertible...) { self.init(tracking: regions) }

    /// An observation of all of these regions.
    public init(tracking regions: [any DatabaseRegionConvertible]) {
        // Safe because: requests are values, and AnyDatabaseRegionConvertible documents that its function is called on
        // the writing connection.
        nonisolated(unsafe) let regions = regions
        region = { db in try DatabaseRegion.union(regions, db) }
    }

    /// Starts the observation, after the write under way: from the return on, no change is missed.
    ///
    /// - Parameters:
    ///   - writer: A queue, a pool or a shared store. The observation stays when its connection is replaced.
    ///   - onError: Called before the function returns when a region cannot be found, as for a missing table: nothing is
    ///     observed then. Called later, once and on any thread, when the store was replaced or removed, which ends the
    ///     observation.
    ///   - onChange: Called after each commit that changes the region, with the writing connection, before any other
    ///     write. It may read and write.
    /// - Returns: What keeps the observation running.
    @preconcurrency
    public func start(
        in writer: any DatabaseWriter, onError: @escaping @Sendable (any Error) -> Void,
        onChange: @escaping @Sendable (Database) -> Void
    ) -> AnyDatabaseCancellable {
        do {
            return try start(in: writer, onLoss: onError, onChange)
        } catch {
            onError(error)
            return AnyDatabaseCancellable {}
        }
    }

    /// Starts the observation, after the write under way: from the return on, no change is missed.
    ///
    /// - Parameters:
    ///   - writer: A queue, a pool or a shared store. The observation stays when its connection is replaced.
    ///   - onChange: Called after each commit that changes the region, with the writing connection, before any other
    ///     write. It may read and write.
    /// - Returns: What keeps the observation running.
    /// - Throws: ``DatabaseError`` when a region cannot be found, as for a missing table; `StoreError`.
    public func start(
        in writer: any DatabaseWriter, onChange: @escaping @Sendable (Database) -> Void
    ) throws -> AnyDatabaseCancellable {
        try start(in: writer, onLoss: { _ in }, onChange)
    }

    private func start(
        in writer: any DatabaseWriter, onLoss: @escaping @Sendable (any Error) -> Void,
        _ onChange: @escaping @Sendable (Database) -> Void
    ) throws -> AnyDatabaseCancellable {
        try writer.unsafeReentrantWrite { db in
            try db.requireObservable()
            let observed = try db.withoutWatching { try region(db).observable(db) }
            let observer = RegionChangeObserver(observed, onChange, onLoss)
            db.add(transactionObserver: observer)
            return AnyDatabaseCancellable { observer.cancel() }
        }
    }
}

/// Calls a function after each commit that changes a region.
// Safe because: all but the functions, which have locks, is used inside accesses of one connection, which run one at a time.
private final class RegionChangeObserver: RegionObserver, @unchecked Sendable {
    let region: DatabaseRegion
    private let onChange: Mutex<(@Sendable (Database) -> Void)?>
    private let onLoss: Mutex<(@Sendable (any Error) -> Void)?>
    private var isChanged = false

    init(
        _ region: DatabaseRegion, _ onChange: @escaping @Sendable (Database) -> Void,
        _ onLoss: @escaping @Sendable (any Error) -> Void
    ) {
        self.region = region
        self.onChange = Mutex(onChange)
        self.onLoss = Mutex(onLoss)
    }

    func cancel() {
        onChange.withLock { $0 = nil }
        onLoss.withLock { $0 = nil }
    }

    func observationDidFail(_ error: any Error) {
        let tell = onLoss.withLock { $0.take() }
        cancel()
        tell?(error)
    }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { region.isModified(byEventsOfKind: eventKind) }

    func databaseDidChange() {
        isChanged = true
        stopObservingDatabaseChangesUntilNextTransaction()
    }

    func databaseDidChange(with event: DatabaseEvent) {
        if region.isModified(by: event) { databaseDidChange() }
    }

    func databaseDidCommit(_ db: Database) {
        guard isChanged else { return }
        isChanged = false
        onChange.withLock { $0 }?(db)
    }

    func databaseDidRollback(_ db: Database) { isChanged = false }
}
