import KeyCustody

/// The database as it was at one moment, while the snapshot lives.
///
/// It holds a connection of its own inside one read transaction. Writers continue; their changes stay in the WAL until
/// the snapshot is gone, so do not keep one longer than it is needed.
public final class DatabaseSnapshot: DatabaseSnapshotReader, ClosableReader {
    /// The configuration of the pool, as read-only.
    public let configuration: Configuration
    /// The path of the database file.
    public let path: String
    private let connection: SerialConnection
    package let closing = ReaderClosing()

    /// Opens a snapshot of the last commit.
    init(
        path: String, label: String, configuration: Configuration, fileKey: FileKey, key: KeyOrigin,
        dependency: ConnectionDependency
    ) throws {
        self.configuration = configuration
        self.path = path
        let db = try Database.open(
            path: path, label: label, configuration: configuration, fileKey: fileKey, role: .reader, key: key)
        connection = SerialConnection(
            db, qos: configuration.readQoS, target: configuration.targetQueue, allowsOpenTransaction: true,
            dependency: dependency)
        try connection.sync { try Self.begin($0) }
    }

    private static func begin(_ db: Database) throws {
        try db.run(.beginDeferred)
        // The transaction has no snapshot until its first read.
        try db.run(.view)
    }

    /// Makes it a snapshot of the last commit. Nobody else may use it yet.
    func renew() throws {
        try connection.sync { db in
            try db.run(.rollback)
            try Self.begin(db)
        }
    }

    /// The last commit of any process, which may be later than this snapshot; nil without WAL.
    var commitPosition: CommitPosition? { connection.sync { $0.commitPosition } }

    public func read<T>(_ value: (Database) throws -> T) rethrows -> T { try connection.sync(value) }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await AsyncAccess.run(on: { [connection] in connection.run($0) }, value)
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) rethrows -> T { try connection.sync(value) }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await AsyncAccess.run(on: { [connection] in connection.run($0) }, value)
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) rethrows -> T {
        try connection.reentrantSync(value)
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        connection.async { value(.success($0)) }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        connection.async { value(.success($0)) }
    }

    public func interrupt() { connection.interrupt() }

    /// Sets the function that is called when the snapshot was closed, at the latest when it is deallocated.
    package func whenClosed(_ tell: @escaping @Sendable () -> Void) { connection.whenClosed(tell) }

    /// Whether this thread is inside an access of the snapshot.
    package var isAccessedHere: Bool { connection.isAccessedHere }

    /// Makes the access under way end with an error as soon as it can. To be called repeatedly while it lasts.
    package func withdraw(because reason: any Error) { connection.withdraw(because: reason) }

    /// Closes the snapshot after the access under way, so that every later one throws an error.
    package func close(because reason: any Error) throws {
        try connection.close(because: reason)
        closing.close(because: reason)
    }

    public func close() throws {
        try connection.close()
        closing.close(because: DatabaseError.connectionIsClosed())
    }
}
