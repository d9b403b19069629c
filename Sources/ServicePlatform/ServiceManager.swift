#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// The service manager that has started this process, if one waits for its states.
/// - SeeAlso: <https://www.freedesktop.org/software/systemd/man/latest/sd_notify.html>
package struct ServiceManager: Sendable {
    package enum State: String, Sendable {
        case ready = "READY=1"
        case alive = "WATCHDOG=1"
        case stopping = "STOPPING=1"
    }

    private let socketPath: String?
    /// How often ``State/alive`` is due: half of the time after which the manager ends the process. nil if it does not watch.
    package let watchdogPause: Duration?

    /// Reads the environment of the process.
    package init() {
        func variable(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }
        // Another process may have inherited the variables.
        let isOther = variable("WATCHDOG_PID").map { $0 != String(getpid()) } ?? false
        self.init(
            socketPath: variable("NOTIFY_SOCKET"),
            watchdogMicroseconds: isOther ? nil : variable("WATCHDOG_USEC").flatMap { Int64($0) })
    }

    /// - Parameters:
    ///   - socketPath: The socket; `@` begins one without a file. nil for no manager.
    ///   - watchdogMicroseconds: After which time without a sign of life the manager ends the process.
    package init(socketPath: String?, watchdogMicroseconds: Int64?) {
        self.socketPath = socketPath.flatMap { $0.isEmpty ? nil : $0 }
        watchdogPause =
            self.socketPath == nil
            ? nil : watchdogMicroseconds.flatMap { $0 > 0 ? .microseconds($0 / 2) : nil }
    }

    /// Sends a state. A manager that does not answer is no error.
    ///
    /// - Returns: Whether it was sent.
    @discardableResult
    package func tell(_ state: State) -> Bool {
        guard let socketPath else { return false }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(socketPath.utf8)
        let capacity = MemoryLayout.size(ofValue: address.sun_path)
        guard bytes.count < capacity else { return false }
        withUnsafeMutableBytes(of: &address.sun_path) { path in
            path.copyBytes(from: bytes)
            if bytes.first == UInt8(ascii: "@") { path[0] = 0 }
        }
        #if canImport(Darwin)
            let number = socket(AF_UNIX, SOCK_DGRAM, 0)
        #else
            let number = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        #endif
        guard number >= 0 else { return false }
        defer { close(number) }
        let start = MemoryLayout<sockaddr_un>.offset(of: \sockaddr_un.sun_path) ?? 2
        let length = socklen_t(start + bytes.count)
        let text = Array(state.rawValue.utf8)
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                sendto(number, text, text.count, Int32(MSG_DONTWAIT), $0, length) == text.count
            }
        }
    }
}
