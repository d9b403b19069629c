import Dispatch
import Synchronization

/// A wait that ends once, with its first outcome, whether that comes before or after the waiter.
///
/// It has one waiter: a thread, which blocks (``wait()``); a task, which does not block its thread
/// (``value(whenCancelled:)``); or a function (``whenEnded(_:)``). Any thread may end it. A cancellation, a suspension
/// and the awaited event all call ``end(_:)``; only the first call has an effect.
package final class SingleWait<Outcome: Sendable>: Sendable {
    private enum State {
        /// No waiter yet, and no outcome.
        case pending
        case thread(DispatchSemaphore)
        case task(CheckedContinuation<Outcome, Never>)
        case function(@Sendable (Outcome) -> Void)
        case ended(Outcome)
    }

    private let state = Mutex(State.pending)

    package init() {}

    /// Ends the wait.
    ///
    /// A function that waits is called here, before this returns.
    /// - Returns: Whether this was the first outcome; a later one has no effect.
    @discardableResult
    package func end(_ outcome: Outcome) -> Bool {
        let former = state.withLock { state -> State in
            let former = state
            if case .ended = state { return former }
            state = .ended(outcome)
            return former
        }
        switch former {
        case .pending: return true
        case .thread(let semaphore): semaphore.signal()
        case .task(let continuation): continuation.resume(returning: outcome)
        case .function(let receive): receive(outcome)
        case .ended: return false
        }
        return true
    }

    /// How the wait ended; nil before.
    package var outcome: Outcome? {
        state.withLock { if case .ended(let outcome) = $0 { outcome } else { nil } }
    }

    // MARK: The waiter

    /// Blocks the thread until the wait ends.
    package func wait() -> Outcome {
        while true {
            if let outcome = wait(timeout: .distantFuture) { return outcome }
        }
    }

    /// Blocks the thread until the wait ends or the limit passes. It may wait again afterwards.
    ///
    /// - Returns: nil when the limit passes; a later outcome is kept.
    func wait(for limit: Duration) -> Outcome? {
        let nanoseconds = Int(clamping: limit.wholeNanoseconds)
        return wait(timeout: .now() + .nanoseconds(nanoseconds))
    }

    private func wait(timeout: DispatchTime) -> Outcome? {
        let semaphore = DispatchSemaphore(value: 0)
        if let outcome = register(.thread(semaphore)) { return outcome }
        _ = semaphore.wait(timeout: timeout)
        return state.withLock { state in
            if case .ended(let outcome) = state { return outcome }
            state = .pending
            return nil
        }
    }

    /// Waits as a task, without blocking a thread.
    ///
    /// - Parameter outcome: How a cancellation of the task ends the wait, also an earlier one.
    package func value(whenCancelled outcome: Outcome) async -> Outcome {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if let outcome = register(.task(continuation)) { continuation.resume(returning: outcome) }
            }
        } onCancel: {
            end(outcome)
        }
    }

    /// Calls a function once, when the wait ends, on the thread that ends it.
    ///
    /// - Returns: The outcome of a wait that has ended already; the function is not called then.
    package func whenEnded(_ receive: @escaping @Sendable (Outcome) -> Void) -> Outcome? {
        register(.function(receive))
    }

    private func register(_ waiter: State) -> Outcome? {
        state.withLock { state in
            switch state {
            case .pending:
                state = waiter
                return nil
            case .ended(let outcome): return outcome
            case .thread, .task, .function: preconditionFailure("A SingleWait has one waiter.")
            }
        }
    }
}
