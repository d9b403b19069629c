import Foundation
import StoreSharing
import Synchronization
import TestKit
import Testing

@Suite("cipherctl replicate")
struct ReplicateCommandTests {
    private let place: Workplace

    init() throws {
        place = try Workplace()
        try place.makeStore()
        try FileManager.default.createDirectory(atPath: place.path("r"), withIntermediateDirectories: false)
    }

    private func replicate(_ options: String...) throws -> CommandRun.Outcome {
        try place.run(["replicate", place.path("s.db"), "--to", place.path("r")] + options)
    }

    private func count(_ store: String) throws -> Int? {
        let outcome = try place.ctl("sql", place.path(store), "SELECT count(*) AS n FROM t", "--mode", "csv")
        return outcome.output.split(whereSeparator: \.isNewline).last.flatMap { Int($0) }
    }

    private func change(_ sql: String) throws {
        try #require(place.ctl("sql", place.path("s.db"), sql, "--write").status == 0)
    }

    @Test("it needs no key; the store is restored as it was at a time")
    func once() throws {
        let rows = try #require(try count("s.db"))
        #expect(try replicate("--once").status == 66)
        let made = try replicate("--once", "--create", "--json")
        #expect(made.status == 0 && made.json["pending_frames"] as? Int == 0, "\(made.errors)")
        let start = Date()
        _ = waitUntil { Date() > start + 0.005 }
        let time = Date().ISO8601Format(.init(includingFractionalSeconds: true))
        _ = waitUntil { Date() > start + 0.015 }
        try change("DELETE FROM t")
        #expect(try replicate("--once").status == 0)
        let listed = try place.run(["backup", "list", place.path("r"), "--json"])
        let ranges = try #require(listed.json["replicated"] as? [[String: Any]])
        #expect(listed.status == 0 && !ranges.isEmpty && (listed.json["backups"] as? [Any])?.isEmpty == true)
        let lines = try place.run(["backup", "list", place.path("r")]).output
        #expect(lines.contains("any second") && (ranges.count == 1) == !lines.contains("gap"))
        let early = try place.ctl("restore", place.path("r"), place.path("early.db"), "--at", "2001-01-01T00:00:00Z")
        #expect(early.status == 66)
        let new = try place.ctl("restore", place.path("r"), place.path("new.db"))
        #expect(try new.status == 0 && count("new.db") == 0, "\(new.errors)")
        if ranges.count == 1 {
            let old = try place.ctl("restore", place.path("r"), place.path("old.db"), "--at", time)
            #expect(try old.status == 0 && count("old.db") == rows, "\(old.errors)")
        }
        let wrong = place.path("wrong.key")
        try Workplace.write([UInt8](repeating: 7, count: 32), to: wrong)
        #expect(try place.ctl("restore", place.path("r"), place.path("w.db"), key: wrong).status == 77)
        #expect(try place.run(["backup", "verify", place.path("r")]).status == 0)
        let pruned = try place.run(
            ["backup", "prune", place.path("r"), "--keep-continuous", "7d", "--yes", "--json"])
        #expect(pruned.status == 0 && pruned.json["bases_removed"] as? Int == 0, "\(pruned.errors)")
    }

    @Test(
        "as a service it tells its manager, ships within a second, and ends by SIGTERM with 0", .enabled(if: hasSockets)
    )
    func service() throws {
        let socket = try NotifySocket(place.path("n"))
        let service = try CommandRun(
            Workplace.program(), ["replicate", place.path("s.db"), "--to", place.path("r"), "--create"],
            environment: ["NOTIFY_SOCKET": place.path("n"), "WATCHDOG_USEC": "400000"])
        #expect(
            waitUntil { Set(socket.received()).isSuperset(of: ["READY=1", "WATCHDOG=1"]) },
            "\(socket.received()): \(service.errorsSoFar)")
        #expect(waitUntil { service.errorsSoFar.contains("stored base 1") })
        #expect(try replicate("--once").status == 69)
        try change("DELETE FROM t")
        #expect(try waitUntil { try replicate("--status", "--json").json["pending_frames"] as? Int == 0 })
        let status = try replicate("--status", "--json")
        #expect(status.status == 0 && status.json["running"] as? Bool == true, "\(status.errors)")
        // A restoration over the store names the service.
        let refused = try place.ctl("restore", place.path("r"), place.path("s.db"), "--replace", "--yes")
        #expect(refused.status == 69, "\(refused.errors)")
        let rotated = try place.ctl("rotate", place.path("s.db"), "--no-backup")
        #expect(rotated.status == 0 || rotated.status == 64, "\(rotated.errors)")
        service.send(SIGTERM)
        let ended = service.finish()
        #expect(ended.status == 0, "\(ended.errors)")
        #expect(waitUntil { socket.received().contains("STOPPING=1") })
        let new = try place.ctl("restore", place.path("r"), place.path("new.db"))
        #expect(try new.status == 0 && count("new.db") == 0, "\(new.errors)")
    }

    private static var hasSockets: Bool {
        #if os(Linux)
            true
        #else
            false
        #endif
    }

    @Test(
        "a bad option gets exit code 64 and a hint",
        arguments: [["--wal-limit", "0"], ["--base-every", "soon"], ["--status", "--once"]])
    func badInput(options: [String]) throws {
        let outcome = try place.run(["replicate", place.path("s.db"), "--to", place.path("r")] + options)
        #expect(outcome.status == 64 && outcome.errors.contains("hint:"), "\(outcome.errors)")
    }

    @Test("without a place, a store or a sidecar it says what is missing")
    func missing() throws {
        #expect(try place.run(["replicate", place.path("s.db")]).status == 64)
        let absent = try place.run(["replicate", place.path("x.db"), "--to", place.path("r"), "--create", "--once"])
        #expect(absent.status == 66, "\(absent.errors)")
        try place.remove("s.db-sidecar", "s.db-sidecar.bak")
        #expect(try replicate("--once", "--create").status != 0)
    }
}

/// The socket of a service manager.
private final class NotifySocket: Sendable {
    private let number: Int32
    private let states = ReceivedStates()

    init(_ path: String) throws {
        number = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        try #require(number >= 0 && bytes.count < MemoryLayout.size(ofValue: address.sun_path))
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: bytes) }
        let bound = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(number, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        try #require(bound == 0)
        // The system keeps ten messages, and drops the others.
        let (open, found) = (number, states)
        Thread.detachNewThread {
            var buffer = [UInt8](repeating: 0, count: 256)
            while case let count = recv(open, &buffer, buffer.count, 0), count > 0 {
                found.add(String(decoding: buffer[..<count], as: UTF8.self))
            }
            close(open)
        }
    }

    deinit { shutdown(number, Int32(SHUT_RDWR)) }

    /// The states that have arrived.
    func received() -> [String] { states.all }
}

private final class ReceivedStates: Sendable {
    private let texts = Mutex<[String]>([])
    var all: [String] { texts.withLock { $0 } }

    func add(_ text: String) { texts.withLock { $0.append(text) } }
}
