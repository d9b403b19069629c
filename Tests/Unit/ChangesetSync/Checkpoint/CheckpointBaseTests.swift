import CipherDatabase
import FormerSimulation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

/// What does not build on a checkpoint, or is pushed while one is made, and what a store has said of a remote that is not
/// the same any more.
@Suite("Checkpoints, and what does not build on them")
struct CheckpointBaseTests {
    private func emptied(_ content: inout MemoryRemote.Content) {
        (content.objects, content.logs, content.acknowledgements, content.removed) = ([:], [:], [:], [:])
    }

    /// What replica 0 puts as its acknowledgement from now on.
    private func acknowledgement(_ fleet: CheckpointFleet, of place: Int) throws -> Acknowledgement? {
        let key = try fleet.replicas[place].key()
        let author = try fleet.author(place)
        let bytes = fleet.remote.edit { $0.acknowledgements[author] }
        return try bytes.flatMap { try Acknowledgement(RemoteAcknowledgement(author: author, bytes: $0), with: key) }
    }

    /// They were taken out of the outbox of the other remote as well, and its stores waited for them for ever.
    @Test("what a checkpoint at one remote has replaced is still pushed to another one")
    func otherRemote() async throws {
        let fleet = try await CheckpointFleet(2)
        let other = MemoryRemote(fleet.remote.repository, named: "other", isCompacting: true)
        let second = SyncManager(fleet.replicas[1].repository, remote: other)
        try await second.setup()
        try await second.fetch()
        try fleet.insert(0, 1...2)
        try fleet.insert(1, 3...4)
        try await fleet.settle()
        let made = try await fleet.managers[0].checkpoint()
        #expect(made != nil)
        try await fleet.managers[1].reset()
        try await fleet.settle()
        try await second.sync()
        let newcomer = try Replica(key: fleet.replicas[0].key())
        let third = SyncManager(newcomer.repository, remote: other)
        try await third.setup()
        try await third.sync()
        #expect(try newcomer.state() == fleet.replicas[1].state())
        #expect(try third.status().isInSync)
    }

    /// What they made was refused by all others, and they were never told.
    @Test(
        "a checkpoint waits for the stores of another remote, which some store carries over", arguments: [false, true])
    func storesBeyond(isReset: Bool) async throws {
        let fleet = try await CheckpointFleet(2)
        let other = MemoryRemote(fleet.remote.repository, named: "other", isCompacting: true)
        let far = try Replica(key: fleet.replicas[0].key())
        let (near, beyond) = (
            SyncManager(fleet.replicas[1].repository, remote: other), SyncManager(far.repository, remote: other)
        )
        for manager in [near, beyond] { try await manager.setup() }
        func settle() async throws {
            for _ in 0..<2 {
                try await fleet.settle()
                for manager in [near, beyond, near] { try await manager.sync() }
            }
        }
        try fleet.insert(0, 1...2)
        try fleet.insert(1, 3...4)
        try far.run("INSERT INTO player VALUES (5, 'far', 0)")
        try await settle()
        // The far store does not have these yet, and works on; the one between has to look again who is there.
        if isReset { try await near.reset() }
        try fleet.insert(1, 6...7)
        try await fleet.settle()
        let early = try await fleet.managers[0].checkpoint()
        try far.run("UPDATE player SET name = 'mine' WHERE id = 5")
        try await settle()
        #expect(try far.state() == fleet.replicas[0].state() && far.head == fleet.replicas[0].head)
        for status in [try beyond.status(), try near.status(), try fleet.managers[0].status()] {
            #expect(status.isInSync && status.quarantined.isEmpty)
        }
        #expect(try fleet.replicas[0].strings("SELECT name FROM player WHERE id = 5") == ["'mine'"])
        let late = try await fleet.managers[0].checkpoint()
        #expect(late != nil && late?.commit != early?.commit)
        try far.run("DELETE FROM player WHERE id = 1")
        try await settle()
        #expect(try far.state() == fleet.replicas[0].state() && far.head == fleet.replicas[0].head)
    }

    /// It was announced as complete at once, and what a store pushed at that moment was refused by all others.
    @Test("a checkpoint is prepared before it is announced, also where the store commits meanwhile")
    func commitMeanwhile() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let replica = fleet.replicas[0]
        let seen = Mutex<[Acknowledgement]>([])
        let (author, key) = (try fleet.author(0), try replica.key())
        let look: @Sendable (inout MemoryRemote.Content) -> Void = { content in
            guard let bytes = content.acknowledgements[author],
                let found = try? Acknowledgement(RemoteAcknowledgement(author: author, bytes: bytes), with: key)
            else { return }
            seen.withLock { $0.append(found) }
        }
        fleet.remote.edit { content in
            content.before = (
                "put",
                { content in
                    _ = try? replica.run("INSERT INTO player VALUES (9, 'p9', 0)")
                    content.before = ("acknowledgements", { look(&$0) })
                }
            )
        }
        let made = try await fleet.managers[0].checkpoint()
        #expect(made != nil)
        #expect(seen.withLock { $0.first?.prepared?.commit } == made?.commit)
        let last = try acknowledgement(fleet, of: 0)
        #expect(last?.prepared == nil && last?.checkpoint?.commit == made?.commit)
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// It was never told: its commits were refused by all others, and it said that it was in sync.
    @Test("a store that has pushed work beside a checkpoint has to rejoin, and keeps the work")
    func pushedBeside() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        try fleet.insert(0, 5...5)
        try await fleet.managers[0].sync()
        try await fleet.managers[1].fetch()
        // The maker does not see the push.
        let before = fleet.remote.content.withLock(\.self)
        try fleet.insert(1, 70...70)
        try await fleet.managers[1].push()
        let after = fleet.remote.content.withLock(\.self)
        fleet.remote.content.withLock { $0 = before }
        let away = try fleet.replicas[1].read { try RepositoryState($0).author }
        try await fleet.managers[0].retire(away)
        let made = try await fleet.managers[0].checkpoint()
        #expect(made?.rowCount == 5)
        fleet.remote.edit { content in
            for (id, bytes) in after.objects where before.objects[id] == nil { content.objects[id] = bytes }
            for (log, ids) in after.logs where ids != before.logs[log] { content.logs[log] = ids }
        }
        let fetched = await syncCode { try await fleet.managers[1].fetch() }
        #expect(fetched == .baseTooOld)
        let pushed = await syncCode { try await fleet.managers[1].push() }
        #expect(pushed == .baseTooOld)
        let rejoined = try await fleet.managers[1].rejoin()
        #expect(rejoined != nil)
        for manager in fleet.managers { try await manager.removeQuarantined() }
        try await fleet.settle()
        for manager in fleet.managers { try await manager.removeQuarantined() }
        try fleet.expectEqual()
        #expect(try fleet.replicas[0].strings("SELECT name FROM player WHERE id = 70") == ["'p70'"])
    }

    /// What a store had said of logs that were gone made every later reset end in the same error.
    @Test("a push to a remote that was emptied puts nothing there, and a reset goes on")
    func pushToEmptied() async throws {
        var fleet = try await CheckpointFleet(1)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let made = try await fleet.managers[0].checkpoint()
        #expect(made != nil)
        fleet.remote.edit { emptied(&$0) }
        try fleet.insert(0, 5...5)
        await #expect(throws: RemoteError.self) { try await fleet.managers[0].sync() }
        await #expect(throws: RemoteError.self) { try await fleet.managers[0].push() }
        #expect(fleet.remote.edit { $0.acknowledgements.isEmpty && $0.objects.isEmpty })
        try await fleet.managers[0].reset()
        try await fleet.settle()
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// It pushed again what the maker removed then, and nobody could read its log on.
    @Test("what a checkpoint is about to replace is not pushed again before it is made")
    func pushOfPrepared() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let author = try fleet.replicas[0].read { try RepositoryState($0).author }
        fleet.remote.edit { $0.before = ("acknowledge", { $0.lostAcknowledgements = 1 }) }
        await #expect(throws: MemoryRemote.Fault.self) { try await fleet.managers[0].checkpoint() }
        #expect(try acknowledgement(fleet, of: 0)?.prepared != nil)
        try await fleet.managers[1].reset()
        let result = await Result(of: { try await fleet.managers[1].push() })
        guard case .failure(let error as SyncError) = result else {
            Issue.record("it was pushed")
            return
        }
        // Whoever waits is told for whom.
        #expect(error.code == .checkpointPending && "\(error)".contains("\(author)"))
        try await fleet.managers[0].sync()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// The maker of a checkpoint looked for stores that are new, and not for logs that are.
    @Test("a store that pushes under another name says so before it pushes")
    func newPusher() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        try fleet.replicas[1].beginNewLogs()
        try fleet.insert(1, 9...9)
        fleet.remote.edit { $0.names = [] }
        try await fleet.managers[1].push()
        let names = fleet.remote.edit { $0.names }
        let first = try #require(names.firstIndex(of: "acknowledge"))
        #expect(first < names.firstIndex(of: "put") ?? 0, "\(names)")
        let log = try fleet.replicas[1].read { try RemoteState.require("memory", $0).log($0) }
        #expect(try acknowledgement(fleet, of: 1)?.pusher == log)
    }

    /// The process ended with a number that was too large, or all new commits were refused.
    @Test("a checkpoint that cannot be is not believed", arguments: [UInt64(1), 1000, UInt64(Int64.max), .max])
    func impossible(generation: UInt64) async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        var forged = Acknowledgement(author: try AuthorID.random(), pusher: .nobody)
        forged.checkpoint = .init(
            manifest: Samples.id(1), commit: try #require(try fleet.replicas[0].head), generation: generation,
            replaced: RemoteCursor())
        let object = try forged.sealed(with: fleet.replicas[0].key())
        fleet.remote.edit { $0.acknowledgements[object.author] = object.bytes }
        try fleet.insert(0, 5...6)
        try await fleet.settle()
        try fleet.insert(1, 7...7)
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[1].status().quarantined.isEmpty)
    }

    /// They were refused for ever, and their objects asked for as commits.
    @Test("parts of a checkpoint that was replaced while a store got them are not refused for ever")
    func replacedDownload() async throws {
        var fleet = try await CheckpointFleet(1)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let first = try await fleet.managers[0].checkpoint()
        #expect(first != nil)
        try await fleet.join()
        let parts = try fleet.replicas[0].read { db in
            try CheckpointStore(db: db).checkpointOfAnchor()?.manifest.parts ?? []
        }
        #expect(!parts.isEmpty)
        fleet.remote.edit { content in for id in parts { content.withheld.insert(id) } }
        try await fleet.managers[1].fetch()
        #expect(try fleet.managers[1].status().quarantined.count == parts.count)
        try fleet.insert(0, 5...6)
        try await fleet.managers[0].sync()
        let second = try await fleet.managers[0].checkpoint()
        #expect(second != nil && second != first)
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[1].status().quarantined.isEmpty)
    }

    /// A store that was written all the time never made one.
    @Test("commits above the place of a checkpoint that are still to be pushed do not keep it from being made")
    func writtenMeanwhile() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let replica = fleet.replicas[0]
        try fleet.insert(0, 5...5)
        fleet.remote.edit { content in
            content.before = ("acknowledge", { _ in _ = try? replica.run("INSERT INTO player VALUES (9, 'p9', 0)") })
        }
        let made = try await fleet.managers[0].checkpoint()
        #expect(made?.rowCount == 4)
        try await fleet.settle()
        try fleet.expectEqual()
    }
}
