import StorePlatform
import Synchronization

/// The suspension of one database: of all its connections that may hold a lock others wait for, and of the waits for
/// one of these connections.
package final class DatabaseSuspension: Sendable {
    /// The effect of a suspension.
    package struct Outcome: Sendable {
        /// Statements that were interrupted.
        package var interrupted = 0
        /// Transactions that were rolled back while their program was in code of its own.
        package var rolledBack = 0
        /// Connections whose threads have not released their locks yet.
        package var stillHeld = 0

        /// Adds the outcome of a later attempt; `stillHeld` becomes that of the later one.
        package mutating func add(_ later: Outcome) {
            interrupted += later.interrupted
            rolledBack += later.rolledBack
            stillHeld = later.stillHeld
        }
    }

    /// How long a resumption may wait for its locks.
    package enum Wait: Sendable {
        /// Not at all: the next access waits.
        case none
        /// As long as necessary, unless another suspension has overtaken it.
        case unless(isOvertaken: @Sendable () -> Bool)
    }

    /// The additions of a shared store: its own locks, and the comparison with its former state.
    package struct Locks: Sendable {
        let release: @Sendable () -> Void
        let recheck: @Sendable (_ wait: Wait) throws -> Void

        /// - Parameters:
        ///   - release: Releases the locks. May be called again.
        ///   - recheck: Acquires them again. Throws a `StoreError` for a store that has changed, and any other error if
        ///     the locks are not available yet.
        package init(
            release: @escaping @Sendable () -> Void, recheck: @escaping @Sendable (_ wait: Wait) throws -> Void
        ) {
            self.release = release
            self.recheck = recheck
        }
    }

    /// Who asks for a suspension. Each ends its own suspension only.
    package struct Initiator: OptionSet, Sendable {
        package let rawValue: Int
        package init(rawValue: Int) { self.rawValue = rawValue }

        /// The program, by a call or a notification.
        package static let program = Initiator(rawValue: 1)
        /// The terminal that stops the process.
        package static let jobControl = Initiator(rawValue: 2)
    }

    private struct Members {
        var state = SuspensionState.running
        /// Whose suspensions last.
        var initiators: Initiator = []
        /// The error of the state `lost`.
        var loss: StoreError?
        var gates: [Member] = []
        weak var line: WaitingLine?
        var locks: Locks?
        /// Releases memory.
        var relief: (@Sendable () -> Void)?
        /// The waits for the end of the suspension.
        var waiting = Registrations<@Sendable () -> Void>()
        /// Suspensions so far.
        var count = 0
    }

    // Safe because: of the connection only the thread of its access is read, which is atomic.
    private struct Member: @unchecked Sendable {
        private weak var database: Database?
        let gate: ConnectionGate

        init(_ database: Database) {
            self.database = database
            gate = database.gating.gate
        }

        var isGone: Bool { database == nil }
        /// Whether this thread is inside an access of the connection.
        var isAccessedHere: Bool { database?.isAccessedHere == true }
    }

    private let members = Mutex(Members())
    /// One release or recheck at a time.
    private let work = Mutex(())
    private let suspended = Atomic<Bool>(false)

    // MARK: State

    /// Whether the state is anything but `running`: one relaxed load.
    package var isSuspended: Bool { suspended.load(ordering: .relaxed) }

    /// Suspensions so far: if this number grew during a write that failed, a suspension may be the reason.
    package var count: Int { members.withLock { $0.count } }

    /// The error of refused calls.
    package var refusal: any Error { members.withLock { $0.loss } ?? DatabaseError.suspended() }

    /// Why the store cannot be resumed; nil where it can.
    package var loss: StoreError? { members.withLock { $0.loss } }

    // MARK: Members

    func add(_ database: Database) {
        let member = Member(database)
        members.withLock { members in
            members.gates.removeAll(where: \.isGone)
            members.gates.append(member)
            member.gate.set(suspended: members.state != .running)
        }
    }

    func remove(_ gate: ConnectionGate) { members.withLock { $0.gates.removeAll { $0.gate === gate } } }

    func add(_ line: WaitingLine) { members.withLock { $0.line = line } }

    /// Sets the function that releases memory while the database is suspended.
    func add(relief: @escaping @Sendable () -> Void) { members.withLock { $0.relief = relief } }

    package func add(_ locks: Locks) { members.withLock { $0.locks = locks } }

    // MARK: Events

    /// Applies the last notification of an initiator.
    func follow(_ initiator: Initiator, _ isSuspended: () -> Bool) {
        let deadline = ContinuousClock.now + DatabaseLimits.suspensionWait
        let (action, suspends) = handle(by: initiator, isSuspended)
        perform(action, until: deadline)
        // A suspension that has begun is waited for, whichever thread began it.
        if suspends && action == nil && !isAccessedHere { work.withLock { _ in } }
    }

    /// Suspends the database; does nothing when it is suspended.
    @discardableResult
    package func suspend(by initiator: Initiator, until deadline: ContinuousClock.Instant) -> Outcome {
        perform(handle(by: initiator) { true }.action, until: deadline)
    }

    /// Asks the connections again that had not released their locks.
    package func releaseAgain(until deadline: ContinuousClock.Instant) -> Outcome {
        guard members.withLock({ $0.state }) == .suspended else { return Outcome() }
        return release(until: deadline)
    }

    /// Ends an initiator's suspension, and the database's if it was the last one and the database is what it was. If a
    /// lock is not available at once, the next access waits for it.
    package func resume(by initiator: Initiator) { perform(handle(by: initiator) { false }.action, until: .now) }

    /// Completes a resumption that could not be completed at once.
    ///
    /// - Throws: Why it still cannot.
    package func completeResumption() throws {
        guard members.withLock({ $0.state }) == .resuming else { return }
        try recheck(mayWait: true)
    }

    /// Ends the suspension and all waits for good: the database is being closed.
    package func close() { perform(handle(.close), until: .now) }

    /// Whether this thread is inside an access of the database, so that others may be waiting for it.
    private var isAccessedHere: Bool {
        members.withLock { $0.gates }.contains(where: \.isAccessedHere)
    }

    /// Begins or ends the suspension of an initiator. The function is called under the lock, so that of two simultaneous
    /// calls both follow the last one.
    private func handle(by initiator: Initiator, _ isSuspended: () -> Bool) -> (
        action: SuspensionState.Action?, suspends: Bool
    ) {
        members.withLock { members in
            if isSuspended() { members.initiators.insert(initiator) } else { members.initiators.remove(initiator) }
            let suspends = !members.initiators.isEmpty
            return (apply(suspends ? .suspend : .resume, to: &members), suspends)
        }
    }

    private func handle(_ event: SuspensionState.Event) -> SuspensionState.Action? {
        members.withLock { apply(event, to: &$0) }
    }

    private func apply(_ event: SuspensionState.Event, to members: inout Members) -> SuspensionState.Action? {
        let action = members.state.handle(event)
        if case .lost = members.state {} else { members.loss = nil }
        if action == .release, event == .suspend { members.count += 1 }
        let isSuspended = members.state != .running && members.state != .closed
        suspended.store(isSuspended, ordering: .sequentiallyConsistent)
        for member in members.gates { member.gate.set(suspended: isSuspended) }
        return action
    }

    @discardableResult
    private func perform(_ action: SuspensionState.Action?, until deadline: ContinuousClock.Instant) -> Outcome {
        switch action {
        case .release: return release(until: deadline)
        case .recheck: try? recheck(mayWait: false)
        case .admit, .failWaiters: wakeWaiting()
        case nil: break
        }
        return Outcome()
    }

    // MARK: Actions

    private func release(until deadline: ContinuousClock.Instant) -> Outcome {
        work.withLock { _ in
            let (gates, line, locks) = members.withLock { members in
                (members.gates, members.line, members.locks)
            }
            line?.endWaits()
            var outcome = Outcome()
            for member in gates {
                switch member.gate.release(until: deadline, isOwnThread: member.isAccessedHere) {
                case .nothingHeld: break
                case .interrupted: outcome.interrupted += 1
                case .rolledBack: outcome.rolledBack += 1
                case .stillHeld: outcome.stillHeld += 1
                }
            }
            locks?.release()
            members.withLock { $0.relief }?()
            _ = handle(.released)
            return outcome
        }
    }

    private func recheck(mayWait: Bool) throws {
        let action = try work.withLock { _ -> SuspensionState.Action? in
            guard members.withLock({ $0.state }) == .resuming else { return nil }
            do {
                let wait = Wait.unless { [self] in members.withLock { $0.state } != .resuming }
                try members.withLock { $0.locks }?.recheck(mayWait ? wait : .none)
                return handle(.rechecked(nil))
            } catch let error as StoreError where SuspensionState.Loss(error) != nil {
                let action = handle(.rechecked(SuspensionState.Loss(error)))
                members.withLock { if case .lost = $0.state { $0.loss = error } }
                return action
            } catch {
                _ = handle(.postponed)
                throw error
            }
        }
        perform(action, until: .now)
    }

    // MARK: Waiting for the end

    /// Calls a function when the suspension ends or will never end, at once where there is none.
    ///
    /// - Returns: A ticket with which it can be forgotten.
    package func whenResumed(_ wake: @escaping @Sendable () -> Void) -> Int? {
        let ticket: Int? = members.withLock { members in
            switch members.state {
            case .running, .closed, .lost: return nil
            case .suspending, .suspended, .resuming:
                return members.waiting.add(wake)
            }
        }
        if ticket == nil { wake() }
        return ticket
    }

    /// Removes a wait for the end of the suspension, and calls its function.
    func cancelWait(_ ticket: Int) {
        members.withLock { $0.waiting.remove(ticket) }?()
    }

    /// Waits until the suspension ends or will never end, without blocking a thread.
    ///
    /// - Parameter closing: Its moment ends the wait too.
    /// - Throws: `CancellationError` when the task is cancelled.
    package func waitUntilResumed(orClosed closing: ReaderClosing? = nil) async throws {
        if !isSuspended { return }
        let wait = SingleWait<Void>()
        let ticket = whenResumed { wait.end(()) }
        let closingWait = closing?.whenClosed { _ in wait.end(()) }
        defer { withExtendedLifetime(closingWait) {} }
        // A cancelled wait would otherwise stay registered until the resumption.
        defer { if let ticket { cancelWait(ticket) } }
        await wait.value(whenCancelled: ())
        try Task.checkCancellation()
    }

    /// Whether a suspension is the reason why an access has failed: it was interrupted or refused, or got no lease in
    /// time. It may succeed after the suspension.
    ///
    /// - Parameter count: The number of suspensions before the access: see ``count``.
    package func explains(_ error: any Error, since count: Int) -> Bool {
        guard isSuspended || self.count != count else { return false }
        switch error {
        case let error as DatabaseError: return error.isInterruptionError
        case let error as StoreError: return error.code == .storeInUse
        default: return false
        }
    }

    private func wakeWaiting() {
        let waiting = members.withLock { members in
            return members.waiting.takeAll()
        }
        for wake in waiting { wake() }
    }
}

/// A reader whose accesses a suspension may interrupt or refuse.
package protocol SuspendableReader: DatabaseReader {
    /// The suspension of its file; nil where that could not be opened.
    var suspensionOfFile: DatabaseSuspension? { get }
}

extension SuspensionState.Loss {
    fileprivate init?(_ error: StoreError) {
        switch error.code {
        case .storeMoved: self = .moved
        case .keyRotated(let from, let to): self = .rotated(from: from, to: to)
        default: return nil
        }
    }
}

extension DatabaseError {
    /// The error of calls that are refused while their database is suspended.
    static func suspended(sql: String? = nil) -> DatabaseError {
        DatabaseError(resultCode: .SQLITE_ABORT, message: "Database is suspended", sql: sql)
    }
}
