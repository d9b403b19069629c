import Foundation
import StorePlatform
import StoreSharing
import Synchronization

/// Listens for requests to yield a store, on a thread of its own that sleeps nearly all the time.
///
/// It does not keep the connections alive; it ends with them.
final class YieldWatcher: Sendable {
    private let path: String
    private let notifier: Mutex<YieldNotifier>
    private let end = SleepEnd()

    /// Begins to listen.
    ///
    /// - Returns: nil where the lock file cannot be read: SQLite's own locks show the store then.
    init?(lockFile path: String) {
        guard let notifier = try? YieldNotifier(path: path) else { return nil }
        self.path = path
        self.notifier = Mutex(notifier)
    }

    /// - Parameter connections: The connections that are closed on request.
    func start(for connections: StoreConnections) {
        let thread = Thread { [self, weak connections] in
            while !end.isSet {
                guard connections != nil else { return }
                listen { connections }
            }
        }
        thread.name = "CipherStore.YieldWatcher"
        thread.start()
    }

    /// Ends the thread, sooner or later; the call does not wait for it. It wakes none of those who keep the store open.
    func stop() { notifier.withLock { $0 }.end(end) }

    private func listen(_ connections: () -> StoreConnections?) {
        let notifier = notifier.withLock { $0 }
        // Read first: a request after this changes the count.
        let count = notifier.count
        if notifier.isAsked {
            serve(notifier, connections)
        } else if notifier.wakesSleepers {
            notifier.wait(since: count, until: end, for: StoreLimits.lockFileLookTime)
        } else {
            notifier.wait(since: count, until: end, for: StoreLimits.requestPollTime)
        }
        if !notifier.isCurrent, let new = try? YieldNotifier(path: path) { self.notifier.withLock { $0 = new } }
    }

    /// Yields the store for one request, until the request has ended.
    private func serve(_ notifier: YieldNotifier, _ connections: () -> StoreConnections?) {
        var served: UInt32?
        while true {
            let count = notifier.count
            guard notifier.isAsked, !end.isSet else { break }
            // Also for another request right after the first, when a connection in use may have kept the store.
            if served != count { connections()?.yieldStore() }
            served = count
            if notifier.insists { connections()?.endAccesses() }
            notifier.wait(since: count, until: end, for: StoreLimits.requestLookTime)
        }
        connections()?.endYield()
    }
}
