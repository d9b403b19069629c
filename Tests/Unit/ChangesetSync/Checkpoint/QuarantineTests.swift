import FormerSimulation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Objects that were refused")
struct QuarantineTests {
    private let one: Replica
    private let two: Replica
    private let remote: MemoryRemote
    private let first: SyncManager
    private let second: SyncManager

    init() throws {
        one = try Replica()
        two = try Replica(key: one.key())
        remote = MemoryRemote(try one.repository.id)
        (first, second) = (
            SyncManager(one.repository, remote: remote), SyncManager(two.repository, remote: remote)
        )
    }

    /// Three commits of one store, of which the other one gets two damaged.
    private func damaged() async throws -> [ObjectID] {
        for manager in [first, second] { try await manager.setup() }
        var ids: [ObjectID] = []
        for index in 0..<3 { ids.append(try #require(try one.run("INSERT INTO player VALUES (\(index), 'p', 1)"))) }
        try await first.push()
        remote.edit { content in for id in ids.prefix(2) { content.objects[id]?[150] ^= 1 } }
        try await second.fetch()
        #expect(try Set(second.status().quarantined.keys) == Set(ids.prefix(2)) && second.status().pending == 1)
        return ids
    }

    @Test("one that was given up is not asked for again, and what waited for it neither")
    func removal() async throws {
        let ids = try await damaged()
        #expect(try await second.removeQuarantined(ids[1]) == 2)
        #expect(try Set(second.status().quarantined.keys) == [ids[0]] && second.status().pending == 0)
        try await second.fetch()
        #expect(try Set(second.status().quarantined.keys) == [ids[0]])
        await #expect(throws: SyncError.self) { try await second.removeQuarantined(ids[1]) }
    }

    /// Only the first 256 were asked for again, by every fetch.
    @Test("all of them are asked for again, in pages")
    func manyAgain() async throws {
        for manager in [first, second] { try await manager.setup() }
        let count = 2 * Limits.commitsAtOnce + 3
        var ids: [ObjectID] = []
        for index in 0..<count { ids.append(try #require(try one.run("INSERT INTO player VALUES (\(index), 'p', 1)"))) }
        try await first.push()
        remote.edit { content in for id in ids { content.objects[id]?[150] ^= 1 } }
        try await second.fetch()
        #expect(try second.status().quarantined.count == count)
        let last = try #require(ids.max())
        remote.edit { content in content.objects[last]?[150] ^= 1 }
        try await second.fetch()
        #expect(try second.status().quarantined[last] == nil)
        remote.edit { content in for id in ids where id != last { content.objects[id]?[150] ^= 1 } }
        #expect(try await second.fetch() == count)
        #expect(try second.status().quarantined.isEmpty && second.status().pending == 0)
    }

    @Test("all of them are given up; a reset of the remote asks for them again")
    func purge() async throws {
        let ids = try await damaged()
        #expect(try await second.removeQuarantined() == 3)
        #expect(try second.status().isInSync)
        #expect(try await second.removeQuarantined() == 0)
        remote.edit { content in for id in ids.prefix(2) { content.objects[id]?[150] ^= 1 } }
        try await second.reset()
        try await second.sync()
        #expect(try one.state() == two.state())
    }

    /// It waited for ever, and no checkpoint could be made: a merge on a commit of a newcomer, who had to rejoin.
    @Test("after a checkpoint, what builds on a commit that is not at the remote is refused until that comes")
    func unreachable() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...2)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await fleet.settle()
        try await fleet.join()
        try await fleet.settle()
        let author = fleet.replicas[2]
        let ids = try [7, 8].map { try #require(try author.run("INSERT INTO player VALUES (\($0), 'p', 1)")) }
        let key = try author.key()
        let objects = try ids.reversed().enumerated().map { index, id in
            let canonical = try author.read { db in
                try CommitStore(db: db).canonical(CommitStore(db: db).requireNode(id).n)
            }
            let commit = try Commit(encoded: canonical[...])
            let content = CommitContent(
                parents: commit.parents,
                author: try commit.author.bytes.withUnsafeBytes { try key.pseudonym(ofAuthor: $0) },
                generation: commit.generation, canonical: canonical)
            let log = try #require(AuthorPseudonym(bytes: [UInt8](repeating: 7, count: 16)))
            return RemoteObject(
                repository: key.repository, id: id, position: LogPosition(author: log, sequence: UInt64(index + 1)),
                bytes: try key.seal(content)[0].bytes)
        }
        _ = try await fleet.remote.put([objects[0]])
        for manager in fleet.managers.prefix(2) {
            for _ in 0..<2 {
                try await manager.fetch()
                #expect(try Array(manager.status().quarantined.keys) == [ids[1]] && manager.status().pending == 0)
            }
        }
        #expect(try await fleet.managers[1].removeQuarantined() == 1)
        #expect(try fleet.managers[1].status().pending == 0)
        _ = try await fleet.remote.put([objects[1]])
        #expect(try await fleet.managers[0].fetch() == 2)
        #expect(try fleet.managers[0].status().quarantined.isEmpty)
        try fleet.replicas[0].repository.pull()
        #expect(try fleet.replicas[0].head == ids[1])
    }

    /// It waited for ever: what came from the remote was inserted with what had waited for it, what was made here was not.
    @Test("what waits for a merge is there when this store has made the merge itself")
    func ownMerge() async throws {
        let three = try Replica(key: one.key())
        let third = SyncManager(three.repository, remote: remote)
        for manager in [first, second, third] { try await manager.setup() }
        try one.run("INSERT INTO player VALUES (1, 'p', 1)")
        try two.run("INSERT INTO player VALUES (2, 'p', 1)")
        try await second.push()
        try await first.sync()
        let merge = try #require(try one.head)
        let last = try #require(try one.run("INSERT INTO player VALUES (3, 'p', 1)"))
        try await first.push()
        remote.edit { $0.withheld = [merge] }
        try await third.fetch()
        #expect(try third.status().pending == 1)
        #expect(try three.repository.mergeAll().map { CommitID($0.id) } == [merge])
        remote.edit { $0.withheld = [] }
        #expect(try await third.fetch() == 1)
        #expect(try third.status().pending == 0)
        try three.repository.pull()
        #expect(try three.head == last)
    }

    /// It was taken for a commit of the remote from which its parent came, and not pushed there.
    @Test("what waited for a commit that another remote has is pushed to that one as well")
    func parentOfOtherRemote() async throws {
        let other = MemoryRemote(try one.repository.id, named: "other")
        let bridge = try Replica(key: one.key())
        let atBoth = [remote, other].map { SyncManager(bridge.repository, remote: $0) }
        let relay = SyncManager(two.repository, remote: other)
        for manager in [first, second, relay] + atBoth { try await manager.setup() }
        let parent = try #require(try one.run("INSERT INTO player VALUES (1, 'p', 1)"))
        try await first.push()
        try await second.fetch()
        try await relay.push()
        let child = try #require(try one.run("INSERT INTO player VALUES (2, 'p', 1)"))
        try await first.push()
        // The bridge has the child from one remote, and its parent from the other.
        remote.edit { $0.withheld = [parent] }
        try await atBoth[0].fetch()
        #expect(try atBoth[0].status().pending == 1)
        try await atBoth[1].fetch()
        #expect(try atBoth[0].status().pending == 0)
        try await atBoth[1].push()
        #expect(other.edit { $0.objects[child] } != nil)
    }
}
