import Foundation
import StorePlatform
import Synchronization

/// Listens for requests to give a store up, on a thread of its own that sleeps nearly all the time.
///
/// It keeps nobody alive: it ends with the connections it serves.
final class YieldWatcher: Sendable {
    private let path: String
    private let bell: Mutex<YieldBell>
    private let isStopped = Atomic<Bool>(false)

    /// Begins to listen.
    ///
    /// - Returns: nil where the lock file cannot be read: SQLite's own locks tell of the store then.
    init?(lockFile path: String) {
        guard let bell = try? YieldBell(path: path) else { return nil }
        self.path = path
        self.bell = Mutex(bell)
    }

    /// - Parameter connections: Those that are given up on request.
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

    /// Ends the thread, sooner or later; nobody waits for it.
    func stop() {
        isStopped.store(true, ordering: .releasing)
        bell.withLock { $0 }.ring()
    }

    private func listen(_ connections: () -> StoreConnections?) {
        let bell = bell.withLock { $0 }
        // Looked at first: a request that comes behind it changes the count.
        let count = bell.count
        if bell.isAsked {
            serve(bell, connections)
        } else if bell.wakesSleepers {
            bell.wait(since: count, for: Limits.lockFileLookTime)
        } else {
            bell.wait(since: count, for: Limits.requestPollTime)
        }
        if !bell.isCurrent, let new = try? YieldBell(path: path) { self.bell.withLock { $0 = new } }
    }

    /// Gives the store up for one request, until that has ended.
    private func serve(_ bell: YieldBell, _ connections: () -> StoreConnections?) {
        var served: UInt32?
        while true {
            let count = bell.count
            guard bell.isAsked, !isStopped.load(ordering: .acquiring) else { break }
            // Also for another request that came at once behind the first, which a connection in use may have kept.
            if served != count { connections()?.giveUp() }
            served = count
            if bell.insists { connections()?.endAccesses() }
            bell.wait(since: count, for: Limits.requestLookTime)
        }
        connections()?.takeBack()
    }
}
