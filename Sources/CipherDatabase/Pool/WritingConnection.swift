import KeyCustody

/// The writing connection of a queue or a pool, with the keys of its file and its checkpoints.
// Safe because: the checkpointer is used only inside accesses of the connection, which run one at a time.
final class WritingConnection: @unchecked Sendable {
    let connection: SerialConnection
    let keyring: Keyring
    private let checkpointer: Checkpointer
    /// The turn to write; nil where the file is not encrypted, or not written.
    let turn: WriteTurn?

    /// Opens the connection; a new file is created and its salt recorded by exactly one process.
    init(
        path: String, label: String, configuration: Configuration, keyring: Keyring, key: KeyProvision, wal: Bool
    ) throws {
        self.keyring = keyring
        let holdsLock = keyring.holdsOpeningLock
        defer { if !holdsLock { keyring.releaseOpeningLock() } }
        let db = try Database.open(
            path: path, label: label, configuration: configuration, keyring: keyring, role: .writer, key: key, wal: wal)
        if !keyring.isInMemory && !configuration.readonly && db.keying.isKeyed, let paths = keyring.paths {
            turn = WriteTurn(for: paths, label: label, configuration: configuration, onNotice: keyring.notice)
        } else {
            turn = nil
        }
        db.turn = turn
        db.checkpointDueFrames = max(1, configuration.checkpointFrames)
        connection = SerialConnection(
            db, qos: configuration.writeQoS, target: configuration.writeTargetQueue ?? configuration.targetQueue,
            allowsOpenTransaction: configuration.allowsUnsafeTransactions)
        checkpointer = Checkpointer(paths: StorePaths(path), configuration: configuration) {
            try Database.open(
                path: path, label: label + ".checkpoint", configuration: configuration, keyring: keyring, role: .reader,
                key: key)
        }
    }

    deinit { checkpointer.close() }

    /// Runs a write access, and a checkpoint behind it when one is due.
    func sync<T>(_ body: (Database) throws -> T) throws -> T {
        try connection.sync { db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            return try body(db)
        }
    }

    /// Runs a write access for a task.
    func asyncAccess<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try await AsyncAccess.run { access in
            connection.run(access) { [self] db in
                defer { checkpointer.checkpointIfDue(holding: db) }
                return try body(db)
            }
        }
    }

    /// Runs a write access later, without waiting for it.
    func async(_ body: @escaping @Sendable (Database) -> Void) {
        connection.async { [self] db in
            defer { checkpointer.checkpointIfDue(holding: db) }
            body(db)
        }
    }

    /// Runs a write access, or `body` at once when this thread is inside one already.
    func reentrantSync<T>(_ body: (Database) throws -> T) throws -> T {
        connection.isAccessedHere ? try connection.reentrantSync(body) : try sync(body)
    }

    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try connection.sync { db in
            guard try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal" else {
                return CheckpointResult(walFrameCount: 0, checkpointedFrameCount: 0)
            }
            let result = try checkpointer.checkpoint(holding: db)
            if case .passive = mode { return result }
            guard result.isComplete else {
                throw DatabaseError(
                    resultCode: .SQLITE_BUSY, message: "readers still use frames of the write-ahead log")
            }
            return result
        }
    }

    var checkpointStatistics: CheckpointStatistics { checkpointer.recorder.statistics }

    func close() throws {
        try connection.close(willClose: checkpointer.close)
    }
}
