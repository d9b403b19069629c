import Dispatch

/// An object that reads and writes a database: a queue, a pool, a shared store.
public protocol DatabaseWriter: DatabaseReader {
    /// Writes in a transaction, which an error rolls back.
    ///
    /// The transaction is of the kind ``Configuration/defaultTransactionKind``. Must not be called from inside another
    /// write access of the same database; that traps.
    /// - Throws: The error of `updates`, or ``DatabaseError``.
    func write<T>(_ updates: (Database) throws -> T) throws -> T

    /// Writes, as ``write(_:)-(_)`` does, without blocking the thread. `updates` runs as a part of the task. Cancelling
    /// the task before the commit rolls back and throws `CancellationError`. After the commit a cancellation changes
    /// nothing.
    ///
    /// - Throws: The error of `updates`, ``DatabaseError``, or `CancellationError`.
    func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Writes without a transaction around it: each statement commits by itself, unless `updates` begins one.
    ///
    /// It throws the errors of `updates` and nothing else: on a closed database `updates` runs nevertheless, and its
    /// statements throw `SQLITE_MISUSE`.
    func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T

    /// Writes without a transaction around it and without blocking the thread.
    ///
    /// If `updates` ends without an error, its value is returned, although the task was cancelled meanwhile.
    ///
    /// - Throws: The error of `updates`, ``DatabaseError``, or `CancellationError` when the task is cancelled before its
    ///   access begins or before its last statement ends. Statements that were committed before stay.
    func writeWithoutTransaction<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T

    /// Writes without a transaction around it, also from inside another access of the same database. Its errors are
    /// those of `writeWithoutTransaction`.
    func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T

    /// Writes while nothing reads: waits for the reads under way, and makes new ones wait.
    func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T

    /// Writes while nothing reads, without blocking the thread. Cancelling the task ends the wait for the reads.
    ///
    /// - Throws: As `writeWithoutTransaction`.
    func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T

    /// Writes later while nothing reads, without waiting for it.
    func asyncBarrierWriteWithoutTransaction(_ updates: @escaping @Sendable (Result<Database, any Error>) -> Void)

    /// Writes later, without a transaction around it and without waiting for it; in the order of the calls.
    func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void)

    /// Reads the last commit, from inside a write access and outside of its transactions.
    ///
    /// It returns when the read has its snapshot: `value` sees what was committed before, and not what is written
    /// later. `value` runs concurrently with the writes that follow.
    func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void)

    /// Copies the WAL into the database file.
    ///
    /// - Returns: What was copied; zero frames without WAL.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` when another connection writes, or when `mode` asks for more than
    ///   readers allow.
    @discardableResult
    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult

    /// Copies the database into a new file without free pages, encrypted like this one: under the same key, set by the
    /// same configuration, with its own salt (and where the configuration asks for one, its own sidecar).
    ///
    /// `VACUUM INTO` as SQL is refused: SQLCipher writes a file that does not open with the settings of this one.
    /// - Parameter path: A file that does not exist, or is empty. After an error it may be incomplete.
    /// - Throws: ``DatabaseError``, or the errors of opening.
    func vacuum(into path: String) throws
}

extension DatabaseWriter {
    /// Writes later in a transaction, without waiting for it; in the order of the calls.
    ///
    /// - Parameter completion: Called after the transaction, with the result of `updates` or the error.
    public func asyncWrite<T>(
        _ updates: @escaping @Sendable (Database) throws -> T,
        completion: @escaping @Sendable (Database, Result<T, any Error>) -> Void
    ) {
        asyncWriteWithoutTransaction { db in
            completion(db, Result { try db.inWriteTransaction(updates) })
        }
    }

    /// Copies as much of the WAL as possible into the database file.
    @discardableResult
    public func checkpoint() throws -> CheckpointResult { try checkpoint(.passive) }

    /// Rebuilds the database file, without its free pages.
    /// - SeeAlso: <https://www.sqlite.org/lang_vacuum.html>
    public func vacuum() throws { try writeWithoutTransaction { try $0.execute(sql: "VACUUM") } }

    /// Rebuilds the database file, without its free pages.
    /// - SeeAlso: <https://www.sqlite.org/lang_vacuum.html>
    public func vacuum() async throws { try await writeWithoutTransaction { try $0.execute(sql: "VACUUM") } }

    /// Copies the database, as the other `vacuum(into:)` does, without blocking the threads of tasks.
    ///
    /// A cancellation before the copy begins throws `CancellationError`; later ones change nothing.
    ///
    /// - Parameter path: A file that does not exist, or is empty. After an error it may be incomplete.
    /// - Throws: ``DatabaseError``, the errors of opening, or `CancellationError`.
    public func vacuum(into path: String) async throws {
        try Task.checkCancellation()
        try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
            DispatchQueue.global().async { continuation.resume(with: Result { try self.vacuum(into: path) }) }
        }
    }
}
