import StorePlatform
import Synchronization

/// Those who wait at the gate of a shared store: threads, tasks, and accesses that nobody waits for.
final class AccessWaiters: Sendable {
    /// An access to be run later, on whatever thread.
    typealias Postponed = @Sendable () -> Void

    private struct State {
        /// Counts what may let somebody in, so that nobody begins to wait for what has just happened.
        var changes = 0
        var waits: [Int: SingleWait<Result<Void, any Error>>] = [:]
        var lastTicket = 0
    }

    private let state = Mutex(State())

    /// Counts what may let somebody in.
    var changes: Int { state.withLock { $0.changes } }

    /// How many wait.
    var count: Int { state.withLock { $0.waits.count } }

    /// Lets those who wait look again, or throw.
    func wake(_ error: (any Error)? = nil) {
        let waits = state.withLock { state in
            state.changes += 1
            defer { state.waits.removeAll() }
            return state.waits.values
        }
        for wait in waits { wait.end(error.map { .failure($0) } ?? .success(())) }
    }

    /// Begins a wait, unless something has changed since `changes` were looked at.
    private func begin(since changes: Int) -> (ticket: Int, wait: SingleWait<Result<Void, any Error>>)? {
        state.withLock { state in
            guard state.changes == changes else { return nil }
            let wait = SingleWait<Result<Void, any Error>>()
            state.lastTicket += 1
            state.waits[state.lastTicket] = wait
            return (state.lastTicket, wait)
        }
    }

    /// Blocks the thread until something changes.
    ///
    /// - Parameter changes: The count that was looked at; with another one it returns at once.
    func wait(since changes: Int) throws {
        try begin(since: changes)?.wait.wait().get()
    }

    /// Waits until something changes, without blocking the thread.
    ///
    /// - Throws: `CancellationError` when the task is cancelled.
    func waitAsync(since changes: Int) async throws {
        guard let (ticket, wait) = begin(since: changes) else { return }
        defer { state.withLock { _ = $0.waits.removeValue(forKey: ticket) } }
        try await wait.value(whenCancelled: .failure(CancellationError())).get()
    }
}
