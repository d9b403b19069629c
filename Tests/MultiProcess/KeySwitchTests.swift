import CipherStore
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

/// Processes that share a store while a file with a new key replaces it.
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
        // Only its owner can access a new store; the files of a switch get the mode of the database.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) {
            #expect(chmod(folder.path(name), 0o644) == 0)
        }
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
        // Five replacements in a row are no coincidence.
        switches.withLock { $0 = 5 }
        #expect(storeError { try DatabasePool(path: path, configuration: configuration) } == .storeMoved)
    }

    /// The replacement of an opener's file before it passes its key.
    enum Replacement: CaseIterable {
        /// The store is switched to a new key.
        case switched
        /// The store is switched, and the former file made unusable, as a rotation does.
        case switchedAndSpoiled
        /// A file with the same key gets the name, and the former one is damaged.
        case damaged
    }

    // The opener once verified the former file with the present sidecar, and reported damage of a sound store:
    // foreignSidecar, notEncrypted and pageDamaged, in the order of the cases.
    @Test(
        "an opener by hand whose file is replaced before it gives its key opens the new one",
        arguments: Replacement.allCases)
    func replacedBeforeKey(replacement: Replacement) throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (randomblob(20000))") }
        try store.checkpoint(.passive)
        try store.close()
        let attempts = Mutex(0)
        var configuration = Configuration()
        configuration.prepareDatabase { [path] db in
            let isFirst = attempts.withLock { count in
                count += 1
                return count == 1
            }
            if isFirst { try Self.replace(path, replacement) }
            try db.useRawKey(Data(TestKeys.rawKey))
        }
        let pool = try DatabasePool(path: path, configuration: configuration)
        try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 2)
        try pool.close()
        #expect(StoreProof.problems(path).isEmpty)
    }

    private static func replace(_ path: String, _ replacement: Replacement) throws {
        let former = try FileDescriptor(opening: path, .readWrite)
        if replacement == .damaged {
            try FileManager.default.copyItem(atPath: path, toPath: path + ".new")
            #expect(rename(path + ".new", path) == 0)
            try former.write([UInt8](repeating: 0xff, count: 3000), at: 512)
        } else {
            try KeySwitch(path).exchange()
            if replacement == .switchedAndSpoiled { try former.write([UInt8](repeating: 0xff, count: 4096), at: 0) }
        }
    }

    // It once got rotationPending for a store that was ready a few milliseconds later.
    @Test("an opener by hand that meets a switch under way waits for its end")
    func openedDuringSwitch() throws {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close()
        let attempts = Mutex(0)
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            attempts.withLock { $0 += 1 }
            try db.useRawKey(Data(TestKeys.rawKey))
        }
        let (path, opening) = (path, configuration)
        let failure = Mutex<(any Error)?>(nil)
        let isOver = DispatchSemaphore(value: 0)
        try KeySwitch(path).exchange {
            Thread.detachNewThread {
                do {
                    try DatabasePool(path: path, configuration: opening).close()
                } catch {
                    failure.withLock { $0 = error }
                }
                isOver.signal()
            }
            #expect(waitUntil { attempts.withLock { $0 } > 0 || failure.withLock { $0 != nil } })
            // The switch lasts long enough for many attempts.
            #expect(!waitUntil(within: .milliseconds(500)) { failure.withLock { $0 != nil } })
        }
        isOver.wait()
        #expect(failure.withLock { $0 } == nil)
        // Each attempt asks the program for its key. The attempts once came every 10 ms, as long as the switch lasted.
        #expect((2...4).contains(attempts.withLock { $0 }), "\(attempts.withLock { $0 }) attempts")
        #expect(StoreProof.problems(path).isEmpty)
    }

    @Test("openers by hand beside rotation after rotation never get an error")
    func openersBesideRotations() throws {
        let rotator = try actor()
        #expect(rotator.ask("mark 1") == "ok")
        rotator.send("rotate-for-ever")
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(TestKeys.rawKey)) }
        configuration.busyMode = .timeout(5)
        let start = ContinuousClock.now
        var switches = 0
        // A rotation that finds the database open withdraws for longer and longer, so the moments without a connection
        // grow until one of them was long enough.
        var longestGap = 150
        while switches < 4, ContinuousClock.now < start + .seconds(switches == 0 ? 90 : 8) {
            let file = try Files.identity(path)
            let pool = try DatabasePool(path: path, configuration: configuration)
            #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM mark") } == 2)
            try pool.close()
            // A switch needs a moment without connections of programs that cannot be asked to pause; an opening right
            // after the file was replaced comes at the worst moment.
            let isSwitched = try waitUntil(within: .milliseconds(Int.random(in: 0...longestGap))) {
                try Files.identity(path) != file
            }
            if isSwitched { switches += 1 } else if switches == 0 { longestGap += 10 }
        }
        rotator.kill()
        // The rotations succeeded during the openings.
        #expect(switches > 0)
    }
}
