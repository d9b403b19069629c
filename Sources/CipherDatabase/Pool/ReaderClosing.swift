import StorePlatform
import Synchronization

/// Calls functions once `close()` has closed a reader: observers would otherwise wait for its changes for ever.
///
/// | the reader | the functions |
/// |---|---|
/// | is open | wait |
/// | could not be closed | wait |
/// | was closed | were called once, on the thread that closed it and outside of accesses |
/// | was closed before | are called at once |
package final class ReaderClosing: Sendable {
    private struct Waits {
        var functions = Registrations<@Sendable (any Error) -> Void>()
        /// The error of later accesses; nil while the reader is open.
        var error: (any Error)?
    }

    private let waits = Mutex(Waits())

    package init() {}

    /// A registered function, which is forgotten with this object.
    package final class Wait: Sendable {
        private let closing: ReaderClosing
        private let ticket: Int

        fileprivate init(_ closing: ReaderClosing, _ ticket: Int) { (self.closing, self.ticket) = (closing, ticket) }

        deinit { closing.forget(ticket) }
    }

    package var isClosed: Bool { waits.withLock { $0.error != nil } }

    /// Calls a function when the reader is closed, with the error of later accesses.
    ///
    /// - Returns: Keeps the function registered; nil if the reader was closed before, so that the function was called.
    package func whenClosed(_ tell: @escaping @Sendable (any Error) -> Void) -> Wait? {
        let (ticket, error) = waits.withLock { waits -> (Int, (any Error)?) in
            if let error = waits.error { return (0, error) }
            return (waits.functions.add(tell), nil)
        }
        guard let error else { return Wait(self, ticket) }
        tell(error)
        return nil
    }

    private func forget(_ ticket: Int) {
        // Released without the lock: what the function keeps may forget another one.
        let forgotten = waits.withLock { $0.functions.remove(ticket) }
        withExtendedLifetime(forgotten) {}
    }

    /// Calls the functions, in the order of their registration. A second call does nothing.
    package func close(because error: any Error) {
        let functions = waits.withLock { waits -> [@Sendable (any Error) -> Void] in
            if waits.error != nil { return [] }
            waits.error = error
            return waits.functions.takeAll()
        }
        for tell in functions { tell(error) }
    }
}

/// A reader that tells when it is closed: a queue, a pool, a snapshot, a shared store.
package protocol ClosableReader: DatabaseReader {
    var closing: ReaderClosing { get }
}

extension DatabaseReader {
    /// The moment at which it is closed; nil for readers that are none of the library's.
    package var closingOfReader: ReaderClosing? { (plainReader as? any ClosableReader)?.closing }
}
