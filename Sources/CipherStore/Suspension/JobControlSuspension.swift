import CipherDatabase
import Foundation
import StorePlatform
import Synchronization

/// Suspends every open store of the process before its terminal stops it (Ctrl-Z, SIGTSTP), and resumes them when it
/// continues (SIGCONT), so that a stopped process does not prevent others from writing.
///
/// Call ``begin()`` once, early. A handler of SIGTSTP that the program has installed by then is called after the
/// suspension; a program that ignores the signal continues to ignore it. Nothing can be done before SIGSTOP, the
/// freezer of a control group or the pause of a virtual machine: they come without notice.
public enum JobControlSuspension {
    private static let stores = Mutex<[Entry]>([])

    private struct Entry {
        weak var store: SharedStore?
    }

    /// From here on the process is suspended before it stops. Databases that observe `Database.suspendNotification`
    /// receive that notification. A continuation ends only this suspension, never one that the program asked for.
    ///
    /// - Throws: `SystemError` when the signal cannot be handled.
    public static func begin() throws {
        guard try JobControl.begin() else { return }
        let thread = Thread {
            while JobControl.waitForStop() {
                let suspended = stop()
                for store in suspended { store.suspension.resume(by: .jobControl) }
                DatabaseSuspension.postNotification(suspends: false, by: .jobControl)
            }
        }
        thread.name = "CipherStore.JobControlSuspension"
        thread.start()
    }

    /// Runs code during which the terminal must not stop the process; keep it short.
    public static func withoutStopping<T>(_ body: () throws -> T) rethrows -> T {
        try JobControl.withoutStopping(body)
    }

    /// - Returns: The stores that this call suspended. A suspension that the program asked for itself is another one, and
    ///   outlasts the stop.
    private static func stop() -> [SharedStore] {
        var suspended: [SharedStore] = []
        JobControl.stop {
            let deadline = ContinuousClock.now + StoreLimits.stopWait
            DatabaseSuspension.postNotification(suspends: true, by: .jobControl)
            suspended = stores.withLock { $0.compactMap(\.store) }
            for store in suspended { store.suspendNow(deadline: deadline, by: .jobControl) }
        }
        return suspended
    }

    static func add(_ store: SharedStore) {
        stores.withLock { stores in
            stores.removeAll { $0.store == nil }
            stores.append(Entry(store: store))
        }
    }
}
