import ServicePlatform
import Testing

@Suite("Heads of HTTP requests")
struct HTTPRequestTests {
    private func read(_ text: String) -> HTTPRequest.Reading { HTTPRequest.read(Array(text.utf8)) }

    @Test("a request is read with its path and host")
    func complete() throws {
        let reading = read("GET /metrics?a=b HTTP/1.1\r\nHost: localhost:9187\r\nAccept:  */*\t\r\n\r\n")
        guard case .complete(let request) = reading else {
            Issue.record("\(reading)")
            return
        }
        #expect(request.method == "GET" && request.path == "/metrics" && request.host == "localhost:9187")
        guard case .complete(let old) = read("HEAD / HTTP/1.0\r\n\r\n") else {
            Issue.record("HTTP/1.0 needs no host")
            return
        }
        #expect(old.host == nil && old.method == "HEAD")
        guard case .complete(let proxied) = read("GET http://x/metrics HTTP/1.1\r\nHost: x\r\n\r\n") else {
            Issue.record("the form for proxies")
            return
        }
        #expect(proxied.path == "/metrics")
    }

    @Test("every beginning of a request is incomplete")
    func beginnings() {
        let text = Array("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8)
        for count in 0..<text.count { #expect(HTTPRequest.read(Array(text.prefix(count))) == .incomplete) }
    }

    @Test(
        "a hostile request is refused with its status",
        arguments: [
            ("GET /metrics\r\n\r\n", HTTPStatus.badRequest), ("GET  / HTTP/1.1\r\nHost: a\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\n\r\n", .badRequest), ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", .badRequest),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", .versionNotSupported), ("GET / FTP/1\r\n\r\n", .badRequest),
            ("GET metrics HTTP/1.1\r\nHost: a\r\n\r\n", .badRequest),
            ("G(T / HTTP/1.1\r\nHost: a\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\nHost: a\r\n b: c\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\nnocolon\r\n\r\n", .badRequest),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", .contentTooLarge),
            ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 1\r\n\r\n", .badRequest),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", .contentTooLarge),
            ("GET /\u{0} HTTP/1.1\r\n", .badRequest), ("\u{16}\u{3}\u{1}", .badRequest), ("GET /é", .badRequest),
            ("GET /" + String(repeating: "a", count: 2000) + " HTTP/1.1\r\nHost: a\r\n\r\n", .targetTooLong),
            ("GET / HTTP/1.1\r\nX: " + String(repeating: "a", count: 9000), .headTooLarge),
        ])
    func hostile(_ text: String, _ status: HTTPStatus) { #expect(read(text) == .refused(status), "\(text.prefix(60))") }

    @Test("an answer has its length, its date and the end of the connection; one to HEAD has no body")
    func answers() {
        let response = HTTPResponse(.methodNotAllowed)
        let text = String(decoding: response.encoded(date: "Sat, 28 Nov 2026 10:15:30 GMT"), as: UTF8.self)
        #expect(text.hasPrefix("HTTP/1.1 405 Method Not Allowed\r\nDate: Sat, 28 Nov 2026 10:15:30 GMT\r\n"))
        #expect(text.contains("\r\nContent-Length: 19\r\n") && text.contains("\r\nConnection: close\r\n"))
        #expect(text.contains("\r\nAllow: GET, HEAD\r\n") && text.hasSuffix("\r\n\r\nMethod Not Allowed\n"))
        #expect(response.encoded(date: "", hasBody: false).suffix(4) == [13, 10, 13, 10])
    }

    @Test("addresses are numbers, localhost or a Unix socket; only those of this machine are local")
    func addresses() {
        let local = ["127.0.0.1:9187", "localhost:0", "[::1]:80", "unix:/run/x.sock", "127.1.2.3:1"]
        for text in local { #expect(ListeningAddress(text)?.isLocal == true, "\(text)") }
        for text in ["0.0.0.0:9187", "[::]:1", "192.168.1.2:80", "[fe80::1]:80"] {
            #expect(ListeningAddress(text)?.isLocal == false, "\(text)")
        }
        for text in ["", "9187", "host:80", "127.0.0.1", "127.0.0.1:99999", "unix:x", "[::1:80", "127.0.0.1:-1"] {
            #expect(ListeningAddress(text) == nil, "\(text)")
        }
        for host in ["localhost", "LOCALHOST:9187", "127.0.0.1:9187", "[::1]", "[::1]:9187"] {
            #expect(ListeningAddress.namesThisMachine(host), "\(host)")
        }
        for host in ["evil.example", "evil.example:9187", "127.0.0.1.evil.example", "10.0.0.1:80", ""] {
            #expect(!ListeningAddress.namesThisMachine(host), "\(host)")
        }
    }
}
