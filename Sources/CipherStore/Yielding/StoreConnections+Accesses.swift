import CipherDatabase
import Dispatch
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization

// How an access passes the gate.

extension StoreConnections {
    /// Admits an access of this thread, which waits while the store is yielded.
    ///
    /// - Parameter isWrite: Whether it is refused at once while the store is suspended.
    /// - Throws: `StoreError` `storeClosed`, `keyRotated`, `storeMoved`, `storeInUse` and the errors of opening.
    @inline(__always)
    func enter(isWrite: Bool = false) throws -> StoreAccess {
        if gate.enter(), let pool = current { return StoreAccess(pool) }
        return try enterSlowly(isWrite)
    }

    /// Admits an access of this task, which waits without blocking a thread.
    func enter(isWrite: Bool = false) async throws -> StoreAccess {
        if gate.enter(), let pool = current { return StoreAccess(pool) }
        retreat()
        while true {
            // Locks and file access must not block the threads of tasks.
            let outcome = try await withCheckedThrowingContinuation {
                (waiting: CheckedContinuation<Attempt, any Error>) in
                DispatchQueue.global().async { [self] in
                    waiting.resume(with: Result { try attempt(isWrite: isWrite) })
                }
            }
            switch outcome {
            case .entered(let access): return access
            case .waits(let changes): try await waiters.waitAsync(since: changes)
            }
        }
    }

    /// Counts the end of an access.
    ///
    /// - Parameter isOnQueue: Whether this is the thread of a connection, on which that cannot be closed.
    @inline(__always)
    func leave(_ access: StoreAccess, isOnQueue: Bool = false) {
        let isLast = gate.leave()
        if isLast || access.lease != nil { leaveSlowly(access.lease, isLast, isOnQueue: isOnQueue) }
    }

    private func leaveSlowly(_ lease: Lease?, _ isLast: Bool, isOnQueue: Bool) {
        if isOnQueue {
            DispatchQueue.global().async { [self] in leaveSlowly(lease, isLast, isOnQueue: false) }
            return
        }
        if isLast { drained() }
        // After the connections are closed: while a lease is held no process replaces the file.
        lease?.release()
    }

    /// Undoes the count of an access that was not admitted.
    private func retreat() {
        if gate.leave() { drained() }
    }

    // MARK: While the gate is shut

    private func enterSlowly(_ isWrite: Bool) throws -> StoreAccess {
        // The enclosing access is waited for, so this one must not wait for its end.
        if let pool = poolAccessedHere { return StoreAccess(pool) }
        retreat()
        while true {
            switch try attempt(isWrite: isWrite) {
            case .entered(let access): return access
            case .waits(let changes): try waiters.wait(since: changes)
            }
        }
    }

    /// The pool, when this thread is inside an access of it or of one of its snapshots.
    private var poolAccessedHere: DatabasePool? {
        let (pool, snapshots) = state.withLock { ($0.pool, $0.snapshots) }
        guard let pool else { return nil }
        let isInside = pool.isAccessedHere || snapshots.contains { $0.snapshot?.isAccessedHere == true }
        return isInside ? pool : nil
    }

    private enum Attempt: Sendable {
        case entered(StoreAccess)
        /// Wait; the value is the count of changes that was read.
        case waits(Int)
    }

    private func attempt(isWrite: Bool) throws -> Attempt {
        let changes = waiters.changes
        try completeResumption()
        var lease: Lease?
        if suspension.isSuspended {
            if isWrite { throw suspension.refusal }
            lease = try leaseForAccess()
        }
        var isIn = false
        defer { if !isIn { lease?.release() } }
        let (admission, pool, failure) = state.withLock {
            state -> (ConnectionState.Admission, DatabasePool?, (any Error)?) in
            let admission = state.connections.admit()
            setGate(state)
            // Counted before anything is opened for it, so that it is not closed at once.
            if admission == .enter || admission == .reopen { _ = gate.enter() }
            return (admission, state.pool, state.failure)
        }
        switch admission {
        case .enter:
            guard let pool else {
                retreat()
                throw storeClosed
            }
            isIn = true
            return .entered(StoreAccess(pool, lease: lease))
        case .wait: return .waits(changes)
        case .refuse: throw failure ?? storeClosed
        case .reopen:
            do {
                try reopen(hasLease: lease != nil)
            } catch {
                retreat()
                if error is CancellationError { return .waits(changes) }
                throw error
            }
            guard let pool = openPool else {
                retreat()
                return .waits(changes)
            }
            isIn = true
            return .entered(StoreAccess(pool, lease: lease))
        }
    }

    /// Checks whether the store can be used, without an access of it.
    ///
    /// - Throws: `StoreError` when it was closed, moved or given another key.
    func requireOpen() throws {
        try completeResumption()
        let (connections, failure) = state.withLock { ($0.connections, $0.failure) }
        switch connections {
        case .closed: throw storeClosed
        case .failed: throw failure ?? storeClosed
        default: return
        }
    }

    /// A lease for an access during a suspension, in which the store has none.
    private func leaseForAccess() throws -> Lease? {
        let lease: Lease?
        do {
            lease = try keeper.takeForAccess(.unless { [self] in isEnding.load(ordering: .acquiring) })
        } catch is CancellationError {
            // Nobody but the close ends this wait.
            throw storeClosed
        }
        do {
            try keeper.verify()
        } catch {
            lease?.release()
            throw error
        }
        return lease
    }

    /// Completes a resumption before an access.
    ///
    /// - Throws: `StoreError` when the store has changed.
    private func completeResumption() throws {
        guard suspension.isSuspended else { return }
        do {
            try suspension.completeResumption()
        } catch is CancellationError {
            // Suspended again: reads acquire a lease of their own, and writes are refused.
        }
        if let loss = suspension.loss { throw loss }
    }

    // MARK: Accesses without a waiting caller

    /// Begins an access as soon as the gate is open; it ends by ``leave(_:isOnQueue:)``.
    ///
    /// - Parameter begin: Passes the access to a connection, without waiting for it; or receives the reason why there
    ///   is none.
    func submit(_ begin: @escaping @Sendable (Result<StoreAccess, any Error>) -> Void) {
        if gate.enter(), let pool = current { return begin(.success(StoreAccess(pool))) }
        if let pool = poolAccessedHere { return begin(.success(StoreAccess(pool))) }
        retreat()
        let isPostponed = state.withLock { state in
            let isBehindOthers = state.connections == .open && (state.isFlushing || !state.postponed.isEmpty)
            guard !suspension.isSuspended, state.connections.keepsWaiting || isBehindOthers else { return false }
            state.postponed.append { [weak self] in self?.beginPostponed(begin) }
            setGate(state)
            return true
        }
        if isPostponed { return }
        DispatchQueue.global().async { [self] in begin(Result { try enterFromQueue() }) }
    }

    private func enterFromQueue() throws -> StoreAccess { try enter() }

    private func beginPostponed(_ begin: @escaping @Sendable (Result<StoreAccess, any Error>) -> Void) {
        let access = state.withLock { state -> StoreAccess? in
            guard state.connections == .open, let pool = state.pool else { return nil }
            _ = gate.enter()
            return StoreAccess(pool)
        }
        if let access { return begin(.success(access)) }
        // The store was closed or lost, or was yielded again before this access began.
        submit(begin)
    }

    // MARK: The monitor of other processes' commits

    /// Runs a block on the writing connection if that may be used now: no connection is opened for it while the store
    /// is yielded or suspended.
    func accessForMonitor(_ body: (Database) -> Void) -> MonitorLink.Access {
        if gate.enter(), let pool = current {
            defer { leave(StoreAccess(pool)) }
            pool.writeWithoutTransaction(body)
            return .done
        }
        retreat()
        let (connections, failure) = state.withLock { ($0.connections, $0.failure) }
        switch connections {
        case .failed: return failure.map { .failed($0) } ?? .unavailable
        case .away([]): return reopenForMonitor(body)
        default: return .unavailable
        }
    }

    /// The connections could not be opened before: tries it again, as any access does.
    private func reopenForMonitor(_ body: (Database) -> Void) -> MonitorLink.Access {
        do {
            let access = try enter()
            defer { leave(access) }
            access.pool.writeWithoutTransaction(body)
            return .done
        } catch let error as StoreError {
            switch error.code {
            case .storeMoved, .keyRotated: return .failed(error)
            default: return .unavailable
            }
        } catch {
            return .unavailable
        }
    }

    // MARK: Snapshots

    /// Counts a snapshot as an access while it lives.
    func keep(_ snapshot: DatabaseSnapshot, as access: StoreAccess) {
        state.withLock { state in
            state.snapshots.removeAll { $0.snapshot == nil }
            state.snapshots.append(Snapshot(snapshot: snapshot))
        }
        // The pool is not captured: it ends with its store.
        snapshot.whenClosed { [weak self, lease = access.lease] in
            guard let self else { return }
            leaveSlowly(lease, gate.leave(), isOnQueue: true)
        }
    }
}

extension ConnectionState {
    /// Whether the access must wait.
    fileprivate var keepsWaiting: Bool {
        switch self {
        case .draining(let cause), .away(let cause): cause.contains(.request)
        case .closing, .reopening: true
        case .open, .failed, .closed: false
        }
    }
}
