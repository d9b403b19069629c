#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Darwin)
    import Darwin
#endif

/// The thread that runs now.
package enum CurrentThread {
    /// A number that no other living thread has; never 0.
    package static var id: UInt {
        #if canImport(Darwin)
            UInt(bitPattern: pthread_self())
        #else
            UInt(pthread_self())
        #endif
    }

    /// Pauses the thread between polls.
    package static func pause(microseconds: UInt32) { usleep(microseconds) }
}

/// Repeats a system call that returns -1 while signals interrupt it.
@inline(__always)
func retryingInterrupts<Result: FixedWidthInteger>(_ call: () -> Result) -> Result {
    while true {
        let result = call()
        if result != -1 || errno != EINTR { return result }
    }
}
