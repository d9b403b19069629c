import CPlatform

/// The signals that ask a program to end: SIGINT, SIGTERM and SIGHUP. Once ``begin()`` was called they are remembered, and
/// the program ends its work itself.
///
/// The handler is installed in one step, so that no signal is lost between the system's action and this one. A signal that
/// was ignored when the program was started, as SIGHUP is under `nohup`, stays ignored.
package enum InterruptionSignals {
    /// Handles the three signals for the rest of the process. Another call changes nothing.
    package static func begin() {
        let failure = cplatform_interruption_begin()
        // sigaction fails only for a number that is no signal.
        precondition(failure == 0, "sigaction failed for SIGINT, SIGTERM or SIGHUP: errno \(failure)")
    }

    /// Whether one of them has come.
    package static var isRequested: Bool { cplatform_interruption_is_requested() }
}
