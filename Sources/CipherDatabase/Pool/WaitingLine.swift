import Dispatch
import StorePlatform
import Synchronization

/// Keeps an object while there are connections that need it: the lease of a store, without which its file may be
/// replaced.
final class ConnectionDependency: Sendable {
    private let object = Mutex<(any AnyObject & Sendable)?>(nil)

    func keep(_ object: any AnyObject & Sendable) { self.object.withLock { $0 = object } }
}

/// How a wait for a connection, or for what comes before it, ended.
enum WaitOutcome: Sendable {
    /// The awaited event has happened.
    case arrived
    /// A suspension or a cancellation ended the wait.
    case ended
}

/// The waits for one connection, so that a suspension can end them.
final class WaitingLine: Sendable {
    /// The registration of a wait, until it is cancelled.
    struct Ticket: Sendable {
        private let line: WaitingLine
        private let number: Int

        /// - Parameter end: Called when the wait must end.
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

    /// Registers a wait; `end` is called when the wait must end.
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
