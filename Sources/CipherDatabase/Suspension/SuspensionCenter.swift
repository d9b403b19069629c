import Foundation
import Synchronization

/// The suspension state of the process, according to the notifications: the last one wins.
///
/// It observes from the moment a name of a notification is read or an observing database is opened, so that a database
/// which is opened while the process is suspended is suspended too.
// Safe because: the tokens are only kept, and all else is behind the mutex.
final class SuspensionCenter: @unchecked Sendable {
    static let shared = SuspensionCenter()
    /// The names of the notifications; reading them through ``Database`` makes the center listen.
    static let suspendName = Notification.Name("CipherStore.Database.suspend")
    static let resumeName = Notification.Name("CipherStore.Database.resume")

    private struct State {
        var isSuspended = false
        var observers: [Observer] = []
    }

    private struct Observer {
        weak var suspension: DatabaseSuspension?
    }

    private let state = Mutex(State())
    private var tokens: [any NSObjectProtocol] = []

    private init() {
        for (name, suspends) in [(Self.suspendName, true), (Self.resumeName, false)] {
            tokens.append(
                NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { [unowned self] _ in
                    post(suspends: suspends)
                })
        }
    }

    /// Passes the last notification and every further one to a database.
    func add(_ suspension: DatabaseSuspension) {
        let isSuspended = state.withLock { state in
            state.observers.removeAll { $0.suspension == nil }
            state.observers.append(Observer(suspension: suspension))
            return state.isSuspended
        }
        if isSuspended { suspension.follow { self.isSuspended } }
    }

    private var isSuspended: Bool { state.withLock { $0.isSuspended } }

    private func post(suspends: Bool) {
        let observers = state.withLock { state in
            state.isSuspended = suspends
            return state.observers.compactMap(\.suspension)
        }
        // Each reads the state at that moment: after two simultaneous posts both follow the last one.
        for observer in observers { observer.follow { self.isSuspended } }
    }
}
