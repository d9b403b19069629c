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

    private struct Life {
        var isOpen = true
        /// The cancellable access that runs now.
        var running: CancellationFlag?
    }

    init(_ db: Database, qos: DispatchQoS, target: DispatchQueue?, allowsOpenTransaction: Bool) {
        self.db = db
        queue = DispatchQueue(label: db.label, qos: qos, target: target)
        self.allowsOpenTransaction = allowsOpenTransaction
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
        return try queue.sync { try access(body) }
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

    /// Runs an access for a task. Cancelling the task interrupts the statement under way.
    ///
    /// - Throws: `CancellationError` when the task was cancelled before or during the access.
    func asyncAccess<T: Sendable>(_ body: @escaping @Sendable (Database) throws -> T) async throws -> T {
        let cancellation = CancellationFlag()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                queue.async { [self] in
                    continuation.resume(with: Result { try cancellableAccess(cancellation, body) })
                }
            }
        } onCancel: {
            cancellation.set()
            interrupt(only: cancellation)
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

    // A late cancellation must not hit the access that came after.
    private func interrupt(only cancellation: CancellationFlag) {
        life.withLock { life in
            if life.isOpen, life.running === cancellation { db.handle.interrupt() }
        }
    }

    /// Closes the connection after the accesses under way. Closing twice does nothing.
    func close() throws {
        try reentrantSyncWhileClosing {
            try db.close()
            life.withLock { $0.isOpen = false }
        }
    }

    private func reentrantSyncWhileClosing(_ body: () throws -> Void) throws {
        if db.isAccessedHere { return try body() }
        try queue.sync {
            db.beginAccess()
            defer { db.endAccess(allowsOpenTransaction: true) }
            db.rollbackIfNeeded()
            try body()
        }
    }
}
