import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// Yielding a store on request, seen from other processes, without a switch.
@Suite(.serialized) struct YieldTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    private func actor(_ command: String = "open") throws -> ActorProcess {
        let actor = try ActorProcess()
        #expect(actor.ask("\(command) \(path) raw")?.hasPrefix("ok ") == true)
        return actor
    }

    private func ask(insists: Bool = false) throws -> YieldRequest {
        try #require(try YieldRequest.ask(StorePaths(path), insists: insists))
    }

    private func isAlone(_ request: YieldRequest, within limit: Duration = .seconds(20)) throws -> Bool {
        try request.exclusiveLease(until: .now + limit) != nil
    }

    @Test("busy processes give the store up again and again without an error, and go on when the request ends")
    func busy() throws {
        let peers = try (0..<4).map { _ in try actor() }
        for peer in peers { #expect(peer.ask("busy") == "ok") }
        for _ in 0..<5 {
            let request = try ask()
            let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20)))
            // All processes have closed the database, as SQLite's own lock bytes show.
            let file = try FileDescriptor(opening: path, .readWrite)
            #expect(try file.tryLock(SQLiteLockByte.all, .exclusive))
            try file.unlock(SQLiteLockByte.all)
            lease.release()
            request.end()
        }
        for peer in peers {
            let ending = peer.ask("busy-end") ?? "died"
            #expect(ending.hasSuffix(" -"), "\(ending)")
            #expect(peer.ask("mark 1") == "ok")
        }
        #expect(peers[0].ask("check") == "ok ok")
    }

    @Test("a second request is refused while the first stands")
    func second() throws {
        _ = try actor()
        let request = try ask()
        #expect(try YieldRequest.ask(StorePaths(path)) == nil)
        request.end()
        _ = try ask()
    }

    @Test("a long read is not disturbed by a request that is withdrawn")
    func withdrawn() throws {
        let reader = try actor()
        #expect(reader.ask("hold reading") == "ok held")
        let request = try ask()
        #expect(try !isAlone(request, within: .milliseconds(100)))
        request.end()
        #expect(reader.ask("let-go") == "ok ended")
        #expect(reader.ask("mark 1") == "ok")
    }

    @Test("a request that insists ends a long statement and a held read with keyRotated, and the store goes on")
    func insisting() throws {
        let (running, holding) = (try actor(), try actor())
        #expect(running.ask("long-read") == "ok")
        #expect(holding.ask("hold reading") == "ok held")
        let patient = try ask()
        #expect(try !isAlone(patient, within: .milliseconds(50)))
        patient.end()
        let request = try ask(insists: true)
        #expect(running.ask("long-read-end")?.hasPrefix("ok error keyRotated") == true)
        #expect(holding.ask("let-go")?.contains("keyRotated") == true)
        #expect(try isAlone(request))
        request.end()
        for actor in [running, holding] { #expect(actor.ask("mark 1") == "ok") }
    }

    @Test("a snapshot keeps the store, ends by a request that insists, and throws keyRotated from then on")
    func snapshot() throws {
        let peer = try actor()
        #expect(peer.ask("snapshot") == "ok")
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("snapshot-total") == "ok 1")
        let patient = try ask()
        #expect(try !isAlone(patient, within: .milliseconds(50)))
        patient.end()
        let request = try ask(insists: true)
        #expect(try isAlone(request))
        request.end()
        #expect(peer.ask("snapshot-total")?.hasPrefix("error keyRotated") == true)
        #expect(peer.ask("total") == "ok 2")
        // A closed snapshot delays no process.
        #expect(peer.ask("snapshot") == "ok")
        #expect(peer.ask("snapshot-end") == "ok")
        #expect(try isAlone(ask()))
    }

    @Test("a process that is stopped keeps its lease, so the request ends in vain; killed, it keeps nobody")
    func stopped() throws {
        let (peer, other) = (try actor(), try actor())
        peer.stop()
        let request = try ask()
        #expect(try !isAlone(request, within: .milliseconds(100)))
        request.end()
        #expect(other.ask("mark 1") == "ok")
        let again = try ask()
        peer.kill()
        #expect(try isAlone(again))
    }

    @Test("a process killed while it is given up keeps nobody, and the others go on")
    func killedAway() throws {
        let (peer, other) = (try actor(), try actor())
        let request = try ask()
        #expect(try isAlone(request))
        peer.kill()
        request.end()
        #expect(other.ask("mark 1") == "ok")
        #expect(other.ask("check") == "ok ok")
    }

    @Test("when the one who asks is killed, everybody goes on by itself")
    func askerKilled() throws {
        let (peer, asker) = (try actor(), try ActorProcess())
        #expect(asker.ask("ask \(path)") == "ok asked")
        #expect(asker.ask("take-lease 20") == "ok alone")
        peer.send("mark 1")
        asker.kill()
        #expect(peer.answer() == "ok")
        #expect(peer.ask("total") == "ok 2")
    }

    @Test("a suspended process keeps nobody; it reads meanwhile, and goes on when it is resumed")
    func suspended() throws {
        let (peer, other) = (try actor(), try actor())
        #expect(peer.ask("suspend")?.contains("released systemLockTable no-lease") == true)
        let table = try #require(try SystemLocks.posixLocks(on: path))
        #expect(!table.contains { $0.process == peer.processIdentifier })
        let request = try ask()
        #expect(try isAlone(request))
        request.end()
        #expect(other.ask("mark 1") == "ok")
        #expect(peer.ask("total") == "ok 2")
        #expect(try isAlone(ask()))
        #expect(peer.ask("resume") == "ok")
        #expect(peer.ask("mark 1") == "ok")
    }

    @Test("an opener that meets a request waits for its end")
    func opening() throws {
        let peer = try actor()
        let request = try ask()
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20)))
        let late = try ActorProcess()
        late.send("open \(path) raw")
        let reader = try ActorProcess()
        reader.send("open-read-only \(path) raw")
        // Neither keeps the opening lock while it waits.
        let locks = try LockFile(path: path + "-lock", likeFile: path)
        #expect(try waitUntil { try locks.tryLock(.opening, .exclusive) != nil })
        lease.release()
        request.end()
        #expect(late.answer()?.hasPrefix("ok ") == true)
        #expect(reader.answer()?.hasPrefix("ok ") == true)
        #expect(peer.ask("mark 1") == "ok")
        #expect(late.ask("total") == "ok 2")
    }

    @Test(
        "a reader of another user that may not write the lock file gives the store up as well",
        .enabled(if: geteuid() == 0, "only root can start a process of another user"))
    func stranger() throws {
        let peer = try actor()
        // Only its owner can access a new store.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
            #expect(chmod(folder.path(name), 0o644) == 0)
        }
        let reader = try ActorProcess()
        #expect(reader.ask("become 65534") == "ok")
        #expect(reader.ask("open-read-only \(path) raw")?.hasPrefix("ok ") == true)
        #expect(reader.ask("total") == "ok 1")
        let request = try ask()
        #expect(try isAlone(request))
        request.end()
        #expect(peer.ask("mark 1") == "ok")
        #expect(reader.ask("total") == "ok 2")
        // The same with a long read that must be ended.
        #expect(reader.ask("long-read") == "ok")
        let second = try ask(insists: true)
        #expect(try isAlone(second))
        second.end()
        #expect(reader.ask("long-read-end")?.contains("keyRotated") == true)
        #expect(reader.ask("total") == "ok 2")
    }
}
