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
    private let isStopped = Atomic<Bool>(false)

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
            while !isStopped.load(ordering: .acquiring) {
                guard connections != nil else { return }
                listen { connections }
            }
        }
        thread.name = "CipherStore.YieldWatcher"
        thread.start()
    }

    /// Ends the thread, sooner or later; the call does not wait for it.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        notifier.withLock { $0 }.notify()
    }

    private func listen(_ connections: () -> StoreConnections?) {
        let notifier = notifier.withLock { $0 }
        // Read first: a request after this changes the count.
        let count = notifier.count
        if notifier.isAsked {
            serve(notifier, connections)
        } else if notifier.wakesSleepers {
            notifier.wait(since: count, for: Limits.lockFileLookTime)
        } else {
            notifier.wait(since: count, for: Limits.requestPollTime)
        }
        if !notifier.isCurrent, let new = try? YieldNotifier(path: path) { self.notifier.withLock { $0 = new } }
    }

    /// Yields the store for one request, until the request has ended.
    private func serve(_ notifier: YieldNotifier, _ connections: () -> StoreConnections?) {
        var served: UInt32?
        while true {
            let count = notifier.count
            guard notifier.isAsked, !isStopped.load(ordering: .acquiring) else { break }
            // Also for another request right after the first, when a connection in use may have kept the store.
            if served != count { connections()?.yieldStore() }
            served = count
            if notifier.insists { connections()?.endAccesses() }
            notifier.wait(since: count, for: Limits.requestLookTime)
        }
        connections()?.endYield()
    }
}
