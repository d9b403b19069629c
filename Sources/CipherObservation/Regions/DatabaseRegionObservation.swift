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
/// when a table is dropped or altered. If SQLite does not report rows, a change of any row of the table counts.
///
/// Commits of other connections and processes are seen too: by what the history of changes has recorded of them, and
/// where nothing is recorded, each of them counts as a change of everything. Several of them may be told as one.
public struct DatabaseRegionObservation: Sendable {
    private let region: @Sendable (Database) throws -> DatabaseRegion

    /// An observation of all of these regions.
    ///
    /// - Parameter regions: Requests, tables and regions.
    public init(tracking regions: any DatabaseRegionConvertible...) { self.init(tracking: regions) }

    /// An observation of all of these regions.
    public init(tracking regions: [any DatabaseRegionConvertible]) {
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
    ///   - onError: Called before the function returns when a region cannot be found, as for a missing table: nothing is
    ///     observed then. Called later, once, on any thread and outside of accesses, when the store was replaced,
    ///     removed or closed, which ends the observation.
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
    /// - Throws: `DatabaseError` when a region cannot be found, as for a missing table; `StoreError`.
    @preconcurrency
    public func start(
        in writer: any DatabaseWriter, onChange: @escaping @Sendable (Database) -> Void
    ) throws -> AnyDatabaseCancellable {
        try start(in: writer, onLoss: { _ in }, onChange)
    }

    private func start(
        in writer: any DatabaseWriter, onLoss: @escaping @Sendable (any Error) -> Void,
        _ onChange: @escaping @Sendable (Database) -> Void
    ) throws -> AnyDatabaseCancellable {
        let observer = try writer.unsafeReentrantWrite { db in
            try db.requireObservable()
            let observer = RegionChangeObserver(try find(db), onChange, onLoss, find)
            db.add(transactionObserver: observer)
            return observer
        }
        let closingWait = writer.closingOfReader?.whenClosed { [weak observer] in observer?.observationDidFail($0) }
        return AnyDatabaseCancellable { withExtendedLifetime(closingWait) { observer.cancel() } }
    }
}

/// Calls a function after each commit that changes a region.
// Safe because: all but the functions, which have locks, is used inside accesses of one connection, which run one at a
// time.
private final class RegionChangeObserver: RegionObserver, @unchecked Sendable {
    private(set) var region: DatabaseRegion
    private let find: @Sendable (Database) throws -> DatabaseRegion
    private let functions: Mutex<Functions>
    private var isChanged = false
    private var isObsolete = false

    // A type of their own: a function that is itself the value of a Mutex is wrapped once more by each access, and the
    // calls go through all of the wrappers.
    private struct Functions {
        var onChange: (@Sendable (Database) -> Void)?
        var onLoss: (@Sendable (any Error) -> Void)?
    }

    init(
        _ region: DatabaseRegion, _ onChange: @escaping @Sendable (Database) -> Void,
        _ onLoss: @escaping @Sendable (any Error) -> Void,
        _ find: @escaping @Sendable (Database) throws -> DatabaseRegion
    ) {
        self.region = region
        self.find = find
        functions = Mutex(Functions(onChange: onChange, onLoss: onLoss))
    }

    func cancel() { _ = takeFunctions() }

    func observationDidFail(_ error: any Error) { takeFunctions().onLoss?(error) }

    private func takeFunctions() -> Functions {
        functions.withLock { functions in
            defer { functions = Functions() }
            return functions
        }
    }

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
        functions.withLock { $0 }.onChange?(db)
    }

    private func findAgain(_ db: Database) {
        isObsolete = false
        // If a table is missing, one of its name may come.
        guard let found = try? find(db), found != region else { return }
        region = found
        (db.observer as? ObservationBroker)?.regionDidChange()
    }

    func databaseDidRollback(_ db: Database) { (isChanged, isObsolete) = (false, false) }
}
