import KeyCustody

/// A database with one connection: all accesses run one after another.
///
/// Use it for databases in memory and for simple programs; ``DatabasePool`` lets reads go on beside writes.
public final class DatabaseQueue: DatabaseWriter, MemoryHolder {
    /// The configuration with which the database was opened.
    public let configuration: Configuration
    /// The path of the database file; ":memory:" for a database in memory.
    public let path: String
    private let opening: Result<WritingConnection, any Error>

    /// Opens a database file, creating it when it does not exist.
    ///
    /// - Throws: `StoreError` for keys, salts and damaged files, ``DatabaseError`` for all else.
    public init(path: String, configuration: Configuration = Configuration()) throws {
        self.configuration = configuration
        self.path = path
        opening = .success(try Self.open(path, configuration))
        manageMemory()
    }

    /// Opens a database in memory. It needs no key. An error of opening surfaces at the first access.
    public init(configuration: Configuration = Configuration()) {
        self.configuration = configuration
        path = ":memory:"
        opening = Result { try Self.open(":memory:", configuration) }
        manageMemory()
    }

    private func manageMemory() {
        if configuration.automaticMemoryManagement { MemoryPressureMonitor.shared.add(self) }
    }

    private static func open(_ path: String, _ configuration: Configuration) throws -> WritingConnection {
        let wal = if case .wal = configuration.journalMode { true } else { false }
        return try WritingConnection(
            path: path, label: configuration.label ?? "CipherStore.DatabaseQueue", configuration: configuration,
            keyring: Keyring(path: path, configuration: configuration), key: .byHand, wal: wal)
    }

    private var writer: WritingConnection {
        get throws { try opening.get() }
    }

    // MARK: Reading

    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        try writer.sync { db in try db.readOnly { try db.inReadTransaction(value) } }
    }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncAccess { db in try db.readOnly { try db.inReadTransaction(value) } }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try writer.sync(value) }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncAccess(value)
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T { try writer.reentrantSync(value) }

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
        asyncAccess {
            value(.success($0))
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
        try writer.sync { try $0.inWriteTransaction(updates) }
    }

    public func write<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await writer.asyncAccess { try $0.inWriteTransaction(updates) }
    }

    public func writeWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T { try writer.sync(updates) }

    public func writeWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await writer.asyncAccess(updates)
    }

    public func unsafeReentrantWrite<T>(_ updates: (Database) throws -> T) throws -> T {
        try writer.reentrantSync(updates)
    }

    public func barrierWriteWithoutTransaction<T>(_ updates: (Database) throws -> T) throws -> T {
        try writer.sync(updates)
    }

    public func barrierWriteWithoutTransaction<T: Sendable>(
        _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await writer.asyncAccess(updates)
    }

    public func asyncBarrierWriteWithoutTransaction(
        _ updates: @escaping @Sendable (Result<Database, any Error>) -> Void
    ) {
        asyncUnsafeRead(updates)
    }

    public func asyncWriteWithoutTransaction(_ updates: @escaping @Sendable (Database) -> Void) {
        // A database in memory that could not be opened says so at accesses that can throw.
        asyncAccess(updates) { _ in }
    }

    /// Reads at once: with one connection, nothing can be written meanwhile.
    public func spawnConcurrentRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        do {
            try writer.connection.requireAccessHere().readOnlyConcurrently(value)
        } catch {
            value(.failure(error))
        }
    }

    /// Gives memory back that the connection keeps for speed.
    public func releaseMemory() { try? writer.reentrantSync { $0.releaseMemory() } }

    /// Gives memory back without waiting for accesses under way.
    func releaseMemoryEventually() { asyncWriteWithoutTransaction { $0.releaseMemory() } }

    /// Runs an access without a transaction around it.
    public func inDatabase<T>(_ block: (Database) throws -> T) throws -> T { try writer.sync(block) }

    /// Runs a block in a transaction, which an error rolls back.
    public func inTransaction(
        _ kind: Database.TransactionKind? = nil, _ updates: (Database) throws -> Database.TransactionCompletion
    ) throws {
        try writer.sync { db in try db.inTransaction(kind) { try updates(db) } }
    }

    // MARK: Upkeep

    @discardableResult
    public func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try writer.checkpoint(mode)
    }

    public func interrupt() { try? writer.connection.interrupt() }

    public func close() throws { try writer.close() }
}
