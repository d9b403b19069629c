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
    /// The mark of notifications that the terminal's stop caused.
    static let jobControlKey = "CipherStore.JobControlSuspension"

    private struct State {
        /// Whose notification was the last one of its kind.
        var initiators: DatabaseSuspension.Initiator = []
        var observers: [Observer] = []
    }

    private struct Observer {
        weak var suspension: DatabaseSuspension?
    }

    private let state = Mutex(State())
    private var tokens: [any NSObjectProtocol] = []

    private init() {
        for (name, suspends) in [(Self.suspendName, true), (Self.resumeName, false)] {
            let token = NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) {
                [unowned self] notification in
                let isOfJobControl = notification.userInfo?[Self.jobControlKey] != nil
                post(suspends: suspends, by: isOfJobControl ? .jobControl : .program)
            }
            tokens.append(token)
        }
    }

    /// Passes the last notification of each initiator, and every further one, to a database.
    func add(_ suspension: DatabaseSuspension) {
        let initiators = state.withLock { state in
            state.observers.removeAll { $0.suspension == nil }
            state.observers.append(Observer(suspension: suspension))
            return state.initiators
        }
        for initiator in [DatabaseSuspension.Initiator.program, .jobControl] where initiators.contains(initiator) {
            suspension.follow(initiator) { isSuspended(by: initiator) }
        }
    }

    private func isSuspended(by initiator: DatabaseSuspension.Initiator) -> Bool {
        state.withLock { $0.initiators.contains(initiator) }
    }

    private func post(suspends: Bool, by initiator: DatabaseSuspension.Initiator) {
        let observers = state.withLock { state in
            if suspends { state.initiators.insert(initiator) } else { state.initiators.remove(initiator) }
            return state.observers.compactMap(\.suspension)
        }
        // Each reads the state at that moment: after two simultaneous posts both follow the last one.
        for observer in observers { observer.follow(initiator) { isSuspended(by: initiator) } }
    }
}

extension DatabaseSuspension {
    /// Posts a notification of suspension or resumption that tells its initiator.
    package static func postNotification(suspends: Bool, by initiator: Initiator) {
        let name = suspends ? Database.suspendNotification : Database.resumeNotification
        let marks = initiator == .jobControl ? [SuspensionCenter.jobControlKey: true] : nil
        NotificationCenter.default.post(name: name, object: nil, userInfo: marks)
    }
}
