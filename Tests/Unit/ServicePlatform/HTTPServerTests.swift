import Foundation
import ServicePlatform
import StorePlatform
import Synchronization
import TestKit
import Testing

/// A server on a thread of its own.
private final class RunningServer: Sendable {
    let address: ListeningAddress
    private let state: State

    private final class State: Sendable {
        let isEnded = Atomic(false)
        let started = Mutex<Result<ListeningAddress, SystemError>?>(nil)
        let ready = DispatchSemaphore(value: 0)
        let end = DispatchSemaphore(value: 0)
    }

    init(_ text: String, body: String = "body\n") throws {
        let address = try #require(ListeningAddress(text))
        let state = State()
        let thread = Thread {
            do throws(SystemError) {
                let server = try HTTPServer(on: address, requiresLocalHost: true) { request in
                    request.path == "/metrics" ? HTTPResponse(.ok, body: body) : HTTPResponse(.notFound)
                }
                state.started.withLock { $0 = .success(server.address) }
                state.ready.signal()
                server.run(isCancelled: { state.isEnded.load(ordering: .relaxed) })
            } catch {
                state.started.withLock { $0 = .failure(error) }
                state.ready.signal()
            }
            state.end.signal()
        }
        thread.start()
        state.ready.wait()
        self.state = state
        self.address = try #require(state.started.withLock { $0 }).get()
    }

    var port: UInt16 { if case .ipv4(_, let port) = address { port } else { 0 } }

    /// Ends it, and waits until its socket is closed.
    func stop() {
        state.isEnded.store(true, ordering: .relaxed)
        state.end.wait()
    }

    deinit { state.isEnded.store(true, ordering: .relaxed) }
}

@Suite("The HTTP server")
struct HTTPServerTests {
    @Test("it answers GET and HEAD, refuses the rest, and names the reason")
    func answers() throws {
        let server = try RunningServer("127.0.0.1:0")
        let found = RawConnection.get("/metrics", port: server.port)
        #expect(found.hasPrefix("HTTP/1.1 200 OK\r\n") && found.hasSuffix("\r\n\r\nbody\n"), "\(found)")
        #expect(RawConnection.get("/other", port: server.port).hasPrefix("HTTP/1.1 404 "))
        for (request, status) in [
            ("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "200"),
            ("PUT / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "405"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "421"), ("nonsense\r\n\r\n", "400"),
        ] {
            let connection = try #require(RawConnection(port: server.port))
            connection.send(request)
            let answer = connection.answer()
            #expect(answer.hasPrefix("HTTP/1.1 \(status) "), "\(answer)")
            if request.hasPrefix("HEAD") {
                #expect(answer.hasSuffix("\r\n\r\n") && answer.contains("Content-Length: 5"))
            }
        }
        server.stop()
        #expect(RawConnection(port: server.port) == nil)
    }

    @Test("clients that send nothing, or read nothing, keep no other client waiting")
    func slowClients() throws {
        // More than the buffers of two sockets hold.
        let server = try RunningServer("127.0.0.1:0", body: String(repeating: "x", count: 16 << 20))
        let silent = (0..<(ServiceLimits.connections + 20)).compactMap { _ in RawConnection(port: server.port) }
        #expect(silent.count == ServiceLimits.connections + 20)
        for connection in silent.prefix(5) { connection.send("GET /metr") }
        for connection in silent.suffix(5) { connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n") }
        let began = ContinuousClock.now
        #expect(RawConnection.get("/other", port: server.port).hasPrefix("HTTP/1.1 404 "))
        #expect(ContinuousClock.now - began < ServiceLimits.requestWait)
        // Those in the middle are still connected, until their time is over.
        let answer = silent[ServiceLimits.connections / 2 + 20].answer()
        #expect(answer.hasPrefix("HTTP/1.1 408 "), "\(answer)")
        server.stop()
    }

    @Test("a byte now and then does not move the deadline of a request")
    func trickle() throws {
        let server = try RunningServer("127.0.0.1:0")
        let connection = try #require(RawConnection(port: server.port))
        let began = ContinuousClock.now
        // Until the server closes: a header that never ends.
        connection.send("GET / HTTP/1.1\r\nX: ")
        var count = 0
        let isClosed = waitUntil(within: ServiceLimits.requestWait + .seconds(5)) {
            // Too few bytes for the bound of a head.
            count += 1
            return count.isMultiple(of: 40) && !connection.send("a")
        }
        #expect(isClosed && ContinuousClock.now - began >= ServiceLimits.requestWait)
        server.stop()
    }

    @Test("a Unix socket is its owner's and group's; a dead one is replaced, and anything else is not")
    func unixSocket() throws {
        let folder = TemporaryFolder()
        let path = folder.path("m.sock")
        let server = try RunningServer("unix:" + path)
        let mode = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
        #expect(mode == 0o660)
        let connection = try #require(RawConnection(path: path))
        connection.send("GET /metrics HTTP/1.1\r\nHost: anything\r\n\r\n")
        #expect(connection.answer().hasSuffix("body\n"))
        let busy = #expect(throws: SystemError.self) { try RunningServer("unix:" + path) }
        #expect(busy?.errorNumber == EADDRINUSE)
        server.stop()
        #expect(!FileManager.default.fileExists(atPath: path))
        // One that was killed leaves its socket.
        let dead = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
        let size = socklen_t(MemoryLayout<sockaddr_un>.size)
        let isBound = withUnsafePointer(to: address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(dead, $0, size) == 0 }
        }
        close(dead)
        #expect(isBound && FileManager.default.fileExists(atPath: path))
        try RunningServer("unix:" + path).stop()
        try Data("keep".utf8).write(to: URL(fileURLWithPath: path))
        let refused = #expect(throws: SystemError.self) { try RunningServer("unix:" + path) }
        #expect(refused?.errorNumber == EEXIST)
        #expect(FileManager.default.contents(atPath: path) == Data("keep".utf8))
    }
}
