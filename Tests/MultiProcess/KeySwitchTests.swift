import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// Processes that share a store while a file with a new key takes its place.
@Suite(.serialized) struct KeySwitchTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    private func actor(_ command: String = "open") throws -> ActorProcess {
        let actor = try ActorProcess()
        #expect(actor.ask("\(command) \(path) raw")?.hasPrefix("ok ") == true)
        return actor
    }

    @Test("four busy processes go through switches to new keys without an error, and lose nothing")
    func busy() throws {
        let peers = try (0..<4).map { _ in try actor() }
        for peer in peers { #expect(peer.ask("busy") == "ok") }
        for _ in 0..<3 { #expect(try KeySwitch(path).run()) }
        var writes = 1
        for peer in peers {
            let ending = peer.ask("busy-end") ?? "died"
            #expect(ending.hasSuffix(" -"), "\(ending)")
            writes += ending.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0
        }
        for peer in peers {
            #expect(peer.ask("total") == "ok \(writes)")
            #expect(peer.ask("epoch") == "ok 4")
        }
        #expect(peers[0].ask("check") == "ok ok")
        for peer in peers { peer.end() }
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("a suspended process finds the new key when it reads and when it is resumed")
    func suspended() throws {
        let (peer, other) = (try actor(), try actor())
        #expect(peer.ask("suspend")?.contains("no-lease") == true)
        #expect(try KeySwitch(path).run())
        #expect(other.ask("mark 1") == "ok")
        #expect(peer.ask("total") == "ok 2")
        #expect(peer.ask("epoch") == "ok 2")
        #expect(try KeySwitch(path).run())
        #expect(peer.ask("resume") == "ok")
        #expect(peer.ask("mark 1") == "ok")
        #expect(peer.ask("epoch") == "ok 3")
    }

    @Test(
        "a reader of another user finds the new key", .enabled(if: geteuid() == 0, "only root can start such a process")
    )
    func stranger() throws {
        let peer = try actor()
        let reader = try ActorProcess()
        #expect(reader.ask("become 65534") == "ok")
        #expect(reader.ask("open-read-only \(path) raw")?.hasPrefix("ok ") == true)
        #expect(try KeySwitch(path).run())
        #expect(peer.ask("mark 1") == "ok")
        #expect(reader.ask("total") == "ok 2")
        #expect(reader.ask("epoch") == "ok 2")
    }

    @Test("in a direct store accesses throw keyRotated behind a switch, until it is opened with the new key")
    func direct() throws {
        var configuration = Configuration()
        configuration.keyScheme = .direct
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"), configuration: configuration).close()
        let peer = try actor()
        #expect(try KeySwitch(path).run())
        for command in ["total", "mark 1", "checkpoint", "snapshot"] {
            let answer = peer.ask(command) ?? "died"
            #expect(answer.hasPrefix("error keyRotated"), "\(answer)")
            #expect(answer.contains("Reopen the store"))
        }
        #expect(peer.ask("close") == "ok")
    }

    @Test("a switch between an opener's opening of the file and its first read is noticed: it has the new file")
    func racedOpening() throws {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        let switches = Mutex(1)
        var configuration = Configuration()
        configuration.prepareDatabase { [path] db in
            try db.useRawKey(Data(TestKeys.rawKey))
            try switches.withLock { left in
                if left > 0 { try KeySwitch(path).exchange() }
                left -= 1
            }
        }
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        try pool.close()
        #expect(StoreProof.problems(path).isEmpty)
        // Twice is no coincidence.
        switches.withLock { $0 = 2 }
        #expect(storeError { try DatabasePool(path: path, configuration: configuration) } == .storeMoved)
    }
}
