import Dispatch
import StorePlatform
import Synchronization

/// A connection and the queue on which all of its accesses run, one after the other.
// Safe because: the database is used only inside accesses, which the queue runs one at a time; interruption goes
// through `life`, which knows whether the connection is still open.
final class SerialConnection: @unchecked Sendable {
    private let queue: DispatchQueue
    /// It is replaced inside an access, under the lock of `life`.
    private var db: Database
    private let life: Mutex<Life>
    /// The thread of the access under way; 0 between accesses.
    private let user = Atomic<UInt>(0)
    private let suspension: DatabaseSuspension
    private let forkCount: UInt32
    /// Opens another connection in the place of one with which SQLite reads no page; nil where none may take its place.
    private let reopen: Reopening?
    /// The waiters for the connection; nil where no suspension may end their wait.
    private let line: WaitingLine?
    /// Whether accesses may end inside a transaction.
    private let allowsOpenTransaction: Bool
    /// Whether the configuration has a target queue for this one.
    private let hasTarget: Bool
    /// Watches the age of accesses; nil where none is limited.
    private let watch: ReadWatch?
    /// Released after the connection, which its deinitializer closes.
    private let dependency: ConnectionDependency?

    /// Runs the repetitions of interruptions; it blocks for none of them.
    private static let repeater = DispatchQueue(label: "CipherDatabase.interruptions", qos: .userInitiated)

    /// Opens a connection in the place of another one, which is still open.
    typealias Reopening = @Sendable (_ former: Database) throws -> Database

    private struct Life {
        var isOpen = true
        /// Called once, when the connection was closed.
        var whenClosed: (@Sendable () -> Void)?
        /// The cancellable access that runs now.
        var running: CancellationFlag?
    }

    init(
        _ db: Database, qos: DispatchQoS, target: DispatchQueue?, allowsOpenTransaction: Bool,
        dependency: ConnectionDependency? = nil, watch: ReadWatch? = nil, reopen: Reopening? = nil
    ) {
        self.db = db
        self.watch = watch
        self.dependency = dependency
        self.reopen = reopen
        suspension = db.connectionKey.suspension
        forkCount = db.health.forkCount
        line = db.gating.usesGate ? WaitingLine() : nil
        if let line { suspension.add(line) }
        queue = DispatchQueue(label: db.label, qos: qos, target: target)
        self.allowsOpenTransaction = allowsOpenTransaction
        hasTarget = target != nil
        life = Mutex(Life())
    }

    deinit {
        if ForkWatch.count != forkCount { return }
        db.beginAccess()
        db.rollbackIfNeeded()
        try? db.close()
        db.endAccess(allowsOpenTransaction: true)
        life.withLock { $0.whenClosed.take() }?()
    }

    /// Whether this thread is inside an access of this connection.
    var isAccessedHere: Bool { user.load(ordering: .relaxed) == CurrentThread.id }

    /// The connection, for code that runs inside one of its accesses. Traps everywhere else.
    func requireAccessHere() -> Database {
        if !isAccessedHere { ProgrammerError.trap(ProgrammerError.wrongThread) }
        return db
    }

    // MARK: Accesses

    /// Runs an access and waits for it. Traps when this thread is already inside one.
    ///
    /// On a connection that was closed `body` runs too: every statement of it throws.
    func sync<T>(_ body: (Database) throws -> T) rethrows -> T {
        if isAccessedHere { ProgrammerError.trap(ProgrammerError.reentrant) }
        // A forked child has none of the queue's threads, and would wait for them.
        if ForkWatch.count != forkCount {
            db.abandonAfterFork()
            return try access(body)
        }
        return try queue.sync { try access(body) }
    }

    /// Runs an access for a caller to whom the connection is lent: no other access uses it, so there is nothing to wait
    /// for.
    func syncAlone<T>(_ body: (Database) throws -> T) throws -> T {
        try requireOwnProcess()
        return try hasTarget ? sync(body) : access(body)
    }

    private func syncFree<T>(_ body: (Database) throws -> T) throws -> T {
        // The queue takes many more instructions for a block that returns or throws something.
        var outcome: Result<T, any Error>?
        queue.sync { outcome = Result { try access(body) } }
        return try DatabaseError.require(outcome).get()
    }

    private func requireOwnProcess() throws {
        if ForkWatch.count != forkCount { throw DatabaseError.connectionOfParent() }
    }

    /// Runs an access and waits for it, however long others write before it and despite any suspension.
    func syncPatiently<T>(_ body: (Database) throws -> T) rethrows -> T {
        _ = line?.enter()
        defer { line?.leave() }
        return try sync(body)
    }

    /// Runs an access that may write, and waits for it. Traps when this thread is already inside one.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension ends the wait for the connection.
    func syncWrite<T>(_ body: (Database) throws -> T) throws -> T {
        guard let line else { return try sync(body) }
        if isAccessedHere { ProgrammerError.trap(ProgrammerError.reentrant) }
        try requireOwnProcess()
        let isFree = line.enter()
        defer { line.leave() }
        if isFree { return try syncFree(body) }
        let (arrival, departure) = (SingleWait<WaitOutcome>(), SingleWait<Void>())
        let ticket = line.add { arrival.end(.ended) }
        // After the registration: a suspension from here on finds the wait.
        if suspension.isSuspended { arrival.end(.ended) }
        // The queue lends this thread the connection, and waits until it is returned. It skips a wait that was ended.
        queue.async { if arrival.end(.arrived) { departure.wait() } }
        let outcome = arrival.wait()
        line.remove(ticket)
        guard outcome == .arrived else { throw suspension.refusal }
        defer { departure.end(()) }
        return try access(body)
    }

    /// Runs an access of a task on this thread, if no other access runs or waits.
    ///
    /// - Returns: nil where one does.
    func runIfFree<T>(_ cancellation: CancellationFlag, _ body: (Database) throws -> T) throws -> T? {
        guard let line, !hasTarget, !isAccessedHere, ForkWatch.count == forkCount else { return nil }
        let isFree = line.enter()
        defer { line.leave() }
        if !isFree { return nil }
        var outcome: Result<T, any Error>?
        queue.sync { outcome = Result { try cancellableAccess(cancellation, body) } }
        return try outcome?.get()
    }

    /// Waits for something that comes before a write access.
    ///
    /// - Throws: ``DatabaseError`` `.SQLITE_ABORT` when a suspension ends the wait.
    func waitUnlessSuspended(_ wait: SingleWait<WaitOutcome>) throws {
        let ticket = line?.add { wait.end(.ended) }
        defer { if let ticket { line?.remove(ticket) } }
        // After the registration: a suspension from here on finds the wait.
        if suspension.isSuspended { wait.end(.ended) }
        if wait.wait() == .ended { throw suspension.refusal }
    }

    /// Runs an access, or runs `body` at once when this thread is already inside one.
    func reentrantSync<T>(_ body: (Database) throws -> T) rethrows -> T {
        if isAccessedHere { return try body(db) }
        return try sync(body)
    }

    /// Runs an access later, without waiting for it.
    ///
    /// - Parameter finally: Called after the access, when the connection is free.
    func async(_ body: @escaping @Sendable (Database) -> Void, finally: @escaping @Sendable () -> Void = {}) {
        _ = line?.enter()
        queue.async { [self] in
            defer { finally() }
            defer { line?.leave() }
            beginAccess()
            defer { endAccess() }
            body(db)
        }
    }

    /// Runs an access for a task, later and without waiting for it.
    ///
    /// - Parameters:
    ///   - isWrite: Whether a suspension ends the wait for the connection.
    ///   - release: Called when the connection is free again.
    func run(_ access: AsyncAccess, isWrite: Bool = false, release: @escaping @Sendable () -> Void = {}) {
        do {
            try requireOwnProcess()
        } catch {
            release()
            return access.endWait(error)
        }
        _ = line?.enter()
        let endsWithSuspension = isWrite ? endWhenSuspended(access) : nil
        queue.async { [self] in
            defer { line?.leave() }
            endsWithSuspension?.cancel()
            access.run(on: self, release: release)
        }
    }

    /// Lets a suspension end the wait of a task for the connection, or for what comes before it.
    ///
    /// - Parameter now: Whether a suspension under way ends it too.
    /// - Returns: The registration, to be cancelled when the wait is over; nil where no suspension ends waits.
    func endWhenSuspended(_ access: AsyncAccess, now: Bool = false) -> WaitingLine.Ticket? {
        guard let line else { return nil }
        let ticket = WaitingLine.Ticket(line) { [suspension] in access.endWait(suspension.refusal) }
        // After the registration: a suspension from here on finds the wait.
        if now && suspension.isSuspended { access.endWait(suspension.refusal) }
        return ticket
    }

    private func access<T>(_ body: (Database) throws -> T) rethrows -> T {
        beginAccess()
        defer { endAccess() }
        do {
            return try body(db)
        } catch {
            // A statement failed after another one had begun a transaction: the caller gets its error.
            if !allowsOpenTransaction { db.rollbackIfNeeded() }
            throw error
        }
    }

    private func beginAccess() {
        user.store(CurrentThread.id, ordering: .relaxed)
        if db.connectionKey.awaitsFirstPage { replaceIfOtherSalt() }
        db.beginAccess()
        if let watch { db.access.watchedRead = watch.begin(on: self, named: db.label) }
    }

    private func endAccess() {
        if let watch, let read = db.access.watchedRead.take() { watch.end(read) }
        db.endAccess(allowsOpenTransaction: allowsOpenTransaction)
        if db.health.mayBeUnusable { replaceIfUnusable() }
        user.store(0, ordering: .relaxed)
    }

    /// Opens another connection in the place of one with which SQLite reads no page.
    ///
    /// From SQLCipher 4.9 on a connection refuses every page after one that was not authentic. Everything that the
    /// program has given this connection outside of `prepareDatabase` goes with it. Where no other one can be opened it
    /// stays: its errors are those of the file.
    private func replaceIfUnusable() {
        let former = db
        let isUnusable = reopen != nil && !former.isClosed && former.handle.isInAutocommit && !former.canReadPages()
        former.health.mayBeUnusable = false
        if isUnusable { replace(because: .connectionWasReplaced()) }
    }

    /// Opens another connection in the place of one that was opened on a new file, if another one has made page 1 since.
    private func replaceIfOtherSalt() {
        guard !db.isClosed, db.handle.isInAutocommit, db.connectionKey.hasOtherSalt() else { return }
        replace(because: .fileWasCreated())
    }

    private func replace(because reason: DatabaseError) {
        let former = db
        guard let reopen, let next = try? reopen(former) else { return }
        life.withLock { _ in db = next }
        former.discard(because: reason)
    }

    /// Runs an access of a task on this thread, which holds the connection.
    func cancellableAccess<T>(_ cancellation: CancellationFlag, _ body: (Database) throws -> T) throws -> T {
        if cancellation.isSet { throw CancellationError() }
        if db.isClosed { throw DatabaseError.connectionIsClosed() }
        db.access.cancellation = cancellation
        life.withLock { $0.running = cancellation }
        defer {
            life.withLock { $0.running = nil }
            db.access.cancellation = nil
        }
        return try access(body)
    }

    // MARK: From other threads

    /// Interrupts the statement under way.
    func interrupt() {
        let gate = life.withLock { life in
            if life.isOpen { db.interrupt() }
            return db.gating.gate
        }
        gate.wake()
    }

    /// Interrupts an access that was cancelled, until it has ended: no later access is interrupted.
    ///
    /// SQLite forgets an interruption that comes while no statement runs. So one that comes right before a statement
    /// begins, after the check that precedes it, would be lost without its repetitions.
    func interrupt(only cancellation: CancellationFlag, pause milliseconds: Int = 1) {
        let isRunning = life.withLock { life in
            guard life.isOpen, life.running === cancellation else { return false }
            cancellation.interrupting {
                db.interrupt()
                db.gating.gate.wake()
            }
            return true
        }
        guard isRunning else { return }
        Self.repeater.asyncAfter(deadline: .now() + .milliseconds(milliseconds)) { [weak self] in
            self?.interrupt(only: cancellation, pause: min(2 * milliseconds, DatabaseLimits.interruptionPause))
        }
    }

    /// Makes the access under way end with an error as soon as it can, or, with nil, lets it continue.
    func withdraw(because reason: (any Error)?) {
        let gate = life.withLock { life in
            if life.isOpen {
                db.access.withdrawal.set(reason)
                if reason != nil { db.interrupt() }
            }
            return db.gating.gate
        }
        if reason != nil { gate.wake() }
    }

    /// Closes the connection after the access under way, so that every later one throws an error.
    func close(because reason: any Error) throws {
        try close { self.db.health.openingFailure = reason }
    }

    /// Sets the function that is called when the connection is closed, at the latest when it is deallocated.
    func whenClosed(_ tell: @escaping @Sendable () -> Void) { life.withLock { $0.whenClosed = tell } }

    /// Whether an access is under way, on any thread.
    var isBusy: Bool { user.load(ordering: .relaxed) != 0 }

    /// Whether the connection was not closed yet.
    var isOpen: Bool { life.withLock { $0.isOpen } }

    /// Closes the connection after the accesses under way. Closing twice does nothing. Traps inside an access.
    ///
    /// - Parameters:
    ///   - isPause: Whether the connection is opened again soon: the WAL is left as it is, and the holder row is kept.
    ///   - willClose: Runs right before, as part of the last access.
    /// - Throws: ``DatabaseError`` `.SQLITE_BUSY` while its statements are alive, ``StoreError`` `storeMoved` where it would lose
    ///   the commits of a removed WAL; it stays open then.
    func close(isPause: Bool = false, willClose: () -> Void = {}) throws {
        if isAccessedHere { ProgrammerError.trap(ProgrammerError.reentrant) }
        if ForkWatch.count != forkCount { return try db.close() }
        // Waits for the write turn need not continue.
        life.withLock { _ in db.writing.writeTurn }?.setClosing(true)
        try queue.sync {
            user.store(CurrentThread.id, ordering: .relaxed)
            defer { user.store(0, ordering: .relaxed) }
            db.beginAccess()
            defer { db.endAccess(allowsOpenTransaction: true) }
            db.rollbackIfNeeded()
            willClose()
            do {
                if !db.isClosed { try db.saveRemovedWAL() }
                // First, so that no thread interrupts a connection that is being closed.
                life.withLock { $0.isOpen = false }
                if isPause && !db.isClosed { db.handle.setCheckpointOnClose(false) }
                db.writing.keepsWriteTurn = isPause
                try db.close()
            } catch {
                life.withLock { $0.isOpen = true }
                if !db.health.hasFailedToSync { db.handle.setCheckpointOnClose(true) }
                db.writing.writeTurn?.setClosing(false)
                throw error
            }
        }
        life.withLock { $0.whenClosed.take() }?()
    }
}

/// Keeps an object while there are connections that need it: the lease of a store, without which its file may be
/// replaced.
final class ConnectionDependency: Sendable {
    private let object = Mutex<(any AnyObject & Sendable)?>(nil)

    func keep(_ object: any AnyObject & Sendable) { self.object.withLock { $0 = object } }
}

/// How a wait for a connection, or for what comes before it, ended.
enum WaitOutcome: Sendable {
    /// The awaited event has happened.
    case arrived
    /// A suspension or a cancellation ended the wait.
    case ended
}

/// The waits for one connection, so that a suspension can end them.
final class WaitingLine: Sendable {
    /// The registration of a wait, until it is cancelled.
    struct Ticket: Sendable {
        private let line: WaitingLine
        private let number: Int

        /// - Parameter end: Called when the wait must end.
        init(_ line: WaitingLine, _ end: @escaping @Sendable () -> Void) {
            self.line = line
            number = line.add(end)
        }

        func cancel() { line.remove(number) }
    }

    /// Accesses that wait or run.
    private let count = Atomic<Int>(0)
    private let ends = Mutex(Registrations<@Sendable () -> Void>())

    /// Counts an access.
    /// - Returns: Whether it is the only one.
    func enter() -> Bool { count.wrappingAdd(1, ordering: .relaxed).oldValue == 0 }

    func leave() { count.wrappingSubtract(1, ordering: .relaxed) }

    /// Registers a wait; `end` is called when the wait must end.
    func add(_ end: @escaping @Sendable () -> Void) -> Int { ends.withLock { $0.add(end) } }

    func remove(_ ticket: Int) { ends.withLock { _ = $0.remove(ticket) } }

    /// Ends every wait.
    func endWaits() {
        let ends = ends.withLock { $0.takeAll() }
        for end in ends { end() }
    }
}
