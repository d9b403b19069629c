import CPlatform
import Dispatch
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The signals that ask a program to end: SIGINT, SIGTERM and SIGHUP. After ``begin()`` they are recorded, and the
/// program ends its work itself.
///
/// The handler is installed in one step, so that no signal is lost between the system's action and this one. A signal
/// that was ignored when the program was started, as SIGHUP under `nohup`, stays ignored.
package enum InterruptionSignals {
    /// Handles the three signals for the rest of the process. Another call changes nothing.
    package static func begin() {
        let failure = cplatform_interruption_begin()
        // sigaction fails only for a number that is not a signal.
        precondition(failure == 0, "sigaction failed for SIGINT, SIGTERM or SIGHUP: errno \(failure)")
    }

    /// Makes each of the three signals print a text on standard error and end the process at once, for a program that has
    /// nothing to take back.
    ///
    /// - Parameter untilBegin: Whether that ends with ``begin()``; otherwise ``begin()`` changes nothing.
    package static func endProcess(saying text: String, status: Int32, untilBegin: Bool = false) {
        let failure = cplatform_interruption_ends_process(text, status, untilBegin)
        precondition(failure == 0, "the signals cannot be handled: errno \(failure)")
    }

    /// Whether one of them has arrived.
    package static var isRequested: Bool { cplatform_interruption_is_requested() }

    /// Waits until one of them has arrived, after ``begin()``. To be called once.
    ///
    /// - Throws: ``SystemError`` when the process has no descriptor left for it.
    package static func wait() throws(SystemError) {
        let failure = cplatform_interruption_wait()
        guard failure == 0 else { throw SystemError(call: "pipe", path: nil, errorNumber: failure) }
    }
}

/// Defers the signals by which a user or a service manager ends or stops a process, for a moment in which others wait
/// for it: SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP take effect at the end.
///
/// Signals that the program ignores stay ignored, and those that it handles are handled later. While a thread is
/// reading at the terminal only stops are deferred; nothing depends on the others. One at a time: a second deferral
/// waits for the end of the first.
package final class SignalDeferral: Sendable {
    /// Held by the present deferral.
    private static let turn = DispatchSemaphore(value: 1)
    private let isWatching: Bool
    private let isEnded = Atomic<Bool>(false)

    /// Begins. It waits for a stop that is under way, and so until the process continues.
    package init() {
        Self.turn.wait()
        JobControl.holdStops()
        let isFree = Terminal.signalWatch.wait(timeout: .now()) == .success
        isWatching = isFree && cplatform_signal_watch_begin(true) == 0
        if isFree && !isWatching { Terminal.signalWatch.signal() }
    }

    deinit { end() }

    /// Delivers the deferred signals. A second call does nothing.
    package func end() {
        guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
        if isWatching {
            // The deferred signals are delivered in here.
            cplatform_signal_watch_end()
            Terminal.signalWatch.signal()
        }
        JobControl.allowStops()
        Self.turn.signal()
    }
}
