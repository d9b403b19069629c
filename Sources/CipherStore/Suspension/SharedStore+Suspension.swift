import CipherDatabase
import Dispatch
import StorePlatform
import StoreSharing

extension SharedStore {
    /// Suspends the store: releases every lock that another process could wait for, and refuses writes until
    /// ``resume()``.
    ///
    /// Running statements are interrupted (`SQLITE_INTERRUPT`) and an open transaction is rolled back. Every wait for a
    /// lock, a connection or the write turn throws `SQLITE_ABORT` "Database is suspended", and so does every later
    /// write. Reads continue; each holds the lease while it runs. The store is suspended whether or not it observes
    /// notifications; of several suspensions and resumptions, the last one takes effect.
    ///
    /// - Parameter deadline: When to stop waiting for code that cannot be interrupted, such as the program's own SQL
    ///   functions.
    /// - Returns: The actions of the suspension, and the proof that no lock is left: the system's own table of locks
    ///   where it exists.
    @discardableResult
    public func suspend(deadline: ContinuousClock.Instant = .now + .seconds(5)) async -> SuspensionReport {
        await withCheckedContinuation { continuation in
            // Waiting for calls into SQLite must not block the threads of tasks.
            DispatchQueue.global(qos: .userInitiated).async { [self] in
                continuation.resume(returning: suspendNow(deadline: deadline))
            }
        }
    }

    /// Suspends the store, and waits at most this long for code that cannot be interrupted.
    @discardableResult
    public func suspend(deadline: Duration) async -> SuspensionReport { await suspend(deadline: .now + deadline) }

    /// Suspends the store on this thread; see ``suspend(deadline:)-(ContinuousClock.Instant)``.
    @discardableResult
    func suspendNow(
        deadline: ContinuousClock.Instant, by initiator: DatabaseSuspension.Initiator = .program
    ) -> SuspensionReport {
        let start = ContinuousClock.now
        var outcome = suspension.suspend(by: initiator, until: deadline)
        while true {
            let (held, proof) = heldLocks(outcome)
            // A read keeps the lease; a write that was interrupted releases it as soon as it has ended.
            let isReleased = held.isEmpty || (held == [.lease] && connections.isReading)
            let isOver = isReleased || ContinuousClock.now >= deadline || !suspension.isSuspended
            if isOver {
                return SuspensionReport(
                    proof: proof, heldLocks: held, interruptedStatements: outcome.interrupted,
                    rolledBackTransactions: outcome.rolledBack, duration: .now - start)
            }
            CurrentThread.pause(microseconds: 200)
            outcome.add(suspension.releaseAgain(until: deadline))
        }
    }

    private func heldLocks(_ outcome: DatabaseSuspension.Outcome) -> (
        [SuspensionReport.HeldLock], SuspensionReport.Proof
    ) {
        var own: [SuspensionReport.HeldLock] = []
        if connections.carryOver.ownsWriteTurn { own.append(.writeTurn) }
        if isOpeningLockHeld { own.append(.opening) }
        if connections.keeper.isHeld { own.append(.lease) }
        if let held = LockProof.heldLocks(on: path, isShown: connections.isShownByLockTable) {
            return (held + own, .systemLockTable)
        }
        return ((outcome.stillHeld > 0 ? [.connection] : []) + own, .ownState)
    }

    /// Ends the suspension. The store acquires its lease again, and is compared with its former state before any
    /// access: accesses throw `StoreError.storeMoved` when the path names another file, and `StoreError.keyRotated`
    /// when the store has another key.
    public func resume() { suspension.resume(by: .program) }

    /// Whether the store is suspended.
    public var isSuspended: Bool { suspension.isSuspended }
}
