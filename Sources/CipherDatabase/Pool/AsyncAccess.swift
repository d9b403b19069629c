import Synchronization

/// One access of a task: it waits for a connection, runs, and gives its result to the task exactly once.
///
/// Cancelling the task ends the wait at once. Once the access runs, its statement is interrupted instead, so that the
/// connection is free and in order when the task goes on.
final class AsyncAccess<Value: Sendable>: Sendable {
    private enum State {
        /// The task does not wait yet.
        case new
        /// The task waits for the access to run.
        case waiting(Continuation)
        /// The access runs on a connection.
        case running(Continuation, SerialConnection)
        /// The task has its result, or was cancelled before it waited for one.
        case over
    }

    private typealias Continuation = CheckedContinuation<Value, any Error>

    /// What the connection asks before each statement.
    let cancellation = CancellationFlag()
    private let state = Mutex(State.new)

    /// Runs an access for the current task.
    ///
    /// - Parameter begin: Sees to it that the access runs, sooner or later, or ends it.
    /// - Throws: The error of the access; `CancellationError` when the task is cancelled before its end.
    static func run(_ begin: (AsyncAccess<Value>) -> Void) async throws -> Value {
        let access = AsyncAccess()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                if access.wait(continuation) { begin(access) }
            }
        } onCancel: {
            access.cancel()
        }
    }

    private func wait(_ continuation: Continuation) -> Bool {
        let waits = state.withLock { state in
            guard case .new = state else { return false }
            state = .waiting(continuation)
            return true
        }
        if !waits { continuation.resume(throwing: CancellationError()) }
        return waits
    }

    /// Marks the access as running; false when its task no longer waits for it.
    func start(on connection: SerialConnection) -> Bool {
        state.withLock { state in
            guard case .waiting(let continuation) = state else { return false }
            state = .running(continuation, connection)
            return true
        }
    }

    /// Gives the task its result, unless it no longer waits for one.
    func end(_ result: Result<Value, any Error>) {
        let continuation: Continuation? = state.withLock { state in
            defer { state = .over }
            switch state {
            case .waiting(let continuation), .running(let continuation, _): return continuation
            case .new, .over: return nil
            }
        }
        continuation?.resume(with: result)
    }

    /// Ends the wait for a connection with an error; an access that runs already goes on.
    func endWait(_ error: any Error) {
        let continuation: Continuation? = state.withLock { state in
            guard case .waiting(let continuation) = state else { return nil }
            state = .over
            return continuation
        }
        continuation?.resume(throwing: error)
    }

    private func cancel() {
        cancellation.set()
        let (waiting, running) = state.withLock { state -> (Continuation?, SerialConnection?) in
            switch state {
            case .new:
                state = .over
                return (nil, nil)
            case .waiting(let continuation):
                state = .over
                return (continuation, nil)
            case .running(_, let connection): return (nil, connection)
            case .over: return (nil, nil)
            }
        }
        waiting?.resume(throwing: CancellationError())
        running?.interrupt(only: cancellation)
    }
}
