import CipherDatabase
import Dispatch
import StorePlatform
import StoreSharing
import Synchronization

/// The connections of a shared store, which are closed and opened without its users' notice: they are closed for a
/// switch to a new key and while the store is suspended, and reopened by the next access that needs them.
///
/// ``ConnectionState`` decides, this type acts. Everything but the gate is on the slow path.
// Safe because: `current` is written only while the gate is shut and no access is inside, and read only by accesses
// inside; the rest is constant, or has a lock of its own.
final class StoreConnections: @unchecked Sendable {
    let keeper: LeaseKeeper
    let suspension: DatabaseSuspension
    let gate = AccessGate()
    let waiters = AccessWaiters()
    let closing = ReaderClosing()
    let state: Mutex<State>
    /// One opening or closing at a time.
    let work = Mutex(())
    /// Whether the store is being closed permanently, so that nothing waits.
    let isEnding = Atomic<Bool>(false)
    let configuration: Configuration
    let path: String
    /// The files, without links, as they led when the store was opened. They may lead elsewhere later.
    let paths: StorePaths
    private let watcher: YieldWatcher?
    /// The pool, for the accesses that the gate has admitted.
    @exclusivity(unchecked) var current: DatabasePool?

    struct State {
        var connections = ConnectionState.open
        /// The pool that is open; nil while there is none.
        var pool: DatabasePool?
        var fileKey: FileKey
        /// The state that outlives the pool.
        var carryOver: PoolCarryOver
        /// Why the connections could not be opened.
        var failure: (any Error)?
        /// Accesses without a waiting caller, which begin when the gate opens.
        var postponed: [AccessWaiters.Postponed] = []
        var isFlushing = false
        var snapshots: [Snapshot] = []
        /// Whether the running accesses were made to end.
        var hasEndedAccesses = false
        /// Whether the system's table of locks shows the locks on the store's files; nil before it was read.
        var isShownByLockTable: Bool?
    }

    struct Snapshot {
        weak var snapshot: DatabaseSnapshot?
        var isEnding = false
    }

    init(pool: DatabasePool, fileKey: FileKey, keeper: LeaseKeeper, listens: Bool) {
        self.keeper = keeper
        path = pool.path
        paths = keeper.paths
        configuration = pool.configuration
        suspension = fileKey.opening.suspension
        current = pool
        state = Mutex(State(pool: pool, fileKey: fileKey, carryOver: pool.carryOver))
        watcher = listens ? YieldWatcher(lockFile: paths.lock) : nil
        // If the store is not closed explicitly, its lease is released after the last of its connections.
        pool.keep(keeper)
        carryOver.monitorLink?.connectStore { [weak self] in self?.accessForMonitor($0) ?? .unavailable }
        watcher?.start(for: self)
    }

    deinit { watcher?.stop() }

    // MARK: Queries from outside of accesses

    /// The pool that is open at the moment.
    var openPool: DatabasePool? { state.withLock { $0.pool } }
    var fileKey: FileKey { state.withLock { $0.fileKey } }
    var carryOver: PoolCarryOver { state.withLock { $0.carryOver } }

    // MARK: Requests

    /// Yields the file to the requesting process.
    func yieldStore() { perform(handle(.ask)) }

    /// Resumes after a request.
    func endYield() {
        resumeAccesses()
        perform(handle(.withdraw))
    }

    /// Ends the accesses and snapshots that keep the file from being yielded. To be called again while there are any.
    func endAccesses() {
        let (pool, snapshots) = state.withLock { state -> (DatabasePool?, [(DatabaseSnapshot, Bool)]) in
            guard case .draining(let cause) = state.connections, cause.contains(.request) else { return (nil, []) }
            state.hasEndedAccesses = true
            var snapshots: [(DatabaseSnapshot, Bool)] = []
            for index in state.snapshots.indices {
                guard let snapshot = state.snapshots[index].snapshot else { continue }
                snapshots.append((snapshot, !state.snapshots[index].isEnding))
                state.snapshots[index].isEnding = true
            }
            return (state.pool, snapshots)
        }
        guard let pool else { return }
        let reason = StoreError.endedForRotation(path, from: keeper.identity.epoch)
        pool.withdrawAccesses(because: reason)
        for (snapshot, isFirst) in snapshots {
            snapshot.withdraw(because: reason)
            guard isFirst else { continue }
            // The close waits for the running access.
            DispatchQueue.global().async { try? snapshot.close(because: reason) }
        }
    }

    private func resumeAccesses() {
        let pool = state.withLock { state in
            defer { state.hasEndedAccesses = false }
            return state.hasEndedAccesses ? state.pool : nil
        }
        pool?.withdrawAccesses(because: nil)
    }

    // MARK: Suspension

    /// Closes the connections that no access needs.
    func suspend() {
        noteLockTable()
        let action = handle(.suspend)
        carryOver.setHolderRole(.suspended, true)
        perform(action)
        // A write whose transaction was rolled back may stay in its program's code for long, and so may a snapshot;
        // without concurrent reads the lease is still released.
        openPool?.afterReadsUnderWay { [weak self] in self?.releaseBesideWriter() }
    }

    /// Whether a read is running.
    var isReading: Bool { openPool?.hasReadsUnderWay ?? false }

    private func releaseBesideWriter() {
        let lease = state.withLock { state -> Lease? in
            guard case .draining(let cause) = state.connections, cause.contains(.suspension) else { return nil }
            let isKept = state.pool?.isWriterBusy == true || state.snapshots.contains { $0.snapshot != nil }
            return isKept ? keeper.detach() : nil
        }
        release(lease)
    }

    /// Acquires the lease again, opens the connections, and compares the store with its former state.
    func resume(_ wait: DatabaseSuspension.Wait) throws {
        try retake(wait)
        do {
            try keeper.verify()
        } catch {
            release(keeper.detach())
            throw error
        }
        let action = handle(.resume)
        carryOver.setHolderRole(.suspended, false)
        if action == .reopen { try reopen() } else { perform(action) }
        // If the connections were never closed, the lease may have been released in between.
        if openPool != nil { try retake(wait) }
    }

    /// Whether the system's table of locks shows the locks on the store's files, as it did while there were
    /// connections.
    var isShownByLockTable: Bool { state.withLock { $0.isShownByLockTable ?? false } }

    private func noteLockTable() {
        guard state.withLock({ $0.isShownByLockTable == nil && $0.pool != nil }) else { return }
        let isShown = LockProof.heldLocks(on: path) != nil
        state.withLock { $0.isShownByLockTable = isShown }
    }

    // MARK: The lease

    func retake(_ wait: DatabaseSuspension.Wait) throws {
        try keeper.retake(wait)
        if keeper.isHeld { carryOver.setHolderRole(.lease, true) }
    }

    func release(_ lease: Lease?) {
        guard let lease else { return }
        carryOver.setHolderRole(.lease, false)
        lease.release()
    }

    // MARK: The end

    /// Closes the connections permanently, after the running accesses.
    ///
    /// - Throws: `DatabaseError` while something of a connection is still in use; the store stays open then.
    func close() throws {
        isEnding.store(true, ordering: .releasing)
        do {
            let postponed = try work.withLock { _ in
                try openPool?.close()
                CrashPoint.reach(.closingConnectionsClosed)
                return state.withLock { state in
                    _ = state.connections.handle(.close)
                    state.failure = storeClosed
                    setGate(state)
                    defer { state.postponed = [] }
                    return state.postponed
                }
            }
            waiters.wake(storeClosed)
            // Every access throws by now. Before the postponed ones, whose error is that of a connection.
            closing.close(because: storeClosed)
            for begin in postponed { begin() }
        } catch {
            isEnding.store(false, ordering: .releasing)
            throw error
        }
        watcher?.stop()
        suspension.close()
        keeper.releaseNow()
        carryOver.release()
    }

    /// The error of an access that was admitted and then found its connection closed, or its files removed or replaced.
    func explain(_ failure: any Error) -> any Error {
        let code = (failure as? DatabaseError)?.resultCode
        if code == .SQLITE_MISUSE, isEnding.load(ordering: .acquiring) { return storeClosed }
        let mayBeMoved: [ResultCode] = [.SQLITE_IOERR, .SQLITE_NOTADB, .SQLITE_CORRUPT]
        guard let code, mayBeMoved.contains(code.primaryResultCode), openPool != nil else { return failure }
        do {
            try fileKey.opening.requireSameFiles()
            return failure
        } catch {
            return error is StoreError ? error : failure
        }
    }

    var storeClosed: StoreError {
        StoreError(
            .storeClosed,
            what: "The store \"\(path)\" was closed.",
            why: "close() was called on it.",
            remedy: "Open it again with SharedStore.open.")
    }
}
