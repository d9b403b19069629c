import Dispatch
import StorePlatform
import Synchronization

/// A connection and the queue on which all of its accesses run, one after another.
// Safe because: the database is used only inside accesses, which the queue runs one at a time; interruption goes
// through `life`, which knows whether the connection is still open.
final class SerialConnection: @unchecked Sendable {
    private let queue: DispatchQueue
    private let db: Database
    private let life: Mutex<Life>
    /// Whether accesses may end inside a transaction.
    private let allowsOpenTransaction: Bool
    /// Whether the program gave a queue of its own below this one.
    private let hasTarget: Bool

    private struct Life {
        var isOpen = true
        /// The cancellable access that runs now.
        var running: CancellationFlag?
    }

    init(_ db: Database, qos: DispatchQoS, target: DispatchQueue?, allowsOpenTransaction: Bool) {
        self.db = db
        queue = DispatchQueue(label: db.label, qos: qos, target: target)
        self.allowsOpenTransaction = allowsOpenTransaction
        hasTarget = target != nil
        life = Mutex(Life())
    }

    deinit {
        db.beginAccess()
        db.rollbackIfNeeded()
        try? db.close()
        db.endAccess(allowsOpenTransaction: true)
    }

    /// Whether this thread is inside an access of this connection.
    var isAccessedHere: Bool { db.isAccessedHere }

    /// The connection, for code that runs inside one of its accesses. Traps everywhere else.
    func requireAccessHere() -> Database {
        db.requireAccess()
        return db
    }

    // MARK: Accesses

    /// Runs an access and waits for it. Traps when this thread is inside one already.
    func sync<T>(_ body: (Database) throws -> T) throws -> T {
        if db.isAccessedHere { ProgrammerError.trap(ProgrammerError.reentrant) }
        // The queue takes many more steps for a block that returns or throws something.
        var outcome: Result<T, any Error>?
        queue.sync { outcome = Result { try access(body) } }
        guard let outcome else { throw DatabaseError(resultCode: .SQLITE_INTERNAL) }
        return try outcome.get()
    }

    /// Runs an access for a caller to whom the connection is lent: nobody else uses it, so there is no turn to wait for.
    func syncAlone<T>(_ body: (Database) throws -> T) throws -> T {
        hasTarget ? try sync(body) : try access(body)
    }

    /// Runs an access, or runs `body` at once when this thread is inside one already.
    func reentrantSync<T>(_ body: (Database) throws -> T) throws -> T {
        if db.isAccessedHere { return try body(db) }
        return try sync(body)
    }

    /// Runs an access later, without waiting for it.
    ///
    /// - Parameter finally: Called behind the access, when the connection is free.
    func async(_ body: @escaping @Sendable (Database) -> Void, finally: @escaping @Sendable () -> Void = {}) {
        queue.async { [self] in
            defer { finally() }
            db.beginAccess()
            defer { db.endAccess(allowsOpenTransaction: allowsOpenTransaction) }
            body(db)
        }
    }

    /// Runs an access for a task, later and without waiting for it.
    ///
    /// - Parameter release: Called when the connection is free again, before the task has its result: a task may need
    ///   a thread for going on that others of its kind hold while they wait for this connection.
    func run<T: Sendable>(
        _ asyncAccess: AsyncAccess<T>, _ body: @escaping @Sendable (Database) throws -> T,
        release: @escaping @Sendable () -> Void = {}
    ) {
        queue.async { [self] in
            guard asyncAccess.start(on: self) else { return release() }
            let result = Result { try cancellableAccess(asyncAccess.cancellation, body) }
            release()
            asyncAccess.end(result)
        }
    }

    private func access<T>(_ body: (Database) throws -> T) throws -> T {
        db.beginAccess()
        defer { db.endAccess(allowsOpenTransaction: allowsOpenTransaction) }
        if db.isClosed { throw DatabaseError.connectionIsClosed() }
        return try body(db)
    }

    private func cancellableAccess<T>(_ cancellation: CancellationFlag, _ body: (Database) throws -> T) throws -> T {
        if cancellation.isSet { throw CancellationError() }
        db.cancellation = cancellation
        life.withLock { $0.running = cancellation }
        defer {
            life.withLock { $0.running = nil }
            db.cancellation = nil
        }
        return try access(body)
    }

    // MARK: From other threads

    /// Interrupts the statement under way.
    func interrupt() {
        life.withLock { if $0.isOpen { db.handle.interrupt() } }
    }

    /// Interrupts the statement under way, if it still belongs to this access: a late cancellation must not hit the
    /// access that came after.
    func interrupt(only cancellation: CancellationFlag) {
        life.withLock { life in
            if life.isOpen, life.running === cancellation { db.handle.interrupt() }
        }
    }

    /// Whether the connection was not closed yet.
    var isOpen: Bool { life.withLock { $0.isOpen } }

    /// Closes the connection after the accesses under way. Closing twice does nothing. Traps inside an access.
    ///
    /// - Parameter willClose: Runs right before, as part of the last access.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` while statements of it are alive; it stays open then.
    func close(willClose: () -> Void = {}) throws {
        if db.isAccessedHere { ProgrammerError.trap(ProgrammerError.reentrant) }
        try queue.sync {
            db.beginAccess()
            defer { db.endAccess(allowsOpenTransaction: true) }
            db.rollbackIfNeeded()
            willClose()
            // First, so that nobody interrupts a connection that is going away.
            life.withLock { $0.isOpen = false }
            do {
                try db.close()
            } catch {
                life.withLock { $0.isOpen = true }
                throw error
            }
        }
    }
}
