import CPlatform
import Dispatch
import Synchronization

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Lets the process work between the request to stop (SIGTSTP, by Ctrl-Z) and the stop.
package enum JobControl {
    /// The descriptor from which the handler's bytes are read; nil before the first ``begin()``.
    private static let reader = Mutex<Int32?>(nil)
    /// Held during each stop, and while ``holds`` is above 0.
    private static let stopping = DispatchSemaphore(value: 1)
    /// How many pieces of code must not be stopped in the middle.
    private static let holds = Mutex(0)
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
        for _ in 0..<PlatformLimits.stopLooks where Self.stops == stops { Pause.sleep(for: .milliseconds(1)) }
    }

    /// Runs code during which SIGTSTP must not stop the process.
    package static func withoutStopping<T>(_ body: () throws -> T) rethrows -> T {
        holdStops()
        defer { allowStops() }
        return try body()
    }

    /// Keeps the process from being stopped by SIGTSTP until ``allowStops()``. Calls may overlap and be nested. The first one
    /// waits for a stop that is under way.
    static func holdStops() {
        if tryToHoldStops() { return }
        stopping.wait()
        // While there are holds, they have it.
        holds.withLock { $0 = 1 }
    }

    /// - Returns: False while a stop is under way.
    static func tryToHoldStops() -> Bool {
        holds.withLock { count in
            if count == 0, stopping.wait(timeout: .now()) != .success { return false }
            count += 1
            return true
        }
    }

    static func allowStops() {
        holds.withLock { count in
            count -= 1
            if count == 0 { stopping.signal() }
        }
    }
}
