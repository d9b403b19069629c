#if canImport(Glibc)
    import Glibc

    /// Wakes a thread when the machine is short of memory: a trigger of Linux's pressure stall information.
    /// - SeeAlso: <https://docs.kernel.org/accounting/psi.html#monitoring-for-pressure-thresholds>
    package struct MemoryPressureTrigger: ~Copyable, Sendable {
        /// Some task stood still for want of memory for 200 of 2,000 milliseconds. Without privileges the second number
        /// must be a multiple of 2 seconds.
        private static let threshold = "some 200000 2000000"
        private let file: FileDescriptor

        /// Sets the trigger.
        ///
        /// - Returns: nil where the kernel has none, or does not let this process have one.
        package init?(path: String = "/proc/pressure/memory") {
            guard let file = try? FileDescriptor(opening: path, .readWrite) else { return nil }
            // The trigger counts with the byte that ends it.
            let bytes = Array(Self.threshold.utf8CString)
            let written = retryingInterrupts { bytes.withUnsafeBytes { write(file.number, $0.baseAddress, $0.count) } }
            guard written == bytes.count else { return nil }
            self.file = file
        }

        /// Waits until memory is short.
        ///
        /// - Returns: Whether it is; false when the trigger is gone, and waiting again would be in vain.
        package func wait() -> Bool {
            var request = pollfd(fd: file.number, events: Int16(POLLPRI), revents: 0)
            let count = retryingInterrupts { Int(poll(&request, 1, -1)) }
            return count == 1 && request.revents & Int16(POLLERR | POLLNVAL) == 0
                && request.revents & Int16(POLLPRI) != 0
        }
    }
#endif
