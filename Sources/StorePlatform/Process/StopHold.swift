/// Keeps the process from being stopped by SIGTSTP while it has a lock for which all others wait.
package final class StopHold: Sendable {
    /// Waits for a stop that is under way.
    package init() { JobControl.holdStops() }

    /// - Returns: nil while a stop is under way. The suspension before it may wait for the caller.
    package init?(unlessStopping: Void) {
        guard JobControl.tryToHoldStops() else { return nil }
    }

    deinit { JobControl.allowStops() }
}
