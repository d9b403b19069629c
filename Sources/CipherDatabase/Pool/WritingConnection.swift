import KeyCustody
import StoreSharing

/// The writing connection of a queue or a pool, with the keys of its file and its checkpoints.
// Safe because: the checkpointer is used only inside accesses of the connection, which run one at a time.
final class WritingConnection: @unchecked Sendable {
    let connection: SerialConnection
    let fileKey: FileKey
    private let checkpointer: Checkpointer
    let key: KeyOrigin
    /// The write turn; nil where the file is not encrypted, or not written.
    let writeTurn: WriteTurn?
    /// The writes of tasks that run on their own threads.
    private let directWrites = DirectAccesses()
    /// Whether a transaction that has begun has its lock.
    private let locksAtBegin: Bool
    private let observers: ObserverKeeper

    /// Opens the connection; exactly one process creates a new file and records its salt.
    ///
    /// - Parameter isReplaceable: Whether another connection takes its place when SQLite reads no page with it.
    init(
        path: String, label: String, configuration: Configuration, fileKey: FileKey, key: KeyOrigin, wal: Bool,
        carryOver: PoolCarryOver? = nil, dependency: ConnectionDependency? = nil, isReplaceable: Bool = true
    ) throws {
        try configuration.forbidDumpsIfAsked()
        self.fileKey = fileKey
        self.key = key
        locksAtBegin = configuration.defaultTransactionKind != .deferred
        let wasLocked = fileKey.opening.isLocked
        defer { if !wasLocked { fileKey.opening.release() } }
        let open: @Sendable (ConnectionRole, String) throws -> Database = { role, suffix in
            try Database.open(
                path: path, label: label + suffix, configuration: configuration, fileKey: fileKey, role: role, key: key,
                wal: wal && role == .writer)
        }
        let db = try open(.writer, "")
        if !fileKey.isInMemory && !configuration.readonly && db.connectionKey.isKeyed, let paths = fileKey.paths {
            writeTurn =
                carryOver?.writeTurn
                ?? WriteTurn(for: paths, label: label, configuration: configuration, onNotice: fileKey.opening.notice)
        } else {
            writeTurn = nil
        }
        writeTurn?.setClosing(false)
        observers = carryOver?.observers ?? ObserverKeeper(link: Self.link(fileKey, writeTurn))
        checkpointer = Checkpointer(
            paths: StorePaths(path), configuration: configuration, recorder: carryOver?.checkpoints
        ) { try open(.checkpointer, ".checkpoint") }
        let equipment = Equipment(
            opening: fileKey.opening, writeTurn: writeTurn, observers: observers, checkpointer: checkpointer)
        equipment.equip(db)
        let reopen: SerialConnection.Reopening = { former in
            let wasLocked = fileKey.opening.isLocked
            defer { if !wasLocked { fileKey.opening.release() } }
            return try equipment.replace(former) { try open(.writer, "") }
        }
        connection = SerialConnection(
            db, qos: configuration.writeQoS, target: configuration.queueOfWriter,
            allowsOpenTransaction: configuration.allowsUnsafeTransactions, dependency: dependency,
            reopen: isReplaceable && !fileKey.isInMemory ? reopen : nil)
        observers.link?.connect { [weak self] body in
            guard let self, connection.isOpen else { return .unavailable }
            sync(body)
            return .done
        }
    }

    /// The common state of the connections that write one after the other.
    // Safe because: it is used inside accesses of the connection, which run one at a time.
    private struct Equipment: @unchecked Sendable {
        let opening: FileOpening
        let writeTurn: WriteTurn?
        let observers: ObserverKeeper
        let checkpointer: Checkpointer

        func equip(_ db: Database) {
            db.writing.writeTurn = writeTurn
            if let writeTurn { db.gating.gate.connect(writeTurn) }
            db.writing.checkpointer = checkpointer
            db.writing.checkpointDueFrames = max(1, db.configuration.checkpointFrames)
            db.beginAccess()
            db.adoptObserver(of: observers)
            observers.observer?.connectionDidReplace(db)
            opening.report(db.repairHistoryAtOpening())
            db.endAccess(allowsOpenTransaction: true)
        }

        func replace(_ former: Database, _ open: () throws -> Database) throws -> Database {
            tell(former) { $0.connectionWillBeReplaced(former) }
            do {
                let next = try open()
                equip(next)
                return next
            } catch {
                tell(former) { $0.connectionDidReplace(former) }
                throw error
            }
        }

        private func tell(_ db: Database, _ body: (any ConnectionObserver) -> Void) {
            db.beginAccess()
            defer { db.endAccess(allowsOpenTransaction: true) }
            if let observer = observers.observer { body(observer) }
        }
    }

    /// The link for the commits of other connections, of a file that they can change.
    private static func link(_ fileKey: FileKey, _ writeTurn: WriteTurn?) -> MonitorLink? {
        guard let paths = fileKey.paths, !fileKey.opening.isImmutable else { return nil }
        return MonitorLink(paths: paths, suspension: fileKey.opening.suspension, writeTurn: writeTurn)
    }

    deinit { checkpointer.close() }

    /// The work after a write: a part of the history is purged, and the WAL copied, when that is due.
    private func finish(_ db: Database) {
        if db.isHistoryPurgeDue { db.purgeHistoryIfDue() }
        checkpointer.checkpointIfDue(holding: db)
    }

    /// Runs a write access, and a checkpoint after it when one is due.
    ///
    /// It waits for the connection even during a suspension; then its statements that write throw.
    func sync<T>(_ body: (Database) throws -> T) rethrows -> T {
        try connection.syncPatiently { db in
            defer { finish(db) }
            return try body(db)
        }
    }

    /// Runs a write access, and a checkpoint after it when one is due.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension ends the wait for the connection.
    func syncWrite<T>(_ body: (Database) throws -> T) throws -> T {
        try connection.syncWrite { db in
            defer { finish(db) }
            return try body(db)
        }
    }

    /// Runs an access that only reads, on the connection that writes: a suspension does not end its wait.
    func syncRead<T>(_ body: (Database) throws -> T) throws -> T { try connection.syncPatiently(body) }

    /// Runs a write access for a task.
    ///
    /// - Parameters:
    ///   - isWrite: Whether a suspension ends the wait for the connection.
    ///   - direct: Learns how long the access took.
    ///   - wait: Runs before the access, and calls the given function to continue.
    func asyncAccess<T: Sendable>(
        isWrite: Bool = true, direct: DirectAccesses? = nil,
        after wait: (@Sendable (@escaping @Sendable () -> Void) -> Void)? = nil,
        _ body: @escaping @Sendable (Database) throws -> T
    ) async throws -> T {
        try await AsyncAccess.run(direct: direct) { [connection] access in
            guard let wait else { return connection.run(access, isWrite: isWrite) }
            let endsWithSuspension = connection.endWhenSuspended(access, now: true)
            wait {
                // In this order: a suspension finds one of the two registrations at every moment.
                connection.run(access, isWrite: isWrite)
                endsWithSuspension?.cancel()
            }
        } _: { [self] db in
            defer { finish(db) }
            return try body(db)
        }
    }

    /// Runs a write transaction for a task: on the thread of the task, where neither the connection nor a lock has to be
    /// waited for.
    func asyncWrite<T: Sendable>(_ updates: @escaping @Sendable (Database) throws -> T) async throws -> T {
        try Task.checkCancellation()
        if locksAtBegin, let start = directWrites.begin() {
            let outcome = try await writeHere(start, updates)
            if let outcome { return outcome }
        }
        return try await asyncAccess(direct: directWrites) { try $0.inWriteTransaction(updates) }
    }

    /// - Returns: nil when the transaction could not begin without a wait.
    private func writeHere<T: Sendable>(
        _ start: UInt64, _ updates: @escaping @Sendable (Database) throws -> T
    ) async throws -> T? {
        var hasBegun = false
        defer { if hasBegun { directWrites.end(since: start) } else { directWrites.abandon() } }
        return try await AsyncAccess.runHere(on: connection) { cancellation in
            do {
                return try connection.runIfFree(cancellation) { db in
                    // A checkpoint takes long, and so does a purge: they are left to the queue.
                    defer { if db.isCheckpointDue || db.isHistoryPurgeDue { async { _ in } } }
                    return try db.inWriteTransactionWithoutWaiting {
                        hasBegun = true
                        return try updates($0)
                    }
                }
            } catch is BeginWouldWait {
                return nil
            }
        }
    }

    /// Runs a write access later, without waiting for it.
    func async(_ body: @escaping @Sendable (Database) -> Void) {
        connection.async { [self] db in
            defer { finish(db) }
            body(db)
        }
    }

    /// Runs a write access, or `body` at once when this thread is already inside one.
    func reentrantSync<T>(_ body: (Database) throws -> T) rethrows -> T {
        connection.isAccessedHere ? try connection.reentrantSync(body) : try sync(body)
    }

    func checkpoint(_ mode: Database.CheckpointMode) throws -> CheckpointResult {
        try connection.syncWrite { try $0.copyWAL(mode) }
    }

    /// Copies the database into a file that does not exist yet, without free pages. The same secret opens it; of the
    /// keyslots of a store the copy has the one with which this was opened.
    func vacuum(into path: String) throws {
        let scheme: KeyScheme = fileKey.sidecar?.slotted == nil ? .direct : .slots
        try sync { try $0.copy(into: path, key: fileKey.originOfCopies(key), scheme: scheme) }
    }

    var checkpointStatistics: CheckpointStatistics { checkpointer.recorder.statistics }

    /// - Parameter isPause: Whether the database is opened again soon.
    func close(isPause: Bool = false) throws {
        try connection.close(isPause: isPause) {
            if isPause { observers.observer?.connectionWillBeReplaced(connection.requireAccessHere()) }
            checkpointer.close()
        }
    }

    /// The state that a connection opened in place of this one takes over.
    var carryOver: PoolCarryOver {
        PoolCarryOver(writeTurn: writeTurn, checkpoints: checkpointer.recorder, observers: observers)
    }
}
