import CipherDatabase
import Synchronization

/// Tells of each transaction that changes a part of the database.
///
/// ```swift
/// let observation = DatabaseRegionObservation(tracking: Player.all(), Team.all())
/// let cancellable = observation.start(in: pool) { error in ... } onChange: { db in ... }
/// ```
///
/// Changes that this connection makes are seen, also of tables without rowid and of rows that a `REPLACE` removes, and
/// when a table is dropped or altered. Where SQLite does not report rows, a change of any row of the table counts.
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

    /// Finds the region in the present schema.
    private func find(_ db: Database) throws -> DatabaseRegion {
        try db.withoutWatching { try region(db).observable(db) }
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
    @preconcurrency
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
    @preconcurrency
    public func start(
        in writer: any DatabaseWriter, onChange: @escaping @Sendable (Database) -> Void
    ) throws -> AnyDatabaseCancellable {
        try writer.unsafeReentrantWrite { db in
            try db.requireObservable()
            let observer = RegionChangeObserver(try find(db), onChange, find)
            db.add(transactionObserver: observer)
            return AnyDatabaseCancellable { observer.cancel() }
        }
    }
}

/// Calls a function after each commit that changes a region.
// Safe because: all but `isCancelled` is used inside accesses of one connection, which run one at a time.
private final class RegionChangeObserver: RegionObserver, @unchecked Sendable {
    private(set) var region: DatabaseRegion
    private let find: @Sendable (Database) throws -> DatabaseRegion
    private let onChange: Mutex<(@Sendable (Database) -> Void)?>
    private var isChanged = false
    private var isObsolete = false

    init(
        _ region: DatabaseRegion, _ onChange: @escaping @Sendable (Database) -> Void,
        _ find: @escaping @Sendable (Database) throws -> DatabaseRegion
    ) {
        self.region = region
        self.find = find
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

    func regionMayBeObsolete() { isObsolete = true }

    func databaseDidCommit(_ db: Database) {
        if isObsolete { findAgain(db) }
        guard isChanged else { return }
        isChanged = false
        onChange.withLock { $0 }?(db)
    }

    private func findAgain(_ db: Database) {
        isObsolete = false
        // Where a table is not there any more, one of its name may come.
        guard let found = try? find(db), found != region else { return }
        region = found
        (db.observer as? ObservationBroker)?.regionDidChange()
    }

    func databaseDidRollback(_ db: Database) { (isChanged, isObsolete) = (false, false) }
}
