import KeyCustody
import StoreSharing

/// The writing connection of a queue or a pool, with the keys of its file and its checkpoints.
// Safe because: the checkpointer is used only inside accesses of the connection, which run one at a time.
final class WritingConnection: @unchecked Sendable {
    let connection: SerialConnection
    let keyring: Keyring
    private let checkpointer: Checkpointer
    let key: KeyOrigin
    /// The write slot; nil where the file is not encrypted, or not written.
    let writeSlot: WriteSlot?

    /// Opens the connection; exactly one process creates a new file and records its salt.
    init(
        path: String, label: String, configuration: Configuration, keyring: Keyring, key: KeyOrigin, wal: Bool,
        carryOver: PoolCarryOver? = nil, dependency: ConnectionDependency? = nil
    ) throws {
        try configuration.forbidDumpsIfAsked()
        self.keyring = keyring
        self.key = key
        let wasLocked = keyring.opening.isLocked
        defer { if !wasLocked { keyring.opening.release() } }
        let db = try Database.open(
            path: path, label: label, configuration: configuration, keyring: keyring, role: .writer, key: key, wal: wal)
        if !keyring.isInMemory && !configuration.readonly && db.keying.isKeyed, let paths = keyring.paths {
            writeSlot =
                carryOver?.writeSlot
                ?? WriteSlot(for: paths, label: label, configuration: configuration, onNotice: keyring.opening.notice)
        } else {
            writeSlot = nil
        }
        writeSlot?.setClosing(false)
        db.writeSlot = writeSlot
        if let writeSlot { db.gate.connect(writeSlot) }
        db.checkpointDueFrames = max(1, configuration.checkpointFrames)
        connection = SerialConnection(
            db, qos: configuration.writeQoS, target: configuration.queueOfWriter,
            allowsOpenTransaction: configuration.allowsUnsafeTransactions, dependency: dependency)
        checkpointer = Checkpointer(
            paths: StorePaths(path), configuration: configuration, recorder: carryOver?.checkpoints
        ) {
            try Database.open(
                path: path, label: label + ".checkpoint", configuration: configuration, keyring: keyring,
                role: .checkpointer,
                key: key)
        }
        db.checkpointer = checkpointer
    }

    deinit { checkpointer.close() }

    /// Runs a write access, and a checkpoint after it when one is due.
    ///
    /// It waits for the connection even during a suspension; then its statements that write throw.
    func sync<T>(_ body: (Database) throws -> T) rethrows -> T {
        try connection.syncPatiently { db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            return try body(db)
        }
    }

    /// Runs a write access, and a checkpoint after it when one is due.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension ends the wait for the connection.
    func syncWrite<T>(_ body: (Database) throws -> T) throws -> T {
        try connection.syncWrite { db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            return try body(db)
        }
    }

    /// Runs an access that only reads, on the connection that writes: a suspension does not end its wait.
    func syncRead<T>(_ body: (Database) throws -> T) throws -> T { try connection.syncPatiently(body) }

    /// Runs a write access for a task.
    ///
    /// - Parameters:
    ///   - isWrite: Whether a suspension ends the wait for the connection.
    ///   - commits: Whether the access ends with the commit of its transaction, which no cancellation undoes.
    ///   - wait: Runs before the access, and calls the given function to continue.
    func asyncAccess<T: Sendable>(
        isWrite: Bool = true, commits: Bool = false,
        after wait: (@Sendable (@escaping @Sendable () -> Void) -> Void)? = nil,
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await AsyncAccess.run(countsOnceDone: commits) { [connection] access in
            guard let wait else { return connection.run(access, isWrite: isWrite) }
            let endsWithSuspension = connection.endWhenSuspended(access, now: true)
            wait {
                // In this order: a suspension finds one of the two registrations at every moment.
                connection.run(access, isWrite: isWrite)
                endsWithSuspension?.cancel()
            }
        } _: { [self] db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            return try body(db)
        }
    }

    /// Runs a write access later, without waiting for it.
    func async(_ body: @escaping @Sendable (Database) -> Void) {
        connection.async { [self] db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            body(db)
        }
    }

    /// Runs a write access, or `body` at once when this thread is already inside one.
    func reentrantSync<T>(_ body: (Database) throws -> T) rethrows -> T {
        connection.isAccessedHere ? try connection.reentrantSync(body) : try sync(body)
    }

    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try connection.syncWrite { try $0.checkpoint(mode) }
    }

    /// Copies the database into a file that does not exist yet, without free pages. The same secret opens it; of the
    /// keyslots of a store the copy has the one with which this was opened.
    func vacuum(into path: String) throws {
        let scheme: KeyScheme = keyring.sidecar?.slotted == nil ? .direct : .slots
        try sync { try $0.copy(into: path, key: keyring.originOfCopies(key), scheme: scheme) }
    }

    var checkpointStatistics: CheckpointStatistics { checkpointer.recorder.statistics }

    /// - Parameter isPause: Whether the database is opened again soon.
    func close(isPause: Bool = false) throws {
        try connection.close(isPause: isPause, willClose: checkpointer.close)
    }

    /// The state that a connection opened in place of this one takes over.
    var carryOver: PoolCarryOver { PoolCarryOver(writeSlot: writeSlot, checkpoints: checkpointer.recorder) }
}
