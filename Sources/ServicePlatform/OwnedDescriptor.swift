#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

import StorePlatform

/// A descriptor of a pipe or a socket, which is closed with its last reference, and never inherited.
final class OwnedDescriptor: Sendable {
    let number: Int32

    /// Takes ownership.
    init(_ number: Int32) { self.number = number }

    deinit { close(number) }

    /// No operation on it waits, and no program that is started inherits it.
    func setUp() throws(SystemError) {
        guard fcntl(number, F_SETFD, FD_CLOEXEC) == 0, fcntl(number, F_SETFL, O_NONBLOCK) == 0 else {
            throw SystemError(call: "fcntl", path: nil, errorNumber: errno)
        }
    }

    /// The result of reading or writing what is possible now.
    enum Transfer {
        case bytes(Int)
        /// Nothing is possible now.
        case later
        case end
    }

    /// Reads what is there, into `bytes` from their end on.
    func read(into bytes: inout [UInt8], limit: Int) -> Transfer {
        var piece = [UInt8](repeating: 0, count: limit)
        let count = piece.withUnsafeMutableBytes { recvOrRead(number, $0) }
        if count > 0 { bytes += piece.prefix(count) }
        return count > 0 ? .bytes(count) : count < 0 && Self.isPassing(errno) ? .later : .end
    }

    private func recvOrRead(_ number: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        #if canImport(Darwin)
            Darwin.read(number, buffer.baseAddress, buffer.count)
        #else
            Glibc.read(number, buffer.baseAddress, buffer.count)
        #endif
    }

    /// Sends bytes from an offset on. A client that is gone raises no signal.
    func send(_ bytes: [UInt8], from offset: Int) -> Transfer {
        #if canImport(Darwin)
            let flags: Int32 = 0
        #else
            let flags = Int32(MSG_NOSIGNAL)
        #endif
        let count = bytes.withUnsafeBytes { buffer in
            let rest = UnsafeRawBufferPointer(rebasing: buffer[offset...])
            #if canImport(Darwin)
                return Darwin.send(number, rest.baseAddress, rest.count, flags)
            #else
                return Glibc.send(number, rest.baseAddress, rest.count, flags)
            #endif
        }
        return count >= 0 ? .bytes(count) : Self.isPassing(errno) ? .later : .end
    }

    private static func isPassing(_ error: Int32) -> Bool { [EAGAIN, EWOULDBLOCK, EINTR].contains(error) }
}
