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

/// Lets the process work between the request to stop (SIGTSTP, by Ctrl-Z) and the stop.
package enum JobControl {
    /// The descriptor from which the handler's bytes are read; nil before the first ``begin()``.
    private static let reader = Mutex<Int32?>(nil)
    /// Held during each stop, and by code that must not be stopped in the middle.
    private static let stopping = DispatchSemaphore(value: 1)
    private static let endedStops = Atomic<Int>(0)

    /// From here on SIGTSTP does not stop the process by itself. A signal that the program ignores stays ignored.
    ///
    /// - Returns: Whether this call began it, so that the caller must wait for stops now.
    /// - Throws: ``SystemError`` when the signal cannot be handled.
    package static func begin() throws(SystemError) -> Bool {
        let (hasBegun, failure) = reader.withLock { reader -> (Bool, Int32) in
            guard reader == nil else { return (false, 0) }
            var ends: [Int32] = [-1, -1]
            let failure = cplatform_pipe(&ends)
            guard failure == 0 else { return (false, failure) }
            // A handler must never block.
            _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
            let begun = cplatform_job_control_begin(ends[1])
            guard begun == 0 else {
                close(ends[0])
                close(ends[1])
                return (false, begun == ENOTSUP ? 0 : begun)
            }
            reader = ends[0]
            return (true, 0)
        }
        guard failure == 0 else { throw SystemError(call: "sigaction", path: nil, errorNumber: failure) }
        return hasBegun
    }

    /// Waits until the process must stop. All calls come from one thread, which also calls ``stop(_:)``.
    ///
    /// - Returns: False if no such request can come.
    package static func waitForStop() -> Bool {
        guard let descriptor = reader.withLock({ $0 }) else { return false }
        while true {
            cplatform_job_control_hold()
            var bytes = [UInt8](repeating: 0, count: 64)
            let count = retryingInterrupts { read(descriptor, &bytes, bytes.count) }
            guard count > 0 else { return false }
            if bytes.contains(UInt8(ascii: "t")) { return true }
        }
    }

    /// Lets the process stop, or the program's own handler run, and returns when the process continues. A process that
    /// was continued while it prepared does not stop.
    ///
    /// - Parameter prepare: Runs right before.
    package static func stop(_ prepare: () -> Void) {
        stopping.wait()
        defer { stopping.signal() }
        prepare()
        _ = cplatform_job_stop()
        endedStops.add(1, ordering: .releasing)
    }

    /// The number of completed stops.
    static var stops: Int { endedStops.load(ordering: .acquiring) }

    /// Waits until a requested stop is over, starting from a count of `stops`. If ``begin()`` was not called, the
    /// signal itself has already stopped the process.
    static func waitForEnd(ofStopBehind stops: Int) {
        guard reader.withLock({ $0 != nil }) else { return }
        // Counted in checks: no time limit passes while the process is stopped. A forked child is not stopped here.
        for _ in 0..<Limits.stopLooks where Self.stops == stops { Pause.sleep(for: .milliseconds(1)) }
    }

    /// Runs code during which SIGTSTP must not stop the process.
    package static func withoutStopping<T>(_ body: () throws -> T) rethrows -> T {
        holdStops()
        defer { allowStops() }
        return try body()
    }

    /// Keeps the process from being stopped by SIGTSTP until ``allowStops()``.
    static func holdStops() { stopping.wait() }

    static func allowStops() { stopping.signal() }
}

/// Defers the signals by which a user or a service manager ends or stops a process, for a moment in which others wait
/// for it: SIGINT, SIGTERM, SIGHUP, SIGQUIT and SIGTSTP take effect at the end.
///
/// Signals that the program ignores stay ignored, and those that it handles are handled later. While a thread is
/// reading at the terminal only stops are deferred; nothing depends on the others. One at a time: a second deferral
/// waits for the end of the first.
package final class SignalDeferral: Sendable {
    private let isWatching: Bool
    private let isEnded = Atomic<Bool>(false)

    /// Begins. It waits for a stop that is under way, and so until the process continues.
    package init() {
        JobControl.holdStops()
        let isFree = Terminal.signalWatch.wait(timeout: .now()) == .success
        isWatching = isFree && cplatform_signal_watch_begin() == 0
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
    }
}
