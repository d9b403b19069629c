#if S3
    import CCurl
    import StoreCrypto
    import Synchronization

    /// A request to a server.
    struct HTTPRequest: Sendable {
        enum Method: String, Sendable {
            case get = "GET"
            case put = "PUT"
            case post = "POST"
            case delete = "DELETE"
        }

        let method: Method
        let url: String
        /// As `name: value`.
        var headers: [String] = []
        var body: [UInt8] = []
        /// The longest body of the answer, in bytes.
        let limitBytes: Int
    }

    /// The answer of a server.
    struct HTTPAnswer: Sendable {
        let status: Int
        /// By names in lower case.
        let headers: [String: String]
        let body: [UInt8]

        /// The time of the server, in seconds since 1970; nil if it names none.
        var serverTime: Int? { headers["date"].flatMap(HTTPTransfer.seconds(ofDate:)) }
    }

    /// Sends requests with libcurl, which signs them by AWS Signature Version 4.
    ///
    /// Connections are kept and used again. Any number of threads may send.
    ///
    /// - SeeAlso: <https://curl.se/libcurl/c/CURLOPT_AWS_SIGV4.html>
    final class HTTPTransfer: Sendable {
        private static let isReady = ccurl_initialize() == CURLE_OK

        private let settings: Settings
        private let idle = Mutex<[Handle]>([])

        struct Settings: Sendable {
            /// The service and the region, as libcurl takes them: `aws:amz:us-east-1:s3`.
            let signature: String
            /// The file with the certificates that are trusted; nil for those of the system.
            let certificateFile: String?
            /// The longest time until a connection is made.
            let connectLimit: Duration
            /// The longest time without one byte.
            let idleLimit: Duration
            /// The most bytes per second in each direction; nil for no limit.
            let bytesPerSecond: Int?
        }

        init(_ settings: Settings) { self.settings = settings }

        /// Seconds since 1970 of a date as a header has it.
        static func seconds(ofDate text: String) -> Int? {
            let seconds = ccurl_seconds(text)
            return seconds > 0 ? Int(seconds) : nil
        }

        /// Sends a request and receives its answer, of any status.
        ///
        /// - Parameter isCancelled: Called about once a second, and for each piece of the answer.
        /// - Throws: ``TransferFailure``; `CancellationError`.
        func send(
            _ request: HTTPRequest, as credentials: S3Credentials, _ isCancelled: @escaping @Sendable () -> Bool
        ) throws -> HTTPAnswer {
            guard Self.isReady else { throw TransferFailure.other("curl_global_init") }
            let handle = try idle.withLock { $0.popLast() } ?? Handle()
            defer { idle.withLock { $0.append(handle) } }
            curl_easy_reset(handle.easy)
            let exchange = Exchange(limitBytes: request.limitBytes, isCancelled)
            let headers = HeaderList()
            try headers.append(request.headers)
            if let token = credentials.sessionToken {
                try Self.withText("x-amz-security-token: ", token) { try headers.append($0) }
            }
            try configure(handle, headers)
            try handle.set(CURLOPT_URL, request.url)
            try handle.set(CURLOPT_USERNAME, credentials.accessKeyID)
            try Self.withText("", credentials.secretAccessKey) {
                try handle.check(ccurl_set_text(handle.easy, CURLOPT_PASSWORD, $0))
            }
            let code = try request.body.withUnsafeBytes { body in
                if request.method == .put || request.method == .post {
                    // Without an address libcurl would read the body from the standard input.
                    try handle.check(
                        ccurl_set_body(
                            handle.easy, body.baseAddress ?? UnsafeRawPointer(handle.easy), curl_off_t(body.count)))
                }
                if request.method != .get { try handle.set(CURLOPT_CUSTOMREQUEST, request.method.rawValue) }
                return try withExtendedLifetime((exchange, headers)) {
                    try handle.receive(exchange)
                    return curl_easy_perform(handle.easy)
                }
            }
            if exchange.wasCancelled { throw CancellationError() }
            if exchange.isTooLong { throw TransferFailure.answerTooLong }
            guard code == CURLE_OK else { throw TransferFailure(code) }
            return HTTPAnswer(
                status: Int(ccurl_status(handle.easy)), headers: exchange.headers, body: exchange.body)
        }

        private func configure(_ handle: borrowing Handle, _ headers: HeaderList) throws {
            try handle.check(ccurl_set_headers(handle.easy, headers.first))
            try handle.set(CURLOPT_AWS_SIGV4, settings.signature)
            try handle.set(CURLOPT_PROTOCOLS_STR, "http,https")
            try handle.set(CURLOPT_FOLLOWLOCATION, 0)
            try handle.set(CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1)
            // Signals are for processes with one thread.
            try handle.set(CURLOPT_NOSIGNAL, 1)
            try handle.set(CURLOPT_CONNECTTIMEOUT_MS, Int(settings.connectLimit / .milliseconds(1)))
            try handle.set(CURLOPT_LOW_SPEED_LIMIT, 1)
            try handle.set(CURLOPT_LOW_SPEED_TIME, max(1, Int(settings.idleLimit / .seconds(1))))
            try handle.set(CURLOPT_SSL_VERIFYPEER, 1)
            try handle.set(CURLOPT_SSL_VERIFYHOST, 2)
            try handle.set(CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2)
            if let file = settings.certificateFile { try handle.set(CURLOPT_CAINFO, file) }
            if let limit = settings.bytesPerSecond {
                let speed = curl_off_t(limit)
                try handle.check(ccurl_set_offset(handle.easy, CURLOPT_MAX_SEND_SPEED_LARGE, speed))
                try handle.check(ccurl_set_offset(handle.easy, CURLOPT_MAX_RECV_SPEED_LARGE, speed))
            }
        }

        /// Gives a text that ends with a secret to libcurl, which copies it.
        private static func withText<R>(
            _ start: String, _ secret: SecretBytes, _ body: (UnsafePointer<CChar>) throws -> R
        ) throws -> R {
            let count = start.utf8.count + secret.count + 1
            let text = SecretBytes(count: count) { target in
                target.copyBytes(from: start.utf8)
                secret.withBytes { target[start.utf8.count...].copyBytes(from: $0) }
            }
            return try text.withBytes { bytes in
                guard let address = bytes.baseAddress else { throw TransferFailure.other("memory") }
                return try body(address.assumingMemoryBound(to: CChar.self))
            }
        }
    }

    /// Why no answer was received.
    enum TransferFailure: Error, Equatable {
        case unknownHost, unreachable, timedOut, connectionLost, answerTooLong
        /// TLS failed: the certificate is not trusted, or the server has none.
        case encryption(String)
        case other(String)

        init(_ code: CURLcode) {
            let text = String(cString: curl_easy_strerror(code))
            self =
                switch code {
                case CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_RESOLVE_PROXY: .unknownHost
                case CURLE_COULDNT_CONNECT: .unreachable
                case CURLE_OPERATION_TIMEDOUT: .timedOut
                case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_SEND_ERROR, CURLE_RECV_ERROR,
                    CURLE_WEIRD_SERVER_REPLY,
                    CURLE_SEND_FAIL_REWIND, CURLE_BAD_CONTENT_ENCODING, CURLE_UNSUPPORTED_PROTOCOL:
                    code == CURLE_UNSUPPORTED_PROTOCOL ? .other(text) : .connectionLost
                case CURLE_SSL_CONNECT_ERROR, CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER,
                    CURLE_SSL_CACERT_BADFILE, CURLE_SSL_ISSUER_ERROR, CURLE_USE_SSL_FAILED:
                    .encryption(text)
                default: .other(text)
                }
        }
    }

    /// A handle of libcurl with its connections; one thread uses it at a time.
    // Safe because: a handle is taken out of the list of idle ones while a thread uses it.
    private final class Handle: @unchecked Sendable {
        let easy: UnsafeMutableRawPointer

        init() throws {
            guard let easy = curl_easy_init() else { throw TransferFailure.other("curl_easy_init") }
            self.easy = easy
        }

        deinit { curl_easy_cleanup(easy) }

        func check(_ code: CURLcode) throws {
            guard code == CURLE_OK else { throw TransferFailure.other(String(cString: curl_easy_strerror(code))) }
        }

        /// The constants of libcurl are of C's type int in some versions, and of long in others.
        func set(_ option: CURLoption, _ value: some BinaryInteger) throws {
            try check(ccurl_set_long(easy, option, Int(value)))
        }

        func set(_ option: CURLoption, _ value: String) throws { try check(ccurl_set_text(easy, option, value)) }

        /// Lets an exchange receive the answer. It must stay until the transfer ends.
        func receive(_ exchange: Exchange) throws {
            let context = Unmanaged.passUnretained(exchange).toOpaque()
            try check(
                ccurl_set_receivers(
                    easy, { Exchange.of($3)?.addBody($0, $2) ?? 0 }, { Exchange.of($3)?.addHeader($0, $2) ?? 0 },
                    { context, _, _, _, _ in Exchange.of(context)?.shallEnd() ?? 1 }, context))
        }
    }

    /// The answer while it is received, on the thread that waits for it.
    private final class Exchange {
        private(set) var body: [UInt8] = []
        private(set) var headers: [String: String] = [:]
        private(set) var isTooLong = false
        private(set) var wasCancelled = false
        private var headerBytes = 0
        private let limitBytes: Int
        private let isCancelled: @Sendable () -> Bool

        init(limitBytes: Int, _ isCancelled: @escaping @Sendable () -> Bool) {
            self.limitBytes = limitBytes
            self.isCancelled = isCancelled
        }

        static func of(_ context: UnsafeMutableRawPointer?) -> Exchange? {
            context.map { Unmanaged<Exchange>.fromOpaque($0).takeUnretainedValue() }
        }

        /// - Returns: Fewer bytes than given end the transfer.
        func addBody(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> Int {
            guard body.count + count <= limitBytes else {
                isTooLong = true
                return 0
            }
            body.append(contentsOf: UnsafeRawBufferPointer(start: bytes, count: count))
            return count
        }

        func addHeader(_ bytes: UnsafeMutablePointer<CChar>?, _ count: Int) -> Int {
            headerBytes += count
            guard headerBytes <= S3Limits.headerBytes else {
                isTooLong = true
                return 0
            }
            let line = String(decoding: UnsafeRawBufferPointer(start: bytes, count: count), as: UTF8.self)
            // An answer such as "100 Continue" comes before the last one.
            if line.hasPrefix("HTTP/") { headers = [:] }
            if let colon = line.firstIndex(of: ":") {
                headers[line[..<colon].lowercased()] =
                    line[line.index(after: colon)...]
                    .trimmingPrefix { $0.isWhitespace }.split { $0.isNewline }.first.map(String.init) ?? ""
            }
            return count
        }

        /// - Returns: Another value than 0 ends the transfer.
        func shallEnd() -> Int32 {
            if isCancelled() { wasCancelled = true }
            return wasCancelled ? 1 : 0
        }
    }

    /// Headers as libcurl takes them; it uses them until the transfer ends.
    private final class HeaderList {
        private(set) var first: UnsafeMutablePointer<curl_slist>?

        deinit { curl_slist_free_all(first) }

        func append(_ lines: [String]) throws { for line in lines { try line.withCString { try append($0) } } }

        func append(_ line: UnsafePointer<CChar>) throws {
            guard let list = curl_slist_append(first, line) else { throw TransferFailure.other("curl_slist_append") }
            first = list
        }
    }
#endif
