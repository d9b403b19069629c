import Dispatch
import Synchronization

/// Those who wait at the gate of a shared store: threads, tasks, and accesses that nobody waits for.
final class AccessWaiters: Sendable {
    /// An access to be run later, on whatever thread.
    typealias Postponed = @Sendable () -> Void

    private struct State {
        /// Counts what may let somebody in, so that nobody begins to wait for what has just happened.
        var changes = 0
        var sleepers: [Int: @Sendable ((any Error)?) -> Void] = [:]
        var lastTicket = 0
    }

    private let state = Mutex(State())

    /// Counts what may let somebody in.
    var changes: Int { state.withLock { $0.changes } }

    /// How many wait.
    var count: Int { state.withLock { $0.sleepers.count } }

    /// Lets those who wait look again, or throw.
    func wake(_ error: (any Error)? = nil) {
        let sleepers = state.withLock { state in
            state.changes += 1
            defer { state.sleepers.removeAll() }
            return state.sleepers.values
        }
        for wake in sleepers { wake(error) }
    }

    private func add(since changes: Int, _ wake: @escaping @Sendable ((any Error)?) -> Void) -> Int? {
        state.withLock { state in
            guard state.changes == changes else { return nil }
            state.lastTicket += 1
            state.sleepers[state.lastTicket] = wake
            return state.lastTicket
        }
    }

    // MARK: Threads

    /// Blocks the thread until something changes.
    ///
    /// - Parameter changes: The count that was looked at; with another one it returns at once.
    func wait(since changes: Int) throws {
        let outcome = Mutex<(any Error)?>(nil)
        let isOver = DispatchSemaphore(value: 0)
        let ticket = add(since: changes) { error in
            outcome.withLock { $0 = error }
            isOver.signal()
        }
        guard ticket != nil else { return }
        isOver.wait()
        if let error = outcome.withLock({ $0 }) { throw error }
    }

    // MARK: Tasks

    /// Waits until something changes, without blocking the thread.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    func waitAsync(since changes: Int) async throws {
        let wait = TaskWait()
        let ticket = add(since: changes) { wait.end($0) }
        guard let ticket else { return }
        defer { state.withLock { _ = $0.sleepers.removeValue(forKey: ticket) } }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { wait.begin($0) }
        } onCancel: {
            wait.end(CancellationError())
        }
    }

    /// One task's wait, which ends once.
    private final class TaskWait: Sendable {
        private enum State {
            case new
            case waiting(CheckedContinuation<Void, any Error>)
            case over((any Error)?)
        }

        private let state = Mutex(State.new)

        func begin(_ continuation: CheckedContinuation<Void, any Error>) {
            let outcome: Result<Void, any Error>? = state.withLock { state in
                if case .over(let error) = state { return error.map { .failure($0) } ?? .success(()) }
                state = .waiting(continuation)
                return nil
            }
            if let outcome { continuation.resume(with: outcome) }
        }

        func end(_ error: (any Error)?) {
            let continuation: CheckedContinuation<Void, any Error>? = state.withLock { state in
                switch state {
                case .new:
                    state = .over(error)
                    return nil
                case .waiting(let continuation):
                    state = .over(error)
                    return continuation
                case .over: return nil
                }
            }
            if let error { continuation?.resume(throwing: error) } else { continuation?.resume() }
        }
    }
}
