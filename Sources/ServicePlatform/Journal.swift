#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

import StorePlatform

/// Messages with fields for systemd's journal, in its native protocol: a datagram to its socket.
/// - SeeAlso: <https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>
package struct Journal: Sendable {
    /// The severity of a message, as syslog numbers it.
    package enum Priority: Int, Sendable {
        case error = 3
        case warning = 4
        case notice = 5
        case information = 6
    }

    private let path: String

    package init(path: String = "/run/systemd/journal/socket") { self.path = path }

    /// Whether an output of this process goes to the journal: systemd names device and inode of its stream in a variable.
    ///
    /// - Parameter variable: The value of `JOURNAL_STREAM`, as `8:4711`.
    package static func receives(
        _ descriptor: Int32,
        variable: [UInt8]? = ProcessInspector.environmentValue("JOURNAL_STREAM")
    ) -> Bool {
        var found = stat()
        guard let variable, fstat(descriptor, &found) == 0 else { return false }
        return String(decoding: variable, as: UTF8.self) == "\(found.st_dev):\(found.st_ino)"
    }

    /// Sends a message. A message that is too long is cut.
    ///
    /// - Parameter fields: Names of capital letters, digits and underscores, with their values.
    /// - Throws: `SystemError`.
    package func send(_ message: String, _ priority: Priority, _ fields: [(name: String, value: String)])
        throws(SystemError)
    {
        let all =
            [("MESSAGE", message), ("PRIORITY", "\(priority.rawValue)"), ("SYSLOG_IDENTIFIER", "cipherctl")] + fields
        let bytes = Self.datagram(all)
        #if canImport(Darwin)
            let kind = SOCK_DGRAM
        #else
            let kind = Int32(SOCK_DGRAM.rawValue)
        #endif
        let number = socket(AF_UNIX, kind, 0)
        guard number >= 0 else { throw SystemError(call: "socket", path: path, errorNumber: errno) }
        let descriptor = OwnedDescriptor(number)
        let address = try UnixAddress(path)
        let sent = address.withPointer { pointer, length in
            bytes.withUnsafeBytes { sendto(descriptor.number, $0.baseAddress, $0.count, 0, pointer, length) }
        }
        guard sent >= 0 else { throw SystemError(call: "sendto", path: path, errorNumber: errno) }
    }

    /// The bytes of a message: `NAME=value` and a line end, or, where the value has a line end, the name, a line end, the
    /// length as a 64-bit little-endian number, the value and a line end.
    package static func datagram(_ fields: [(name: String, value: String)]) -> [UInt8] {
        var bytes: [UInt8] = []
        for (name, value) in fields {
            let value = Array(value.utf8.prefix(max(0, ServiceLimits.journalBytes - bytes.count)))
            bytes += name.utf8
            if value.contains(0x0a) {
                bytes.append(0x0a)
                withUnsafeBytes(of: UInt64(value.count).littleEndian) { bytes += $0 }
            } else {
                bytes.append(UInt8(ascii: "="))
            }
            bytes += value + [0x0a]
        }
        return bytes
    }
}

/// The address of a Unix socket.
struct UnixAddress {
    private var address = sockaddr_un()

    /// - Throws: `SystemError` `ENAMETOOLONG` where the path is too long for an address.
    init(_ path: String) throws(SystemError) {
        let bytes = Array(path.utf8) + [0]
        guard bytes.count <= MemoryLayout.size(ofValue: address.sun_path), bytes.count > 1 else {
            throw SystemError(call: "bind", path: path, errorNumber: ENAMETOOLONG)
        }
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
    }

    func withPointer<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> Result) -> Result {
        withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
    }
}
