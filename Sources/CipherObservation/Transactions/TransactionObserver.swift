import CipherDatabase

/// Receives the changes of rows, the commits and the rollbacks of one connection.
///
/// ```swift
/// final class Auditor: TransactionObserver {
///     func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "player" }
///     func databaseDidChange(with event: DatabaseEvent) { ... }
///     func databaseDidCommit(_ db: Database) { ... }
///     func databaseDidRollback(_ db: Database) { ... }
/// }
/// pool.add(transactionObserver: auditor)
/// ```
///
/// All functions are called on the thread of the access that writes. ``databaseDidChange(with:)`` and
/// ``databaseWillCommit()`` must not use the connection.
///
/// It does not see changes by other connections and processes, changes of the schema, of tables without rowid and of
/// SQLite's own tables, and the rows that a `REPLACE` removes; ``DatabaseRegionObservation`` counts the last three.
/// Rows that a statement has changed before it failed were reported, although the failure undid them.
public protocol TransactionObserver: AnyObject {
    /// Whether changes of a kind are reported to ``databaseDidChange(with:)``. Asked before statements run, for each
    /// kind of change that they may cause, by triggers and foreign keys as well. Commits and rollbacks are reported in
    /// any case.
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool

    /// Rows of an observed region have changed, and they are not reported one by one: other processes have written them,
    /// the schema has changed, or the program has called `notifyChanges(in:)`.
    func databaseDidChange()

    /// A row has changed.
    ///
    /// Inside a savepoint the call is made when the outermost one has been released, or before the commit; it is not
    /// made for changes that were rolled back with a savepoint.
    func databaseDidChange(with event: DatabaseEvent)

    /// A transaction is about to be committed. An error rolls it back, and becomes the error of the commit.
    func databaseWillCommit() throws

    /// A transaction was committed, one without changes too. The connection may be used, and may write.
    func databaseDidCommit(_ db: Database)

    /// A transaction was rolled back, for whatever reason. The connection may be used, and may write.
    func databaseDidRollback(_ db: Database)
}

extension TransactionObserver {
    public func databaseWillCommit() throws {}
    public func databaseDidChange() {}

    /// Ends the calls of ``databaseDidChange(with:)`` until the transaction under way has ended.
    ///
    /// It must be called from ``databaseDidChange(with:)`` or ``databaseDidChange()``; that it is not is an error of
    /// the program, which traps.
    public func stopObservingDatabaseChangesUntilNextTransaction() {
        guard let broker = ObservationBroker.reporting(to: self) else {
            ProgrammerError.trap(
                "stopObservingDatabaseChangesUntilNextTransaction must be called by databaseDidChange(with:)")
        }
        broker.stopReporting()
    }
}

extension Database {
    /// How long an observer is notified.
    public enum TransactionObservationExtent: Sendable {
        /// Until the observer is deallocated: the database does not keep it.
        case observerLifetime
        /// Until the end of the transaction under way, or of the next one. The database keeps the observer.
        case nextTransaction
        /// Until the database is closed, which keeps the observer.
        case databaseLifetime
    }

    /// Adds an observer of the changes, commits and rollbacks of this connection.
    ///
    /// Observers of a pool, a queue and a shared store stay when their connection is replaced by another one.
    ///
    /// - Parameters:
    ///   - transactionObserver: The observer; one that is added twice is notified twice.
    ///   - extent: How long it is notified.
    public func add(
        transactionObserver: some TransactionObserver, extent: TransactionObservationExtent = .observerLifetime
    ) {
        if isClosedForObservers { return }
        let broker = observer as? ObservationBroker ?? ObservationBroker()
        broker.add(transactionObserver, extent)
        setObserver(broker)
        broker.followExternalCommits(transactionObserver, on: self)
    }

    /// Ends the reports to an observer.
    public func remove(transactionObserver: some TransactionObserver) {
        guard let broker = observer as? ObservationBroker else { return }
        broker.remove(transactionObserver)
        if broker.isEmpty { setObserver(nil) }
    }

    /// Tells observers of changes that the connection could not see: those of the schema, of tables without rowid, or
    /// by C code.
    ///
    /// Each observer of any kind of change in the region is notified once, by
    /// ``TransactionObserver/databaseDidChange()``; rowids are not considered. Tables that do not exist do not count. The
    /// whole database is all of its tables, temporary and attached ones too. It does not include `sqlite_master`: name
    /// that table to report a change of the schema. Outside of a transaction an empty one is made for the report. In an
    /// access that only reads it has no effect.
    ///
    /// - Throws: `DatabaseError` of the region's tables, or the error of an observer that vetoes the commit.
    public func notifyChanges(in region: some DatabaseRegionConvertible) throws {
        if isReadonlyNow { return }
        guard let broker = observer as? ObservationBroker else { return }
        let kinds = try withoutWatching {
            try region.databaseRegion(self).existing(self).eventKinds(
                tables: {
                    let schemas = try String.fetchAll(self, sql: "SELECT name FROM pragma_database_list")
                    return try schemas.flatMap { schema in
                        try SQLRequest<String>(
                            literal: "SELECT name FROM \(identifier: schema).sqlite_schema WHERE type = 'table'"
                        ).fetchAll(self)
                    }
                },
                columns: { try Self.isSchemaTable($0) ? [] : columns(in: $0).map(\.name) })
        }
        if kinds.isEmpty { return }
        if isInsideTransaction { return broker.reportUnseenChanges(kinds) }
        try inTransaction(.deferred) {
            broker.reportUnseenChanges(kinds)
            return .commit
        }
    }
}

extension DatabaseWriter {
    /// Adds an observer of the changes, commits and rollbacks of the writing connection, after the write under way.
    public func add(
        transactionObserver: some TransactionObserver,
        extent: Database.TransactionObservationExtent = .observerLifetime
    ) {
        unsafeReentrantWrite { $0.add(transactionObserver: transactionObserver, extent: extent) }
    }

    /// Ends the reports to an observer, after the write under way.
    public func remove(transactionObserver: some TransactionObserver) {
        unsafeReentrantWrite { $0.remove(transactionObserver: transactionObserver) }
    }
}
