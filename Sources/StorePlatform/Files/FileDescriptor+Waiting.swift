#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension FileDescriptor {
    /// Waits until something can be read or the file has come to its end.
    ///
    /// - Returns: False when the deadline has passed before.
    package func waitUntilReadable(deadline: ContinuousClock.Instant) -> Bool {
        while true {
            let left = ContinuousClock.now.duration(to: deadline) / .milliseconds(1)
            guard left > 0 else { return false }
            var request = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
            if poll(&request, 1, Int32(min(left + 1, 1000))) > 0 { return true }
        }
    }

    /// Lets reading wait, for a file that was opened without waiting.
    package func waitFromNowOn() throws(SystemError) {
        let flags = fcntl(number, F_GETFL)
        guard flags >= 0, fcntl(number, F_SETFL, flags & ~O_NONBLOCK) >= 0 else { throw SystemError("fcntl", path) }
    }
}
