/// The head of a request of HTTP/1.0 or 1.1.
/// - SeeAlso: <https://www.rfc-editor.org/rfc/rfc9112>
package struct HTTPRequest: Hashable, Sendable {
    package let method: String
    /// The path of the target, without its query.
    package let path: String
    /// The value of the field Host; nil only in HTTP/1.0.
    package let host: String?

    /// The meaning of the bytes that have arrived.
    package enum Reading: Hashable, Sendable {
        case incomplete
        case complete(HTTPRequest)
        /// No request that is answered; the connection ends after this status.
        case refused(HTTPStatus)
    }

    /// Reads a head from the bytes that have arrived. A body is not read.
    package static func read(_ bytes: [UInt8]) -> Reading {
        guard let end = end(of: bytes) else {
            // A first line that is none is refused before the rest has arrived.
            if bytes.contains(where: isForbidden) { return .refused(.badRequest) }
            return bytes.count >= ServiceLimits.requestBytes ? .refused(.headTooLarge) : .incomplete
        }
        guard end <= ServiceLimits.requestBytes else { return .refused(.headTooLarge) }
        let head = bytes[..<end]
        guard !head.contains(where: isForbidden) else { return .refused(.badRequest) }
        let lines = String(decoding: head, as: UTF8.self).split(separator: "\r\n", omittingEmptySubsequences: false)
        do throws(HTTPStatus) {
            return .complete(try HTTPRequest(lines))
        } catch {
            return .refused(error)
        }
    }

    /// The position of the empty line after the head; nil where it has not arrived.
    private static func end(of bytes: [UInt8]) -> Int? {
        let mark: [UInt8] = [0x0d, 0x0a, 0x0d, 0x0a]
        guard bytes.count >= mark.count else { return nil }
        return (0...(bytes.count - mark.count)).first { bytes[$0] == 0x0d && bytes[$0..<($0 + 4)].elementsEqual(mark) }
    }

    /// A byte that no head has: a control character, or one beyond ASCII.
    private static func isForbidden(_ byte: UInt8) -> Bool {
        byte >= 0x7f || (byte < 0x20 && byte != 0x0d && byte != 0x0a && byte != 0x09)
    }

    private init(_ lines: [Substring]) throws(HTTPStatus) {
        let words = (lines.first ?? "").split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 3, !words[0].isEmpty, words[0].allSatisfy(\.isTokenCharacter) else { throw .badRequest }
        guard ["HTTP/1.1", "HTTP/1.0"].contains(words[2]) else {
            throw words[2].hasPrefix("HTTP/") ? .versionNotSupported : .badRequest
        }
        guard words[1].utf8.count <= ServiceLimits.targetBytes else { throw .targetTooLong }
        method = String(words[0])
        var target = words[1]
        // The form for proxies, which every server must accept.
        if target.lowercased().hasPrefix("http://") {
            target = target.dropFirst("http://".count).drop { $0 != "/" }
        }
        guard target.hasPrefix("/") else { throw .badRequest }
        path = String(target.prefix { $0 != "?" })
        let fields = try Self.fields(lines.dropFirst())
        let hosts = fields.filter { $0.name == "host" }
        guard hosts.count == 1 || (hosts.isEmpty && words[2] == "HTTP/1.0") else { throw .badRequest }
        host = hosts.first?.value
        let lengths = Set(fields.filter { $0.name == "content-length" }.map(\.value))
        guard lengths.count <= 1 else { throw .badRequest }
        guard lengths.allSatisfy({ $0 == "0" }), !fields.contains(where: { $0.name == "transfer-encoding" }) else {
            throw .contentTooLarge
        }
    }

    private static func fields(_ lines: ArraySlice<Substring>) throws(HTTPStatus) -> [(name: String, value: String)] {
        var fields: [(name: String, value: String)] = []
        for line in lines {
            // A line that begins with a blank would continue the one before, which is obsolete and a means of smuggling.
            guard let colon = line.firstIndex(of: ":"), colon > line.startIndex,
                line[..<colon].allSatisfy(\.isTokenCharacter), !line.contains("\r"), !line.contains("\n")
            else { throw .badRequest }
            let value = line[line.index(after: colon)...].trimmingBlanks
            fields.append((line[..<colon].lowercased(), String(value)))
        }
        return fields
    }
}

extension Character {
    /// Whether it may be in a method or in the name of a field.
    fileprivate var isTokenCharacter: Bool {
        guard let value = asciiValue else { return false }
        return isLetter || isNumber || "!#$%&'*+-.^_`|~".utf8.contains(value)
    }
}

extension Substring {
    fileprivate var trimmingBlanks: Substring {
        var text = drop { $0 == " " || $0 == "\t" }
        while text.last == " " || text.last == "\t" { text.removeLast() }
        return text
    }
}

/// The status of an answer.
package enum HTTPStatus: Int, Error, Hashable, Sendable {
    case ok = 200
    case badRequest = 400
    case notFound = 404
    case methodNotAllowed = 405
    case requestTimeout = 408
    case contentTooLarge = 413
    case targetTooLong = 414
    case misdirected = 421
    case headTooLarge = 431
    case unavailable = 503
    case versionNotSupported = 505

    var reason: String {
        switch self {
        case .ok: "OK"
        case .badRequest: "Bad Request"
        case .notFound: "Not Found"
        case .methodNotAllowed: "Method Not Allowed"
        case .requestTimeout: "Request Timeout"
        case .contentTooLarge: "Content Too Large"
        case .targetTooLong: "URI Too Long"
        case .misdirected: "Misdirected Request"
        case .headTooLarge: "Request Header Fields Too Large"
        case .unavailable: "Service Unavailable"
        case .versionNotSupported: "HTTP Version Not Supported"
        }
    }
}

/// An answer.
package struct HTTPResponse: Hashable, Sendable {
    package let status: HTTPStatus
    package let contentType: String
    package let body: String

    package init(_ status: HTTPStatus, contentType: String = "text/plain; charset=utf-8", body: String? = nil) {
        self.status = status
        self.contentType = contentType
        self.body = body ?? status.reason + "\n"
    }

    /// The bytes of the answer.
    ///
    /// - Parameters:
    ///   - date: As HTTP writes it.
    ///   - hasBody: Whether the body is sent; an answer to HEAD has its length alone.
    package func encoded(date: String, hasBody: Bool = true) -> [UInt8] {
        var head = [
            "HTTP/1.1 \(status.rawValue) \(status.reason)", "Date: \(date)", "Content-Type: \(contentType)",
            "Content-Length: \(body.utf8.count)", "Cache-Control: no-store", "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        if status == .methodNotAllowed { head.append("Allow: GET, HEAD") }
        return Array((head.joined(separator: "\r\n") + "\r\n\r\n" + (hasBody ? body : "")).utf8)
    }
}
