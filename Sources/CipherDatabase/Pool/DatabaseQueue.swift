import KeyCustody
import Synchronization

/// A database with one connection: all accesses run one after the other.
///
/// Use it for databases in memory and for simple programs; in a ``DatabasePool`` reads run concurrently with writes.
public final class DatabaseQueue: DatabaseWriter {
    /// The configuration with which the database was opened.
    public let configuration: Configuration
    /// The path of the database file, made absolute when the database was opened; ":memory:" for a database in
    /// memory.
    public let path: String
    private let opening: Result<WritingConnection, any Error>
    package let closing = ReaderClosing()
    /// Releases memory under memory pressure.
    private let relief = Mutex<MemoryRelief?>(nil)

    /// Opens a database file, creating it when it does not exist.
    ///
    /// - Throws: `StoreError` for keys, salts and damaged files; ``DatabaseError`` for all other errors.
    public init(path: String, configuration: Configuration = Configuration()) throws {
        self.configuration = configuration
        let path = MemoryPath.absolute(path)
        self.path = path
        opening = .success(try Self.open(path, configuration))
        manageMemory()
    }

    /// Opens a file with a file key and a key of its own.
    package init(path: String, configuration: Configuration, fileKey: FileKey, key: KeyOrigin) throws {
        self.configuration = configuration
        let path = MemoryPath.absolute(path)
        self.path = path
        opening = .success(try Self.open(path, configuration, fileKey, key))
        manageMemory()
    }

    /// Opens a database in memory. It needs no key. An error of opening surfaces at the first access.
    public init(configuration: Configuration = Configuration()) {
        self.configuration = configuration
        path = ":memory:"
        opening = Result { try Self.open(":memory:", configuration) }
        manageMemory()
    }

    /// Opens a database in memory that all queues of this name in the process share, while at least one of them is
    /// open. An error of opening surfaces at the first access.
    ///
    /// - Parameter name: Any text; nil for a private database.
    public init(named name: String?, configuration: Configuration = Configuration()) {
        self.configuration = configuration
        let path = name.map(MemoryPath.shared) ?? MemoryPath.own
        self.path = path
        opening = Result { try Self.open(path, configuration) }
        manageMemory()
    }

    private static func open(_ path: String, _ configuration: Configuration) throws -> WritingConnection {
        try open(path, configuration, FileKey(path: path, configuration: configuration), .fromPrepareDatabase)
    }

    private static func open(
        _ path: String, _ configuration: Configuration, _ fileKey: FileKey, _ key: KeyOrigin
    ) throws -> WritingConnection {
        let wal = if case .wal = configuration.journalMode { true } else { false }
        return try WritingConnection(
            path: path, label: configuration.label ?? "CipherStore.DatabaseQueue", configuration: configuration,
            fileKey: fileKey, key: key, wal: wal)
    }

    private func manageMemory() {
        guard configuration.automaticMemoryManagement else { return }
        let release: @Sendable () -> Void = { [weak self] in self?.asyncWriteWithoutTransaction { $0.releaseMemory() } }
        relief.withLock { $0 = MemoryRelief(release: release) }
        if case .success(let writer) = opening { writer.fileKey.opening.suspension.add(relief: release) }
    }

    private var writer: WritingConnection {
        get throws { try opening.get() }
    }

    /// Runs an access that throws only what its body throws. If opening failed, each statement of the body throws the
    /// error of opening.
    private func access<T>(reentrant: Bool = false, _ body: (Database) throws -> T) rethrows -> T {
        switch opening {
        case .success(let writer): try reentrant ? writer.reentrantSync(body) : writer.sync(body)
        case .failure(let error): try SerialConnection.unopened(because: error, configuration).sync(body)
        }
    }

    // MARK: Reading

    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try writer.syncRead { db in try db.readOnly { try db.inReadTransaction(value) } }
    }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncAccess(isWrite: false) { db in try db.readOnly { try db.inReadTransaction(value) } }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) rethrows -> T {
        try access { db in try db.readOnly { try value(db) } }
    }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncAccess(isWrite: false) { db in try db.readOnly { try value(db) } }
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) rethrows -> T {
        // Inside an access it is a part of that access, which may write.
        if isAccessedHere { return try access(reentrant: true, value) }
        return try unsafeRead(value)
    }

    private var isAccessedHere: Bool {
        if case .success(let writer) = opening { writer.connection.isAccessedHere } else { false }
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncAccess { db in
            db.readOnly {
                do {
                    try db.inReadTransaction { value(.success($0)) }
                } catch {
                    value(.failure(error))
                }
            }
        } orFail: {
            value(.failure($0))
        }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncAccess { db in
            db.readOnly { value(.success(db)) }
        } orFail: {
            value(.failure($0))
        }
    }

    private func asyncAccess(
        _ body: @escaping @Sendable (Database) -> Void, orFail fail: (any Error) -> Void
    ) {
        do {
            try writer.async(body)
        } catch {
            fail(error)
        }
    }

    // MARK: Writing

    public func write<T>(_ updates: (Database) throws -> T) throws -> T {
        try writer.syncWrite { try $0.inWriteTransaction(updates) }
    }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncWrite(updates)
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T { try access(updates) }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await writer.asyncAccess(updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try access(reentrant: true, updates)
    }

    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) rethrows -> T {
        try access(updates)
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await writer.asyncAccess(updates)
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        asyncAccess {
            updates(.success($0))
        } orFail: {
            updates(.failure($0))
        }
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        // For a database in memory that could not be opened, accesses that can throw report the error.
        asyncAccess(updates) { _ in }
    }

    /// Reads at once: with one connection, no write can run meanwhile.
    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        do {
            try writer.connection.requireAccessHere().readOnlyConcurrently(value)
        } catch {
            value(.failure(error))
        }
    }

    /// Releases memory that the connection keeps for speed.
    public func releaseMemory() { access(reentrant: true) { $0.releaseMemory() } }

    /// Runs an access without a transaction around it. On a closed database `block` runs nevertheless, and its
    /// statements throw `SQLITE_MISUSE`.
    public func inDatabase<T>(_ block: (Database) throws -> T) rethrows -> T { try access(block) }

    /// Runs a block in a transaction. An error rolls it back.
    public func inTransaction(
        _ kind: Database.TransactionKind? = nil, _ updates: (Database) throws -> Database.TransactionCompletion
    ) throws {
        try writer.syncWrite { db in try db.inTransaction(kind) { try updates(db) } }
    }

    /// Statistics of the writes since the database was opened; files that are not encrypted have none.
    public var writeStatistics: WriteStatistics { (try? writer)?.writeTurn?.statistics ?? WriteStatistics() }

    // MARK: Upkeep

    @discardableResult
    public func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try writer.checkpoint(mode)
    }

    public func vacuum(into path: String) throws { try writer.vacuum(into: path) }

    /// The results of checkpoints since the database was opened, and the obstacle to a reset of the WAL.
    public var checkpointStatistics: CheckpointStatistics {
        (try? writer.checkpointStatistics) ?? CheckpointStatistics()
    }

    public func interrupt() { try? writer.connection.interrupt() }

    public func close() throws {
        try writer.close()
        closing.close(because: DatabaseError.connectionIsClosed())
    }
}

extension DatabaseQueue: ClosableReader, SuspendableReader {
    package var suspensionOfFile: DatabaseSuspension? { (try? writer)?.fileKey.opening.suspension }
}
