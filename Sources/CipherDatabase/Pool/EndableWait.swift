import Dispatch
import Synchronization

/// A wait of one thread that ends once: by what it waits for, or by somebody who ends it.
final class EndableWait: Sendable {
    enum Outcome {
        case arrived
        case ended
    }

    private let state = Mutex<Outcome?>(nil)
    private let signal = DispatchSemaphore(value: 0)

    /// Ends the wait; whoever comes second changes nothing.
    func end(_ outcome: Outcome) {
        let isFirst = state.withLock { state in
            defer { state = state ?? outcome }
            return state == nil
        }
        if isFirst { signal.signal() }
    }

    /// Waits, and tells how it ended. For one thread.
    func outcome() -> Outcome {
        signal.wait()
        return state.withLock { $0 } ?? .ended
    }
}
