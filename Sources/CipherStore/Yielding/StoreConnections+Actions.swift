import CipherDatabase
import Dispatch
import StorePlatform
import StoreSharing
import Synchronization

// The actions after an event: closing, opening, admitting waiters.

extension StoreConnections {
    /// Passes an event to the state machine, and shuts or opens the gate with it.
    ///
    /// A lease that must be released is detached from the keeper in the same moment, so that a later resumption sees
    /// that it must acquire a new one.
    func handle(_ event: ConnectionState.Event) -> ConnectionState.Action? {
        let (action, lease) = state.withLock { state -> (ConnectionState.Action?, Lease?) in
            // An access that was admitted since is waited for as well.
            if event == .drained && gate.count() != 0 { return (nil, nil) }
            let action = state.connections.handle(event)
            setGate(state)
            return (action, action == .release ? keeper.detach() : nil)
        }
        release(lease)
        return action
    }

    func setGate(_ state: borrowing State) {
        gate.set(isShut: state.connections != .open || !state.postponed.isEmpty || state.isFlushing)
    }

    func perform(_ action: ConnectionState.Action?) {
        switch action {
        case .drain:
            drained()
            // Reads that arrived while the connections were opened are admitted together with the one that opened them.
            waiters.wake()
        case .close: closeForNow()
        // Accesses that no request keeps out check whether they may open the connections.
        case .release: waiters.wake()
        case .reopen: try? reopen()
        case .admit: admit()
        case .failWaiters: waiters.wake(state.withLock { $0.failure })
        case .discard, nil: break
        }
    }

    /// Called when the gate is shut and the last access has ended, or may have.
    func drained() {
        if gate.count() == 0 { perform(handle(.drained)) }
    }

    /// Closes the connections to open them again later: without a checkpoint, for which other processes would wait.
    private func closeForNow() {
        let isGone = work.withLock { _ -> Bool in
            guard case .closing = state.withLock({ $0.connections }) else { return true }
            do {
                try openPool?.close(isPause: true)
            } catch {
                return false
            }
            current = nil
            state.withLock { $0.pool = nil }
            return true
        }
        perform(handle(isGone ? .gone : .stuck))
    }

    // MARK: Opening again

    /// Opens the connections to the file that the path names now.
    ///
    /// - Parameter hasLease: Whether the caller has a lease for it; otherwise the store acquires its own.
    /// - Throws: `StoreError` `keyRotated` or `storeMoved`, and the errors of opening; `CancellationError` when a
    ///   suspension or the close of the store came first.
    func reopen(hasLease: Bool = false) throws {
        do {
            try work.withLock { _ in
                guard case .reopening = state.withLock({ $0.connections }) else { return }
                if !hasLease { try retake(.unless { [self] in isOvertaken }) }
                let (pool, fileKey) = try openConnections()
                current = pool
                state.withLock { state in
                    state.pool = pool
                    state.fileKey = fileKey
                    state.carryOver = pool.carryOver
                    state.failure = nil
                }
            }
        } catch let error as DatabaseError where error.resultCode.primaryResultCode == .SQLITE_INTERRUPT {
            // A suspension has interrupted the opening: the waiters check again.
            fail(CancellationError())
            throw CancellationError()
        } catch {
            fail(error)
            throw error
        }
        perform(handle(.reopened))
        // An earlier backup may have left a descriptor of the replaced file. It is closed after the waiters are
        // admitted: freeing its disk space takes longer for a larger file.
        LiveFiles.closeRemovedFiles()
    }

    /// Whether an opening that waits for the lease is no longer needed.
    private var isOvertaken: Bool {
        if isEnding.load(ordering: .acquiring) { return true }
        guard case .reopening(let cause) = state.withLock({ $0.connections }) else { return true }
        return cause.contains(.suspension)
    }

    private func openConnections() throws -> (DatabasePool, FileKey) {
        let fileKey = fileKey.successor()
        defer { fileKey.opening.release() }
        let pool = try fileKey.opening.endingWaits(when: { [self] in isOvertaken }) {
            try completeSwitch(with: fileKey) { [self] in isOvertaken }
            try keeper.verify()
            return try DatabasePool(
                path: paths.database, configuration: configuration, fileKey: fileKey, key: .knownKeys,
                carryOver: carryOver)
        }
        pool.keep(keeper)
        do {
            if !configuration.readonly { try LostCommits.keep(pool, fileKey) }
            try keeper.adopt(StoreIdentity(fileKey, path: path))
        } catch {
            try? pool.close(isPause: true)
            throw error
        }
        return (pool, fileKey)
    }

    private func fail(_ error: any Error) {
        let isLost = if case .keyRotated? = (error as? StoreError)?.code { true } else { false }
        let (postponed, lease) = state.withLock { state -> ([AccessWaiters.Postponed], Lease?) in
            state.failure = error
            _ = state.connections.handle(isLost ? .lost : .postponed)
            defer { state.postponed = [] }
            setGate(state)
            return (state.postponed, keeper.detach())
        }
        release(lease)
        // Overtaken by a suspension: the waiters check again.
        waiters.wake(error is CancellationError ? nil : error)
        for begin in postponed { begin() }
        carryOver.monitorLink?.becomeAvailable()
    }

    // MARK: Admission

    /// Begins the accesses without a waiting caller, in their order and before any that arrives later, and makes the
    /// other waiters check again.
    private func admit() {
        while true {
            let batch: [AccessWaiters.Postponed] = state.withLock { state in
                setGate(state)
                guard !state.isFlushing, state.connections == .open, !state.postponed.isEmpty else { return [] }
                state.isFlushing = true
                defer { state.postponed = [] }
                return state.postponed
            }
            if batch.isEmpty { break }
            for begin in batch { begin() }
            state.withLock { $0.isFlushing = false }
        }
        waiters.wake()
        carryOver.monitorLink?.becomeAvailable()
    }
}
