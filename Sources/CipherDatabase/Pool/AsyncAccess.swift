import Dispatch
import StorePlatform
import Synchronization

/// One access of a task: it waits for a connection and runs there as a part of the task. So the block sees the task's
/// task-local values and whether the task was cancelled.
///
/// It is the executor of an actor that exists for this access alone. A task that enters the actor is enqueued as a job,
/// and the queue of the connection runs the job when the connection is free: no thread waits meanwhile. Cancelling the
/// task ends the wait at once. Once the access runs, its statement is interrupted instead, so that the connection is
/// free and in order when the task continues.
final class AsyncAccess: SerialExecutor {
    /// The outcome of the task's wait.
    private enum Arrival: Sendable {
        /// The connection, on whose thread the access runs. The function is called when the connection is free again.
        case connection(SerialConnection, release: @Sendable () -> Void)
        /// No connection is available.
        case failure(any Error)
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

    /// The flag that the connection checks before each statement.
    let cancellation = CancellationFlag()
    private let begin: @Sendable (AsyncAccess) -> Void
    private let direct: DirectAccesses?
    /// The wait for a connection.
    private let wait = SingleWait<Arrival>()

    private init(direct: DirectAccesses?, _ begin: @escaping @Sendable (AsyncAccess) -> Void) {
        self.direct = direct
        self.begin = begin
    }

    /// Runs an access for the current task.
    ///
    /// - Parameters:
    ///   - direct: Learns how long the access took.
    ///   - begin: Makes the access run on a connection, sooner or later, or ends its wait.
    ///   - body: The access.
    /// - Throws: The error of the access; `CancellationError` when the task is cancelled before the access begins, or
    ///   before its last statement ends. A block that ends without an error returns its value.
    static func run<Value: Sendable>(
        direct: DirectAccesses? = nil, on begin: @escaping @Sendable (AsyncAccess) -> Void,
        _ body: @escaping @Sendable (Database) throws -> Value
    ) async throws -> Value {
        try Task.checkCancellation()
        let access = AsyncAccess(direct: direct, begin)
        return try await withTaskCancellationHandler {
            try await Passage(access).run(body)
        } onCancel: {
            access.cancel()
        }
    }

    /// Runs an access for the current task on this thread, which has the connection.
    ///
    /// - Parameters:
    ///   - connection: It is not used by anyone else before this returns.
    ///   - body: Runs the access, with the flag for its cancellation.
    /// - Throws: As ``run(direct:on:_:)``.
    static func runHere<Value: Sendable>(
        on connection: SerialConnection, _ body: (CancellationFlag) throws -> Value
    ) async throws -> Value {
        let cancellation = CancellationFlag()
        return try await withTaskCancellationHandler {
            try body(cancellation)
        } onCancel: {
            cancellation.set()
            connection.interrupt(only: cancellation)
        }
    }

    // MARK: The task

    /// Enqueues the task, which happens once.
    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        // The task holds this executor, and may end on another thread as soon as the wait is registered.
        let held = Unmanaged.passRetained(self)
        defer { held.release() }
        let arrival = wait.whenEnded { [self] arrival in
            switch arrival {
            // This thread holds the connection.
            case .connection: job.runSynchronously(on: asUnownedSerialExecutor())
            case .failure: resume(job)
            }
        }
        // Only a cancellation comes before the task itself.
        if arrival == nil { begin(self) } else { resume(job) }
    }

    /// Resumes the task, which has no connection.
    private func resume(_ job: UnownedJob) {
        // Not on this thread, which may be cancelling the task, or has just suspended it.
        DispatchQueue.global().async { [self] in job.runSynchronously(on: asUnownedSerialExecutor()) }
    }

    /// Runs the access, as a part of the task, on the thread that holds the connection.
    private func perform<Value>(_ body: (Database) throws -> Value) throws -> Value {
        let (connection, release) =
            switch wait.outcome {
            case .connection(let connection, let release): (connection, release)
            case .failure(let error): throw error
            case nil: throw DatabaseError.withoutResult()
            }
        // Before the task has its result: to continue it may need a thread of the pool whose threads are all blocked by
        // tasks that wait for this connection.
        defer { release() }
        let start = direct == nil ? 0 : MonotonicTime.now
        defer { direct?.record(since: start) }
        return try connection.cancellableAccess(cancellation, body)
    }

    // MARK: Connections

    /// Runs the access on this thread, which holds the connection, if its task still waits for it.
    ///
    /// - Parameter release: Called when the access has ended, or at once where it does not run.
    func run(on connection: SerialConnection, release: @escaping @Sendable () -> Void) {
        if !wait.end(.connection(connection, release: release)) { release() }
    }

    /// Ends the wait for a connection with an error; an access that already runs continues.
    func endWait(_ error: any Error) { wait.end(.failure(error)) }

    private func cancel() {
        cancellation.set()
        if wait.end(.failure(CancellationError())) { return }
        // A connection whose access is over may run another one by now, which must not be interrupted.
        if case .connection(let connection, _) = wait.outcome { connection.interrupt(only: cancellation) }
    }
}

/// Whether the task of an access was cancelled; set from any thread.
final class CancellationFlag: Sendable {
    private let flag = Atomic<Bool>(false)
    /// The wait that the access is in, if any; a cancellation ends it.
    private let wait = Mutex<SingleWait<WaitOutcome>?>(nil)
    /// Whether the access runs statements that no cancellation ends.
    private let isShielded = Mutex(false)

    var isSet: Bool { flag.load(ordering: .acquiring) }

    func set() {
        flag.store(true, ordering: .releasing)
        wait.withLock { $0 }?.end(.ended)
    }

    /// Runs a block that waits; a cancellation, also an earlier one, ends the wait.
    func ending<T>(_ wait: SingleWait<WaitOutcome>, _ body: () throws -> T) rethrows -> T {
        self.wait.withLock { $0 = wait }
        defer { self.wait.withLock { $0 = nil } }
        // After the assignment: a cancellation from here on finds the wait.
        if isSet { wait.end(.ended) }
        return try body()
    }

    /// Runs statements that a cancellation must not interrupt, such as a rollback.
    func shielding<T>(_ body: () throws -> T) rethrows -> T {
        isShielded.withLock { $0 = true }
        defer { isShielded.withLock { $0 = false } }
        return try body()
    }

    /// Calls `interrupt` unless the access is shielded now, and keeps it from beginning to be meanwhile.
    func interrupting(_ interrupt: () -> Void) { isShielded.withLock { if !$0 { interrupt() } } }
}
