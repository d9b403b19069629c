import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

/// A database with one writing connection and several reading ones, in WAL mode: reads never wait for writes.
///
/// The writer is opened at once, readers when they are first needed, up to ``Configuration/maximumReaderCount``.
public final class DatabasePool: DatabaseWriter {
    /// The configuration with which the database was opened.
    public let configuration: Configuration
    /// The path of the database file, made absolute when the database was opened.
    public let path: String
    let writer: WritingConnection
    let readers: ReaderPool
    package let closing = ReaderClosing()
    /// The reads of tasks that run on their own threads.
    private let directReads = DirectAccesses()
    /// Releases memory under memory pressure.
    private let relief = Mutex<MemoryRelief?>(nil)
    let dependency = ConnectionDependency()
    let openSnapshot: @Sendable () throws -> DatabaseSnapshot

    /// Opens a database file, creating it when it does not exist.
    ///
    /// - Parameter path: A file. For a database in memory, which has one connection, use ``DatabaseQueue``.
    /// - Throws: `StoreError` for keys, salts and damaged files; ``DatabaseError`` for all other errors.
    public convenience init(path: String, configuration: Configuration = Configuration()) throws {
        // Once: a second thread may change the current directory.
        let path = MemoryPath.absolute(path)
        let fileKey = FileKey(path: path, configuration: configuration)
        try self.init(path: path, configuration: configuration, fileKey: fileKey, key: .fromPrepareDatabase)
    }

    /// - Parameter carryOver: The state of a pool that was closed for a pause, in whose place this one is opened.
    package init(
        path: String, configuration: Configuration, fileKey: FileKey, key: KeyOrigin, carryOver: PoolCarryOver? = nil
    ) throws {
        // Each connection would have a database of its own.
        if fileKey.isInMemory { throw DatabaseError(message: "could not activate WAL mode at path: \(path)") }
        self.configuration = configuration
        let path = MemoryPath.absolute(path)
        self.path = path
        let label = configuration.label ?? "CipherStore.DatabasePool"
        writer = try WritingConnection(
            path: path, label: label + ".writer", configuration: configuration, fileKey: fileKey, key: key, wal: true,
            carryOver: carryOver, dependency: dependency)
        var reading = configuration
        reading.readonly = true
        reading.allowsUnsafeTransactions = false
        let snapshots = Mutex(0)
        openSnapshot = { [reading, dependency] in
            let number = snapshots.withLock { count in
                count += 1
                return count
            }
            return try DatabaseSnapshot(
                path: path, label: label + ".snapshot.\(number)", configuration: reading, fileKey: fileKey, key: key,
                dependency: dependency)
        }
        let watch = ReadWatch(configuration)
        readers = ReaderPool(maximumCount: configuration.maximumReaderCount) { [reading, dependency] number in
            let open: @Sendable () throws -> Database = {
                try Database.open(
                    path: path, label: label + ".reader.\(number)", configuration: reading, fileKey: fileKey,
                    role: .reader, key: key)
            }
            return SerialConnection(
                try open(), qos: reading.readQoS, target: reading.targetQueue, allowsOpenTransaction: false,
                dependency: dependency, watch: watch
            ) { _ in try open() }
        }
        guard configuration.automaticMemoryManagement else { return }
        relief.withLock { $0 = MemoryRelief { [weak self] in self?.releaseMemoryEventually() } }
        suspension.add(relief: { [weak self] in self?.releaseMemoryEventually() })
    }

    // MARK: Reading

    @inlinable
    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        // The result stays here, where its type is known: passing on a result of any type takes many more instructions.
        var result: T?
        try performRead { result = try value($0) }
        return try DatabaseError.require(result)
    }

    @usableFromInline
    func performRead(_ value: (Database) throws -> Void) throws {
        let reader = try readers.acquire(isInsideWrite: writer.connection.isAccessedHere)
        defer { readers.release(reader) }
        try reader.syncAlone { try $0.inReadTransaction(beginsNow: true, value) }
    }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await unsafeRead { try $0.inReadTransaction(beginsNow: true, value) }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T {
        let reader = try readers.acquire(isInsideWrite: writer.connection.isAccessedHere)
        defer { readers.release(reader) }
        return try reader.syncAlone(value)
    }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try Task.checkCancellation()
        if configuration.targetQueue == nil, let start = directReads.begin() {
            if let reader = readers.acquireIfFree() {
                defer {
                    readers.release(reader)
                    directReads.end(since: start)
                }
                return try await AsyncAccess.runHere(on: reader) { try reader.cancellableAccess($0, value) }
            }
            directReads.abandon()
        }
        return try await AsyncAccess.run(
            direct: directReads,
            on: { [readers] access in
                readers.acquire { result in
                    switch result {
                    case .success(let reader): reader.run(access) { readers.release(reader) }
                    case .failure(let error): access.endWait(error)
                    }
                }
            }, value)
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        if writer.connection.isAccessedHere { return try writer.connection.reentrantSync(value) }
        if let reader = readers.connectionAccessedHere { return try reader.reentrantSync(value) }
        return try unsafeRead(value)
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncUnsafeRead { outcome in
            do {
                try outcome.get().inReadTransaction(beginsNow: true) { value(.success($0)) }
            } catch {
                value(.failure(error))
            }
        }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        readers.acquire { [readers] outcome in
            switch outcome {
            case .failure(let error): value(.failure(error))
            case .success(let reader):
                reader.async {
                    value(.success($0))
                } finally: {
                    readers.release(reader)
                }
            }
        }
    }

    /// Statistics of the writes since the database was opened; files that are not encrypted have none.
    public var writeStatistics: WriteStatistics { writer.writeTurn?.statistics ?? WriteStatistics() }

    /// The suspension of the file, to which a shared store adds its locks.
    var suspension: DatabaseSuspension { writer.fileKey.opening.suspension }

    // MARK: Upkeep

    @discardableResult
    public func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try writer.checkpoint(mode)
    }

    public func vacuum(into path: String) throws { try writer.vacuum(into: path) }

    /// The results of checkpoints since the database was opened, and the obstacle to a reset of the WAL.
    public var checkpointStatistics: CheckpointStatistics { writer.checkpointStatistics }

    public func interrupt() {
        writer.connection.interrupt()
        readers.interrupt()
    }

    /// Releases memory that connections keep for speed; idle readers are closed.
    public func releaseMemory() {
        writer.reentrantSync { $0.releaseMemory() }
        if !configuration.persistentReadOnlyConnections { readers.closeIdle() } else { readers.releaseMemory() }
    }

    /// Releases memory without waiting for accesses under way.
    public func releaseMemoryEventually() {
        writer.async { $0.releaseMemory() }
        if !configuration.persistentReadOnlyConnections { return readers.closeIdle() }
        DispatchQueue.global().async { [readers] in readers.releaseMemory() }
    }

    /// Closes the idle readers, so that the next reads open new ones.
    public func invalidateReadOnlyConnections() { readers.closeIdle() }

    public func close() throws {
        try close(isPause: false)
        closing.close(because: DatabaseError.connectionIsClosed())
    }

    /// - Parameter isPause: Whether the database is opened again soon, by a pool that takes over the state of this one:
    ///   the WAL is left as it is, and the row in the table of holders is kept.
    package func close(isPause: Bool) throws {
        try readers.close()
        CrashPoint.reach(.closingReadersClosed)
        do {
            try writer.close(isPause: isPause)
        } catch {
            readers.reopen()
            throw error
        }
    }
}

// The calls that a shared store needs of its pool: to query it outside of accesses, to end running statements, and to
// replace it by another one.

extension DatabasePool {
    /// The parts that a pool takes over when it is opened in place of this one: its row in the table of holders with
    /// the statistics of its writes, those of its checkpoints, and the observers of its changes.
    package var carryOver: PoolCarryOver { writer.carryOver }

    /// Keeps an object alive until every connection of the pool, its snapshots included, has been closed.
    package func keep(_ object: any AnyObject & Sendable) { dependency.keep(object) }

    /// Calls a function when the reads that are under way now have ended.
    package func afterReadsUnderWay(_ tell: @escaping @Sendable () -> Void) { readers.afterReadsUnderWay(tell) }

    /// Whether reads are under way now.
    package var hasReadsUnderWay: Bool { readers.areLent }

    /// Whether an access of the writing connection is under way.
    package var isWriterBusy: Bool { writer.connection.isBusy }

    /// Whether this thread is inside an access of this pool.
    package var isAccessedHere: Bool {
        writer.connection.isAccessedHere || readers.connectionAccessedHere != nil
    }

    /// Makes the accesses under way end with an error as soon as they can, or, with nil, lets them continue. To be
    /// called repeatedly while there are any: a statement may begin after an interruption.
    package func withdrawAccesses(because reason: (any Error)?) {
        writer.connection.withdraw(because: reason)
        readers.withdraw(because: reason)
    }

    /// Runs an access that cannot throw by itself on a placeholder for a connection that is not available: each
    /// statement throws the reason.
    package static func refuse<T>(
        because reason: any Error, _ configuration: Configuration, _ body: (Database) throws -> T
    ) rethrows -> T {
        try SerialConnection.unopened(because: reason, configuration).sync(body)
    }
}

// Writing.

extension DatabasePool {
    @inlinable
    public func write<T>(_ updates: (Database) throws -> T) throws -> T {
        var result: T?
        try performWrite { result = try updates($0) }
        return try DatabaseError.require(result)
    }

    @usableFromInline
    func performWrite(_ updates: (Database) throws -> Void) throws {
        try writer.syncWrite { try $0.inWriteTransaction(updates) }
    }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncWrite(updates)
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T { try writer.sync(updates) }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await writer.asyncAccess(updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try writer.reentrantSync(updates)
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        writer.async(updates)
    }

    // The barrier comes before the writer: a read under way may itself wait for the writer.
    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try readers.barrier(endedBy: writer.connection.waitUnlessSuspended) {
            try writer.sync { db in
                try waitForReadsOfFormerWrites(db)
                return try updates(db)
            }
        }
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        readers.beginBarrier()
        defer { readers.endBarrier() }
        return try await writer.asyncAccess(after: { [readers] in readers.afterAllAreBack($0) }) { [self] db in
            try waitForReadsOfFormerWrites(db)
            return try updates(db)
        }
    }

    /// Waits, inside the access of a barrier, for the reads that the write before it has spawned.
    ///
    /// - Throws: `CancellationError` when the task of the access is cancelled; ``DatabaseError`` `.SQLITE_ABORT` when a
    ///   suspension ends the wait.
    private func waitForReadsOfFormerWrites(_ db: Database) throws {
        let cancellation = db.access.cancellation
        do {
            try readers.waitUntilAllAreBack { wait in
                guard let cancellation else { return try writer.connection.waitUnlessSuspended(wait) }
                try cancellation.ending(wait) { try writer.connection.waitUnlessSuspended(wait) }
            }
        } catch {
            throw cancellation?.isSet == true ? CancellationError() : error
        }
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        DispatchQueue.global().async { [self] in
            do {
                try barrierWriteWithoutTransaction { updates(.success($0)) }
            } catch {
                updates(.failure(error))
            }
        }
    }

    /// Runs a block in a transaction. An error rolls it back.
    public func writeInTransaction(
        _ kind: Database.TransactionKind? = nil, _ updates: (Database) throws -> Database.TransactionCompletion
    ) throws {
        try writer.syncWrite { db in try db.inTransaction(kind) { try updates(db) } }
    }
}

extension DatabasePool: ClosableReader, SuspendableReader {
    package var suspensionOfFile: DatabaseSuspension? { suspension }
}

// Reads of one snapshot that outlive the call that began them.

extension DatabasePool {
    /// A snapshot of the last commit, which does not change.
    ///
    /// Inside a write access it must be made outside of the access's transactions.
    public func makeSnapshot() throws -> DatabaseSnapshot {
        if writer.connection.isAccessedHere { writer.connection.requireAccessHere().requireNoTransaction() }
        return try openSnapshot()
    }

    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncConcurrentRead(value)
    }

    /// Reads the last commit concurrently with the writes that follow: see ``spawnConcurrentRead(_:)``.
    public func asyncConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        writer.connection.requireAccessHere().requireNoTransaction()
        let reader: SerialConnection
        do {
            reader = try readers.acquire(isInsideWrite: true)
        } catch {
            return value(.failure(error))
        }
        let view = SingleWait<Void>()
        reader.async { db in
            do {
                try db.inReadTransaction { db in
                    // The transaction has no snapshot until its first read; the writer waits only for that.
                    try db.run(.view)
                    view.end(())
                    value(.success(db))
                }
            } catch {
                view.end(())
                value(.failure(error))
            }
        } finally: { [readers] in
            readers.release(reader)
        }
        view.wait()
    }
}
