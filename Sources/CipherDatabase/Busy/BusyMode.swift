import Foundation

extension Database {
    /// What a statement does while another connection holds the lock it needs.
    /// - SeeAlso: <https://www.sqlite.org/c3ref/busy_handler.html>
    public enum BusyMode: Sendable {
        /// It fails at once with `SQLITE_BUSY`.
        case immediateError
        /// It waits for at most this many seconds, then fails with `SQLITE_BUSY`.
        case timeout(TimeInterval)
        /// It asks a function, which returns whether to try again. The number counts the earlier tries.
        case callback(BusyCallback)
    }

    /// Decides whether to try for a lock again; the number counts the earlier tries.
    public typealias BusyCallback = @Sendable (_ numberOfTries: Int) -> Bool

    /// Makes the connection wait as its configuration says.
    func installBusyMode() {
        switch configuration.busyMode {
        case .immediateError:
            handle.setBusyTimeout(milliseconds: 0)
        case .timeout(let seconds):
            let milliseconds = (seconds * 1000).rounded(.up)
            handle.setBusyTimeout(
                milliseconds: milliseconds < 2_000_000_000 ? max(0, Int(milliseconds)) : 2_000_000_000)
        case .callback(let callback):
            hooks.isBusy = callback
            handle.installBusyHandler(hooks)
        }
    }
}
