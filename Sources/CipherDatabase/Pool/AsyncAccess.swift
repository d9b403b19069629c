import Dispatch
import Synchronization

/// One access of a task: it waits for a connection and runs there as a part of the task, which therefore finds its
/// task-local values in the block, and sees whether it was cancelled.
///
/// It is the executor of an actor that exists for this access alone. A task that goes to the actor is handed over as a
/// job, and the queue of the connection runs the job when the connection is free: no thread waits meanwhile. Cancelling
/// the task ends the wait at once. Once the access runs, its statement is interrupted instead, so that the connection is
/// free and in order when the task goes on.
final class AsyncAccess: SerialExecutor {
    private enum State {
        /// The task has not arrived yet.
        case new
        /// The task waits for a connection.
        case waiting(UnownedJob)
        /// The access runs on a connection. The function is called when that is free again.
        case running(SerialConnection, release: @Sendable () -> Void)
        /// The wait was ended.
        case ended(any Error)
        /// The access has run.
        case over
    }

    /// Brings the task to the connection.
    private actor Passage {
        private let access: AsyncAccess
        nonisolated var unownedExecutor: UnownedSerialExecutor { access.asUnownedSerialExecutor() }

        init(_ access: AsyncAccess) { self.access = access }

        func run<Value: Sendable>(_ body: @Sendable (Database) throws -> Value) throws -> Value {
            try access.perform(body)
        }
    }

    /// What the connection asks before each statement.
    let cancellation = CancellationFlag()
    /// Whether the access counts although its task was cancelled while it ended, as a transaction does that is committed.
    private let countsOnceDone: Bool
    private let begin: @Sendable (AsyncAccess) -> Void
    private let state = Mutex(State.new)

    private init(countsOnceDone: Bool, _ begin: @escaping @Sendable (AsyncAccess) -> Void) {
        self.countsOnceDone = countsOnceDone
        self.begin = begin
    }

    /// Runs an access for the current task.
    ///
    /// - Parameters:
    ///   - countsOnceDone: Whether a cancellation that comes after the last statement changes nothing.
    ///   - begin: Sees to it that the access runs on a connection, sooner or later, or ends its wait.
    ///   - body: The access.
    /// - Throws: The error of the access; `CancellationError` when the task is cancelled before its end.
    static func run<Value: Sendable>(
        countsOnceDone: Bool = false, on begin: @escaping @Sendable (AsyncAccess) -> Void,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let access = AsyncAccess(countsOnceDone: countsOnceDone, begin)
        return try await withTaskCancellationHandler {
            try await Passage(access).run(body)
        } onCancel: {
            access.cancel()
        }
    }

    // MARK: The task

    /// Takes the task, which comes once.
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        let waits = state.withLock { state in
            guard case .new = state else { return false }
            state = .waiting(job)
            return true
        }
        if waits { begin(self) } else { resume(job) }
    }

    /// Lets the task go on that has no connection.
    private func resume(_ job: UnownedJob) {
        // Not on this thread: it may be the one that cancels the task, or that has just given the task up.
        DispatchQueue.global().async { [self] in job.runSynchronously(on: asUnownedSerialExecutor()) }
    }

    /// Runs the access, as a part of the task, on the thread that has the connection.
    private func perform<Value>(_ body: (Database) throws -> Value) throws -> Value {
        let (connection, release) = try state.withLock { state in
            switch state {
            case .running(let connection, let release): return (connection, release)
            case .ended(let error): throw error
            case .new, .waiting, .over: throw DatabaseError.withoutResult()
            }
        }
        defer {
            state.withLock { $0 = .over }
            // Before the task has its result: it may need a thread for going on that others of its kind hold while they
            // wait for this connection.
            release()
        }
        let value = try connection.cancellableAccess(cancellation, body)
        if !countsOnceDone && cancellation.isSet { throw CancellationError() }
        return value
    }

    // MARK: Connections

    /// Runs the access on this thread, which has the connection, if its task still waits for it.
    ///
    /// - Parameter release: Called when the access has ended, or at once where it does not run.
    func run(on connection: SerialConnection, release: @escaping @Sendable () -> Void) {
        let job = state.withLock { state -> UnownedJob? in
            guard case .waiting(let job) = state else { return nil }
            state = .running(connection, release: release)
            return job
        }
        guard let job else { return release() }
        job.runSynchronously(on: asUnownedSerialExecutor())
    }

    /// Ends the wait for a connection with an error; an access that runs already goes on.
    func endWait(_ error: any Error) {
        let job = state.withLock { state -> UnownedJob? in
            guard case .waiting(let job) = state else { return nil }
            state = .ended(error)
            return job
        }
        if let job { resume(job) }
    }

    private func cancel() {
        cancellation.set()
        let (waiting, running) = state.withLock { state -> (UnownedJob?, SerialConnection?) in
            switch state {
            case .new:
                state = .ended(CancellationError())
                return (nil, nil)
            case .waiting(let job):
                state = .ended(CancellationError())
                return (job, nil)
            case .running(let connection, _): return (nil, connection)
            case .ended, .over: return (nil, nil)
            }
        }
        if let waiting { resume(waiting) }
        running?.interrupt(only: cancellation)
    }
}
