import Synchronization

/// The database as it was at one moment, for several reads at the same time.
///
/// ```swift
/// let snapshot = try pool.makeSnapshotPool()
/// async let players = snapshot.read { db in try Player.fetchAll(db) }
/// async let teams = snapshot.read { db in try Team.fetchAll(db) }
/// ```
///
/// It holds as many connections as the pool has readers, each inside a read transaction that began at the same commit.
/// The system's SQLCipher is built without SQLite's snapshots, so all of them are opened at once. Writers continue;
/// their changes stay in the WAL until the snapshot is gone, so do not keep one longer than it is needed.
public final class DatabaseSnapshotPool: DatabaseSnapshotReader, ClosableReader {
    /// The configuration of the pool, as read-only.
    public let configuration: Configuration
    /// The path of the database file.
    public let path: String
    private let snapshots: [DatabaseSnapshot]
    /// How many accesses run or wait on each connection.
    private let accesses: Mutex<[Int]>
    /// The pool that belongs to this snapshot alone.
    private let owned: DatabasePool?
    package let closing = ReaderClosing()

    /// Opens a snapshot of the last commit of a file.
    ///
    /// - Throws: The errors of opening a ``DatabasePool``; those of ``DatabasePool/makeSnapshotPool()``.
    public convenience init(path: String, configuration: Configuration = Configuration()) throws {
        var reading = configuration
        reading.readonly = true
        let pool = try DatabasePool(path: path, configuration: reading)
        try self.init(of: pool, owned: pool) { try pool.makeSnapshot() }
    }

    /// - Parameters:
    ///   - writer: The database of which this is a snapshot.
    ///   - owned: A pool to be closed with it.
    ///   - makeSnapshot: Opens one connection.
    package init(
        of writer: some DatabaseWriter, owned: DatabasePool? = nil, _ makeSnapshot: () throws -> DatabaseSnapshot
    ) throws {
        let snapshots = try (0..<max(1, writer.configuration.maximumReaderCount)).map { _ in try makeSnapshot() }
        try Self.bringToOneMoment(snapshots, writer)
        configuration = snapshots[0].configuration
        path = snapshots[0].path
        self.snapshots = snapshots
        self.owned = owned
        accesses = Mutex([Int](repeating: 0, count: snapshots.count))
    }

    /// Begins the transactions of all connections again until no commit came between them; in the end nobody writes
    /// meanwhile.
    private static func bringToOneMoment(_ snapshots: [DatabaseSnapshot], _ writer: some DatabaseWriter) throws {
        let isReadonly = writer.configuration.readonly
        for _ in 0..<(isReadonly ? DatabaseLimits.readonlySnapshotAttempts : DatabaseLimits.snapshotAttempts) {
            if try renew(snapshots) { return }
        }
        if isReadonly {
            throw DatabaseError(
                resultCode: .SQLITE_BUSY,
                message: "no snapshot pool: others commit without a pause, and a reader cannot make them wait")
        }
        try writer.unsafeReentrantWrite { db in
            try db.inTransaction(.immediate) {
                _ = try renew(snapshots)
                return .rollback
            }
        }
    }

    /// - Returns: Whether no process has committed meanwhile.
    private static func renew(_ snapshots: [DatabaseSnapshot]) throws -> Bool {
        let position = snapshots[0].commitPosition
        for snapshot in snapshots { try snapshot.renew() }
        return snapshots[0].commitPosition == position
    }

    // MARK: Reading

    public func read<T>(_ value: (Database) throws -> T) throws -> T {
        if accessedHere != nil { ProgrammerError.trap(ProgrammerError.reentrant) }
        let index = begin()
        defer { end(index) }
        return try snapshots[index].read { db in
            try Self.requireTransaction(db)
            return try value(db)
        }
    }

    public func read<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        let index = begin()
        defer { end(index) }
        return try await snapshots[index].read { db in
            try Self.requireTransaction(db)
            return try value(db)
        }
    }

    public func unsafeRead<T>(_ value: (Database) throws -> T) throws -> T { try read(value) }

    public func unsafeRead<T: Sendable>(_ value: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await read(value)
    }

    public func unsafeReentrantRead<T>(_ value: (Database) throws -> T) throws -> T {
        guard let snapshot = accessedHere else { return try read(value) }
        return try snapshot.unsafeReentrantRead(value)
    }

    public func asyncRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        let index = begin()
        snapshots[index].asyncRead { [self] outcome in
            defer { end(index) }
            value(
                outcome.flatMap { db in
                    Result {
                        try Self.requireTransaction(db)
                        return db
                    }
                })
        }
    }

    public func asyncUnsafeRead(_ value: @escaping @Sendable (Result<Database, any Error>) -> Void) {
        asyncRead(value)
    }

    /// The connection in an access of which this thread is.
    private var accessedHere: DatabaseSnapshot? { snapshots.first(where: \.isAccessedHere) }

    /// Chooses the connection with the fewest accesses, and counts one more.
    private func begin() -> Int {
        accesses.withLock { counts in
            let index = counts.indices.min { counts[$0] < counts[$1] } ?? 0
            counts[index] += 1
            return index
        }
    }

    private func end(_ index: Int) { accesses.withLock { $0[index] -= 1 } }

    /// A program that ends the transaction of a connection by SQL loses the moment of the snapshot there.
    private static func requireTransaction(_ db: Database) throws {
        if db.isClosed || db.isInsideTransaction { return }
        throw DatabaseError(
            resultCode: .SQLITE_ABORT,
            message: "an earlier access has ended the transaction of the snapshot on connection \(db)")
    }

    // MARK: Ending

    public func interrupt() { for snapshot in snapshots { snapshot.interrupt() } }

    /// Closes the connections after the accesses under way, so that later ones throw `SQLITE_MISUSE`.
    public func close() throws {
        for snapshot in snapshots { try snapshot.close() }
        try owned?.close()
        closing.close(because: DatabaseError.connectionIsClosed())
    }
}

extension DatabasePool {
    /// A snapshot of the last commit for as many concurrent reads as this pool has readers; it does not change.
    ///
    /// Inside a write access it must be made outside of the access's transactions.
    ///
    /// - Throws: The errors of opening a connection. ``DatabaseError`` `.SQLITE_BUSY` if others write all the time: a
    ///   pool that reads only throws it after some attempts, another one if it gets no turn to write.
    public func makeSnapshotPool() throws -> DatabaseSnapshotPool {
        try DatabaseSnapshotPool(of: self) { try makeSnapshot() }
    }
}
