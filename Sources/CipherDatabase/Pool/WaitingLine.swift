import Dispatch
import Synchronization

/// Those who wait for one connection, so that a suspension can end their wait.
final class WaitingLine: Sendable {
    /// One who waits for the connection.
    final class Place: Sendable {
        private enum State {
            case waiting
            case granted
            case ended
        }

        private let state = Mutex(State.waiting)
        private let arrival = DispatchSemaphore(value: 0)
        private let departure = DispatchSemaphore(value: 0)

        /// Hands the connection over, and waits until it comes back. Does nothing when nobody waits any more.
        func offer() {
            guard change(to: .granted) else { return }
            arrival.signal()
            departure.wait()
        }

        /// Waits for the connection.
        /// - Returns: Whether it is there; false when the wait was ended.
        func take() -> Bool {
            arrival.wait()
            if case .granted = state.withLock({ $0 }) { return true }
            return false
        }

        /// Gives the connection back.
        func leave() { departure.signal() }

        func end() { if change(to: .ended) { arrival.signal() } }

        private func change(to new: State) -> Bool {
            state.withLock { state in
                guard case .waiting = state else { return false }
                state = new
                return true
            }
        }
    }

    /// The place of one who waits, until it is cancelled.
    struct Ticket: Sendable {
        private let line: WaitingLine
        private let number: Int

        /// - Parameter end: Called when the wait is to end.
        init(_ line: WaitingLine, _ end: @escaping @Sendable () -> Void) {
            self.line = line
            number = line.add(end)
        }

        func cancel() { line.remove(number) }
    }

    private struct Waits {
        var ends: [Int: @Sendable () -> Void] = [:]
        var lastTicket = 0
    }

    /// Accesses that wait or run.
    private let count = Atomic<Int>(0)
    private let waits = Mutex(Waits())

    /// Counts an access.
    /// - Returns: Whether it is the only one.
    func enter() -> Bool { count.wrappingAdd(1, ordering: .relaxed).oldValue == 0 }

    func leave() { count.wrappingSubtract(1, ordering: .relaxed) }

    /// Adds one who waits; `end` is called when the wait is to end.
    func add(_ end: @escaping @Sendable () -> Void) -> Int {
        waits.withLock { waits in
            waits.lastTicket += 1
            waits.ends[waits.lastTicket] = end
            return waits.lastTicket
        }
    }

    func remove(_ ticket: Int) { waits.withLock { _ = $0.ends.removeValue(forKey: ticket) } }

    /// Ends every wait.
    func endWaits() {
        let ends = waits.withLock { waits in
            defer { waits.ends.removeAll() }
            return waits.ends.values
        }
        for end in ends { end() }
    }
}
