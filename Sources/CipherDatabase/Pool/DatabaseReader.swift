import Dispatch

/// An object that reads a database: a queue, a pool, a shared store.
public protocol DatabaseReader: AnyObject, Sendable {
    /// The configuration with which the database was opened.
    var configuration: Configuration { get }

    /// The path of the database file; ":memory:" for a database in memory.
    var path: String { get }

    /// Closes all connections, after the accesses under way. Later accesses throw `SQLITE_MISUSE`. Observations end with
    /// that error. Those of a shared store end with `StoreError.storeClosed`.
    ///
    /// Must not be called from inside an access of the same database; that traps.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when a statement is still in use; the database stays usable then.
    func close() throws

    /// Interrupts the statements under way: they throw `SQLITE_INTERRUPT`, and their transactions roll back.
    func interrupt()

    /// Reads: `value` sees one snapshot. Writing throws `SQLITE_READONLY`.
    ///
    /// Must not be called from inside another access of the same database; that traps.
    /// - Throws: The error of `value`, or ``DatabaseError``.
    func read<T>(_ value: (Database) throws -> T) throws -> T

    /// Reads, as ``read(_:)-(_)`` does, without blocking the thread. `value` runs as a part of the task, and cancelling
    /// the task interrupts its statement. If `value` ends without an error, its value is returned, although the task
    /// was cancelled meanwhile.
    ///
    /// - Throws: The error of `value`, ``DatabaseError``, or `CancellationError`.
    func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Reads without a transaction: each statement sees the database as it is then. Writing throws `SQLITE_READONLY`.
    func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T

    /// Reads without a transaction and without blocking the thread.
    func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Reads without a transaction, also from inside another access of the same database.
    func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T

    /// Reads later, in a transaction, without waiting for it. A failure to get a connection is passed to `value`.
    func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void)

    /// Reads later, without a transaction and without waiting for it.
    func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void)
}

/// A reader that sees the same rows for as long as it exists.
public protocol DatabaseSnapshotReader: DatabaseReader {}

extension DatabaseSnapshotReader {
    /// Reads; within another access of the snapshot, in that access.
    public func reentrantRead<T>(_ value: (Database) throws -> T) throws -> T { try unsafeReentrantRead(value) }
}
