import Foundation
import Synchronization

/// Object storage in memory that speaks S3 over HTTP on loopback, and does what a test wants. It checks no signature.
public final class ObjectServer: Sendable {
    public struct Request: Sendable {
        public let method: String
        /// The name of the object, without the bucket.
        public let key: String
        public let query: [String: String]
        /// By names in lower case.
        public let headers: [String: String]
        public let body: [UInt8]

        /// The call, as `PUT`, `LIST` or `POST uploads`.
        public var call: String {
            if method == "GET", query["list-type"] != nil { return "LIST" }
            let part = ["uploads", "uploadId"].first { query[$0] != nil }
            return method + (part.map { " " + $0 } ?? "")
        }
    }

    public enum Fault: Sendable {
        /// The request is not done.
        case status(Int, code: String, headers: [String: String] = [:])
        /// The connection is lost before the request is done, or after it.
        case cutBefore, cutAfter
        /// The request is done, and the answer ends in the middle.
        case truncated
        /// The answer never comes.
        case silence
    }

    /// The treatment of `If-None-Match`.
    public enum Conditions: Sendable { case known, ignored, refused }

    public struct Object: Sendable {
        public var bytes: [UInt8]
        /// Seconds since 1970.
        public var stored: Double

        public init(bytes: [UInt8], stored: Double) { (self.bytes, self.stored) = (bytes, stored) }
    }

    public struct State: Sendable {
        public var objects: [String: Object] = [:]
        public var uploads: [String: Upload] = [:]
        /// Objects that were removed, by the time of that, while listings have them still.
        var ghosts: [String: Double] = [:]
        public var conditions = Conditions.known
        /// How late listings are, in seconds.
        public var listingDelay = 0.0
        /// How far the clock is ahead, in seconds.
        public var clockOffset = 0.0
        /// The most names of a page.
        public var pageNames = 1000
        /// How often each call has come.
        public var calls: [String: Int] = [:]

        public var now: Double { Date().timeIntervalSince1970 + clockOffset }
    }

    public struct Upload: Sendable {
        public var key: String
        public var begun: Double
        public var parts: [Int: [UInt8]] = [:]

        public init(key: String, begun: Double) { (self.key, self.begun) = (key, begun) }
    }

    public let bucket: String
    public let port: Int
    private let listener: Int32
    private let state = Mutex(State())
    private let plan: @Sendable (Request, Int) -> Fault?

    /// - Parameter plan: What happens to a request, by how often such a call has come.
    public init(bucket: String = "backups", _ plan: @escaping @Sendable (Request, Int) -> Fault? = { _, _ in nil })
        throws
    {
        self.bucket = bucket
        self.plan = plan
        let (listener, port) = try Loopback.open()
        self.listener = listener
        self.port = port
        Thread.detachNewThread { [weak self] in
            while true {
                let client = accept(listener, nil, nil)
                guard client >= 0 else { return }
                guard let self else {
                    close(client)
                    return
                }
                Thread.detachNewThread {
                    let stream = HTTPStream(client)
                    while let request = stream.request(bucket: self.bucket), self.answer(request, on: stream) {}
                    stream.end()
                }
            }
        }
    }

    deinit {
        shutdown(listener, Int32(SHUT_RDWR))
        close(listener)
    }

    public var url: String { "http://127.0.0.1:\(port)" }

    /// Reads or changes the content.
    public func with<R: Sendable>(_ body: (inout State) -> R) -> R { state.withLock { body(&$0) } }

    public var names: [String] { with { $0.objects.keys.sorted() } }

    public func count(_ call: String) -> Int { with { $0.calls[call] ?? 0 } }

    /// Makes all objects under a prefix older.
    public func age(_ prefix: String, by seconds: Double) {
        with { state in
            for name in state.objects.keys where name.hasPrefix(prefix) { state.objects[name]?.stored -= seconds }
        }
    }

    // MARK: Answers

    /// - Returns: Whether the connection stays.
    private func answer(_ request: Request, on stream: HTTPStream) -> Bool {
        let count = with { state in
            state.calls[request.call, default: 0] += 1
            return state.calls[request.call]!
        }
        let fault = plan(request, count)
        switch fault {
        case .cutBefore: return false
        case .silence:
            // Until the client gives up.
            _ = stream.read(1)
            return false
        case .status(let status, let code, let headers):
            stream.write(HTTPReply(status, error: code, headers), self.now)
            return true
        case .cutAfter, .truncated, nil: break
        }
        let reply = with { Self.reply(to: request, &$0) }
        if case .cutAfter = fault { return false }
        if case .truncated = fault {
            stream.write(reply, now, cutting: true)
            return false
        }
        stream.write(reply, now)
        return true
    }

    private var now: Double { with(\.now) }

    private static func reply(to request: Request, _ state: inout State) -> HTTPReply {
        switch request.call {
        case "LIST": return list(request, &state)
        case "GET uploads": return uploads(&state)
        case "POST uploads":
            let id = UUID().uuidString
            state.uploads[id] = Upload(key: request.key, begun: state.now)
            return HTTPReply(
                200, "<InitiateMultipartUploadResult><UploadId>\(id)</UploadId></InitiateMultipartUploadResult>")
        case "PUT uploadId":
            guard let id = request.query["uploadId"], state.uploads[id] != nil,
                let number = request.query["partNumber"].flatMap(Int.init)
            else { return HTTPReply(404, error: "NoSuchUpload") }
            state.uploads[id]?.parts[number] = request.body
            return HTTPReply(200, "", ["ETag": "\"part\(number)\""])
        case "POST uploadId": return complete(request, &state)
        case "DELETE uploadId":
            return request.query["uploadId"].flatMap { state.uploads.removeValue(forKey: $0) } == nil
                ? HTTPReply(404, error: "NoSuchUpload") : HTTPReply(204, "")
        case "PUT": return put(request, request.body, HTTPReply(200, ""), &state)
        case "GET": return get(request, state)
        case "DELETE":
            if let removed = state.objects.removeValue(forKey: request.key),
                removed.stored < state.now - state.listingDelay
            {
                state.ghosts[request.key] = state.now
            }
            return HTTPReply(204, "")
        default: return HTTPReply(405, error: "MethodNotAllowed")
        }
    }

    private static func put(
        _ request: Request, _ bytes: [UInt8], _ reply: HTTPReply, _ state: inout State
    ) -> HTTPReply {
        if request.headers["if-none-match"] != nil {
            switch state.conditions {
            case .refused: return HTTPReply(501, error: "NotImplemented")
            case .known where state.objects[request.key] != nil: return HTTPReply(412, error: "PreconditionFailed")
            case .known, .ignored: break
            }
        }
        state.objects[request.key] = Object(bytes: bytes, stored: state.now)
        return reply
    }

    private static func get(_ request: Request, _ state: State) -> HTTPReply {
        guard let object = state.objects[request.key] else { return HTTPReply(404, error: "NoSuchKey") }
        guard let range = request.headers["range"]?.wholeMatch(of: #/bytes=(\d+)-(\d+)/#), let first = Int(range.1),
            let last = Int(range.2)
        else { return HTTPReply(200, object.bytes) }
        guard first < object.bytes.count else { return HTTPReply(416, error: "InvalidRange") }
        return HTTPReply(206, Array(object.bytes[first...min(last, object.bytes.count - 1)]))
    }

    private static func list(_ request: Request, _ state: inout State) -> HTTPReply {
        let seen = state.now - state.listingDelay
        let shown = state.objects.filter { $0.value.stored <= seen }.mapValues { ($0.bytes.count, $0.stored) }
            .merging(state.ghosts.filter { $0.value > seen }.mapValues { (0, $0) }) { real, _ in real }
        let start = request.query["continuation-token"] ?? ""
        let names = shown.keys.filter { $0.hasPrefix(request.query["prefix"] ?? "") && $0 > start }.sorted()
        let page = names.prefix(state.pageNames)
        let contents = page.map { name in
            let (count, stored) = shown[name] ?? (0, 0)
            return
                "<Contents><Key>\(name)</Key><LastModified>\(time(stored))</LastModified><Size>\(count)</Size></Contents>"
        }
        let more = page.count < names.count
        return HTTPReply(
            200,
            "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>\(more)</IsTruncated>\(contents.joined())"
                + (more ? "<NextContinuationToken>\(page.last ?? "")</NextContinuationToken>" : "")
                + "</ListBucketResult>")
    }

    private static func uploads(_ state: inout State) -> HTTPReply {
        let all = state.uploads.map { id, upload in
            "<Upload><Key>\(upload.key)</Key><UploadId>\(id)</UploadId><Initiated>\(time(upload.begun))</Initiated></Upload>"
        }
        return HTTPReply(200, "<ListMultipartUploadsResult>\(all.joined())</ListMultipartUploadsResult>")
    }

    private static func complete(_ request: Request, _ state: inout State) -> HTTPReply {
        guard let id = request.query["uploadId"], let upload = state.uploads[id] else {
            return HTTPReply(404, error: "NoSuchUpload")
        }
        let bytes = upload.parts.sorted { $0.key < $1.key }.reduce(into: [UInt8]()) { $0 += $1.value }
        let done = HTTPReply(200, "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
        let reply = put(request, bytes, done, &state)
        if reply.status == 200 { state.uploads[id] = nil }
        return reply
    }

    private static func time(_ seconds: Double) -> String {
        Date(timeIntervalSince1970: seconds).formatted(.iso8601).replacing("Z", with: ".000Z")
    }
}

/// An answer of the server.
private struct HTTPReply {
    let status: Int
    let headers: [String: String]
    let body: [UInt8]

    init(_ status: Int, _ body: [UInt8], _ headers: [String: String] = [:]) {
        (self.status, self.body, self.headers) = (status, body, headers)
    }

    init(_ status: Int, _ body: String, _ headers: [String: String] = [:]) {
        self.init(status, Array(body.utf8), headers)
    }

    init(_ status: Int, error: String, _ headers: [String: String] = [:]) {
        self.init(status, "<Error><Code>\(error)</Code><Message>It was planned.</Message></Error>", headers)
    }
}

/// The server's end of a connection.
private final class HTTPStream {
    private let descriptor: Int32
    private var buffer: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }

    func end() {
        shutdown(descriptor, Int32(SHUT_RDWR))
        close(descriptor)
    }

    /// - Returns: nil at the end of the connection.
    func read(_ count: Int) -> [UInt8]? {
        while buffer.count < count { guard fill() else { return nil } }
        defer { buffer.removeFirst(count) }
        return Array(buffer.prefix(count))
    }

    private func fill() -> Bool {
        var piece = [UInt8](repeating: 0, count: 256 * 1024)
        let count = recv(descriptor, &piece, piece.count, 0)
        guard count > 0 else { return false }
        buffer += piece.prefix(count)
        return true
    }

    private func head() -> [String]? {
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let range = buffer.firstRange(of: end) {
                let text = String(decoding: buffer[..<range.lowerBound], as: UTF8.self)
                buffer.removeSubrange(..<range.upperBound)
                return text.components(separatedBy: "\r\n")
            }
            // A client that begins with TLS gets no answer.
            guard fill(), buffer.first != 0x16 else { return nil }
        }
    }

    func request(bucket: String) -> ObjectServer.Request? {
        guard let lines = head(), let first = lines.first?.split(separator: " "), first.count == 3 else { return nil }
        var headers: [String: String] = [:]
        for line in lines.dropFirst() {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers[line[..<colon].lowercased()] = line[line.index(after: colon)...].trimmingCharacters(
                in: .whitespaces)
        }
        if headers["expect"] == "100-continue" { write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        guard let body = read(headers["content-length"].flatMap(Int.init) ?? 0),
            let url = URLComponents(string: String(first[1]))
        else { return nil }
        let path = url.path.dropFirst(bucket.count + 1)
        let fields = (url.queryItems ?? []).map { ($0.name, $0.value ?? "") }
        return ObjectServer.Request(
            method: String(first[0]), key: String(path.drop { $0 == "/" }), query: Dictionary(fields) { $1 },
            headers: headers, body: body)
    }

    func write(_ reply: HTTPReply, _ now: Double, cutting: Bool = false) {
        let date = Date(timeIntervalSince1970: now).formatted(
            Date.VerbatimFormatStyle(
                format: """
                    \(weekday: .abbreviated), \(day: .twoDigits) \(month: .abbreviated) \(year: .defaultDigits) \
                    \(hour: .twoDigits(clock: .twentyFourHour, hourCycle: .zeroBased)):\(minute: .twoDigits):\
                    \(second: .twoDigits) GMT
                    """,
                locale: Locale(identifier: "en_US_POSIX"), timeZone: .gmt, calendar: Calendar(identifier: .gregorian)))
        var head = "HTTP/1.1 \(reply.status) Planned\r\nDate: \(date)\r\n"
        if reply.status != 204 { head += "Content-Length: \(reply.body.count)\r\n" }
        for (name, value) in reply.headers { head += "\(name): \(value)\r\n" }
        let body = cutting ? reply.body.prefix(reply.body.count / 2) : reply.body[...]
        write(Array((head + "\r\n").utf8) + body)
    }

    private func write(_ bytes: [UInt8]) {
        var done = 0
        while done < bytes.count {
            let sent = bytes[done...].withUnsafeBytes {
                send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard sent > 0 else { return }
            done += sent
        }
    }
}

/// Sockets on loopback.
public enum Loopback {
    struct Failure: Error { let call: String }

    /// Listens at a free port.
    static func open() throws -> (descriptor: Int32, port: Int) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = in_addr_t(INADDR_LOOPBACK).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let isBound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                bind(listener, pointer, length) == 0 && listen(listener, 128) == 0
                    && getsockname(listener, pointer, &length) == 0
            }
        }
        guard isBound else { throw Failure(call: "bind") }
        return (listener, Int(address.sin_port.bigEndian))
    }

    /// A port at which nobody listens.
    public static func freePort() throws -> Int {
        let (descriptor, port) = try open()
        close(descriptor)
        return port
    }
}
