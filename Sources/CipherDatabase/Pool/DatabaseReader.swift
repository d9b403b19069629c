/// What reads a database: a queue, a pool, a shared store.
public protocol DatabaseReader: AnyObject, Sendable {
    /// The configuration with which the database was opened.
    var configuration: Configuration { get }

    /// The path of the database file; ":memory:" for a database in memory.
    var path: String { get }

    /// Closes all connections, after the accesses under way. Later accesses throw `SQLITE_MISUSE`.
    ///
    /// Must not be called from inside an access of the same database; that traps.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when a statement is still in use; the database stays usable then.
    func close() throws

    /// Interrupts the statements under way: they throw `SQLITE_INTERRUPT`, and their transactions roll back.
    func interrupt()

    /// Reads: all that `value` sees is of one moment. Writing throws `SQLITE_READONLY`.
    ///
    /// Must not be called from inside another access of the same database; that traps.
    /// - Throws: The error of `value`, or ``DatabaseError``.
    func read<T>(_ value: (Database) throws -> T) throws -> T

    /// Reads, as ``read(_:)-(_)`` does, without blocking the thread. Cancelling the task interrupts it.
    ///
    /// - Throws: The error of `value`, ``DatabaseError``, or `CancellationError`.
    func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Reads without a transaction: each statement sees the database as it is then.
    func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T

    /// Reads without a transaction and without blocking the thread.
    func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T
}

/// What reads and writes a database: a queue, a pool, a shared store.
public protocol DatabaseWriter: DatabaseReader {
    /// Writes in a transaction, which an error rolls back.
    ///
    /// The transaction is of the kind ``Configuration/defaultTransactionKind``. Must not be called from inside another
    /// write access of the same database; that traps.
    /// - Throws: The error of `updates`, or ``DatabaseError``.
    func write<T>(_ updates: (Database) throws -> T) throws -> T

    /// Writes, as ``write(_:)-(_)`` does, without blocking the thread. Cancelling the task rolls back.
    ///
    /// - Throws: The error of `updates`, ``DatabaseError``, or `CancellationError`.
    func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Writes without a transaction around it: each statement commits by itself, unless `updates` begins one.
    func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T

    /// Writes without a transaction around it and without blocking the thread.
    func writeWithoutTransaction<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Copies the write-ahead log into the database file.
    ///
    /// - Returns: What was copied; zero frames without WAL.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when another connection writes, or when `mode` asks for more than
    ///   readers allow.
    @discardableResult
    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult
}

extension DatabaseWriter {
    /// Copies what it can of the write-ahead log into the database file.
    @discardableResult
    public func checkpoint() throws -> CheckpointResult { try checkpoint(.passive) }

    /// Rebuilds the database file, without its free pages.
    /// - SeeAlso: <https://www.sqlite.org/lang_vacuum.html>
    public func vacuum() throws { try writeWithoutTransaction { try $0.execute(sql: "VACUUM") } }
}
