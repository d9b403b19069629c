import FormerSimulation
import TestKit
import Testing

@testable import ChangesetSync

/// What a remote has lost or damaged after it has acknowledged it.
@Suite("A remote that loses and damages")
struct DamagedRemoteTests {
    private func manager(_ replica: Replica, _ remote: any SyncRemote) async throws -> SyncManager {
        let manager = SyncManager(replica.repository, remote: remote)
        try await manager.setup()
        return manager
    }

    /// Two stores of one repository, and a remote for it.
    private func pair(isCompacting: Bool = false) throws -> (Replica, Replica, MemoryRemote) {
        let one = try Replica()
        let two = try Replica(key: one.key())
        return (one, two, MemoryRemote(try one.repository.id, isCompacting: isCompacting))
    }

    /// It was "in sync", and what it had pushed was at no other place.
    @Test("a remote that has lost only what a store pushed last is rewound, and a push of nothing does not deny it")
    func ownPushesLost() async throws {
        let (one, two, remote) = try pair()
        let first = try await manager(one, remote)
        let second = try await manager(two, remote)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await first.sync()
        try await second.sync()
        let earlier = remote.edit { content in (content.objects, content.logs) }
        try one.run("INSERT INTO player VALUES (2, 'Bea', 2)")
        try await first.sync()
        remote.edit { content in (content.objects, content.logs) = earlier }
        for _ in 1...2 {
            await #expect(throws: RemoteError.self) { try await first.sync() }
            #expect(try await first.push() == 0)
            #expect(try first.status().lastError?.hasPrefix("remoteRewound") == true && !first.status().isInSync)
        }
        try await first.reset()
        try await first.sync()
        try await second.sync()
        #expect(try first.status().isInSync)
        #expect(try two.strings("SELECT id FROM player") == ["1", "2"])
    }

    @Test("an emptied remote is noticed by the only store that has pushed to it")
    func emptiedOfOne() async throws {
        let one = try Replica()
        let remote = MemoryRemote(try one.repository.id)
        let first = try await manager(one, remote)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await first.sync()
        remote.edit { content in (content.objects, content.logs) = ([:], [:]) }
        await #expect(throws: RemoteError.self) { try await first.fetch() }
    }

    /// Every device was "in sync", and a new one got nothing.
    @Test("a remote that has lost all objects, and kept the entries of the logs, is rewound", arguments: [1, 3])
    func objectsLost(commits: Int) async throws {
        let (one, two, remote) = try pair()
        let first = try await manager(one, remote)
        let second = try await manager(two, remote)
        for number in 1...commits { try one.run("INSERT INTO player VALUES (\(number), 'Ann', 1)") }
        try await first.sync()
        try await second.sync()
        remote.edit { $0.objects = [:] }
        for _ in 1...2 {
            await #expect(throws: RemoteError.self) { try await first.sync() }
            #expect(try first.status().lastError?.hasPrefix("remoteRewound") == true && !first.status().isInSync)
        }
        try await first.reset()
        for _ in 1...2 { try await first.sync() }
        let third = try Replica(key: one.key())
        try await manager(third, remote).sync()
        #expect(try first.status().isInSync && third.head == one.head)
    }

    @Test("what a checkpoint has replaced is not lost")
    func replacedByCheckpoint() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try fleet.insert(1, 11...12)
        try await fleet.settle()
        let made = try await fleet.managers[1].checkpoint()
        #expect(made != nil)
        try await fleet.settle()
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
        try fleet.expectInSync()
    }

    /// The reader passed it, and nobody asked for the commit that it had named.
    @Test(
        "an entry that another one has replaced for a while hides its commit until the next one only",
        arguments: [1, 2])
    func replayedEntry(replays: Int) async throws {
        let (one, two, remote) = try pair()
        let first = try await manager(one, remote)
        let second = try await manager(two, remote)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await first.sync()
        try await second.sync()
        for number in 0..<replays { try one.run("INSERT INTO player VALUES (\(number + 2), 'Bea', 2)") }
        try await first.push()
        let logs = remote.edit { content in
            defer { content.logs = content.logs.mapValues { log in log.map { _ in log[0] } } }
            return content.logs
        }
        try await second.sync()
        remote.edit { $0.logs = logs }
        try one.run("INSERT INTO player VALUES (9, 'Cleo', 3)")
        try await first.push()
        try await second.sync()
        #expect(try second.status().isInSync && second.status().pending == 0)
        #expect(try two.head == one.head && two.state() == one.state())
    }

    /// Its author pushed nothing any more, and `reset()` ended with a collision.
    @Test("a damaged object is pushed again by a store that has its commit", arguments: [true, false])
    func damagedObject(isShort: Bool) async throws {
        let (one, two, remote) = try pair(isCompacting: true)
        let first = try await manager(one, remote)
        let second = try await manager(two, remote)
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try one.run("INSERT INTO player VALUES (2, hex(randomblob(200)), 1)")
        try await first.sync()
        let whole = objects(of: remote)
        damageObjects(of: remote, isShort: isShort)
        try await second.sync()
        #expect(try second.status().quarantined.count == 2)
        try await first.reset()
        try await first.sync()
        #expect(objects(of: remote) == whole)
        try await second.sync()
        #expect(try second.status().isInSync && two.head == one.head)
    }

    private func objects(of remote: MemoryRemote) -> [ObjectID: [UInt8]] { remote.edit { $0.objects } }

    private func damageObjects(of remote: MemoryRemote, isShort: Bool) {
        remote.edit { content in
            content.objects = content.objects.mapValues { bytes in
                var bytes = bytes
                if isShort { bytes.removeLast(20) } else { bytes[bytes.count - 20] ^= 1 }
                return bytes
            }
        }
    }
}
