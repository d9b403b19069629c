import SyncSimulation
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

    /// It was "in sync", and what it had pushed was at no other place.
    @Test("a remote that has lost only what a store pushed last is rewound, and a push of nothing does not deny it")
    func ownPushesLost() async throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        let remote = MemoryRemote(try one.repository.id)
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

    /// Its author pushed nothing any more, and `reset()` ended with a collision.
    @Test("a damaged object is pushed again by a store that has its commit", arguments: [true, false])
    func damagedObject(isShort: Bool) async throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        let remote = MemoryRemote(try one.repository.id, isCompacting: true)
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
