import Foundation

/// A connection that sends exactly these bytes, as no client of HTTP does. Its reads wait ten seconds at most.
public final class RawConnection {
    private let descriptor: Int32

    /// Connects to a port of 127.0.0.1; nil where that is refused.
    public init?(port: UInt16) {
        descriptor = socket(AF_INET, Self.stream, 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        guard connect(&address) else { return nil }
    }

    /// Connects to a Unix socket; nil where that is refused.
    public init?(path: String) {
        descriptor = socket(AF_UNIX, Self.stream, 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        guard connect(&address) else { return nil }
    }

    deinit { close(descriptor) }

    #if canImport(Darwin)
        private static let stream = SOCK_STREAM
    #else
        private static let stream = Int32(SOCK_STREAM.rawValue)
    #endif

    private func connect<Address>(_ address: inout Address) -> Bool {
        var limit = timeval(tv_sec: 10, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Foundation.connect(descriptor, $0, socklen_t(MemoryLayout<Address>.size)) == 0
            }
        }
    }

    /// Sends bytes; false where the server has closed.
    @discardableResult
    public func send(_ text: String) -> Bool {
        #if canImport(Darwin)
            let flags: Int32 = 0
        #else
            let flags = Int32(MSG_NOSIGNAL)
        #endif
        let bytes = Array(text.utf8)
        return Foundation.send(descriptor, bytes, bytes.count, flags) == bytes.count
    }

    /// Everything that the server sends until it closes.
    public func answer() -> String {
        var all: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 65536)
        while true {
            let count = recv(descriptor, &piece, piece.count, 0)
            guard count > 0 else { return String(decoding: all, as: UTF8.self) }
            all += piece.prefix(count)
        }
    }

    /// The answer to one request of a port.
    public static func get(_ target: String, port: UInt16) -> String {
        guard let connection = RawConnection(port: port) else { return "" }
        connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return connection.answer()
    }
}
