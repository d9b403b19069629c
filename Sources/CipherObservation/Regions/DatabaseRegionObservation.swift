import CipherDatabase
import Synchronization

/// Tells of each transaction that changes a part of the database.
///
/// ```swift
/// let observation = DatabaseRegionObservation(tracking: Player.all(), Team.all())
/// let cancellable = observation.start(in: pool) { error in ... } onChange: { db in ... }
/// ```
///
/// Changes of rows that this connection makes are seen; see ``TransactionObserver`` for those that are not.
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
    ///   - onError: Called before the function returns when a region cannot be found, as for a missing table. Nothing
    ///     is observed then.
    ///   - onChange: Called after each commit that changes the region, with the writing connection, before any other
    ///     write. It may read and write.
    /// - Returns: What keeps the observation running.
    public func start(
        in writer: any DatabaseWriter, onError: @escaping (any Error) -> Void,
        onChange: @escaping @Sendable (Database) -> Void
    ) -> AnyDatabaseCancellable {
        do {
            return try start(in: writer, onChange: onChange)
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
        try writer.unsafeReentrantWrite { db in
            try db.requireObservable()
            let observed = try db.withoutWatching { try region(db).observable(db) }
            let observer = RegionChangeObserver(observed, onChange)
            db.add(transactionObserver: observer)
            return AnyDatabaseCancellable { observer.cancel() }
        }
    }
}

/// Calls a function after each commit that changes a region.
// Safe because: all but `isCancelled` is used inside accesses of one connection, which run one at a time.
private final class RegionChangeObserver: RegionObserver, @unchecked Sendable {
    let region: DatabaseRegion
    private let onChange: Mutex<(@Sendable (Database) -> Void)?>
    private var isChanged = false

    init(_ region: DatabaseRegion, _ onChange: @escaping @Sendable (Database) -> Void) {
        self.region = region
        self.onChange = Mutex(onChange)
    }

    func cancel() { onChange.withLock { $0 = nil } }

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
