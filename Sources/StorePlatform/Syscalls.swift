#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Repeats a system call that answers -1 for as long as a signal interrupts it.
@inline(__always)
func retryingInterrupts<Result: FixedWidthInteger>(_ call: () -> Result) -> Result {
    while true {
        let result = call()
        if result != -1 || errno != EINTR { return result }
    }
}

/// Pauses of the calling thread.
package enum Pause {
    /// Sleeps for `duration` on the monotonic clock, or less when a signal arrives.
    package static func sleep(for duration: Duration) {
        let (seconds, attoseconds) = duration.components
        guard seconds >= 0, attoseconds >= 0 else { return }
        var request = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
        nanosleep(&request, nil)
    }
}
