import Synchronization

/// One task's wait for the end of a suspension, which also its cancellation ends.
final class ResumptionWait: Sendable {
    private enum State {
        case new
        case waiting(CheckedContinuation<Void, Never>)
        case over
    }

    private let state = Mutex(State.new)

    /// Takes the continuation of the task; a wait that is over already goes on at once.
    func begin(_ continuation: CheckedContinuation<Void, Never>) {
        let isOver = state.withLock { state in
            if case .over = state { return true }
            state = .waiting(continuation)
            return false
        }
        if isOver { continuation.resume() }
    }

    /// Lets the task go on; a second call does nothing.
    func end() {
        let continuation: CheckedContinuation<Void, Never>? = state.withLock { state in
            defer { state = .over }
            if case .waiting(let continuation) = state { return continuation }
            return nil
        }
        continuation?.resume()
    }
}
