import CPlatform
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Puts off the signals by which a person or a service manager ends or stops a process, for a moment in which others wait
/// for it: SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP take their course at the end.
///
/// What the program ignores stays ignored, and what it handles is handled later. While a thread is reading at the terminal
/// only stops are put off; nothing depends on the rest. One at a time: a second one waits for the end of the first.
package final class SignalDeferral: Sendable {
    private let isWatching: Bool
    private let isEnded = Atomic<Bool>(false)

    /// Begins. It waits for a stop that is under way, and so until the process goes on.
    package init() {
        JobControl.holdStops()
        let isFree = Terminal.signalWatch.wait(timeout: .now()) == .success
        isWatching = isFree && cplatform_signal_watch_begin() == 0
        if isFree && !isWatching { Terminal.signalWatch.signal() }
    }

    deinit { end() }

    /// Lets what was put off happen. A second call does nothing.
    package func end() {
        guard !isEnded.exchange(true, ordering: .acquiringAndReleasing) else { return }
        if isWatching {
            // What was put off happens in here.
            cplatform_signal_watch_end()
            Terminal.signalWatch.signal()
        }
        JobControl.allowStops()
    }
}
