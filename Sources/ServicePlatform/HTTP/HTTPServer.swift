#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

import StorePlatform

/// A small server of HTTP/1.1 for metrics and health: GET and HEAD, one request for each connection.
///
/// One thread serves all connections, and no call waits for a client. Each state of a connection has a deadline, which no
/// byte of the client moves:
///
/// | state | deadline | after it |
/// |---|---|---|
/// | reading the head | ``ServiceLimits/requestWait`` | 408 |
/// | writing the answer | ``ServiceLimits/answerWait`` | the connection is closed |
/// | waiting until the client closes | ``ServiceLimits/closeWait`` | the connection is closed |
package final class HTTPServer {
    private let socket: ListeningSocket
    private let requiresLocalHost: Bool
    private let answer: (HTTPRequest) -> HTTPResponse
    private var connections: [HTTPConnection] = []

    /// Begins to listen.
    ///
    /// - Parameters:
    ///   - requiresLocalHost: Whether a request must name this machine in its field Host.
    ///   - answer: Called on the thread of ``run(isCancelled:)``, for GET and HEAD.
    /// - Throws: `SystemError`.
    package init(
        on address: ListeningAddress, requiresLocalHost: Bool, answer: @escaping (HTTPRequest) -> HTTPResponse
    ) throws(SystemError) {
        socket = try ListeningSocket(address)
        if case .unix = address { self.requiresLocalHost = false } else { self.requiresLocalHost = requiresLocalHost }
        self.answer = answer
    }

    /// The address on which it listens, with its port.
    package var address: ListeningAddress { socket.address }

    /// Serves until it is cancelled.
    ///
    /// - Parameter isCancelled: Called five times a second at least.
    package func run(isCancelled: () -> Bool) {
        while !isCancelled() {
            wait()
            while let descriptor = socket.accept() { add(HTTPConnection(descriptor)) }
            for connection in connections { connection.advance(.now, respond) }
            connections.removeAll(where: \.isClosed)
        }
        connections = []
    }

    /// Waits until a connection can be accepted, read or written, or for a fifth of a second.
    private func wait() {
        var files = connections.map { pollfd(fd: $0.descriptor.number, events: $0.events, revents: 0) }
        files.append(pollfd(fd: socket.descriptor.number, events: Int16(POLLIN), revents: 0))
        poll(&files, nfds_t(files.count), 200)
    }

    private func add(_ connection: HTTPConnection) {
        if connections.count >= ServiceLimits.connections {
            // A client that is slow must not keep others out.
            let oldest = connections.firstIndex { $0.isReading } ?? connections.startIndex
            connections.remove(at: oldest)
        }
        connections.append(connection)
    }

    private func respond(_ reading: HTTPRequest.Reading) -> [UInt8]? {
        switch reading {
        case .incomplete: return nil
        case .refused(let status): return HTTPResponse(status).encoded(date: Self.date)
        case .complete(let request):
            return response(to: request).encoded(date: Self.date, hasBody: request.method != "HEAD")
        }
    }

    private func response(to request: HTTPRequest) -> HTTPResponse {
        if requiresLocalHost, let host = request.host, !ListeningAddress.namesThisMachine(host) {
            return HTTPResponse(.misdirected)
        }
        guard ["GET", "HEAD"].contains(request.method) else { return HTTPResponse(.methodNotAllowed) }
        return answer(request)
    }

    /// The present time as HTTP writes it.
    private static var date: String {
        var (now, parts) = (time(nil), tm())
        gmtime_r(&now, &parts)
        var text = [CChar](repeating: 0, count: 40)
        let count = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &parts)
        return String(decoding: text.prefix(count).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// One connection of a client. Used by one thread.
private final class HTTPConnection {
    let descriptor: OwnedDescriptor
    private var state = State.reading([], until: .now + ServiceLimits.requestWait)

    private enum State {
        case reading([UInt8], until: ContinuousClock.Instant)
        case writing([UInt8], sent: Int, until: ContinuousClock.Instant)
        /// Until the client has closed: a close with bytes that were not read would destroy the answer.
        case closing(until: ContinuousClock.Instant)
        case closed
    }

    init(_ descriptor: OwnedDescriptor) { self.descriptor = descriptor }

    var isReading: Bool { if case .reading = state { true } else { false } }
    var isClosed: Bool { if case .closed = state { true } else { false } }

    /// The events that it waits for.
    var events: Int16 { if case .writing = state { Int16(POLLOUT) } else { Int16(POLLIN) } }

    /// Does what is possible now.
    ///
    /// - Parameter respond: The answer to what has arrived; nil where the head is incomplete.
    func advance(_ now: ContinuousClock.Instant, _ respond: (HTTPRequest.Reading) -> [UInt8]?) {
        switch state {
        case .reading(var bytes, let deadline):
            switch descriptor.read(into: &bytes, limit: ServiceLimits.requestBytes) {
            case .end: state = .closed
            case .later where now >= deadline:
                write(respond(.refused(.requestTimeout)) ?? [], now)
            case .later: break
            case .bytes:
                if let answer = respond(HTTPRequest.read(bytes)) {
                    write(answer, now)
                } else if now >= deadline {
                    write(respond(.refused(.requestTimeout)) ?? [], now)
                } else {
                    state = .reading(bytes, until: deadline)
                }
            }
        case .writing(let bytes, let sent, let deadline): send(bytes, from: sent, until: deadline, now)
        case .closing(let deadline):
            var ignored: [UInt8] = []
            if case .end = descriptor.read(into: &ignored, limit: ServiceLimits.requestBytes) { state = .closed }
            if now >= deadline { state = .closed }
        case .closed: break
        }
    }

    private func write(_ bytes: [UInt8], _ now: ContinuousClock.Instant) {
        send(bytes, from: 0, until: now + ServiceLimits.answerWait, now)
    }

    private func send(
        _ bytes: [UInt8], from start: Int, until deadline: ContinuousClock.Instant, _ now: ContinuousClock.Instant
    ) {
        var sent = start
        while sent < bytes.count {
            switch descriptor.send(bytes, from: sent) {
            case .bytes(let count): sent += count
            case .later:
                state = now >= deadline ? .closed : .writing(bytes, sent: sent, until: deadline)
                return
            case .end:
                state = .closed
                return
            }
        }
        shutdown(descriptor.number, Int32(SHUT_WR))
        state = .closing(until: now + ServiceLimits.closeWait)
    }
}
