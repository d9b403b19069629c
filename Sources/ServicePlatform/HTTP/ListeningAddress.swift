#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

import StorePlatform

/// The address of a server: `127.0.0.1:9187`, `[::1]:9187`, `localhost:9187` or `unix:/run/cipherstore/metrics.sock`.
package enum ListeningAddress: Hashable, Sendable, CustomStringConvertible {
    case ipv4(String, port: UInt16)
    case ipv6(String, port: UInt16)
    case unix(String)

    /// - Returns: Nil for a text of another form. Names other than `localhost` are not resolved.
    package init?(_ text: String) {
        if text.hasPrefix("unix:") {
            let path = String(text.dropFirst("unix:".count))
            guard path.hasPrefix("/") else { return nil }
            self = .unix(path)
            return
        }
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            return nil
        }
        var host = String(text[..<colon])
        if host == "localhost" { host = "127.0.0.1" }
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
            var address = in6_addr()
            guard inet_pton(AF_INET6, host, &address) == 1 else { return nil }
            self = .ipv6(host, port: port)
        } else {
            var address = in_addr()
            guard inet_pton(AF_INET, host, &address) == 1 else { return nil }
            self = .ipv4(host, port: port)
        }
    }

    /// Whether only programs of this machine can connect.
    package var isLocal: Bool {
        switch self {
        case .ipv4(let host, _): host.hasPrefix("127.")
        case .ipv6(let host, _):
            {
                var address = in6_addr()
                guard inet_pton(AF_INET6, host, &address) == 1 else { return false }
                return withUnsafeBytes(of: address) { $0.dropLast().allSatisfy { $0 == 0 } && $0.last == 1 }
            }()
        case .unix: true
        }
    }

    package var description: String {
        switch self {
        case .ipv4(let host, let port): "\(host):\(port)"
        case .ipv6(let host, let port): "[\(host)]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// Whether the field Host of a request names this machine. A page in a browser whose name was made to lead here sends
    /// another one.
    package static func namesThisMachine(_ host: String) -> Bool {
        let end =
            host.hasPrefix("[") ? host.firstIndex(of: "]").map { host.index(after: $0) } : host.firstIndex(of: ":")
        let name = host[..<(end ?? host.endIndex)].lowercased()
        return name == "localhost" || name == "[::1]" || ListeningAddress(name + ":0")?.isLocal == true
    }
}

/// A socket that accepts connections. The name of a Unix socket is removed with it.
final class ListeningSocket {
    let descriptor: OwnedDescriptor
    /// The address with its port, which the system chooses for port 0.
    let address: ListeningAddress
    /// The file of a Unix socket.
    private var file: FileIdentity?

    /// - Throws: `SystemError`, with `EADDRINUSE` where a server listens there, and `EEXIST` where the name of a Unix socket
    ///   is that of another file.
    init(_ address: ListeningAddress) throws(SystemError) {
        switch address {
        case .unix(let path):
            descriptor = try Self.open(AF_UNIX, path)
            self.address = address
            try Self.removeDead(path)
            let name = try UnixAddress(path)
            // The mode of the file: its owner and group may connect.
            let mask = umask(0o117)
            let result = name.withPointer { bind(descriptor.number, $0, $1) }
            let error = errno
            umask(mask)
            guard result == 0 else { throw SystemError(call: "bind", path: path, errorNumber: error) }
            file = try Files.ownStatus(of: path)?.identity
        case .ipv4(let host, let port):
            descriptor = try Self.open(AF_INET, address.description)
            var name = sockaddr_in()
            name.sin_family = sa_family_t(AF_INET)
            name.sin_port = port.bigEndian
            inet_pton(AF_INET, host, &name.sin_addr)
            try Self.bindTo(&name, descriptor, address)
            self.address = .ipv4(host, port: UInt16(bigEndian: name.sin_port))
        case .ipv6(let host, let port):
            descriptor = try Self.open(AF_INET6, address.description)
            var name = sockaddr_in6()
            name.sin6_family = sa_family_t(AF_INET6)
            name.sin6_port = port.bigEndian
            inet_pton(AF_INET6, host, &name.sin6_addr)
            try Self.bindTo(&name, descriptor, address)
            self.address = .ipv6(host, port: UInt16(bigEndian: name.sin6_port))
        }
        guard listen(descriptor.number, ServiceLimits.backlog) == 0 else {
            throw SystemError(call: "listen", path: address.description, errorNumber: errno)
        }
    }

    deinit {
        guard case .unix(let path) = address, let file, (try? Files.ownStatus(of: path))??.identity == file else {
            return
        }
        unlink(path)
    }

    /// A connection that waits, if there is one.
    func accept() -> OwnedDescriptor? {
        #if canImport(Darwin)
            let number = Darwin.accept(descriptor.number, nil, nil)
        #else
            let number = Glibc.accept(descriptor.number, nil, nil)
        #endif
        guard number >= 0 else { return nil }
        let connection = OwnedDescriptor(number)
        return (try? connection.setUp()) == nil ? nil : connection
    }

    private static func open(_ family: Int32, _ name: String) throws(SystemError) -> OwnedDescriptor {
        #if canImport(Darwin)
            let kind = SOCK_STREAM
        #else
            let kind = Int32(SOCK_STREAM.rawValue)
        #endif
        let number = socket(family, kind, 0)
        guard number >= 0 else { throw SystemError(call: "socket", path: name, errorNumber: errno) }
        let descriptor = OwnedDescriptor(number)
        try descriptor.setUp()
        var yes: Int32 = 1
        setsockopt(number, SOL_SOCKET, SO_REUSEADDR, &yes, socklen_t(MemoryLayout<Int32>.size))
        return descriptor
    }

    /// Binds a socket, and gives `name` the port that the system has chosen.
    private static func bindTo<Name>(
        _ name: inout Name, _ descriptor: OwnedDescriptor, _ address: ListeningAddress
    ) throws(SystemError) {
        var length = socklen_t(MemoryLayout<Name>.size)
        let result = withUnsafeMutablePointer(to: &name) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                let result = bind(descriptor.number, pointer, length)
                return result == 0 ? getsockname(descriptor.number, pointer, &length) : result
            }
        }
        guard result == 0 else { throw SystemError(call: "bind", path: address.description, errorNumber: errno) }
    }

    /// Removes the name of a socket on which no process listens: one that was killed leaves it.
    private static func removeDead(_ path: String) throws(SystemError) {
        guard let status = try Files.ownStatus(of: path) else { return }
        var found = stat()
        guard lstat(path, &found) == 0, found.st_mode & S_IFMT == S_IFSOCK else {
            throw SystemError(call: "bind", path: path, errorNumber: EEXIST, detail: "it is no socket")
        }
        let probe = try open(AF_UNIX, path)
        let name = try UnixAddress(path)
        let result = name.withPointer { connect(probe.number, $0, $1) }
        guard result != 0, errno == ECONNREFUSED else {
            throw SystemError(call: "bind", path: path, errorNumber: EADDRINUSE)
        }
        // Another process may have begun to listen there since.
        guard try Files.ownStatus(of: path)?.identity == status.identity else {
            throw SystemError(call: "bind", path: path, errorNumber: EADDRINUSE)
        }
        unlink(path)
    }
}
