import CipherDatabase
import CipherObservation
import Foundation
import FormerSimulation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("The return of a replica after a checkpoint")
struct RejoinTests {
    /// Two that went on and made a checkpoint, and a third that was away and has work of its own.
    private func fleet(_ work: String) async throws -> CheckpointFleet {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...6)
        try await fleet.settle()
        try fleet.replicas[0].run("UPDATE player SET name = 'theirs' WHERE id IN (1, 2)")
        try fleet.replicas[1].run("DELETE FROM player WHERE id IN (3, 4)")
        try fleet.insert(1, 20...20)
        try await fleet.settle([0, 1])
        try fleet.replicas[2].run(work)
        let away = try fleet.replicas[2].read { try RepositoryState($0).author }
        try await fleet.managers[0].retire(away)
        #expect(try await fleet.managers[0].checkpoint() != nil)
        return fleet
    }

    private static let work = """
        UPDATE player SET score = 50 WHERE id = 1;
        UPDATE player SET name = 'mine' WHERE id = 2;
        UPDATE player SET name = 'mine' WHERE id = 3;
        DELETE FROM player WHERE id = 5;
        INSERT INTO player VALUES (30, 'mine', 1), (20, 'mine', 2);
        """

    @Test("offline for longer than the history is kept: every call says what to do, and nothing is changed")
    func baseTooOld() async throws {
        let fleet = try await fleet(Self.work)
        let before = try fleet.replicas[2].state()
        let manager = fleet.managers[2]
        #expect(await syncCode { try await manager.fetch() } == .baseTooOld)
        #expect(await syncCode { try await manager.sync() } == .baseTooOld)
        #expect(await syncCode { try await manager.push() } == .baseTooOld)
        #expect(try fleet.replicas[2].state() == before)
        #expect(try manager.status().lastError?.contains("rejoin()") == true)
        try await fleet.settle([0, 1])
        #expect(try fleet.managers[0].status().isInSync)
    }

    /// A row of the checkpoint was removed on all devices, although the store had nothing like it.
    @Test("a store that has a unique key which others have not does not rejoin with rows that are equal by it")
    func uniqueKeyOfOne() async throws {
        let fleet = try await fleet("INSERT INTO player VALUES (30, 'mine', 1)")
        try fleet.replicas[0].run("INSERT INTO player VALUES (40, 'theirs', 0)")
        try await fleet.settle([0, 1])
        try fleet.replicas[2].write("CREATE UNIQUE INDEX names ON player (name)")
        let before = try fleet.replicas[2].state()
        let code = await syncCode { try await fleet.managers[2].rejoin() }
        #expect(code == .constraintViolation)
        #expect(try fleet.replicas[2].state() == before && fleet.replicas[2].repository.verify().isEmpty)
        try fleet.replicas[2].write("DROP INDEX names")
        let made = try await fleet.managers[2].rejoin()
        #expect(made != nil)
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// One of them was left out for the other, and then counted as deleted by this store.
    @Test("a new store with a unique key that others have not takes no checkpoint with rows that are equal by it")
    func uniqueKeyOfNewcomer() async throws {
        let fleet = try await CheckpointFleet(1)
        try fleet.replicas[0].run("INSERT INTO player VALUES (1, 'same', 0)")
        try fleet.replicas[0].run("INSERT INTO player VALUES (2, 'same', 0)")
        try await fleet.settle()
        let checkpoint = try await fleet.managers[0].checkpoint()
        #expect(checkpoint != nil)
        let index = "CREATE UNIQUE INDEX names ON player (name)"
        let newcomer = try Replica(
            "\(Replica.players); \(index)", tracking: ["player"], key: fleet.replicas[0].key())
        let manager = SyncManager(newcomer.repository, remote: fleet.remote)
        try await manager.setup()
        try await manager.fetch()
        try newcomer.write("INSERT INTO player VALUES (3, 'own', 0)")
        #expect(code { try newcomer.repository.pull() } == .constraintViolation)
        #expect(try newcomer.strings("SELECT name FROM player") == ["'own'"])
        try newcomer.write("DROP INDEX names")
        try newcomer.repository.reset()
        try await manager.sync()
        try newcomer.run("INSERT INTO player VALUES (3, 'own', 0)")
        try await manager.sync()
        try await fleet.settle()
        #expect(try newcomer.state() == fleet.replicas[0].state())
        #expect(try newcomer.strings("SELECT id FROM player ORDER BY id") == ["1", "2", "3"])
    }

    @Test("its work becomes a commit on top: cells and rows that it has changed stay, the rest is theirs")
    func work() async throws {
        let fleet = try await fleet(Self.work)
        let made = try #require(try await fleet.managers[2].rejoin(meta: "back"))
        #expect(made.meta == "back")
        #expect(
            try fleet.replicas[2].strings("SELECT id, name, score FROM player ORDER BY id") == [
                "1,'theirs',50", "2,'mine',0", "3,'mine',0", "6,'p6',0", "20,'mine',2", "30,'mine',1",
            ])
        #expect(try fleet.replicas[2].repository.verify().isEmpty)
        let conflicts = try fleet.replicas[2].repository.conflicts()
        #expect(conflicts.contains { $0.column == "name" && $0.key == [2.databaseValue] })
        #expect(conflicts.contains { $0.reason == .deletedAndChanged && $0.key == [3.databaseValue] })
        try await fleet.settle()
        try fleet.expectEqual()
        for manager in fleet.managers { #expect(try manager.status().quarantined.isEmpty) }
        // Under another name, which checkpoints wait for.
        #expect(try fleet.managers[0].status().replicas.filter { !$0.isRetired }.count == 3)
        #expect(try await fleet.managers[2].rejoin() == nil)
        try await fleet.settle()
        #expect(try await fleet.managers[1].checkpoint() != nil)
        try await fleet.settle()
        try fleet.expectEqual()
    }

    @Test("what it has not changed it does not bring back")
    func withoutWork() async throws {
        let fleet = try await fleet("SELECT 1")
        #expect(await syncCode { try await fleet.managers[2].sync() } == .baseTooOld)
        #expect(try await fleet.managers[2].rejoin() == nil)
        try fleet.expectEqual()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// It has merged two commits of the others, of which its rows have one more than the base.
    @Test("a row of the others that they have deleted since goes, though this store has changed other rows before it")
    func rowOfOthers() async throws {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...2)
        try await fleet.settle()
        try fleet.insert(0, 40...40)
        try fleet.insert(1, 50...50)
        try fleet.insert(1, 51...51)
        for index in [0, 1] { try await fleet.managers[index].push() }
        try fleet.replicas[2].run("UPDATE player SET score = 9 WHERE id = 1")
        _ = try await fleet.managers[2].fetch()
        try fleet.replicas[2].repository.mergeAll()
        try fleet.replicas[2].repository.pull()
        try await fleet.settle([0, 1])
        try fleet.replicas[0].run("DELETE FROM player WHERE id = 40")
        try await fleet.settle([0, 1])
        let away = try fleet.replicas[2].read { try RepositoryState($0).author }
        try await fleet.managers[0].retire(away)
        #expect(try await fleet.managers[0].checkpoint() != nil)
        #expect(try await fleet.managers[2].rejoin() != nil)
        let rows = try fleet.replicas[2].strings("SELECT id, score FROM player ORDER BY id")
        #expect(rows == ["1,9", "2,0", "50,1", "51,1"])
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// A process may end before it has removed what is below the checkpoint.
    @Test("a merge of commits that are still below the checkpoint does not come into the graph again")
    func leftBelow() async throws {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...2)
        try fleet.insert(1, 3...4)
        try await fleet.settle()
        let away = fleet.replicas[2]
        let merge = try #require(
            try away.read { db in
                try Row.fetchOne(db, sql: "SELECT n, id, body FROM cipherstore_sync_commit WHERE kind = 1")
            })
        try away.write("CREATE TEMP TABLE former AS SELECT * FROM cipherstore_sync_commit")
        try fleet.insert(0, 10...10)
        try await fleet.settle([0, 1])
        try away.run("UPDATE player SET score = 9 WHERE id = 1")
        try await fleet.managers[0].retire(away.read { try RepositoryState($0).author })
        #expect(try await fleet.managers[0].checkpoint() != nil)
        #expect(try await fleet.managers[2].rejoin() != nil)
        #expect(try away.commitCount == 2)
        let number: Int64 = merge[0]
        try away.write("INSERT INTO cipherstore_sync_commit SELECT * FROM former WHERE n <> \(number)")
        let (id, body) = (try #require(CommitID(bytes: merge[1] as Data)), Array(merge[2] as Data))
        let commit = try Commit(encoded: body[...])
        let content = CommitContent(
            parents: commit.parents, author: .nobody, generation: commit.generation, canonical: body)
        let name = fleet.remote.name
        try await away.queue.write { db in
            let inbox = try Inbox(db: db)
            let (count, replaced) = try inbox.store([id: .commit(content)], from: RemoteState.require(name, db))
            #expect(count == 0 && replaced == [id])
        }
        try await fleet.settle()
        try fleet.expectEqual()
        try away.repository.removeReplacedCommits()
        #expect(try away.commitCount == 2)
    }

    @Test("the commit is reverted as any other, and then the rows are those of the others")
    func revert() async throws {
        let fleet = try await fleet(Self.work)
        let theirs = try fleet.replicas[0].state()
        let made = try #require(try await fleet.managers[2].rejoin())
        try fleet.replicas[2].repository.revert(try #require(CommitID(made.uuid)))
        #expect(try fleet.replicas[2].state() == theirs)
    }

    @Test("several commits, merges among them, and rows that others knew: only what was not pushed is kept")
    func mergesAway() async throws {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...6)
        try await fleet.settle()
        try fleet.replicas[2].run("UPDATE player SET score = 7 WHERE id = 1")
        try fleet.replicas[0].run("UPDATE player SET score = 8 WHERE id = 2")
        try await fleet.settle()
        try fleet.replicas[2].run("UPDATE player SET score = 9 WHERE id = 3")
        try fleet.replicas[0].run("UPDATE player SET score = 10 WHERE id IN (1, 2)")
        try await fleet.managers[0].sync()
        try await fleet.managers[2].fetch()
        try fleet.replicas[2].repository.mergeAll()
        try fleet.replicas[2].repository.pull()
        try fleet.replicas[0].run("UPDATE player SET score = 11 WHERE id IN (1, 4)")
        try await fleet.settle([0, 1])
        try await fleet.managers[0].retire(fleet.replicas[2].read { try RepositoryState($0).author })
        #expect(try await fleet.managers[0].checkpoint() != nil)
        #expect(try await fleet.managers[2].rejoin() != nil)
        #expect(
            try fleet.replicas[2].strings("SELECT score FROM player ORDER BY id") == ["11", "10", "9", "11", "0", "0"])
        try await fleet.settle()
        try fleet.expectEqual()
    }

    @Test("a store with rows of its own that joins after a checkpoint brings them by rejoining")
    func rowsOfANewStore() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await fleet.join()
        try fleet.replicas[2].run("INSERT INTO player VALUES (3, 'own', 3), (4, 'own', 4)")
        #expect(await syncCode { try await fleet.managers[2].sync() } == .baseTooOld)
        #expect(try await fleet.managers[2].rejoin() != nil)
        try await fleet.settle()
        try fleet.expectEqual()
        let names = try fleet.replicas[0].strings("SELECT name FROM player ORDER BY id")
        #expect(names == ["'p1'", "'p2'", "'own'", "'own'"])
    }

    @Test(
        "what it has fetched from above the checkpoint stays: its place in the logs is behind that",
        arguments: [false, true])
    func fetchedBefore(isWithoutRows: Bool) async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        // Two commits above the one that all have.
        for place in 0...1 {
            try fleet.insert(place, 10 + place...10 + place)
            try await fleet.managers[place].push()
        }
        try await fleet.join()
        if !isWithoutRows { try fleet.replicas[2].run("INSERT INTO player VALUES (30, 'own', 3)") }
        try await fleet.managers[2].fetch()
        #expect(try await fleet.managers[0].checkpoint()?.rowCount == 3)
        if !isWithoutRows {
            #expect(await syncCode { try await fleet.managers[2].sync() } == .baseTooOld)
            #expect(try await fleet.managers[2].rejoin() != nil)
        }
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[2].status().isInSync)
        let ids = try fleet.replicas[2].strings("SELECT id FROM player ORDER BY id")
        #expect(ids == ["1", "2", "3", "10", "11"] + (isWithoutRows ? [] : ["30"]))
    }

    /// It deleted them, and the cursors were past them: what built on them waited for ever, and nobody could give it up.
    @Test("what it removes that the checkpoint does not have is set aside at the remotes that have it")
    func removedCommits() async throws {
        let fleet = try await CheckpointFleet(3)
        let other = MemoryRemote(fleet.remote.repository, named: "other", isCompacting: true)
        func manager(_ replica: Replica) async throws -> SyncManager {
            let manager = SyncManager(replica.repository, remote: other)
            try await manager.setup()
            return manager
        }
        let newcomer = try Replica(key: fleet.replicas[0].key())
        let atOther = [
            try await manager(fleet.replicas[0]), try await manager(fleet.replicas[1]),
            try await manager(fleet.replicas[2]), try await manager(newcomer),
        ]
        func settle() async throws {
            for _ in 0..<3 {
                try await fleet.settle()
                for manager in atOther.prefix(3) { try await manager.sync() }
            }
        }
        try fleet.insert(0, 1...3)
        try await settle()
        #expect(try await fleet.managers[1].checkpoint() != nil)
        // A newcomer knows the other remote alone, which knows no checkpoint. Two merge its commit and build on it.
        let work = try #require(try newcomer.run("INSERT INTO player VALUES (30, 'new', 3)"))
        try await atOther[3].push()
        try await atOther[0].sync()
        let merge = try #require(try fleet.replicas[0].head)
        try await atOther[2].sync()
        try fleet.insert(2, 20...20)
        try await atOther[2].push()
        #expect(await syncCode { try await fleet.managers[0].sync() } == .baseTooOld)
        #expect(try await fleet.managers[0].rejoin() != nil)
        #expect(try Set(atOther[0].status().quarantined.keys) == [work, merge])
        #expect(try fleet.managers[0].status().quarantined.isEmpty)
        try await atOther[0].fetch()
        #expect(try atOther[0].status().pending == 1)
        #expect(try await atOther[0].removeQuarantined() == 3)
        #expect(try atOther[0].status().pending == 0)
        #expect(await syncCode { try await fleet.managers[2].sync() } == .baseTooOld)
        #expect(try await fleet.managers[2].rejoin() != nil)
        try await settle()
        try fleet.expectEqual()
        let ids = try fleet.replicas[1].strings("SELECT id FROM player ORDER BY id")
        #expect(ids == ["1", "2", "3", "20", "30"])
    }

    @Test("what waits for the commit of the checkpoint builds on it, and what waits for older ones goes")
    func pendingBefore() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        let base = try #require(try fleet.replicas[0].head)
        for place in 0...1 {
            try fleet.insert(place, 10 + place...10 + place)
            try await fleet.managers[place].push()
        }
        try await fleet.join()
        try fleet.replicas[2].run("INSERT INTO player VALUES (30, 'own', 3)")
        fleet.remote.edit { $0.withheld = [base] }
        try await fleet.managers[2].fetch()
        #expect(try fleet.managers[2].status().pending == 2)
        fleet.remote.edit { $0.withheld = [] }
        #expect(try await fleet.managers[0].checkpoint()?.commit == base)
        #expect(try await fleet.managers[2].rejoin() != nil)
        #expect(try fleet.managers[2].status().pending == 0)
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[2].status().isInSync)
    }

    @Test("a store restored from a backup rejoins under another name")
    func restored() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        let copy = try Replica(copyOf: fleet.replicas[1])
        try fleet.insert(1, 4...4)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        let manager = SyncManager(copy.repository, remote: fleet.remote)
        #expect(await syncCode { try await manager.sync() } == .baseTooOld)
        try copy.run("INSERT INTO player VALUES (9, 'after', 9)")
        #expect(try await manager.rejoin() != nil)
        let authors = try [copy, fleet.replicas[1]].map { try $0.read { try RepositoryState($0).author } }
        #expect(authors[0] != authors[1])
        try await manager.sync()
        try await fleet.settle()
        #expect(try copy.state() == fleet.replicas[0].state())
        try fleet.expectEqual()
    }

    /// Refuses transactions that write players.
    private final class Refusal: TransactionObserver {
        struct Refused: Error {}
        private let hasPlayers = Mutex(false)

        func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { eventKind.tableName == "player" }
        func databaseDidChange(with event: DatabaseEvent) { hasPlayers.withLock { $0 = true } }
        func databaseWillCommit() throws { if hasPlayers.withLock(\.self) { throw Refused() } }
        func databaseDidCommit(_ db: Database) {}
        func databaseDidRollback(_ db: Database) {}
    }

    @Test("it is done as a whole or not at all: rows, graph, outbox and name")
    func atomicity() async throws {
        let fleet = try await fleet(Self.work)
        let (replica, manager) = (fleet.replicas[2], fleet.managers[2])
        #expect(await syncCode { try await manager.fetch() } == .baseTooOld)
        func picture() throws -> [[String]] {
            try ["commit", "outbox", "state", "conflict"].map { name in
                try replica.strings("SELECT * FROM cipherstore_sync_\(name) ORDER BY 1, 2")
            } + [replica.strings("SELECT * FROM player ORDER BY id")]
        }
        let before = try picture()
        let refusal = Refusal()
        replica.queue.add(transactionObserver: refusal, extent: .observerLifetime)
        await #expect(throws: Refusal.Refused.self) { try await manager.rejoin() }
        replica.queue.remove(transactionObserver: refusal)
        #expect(try picture() == before)
        #expect(try await manager.rejoin() != nil)
        try await fleet.settle()
        try fleet.expectEqual()
    }

    @Test("a damaged part, a newer schema and rows outside of commits stop it, and nothing is changed")
    func refusals() async throws {
        let fleet = try await fleet(Self.work)
        let (replica, manager) = (fleet.replicas[2], fleet.managers[2])
        let before = try replica.state()
        let genuine = fleet.remote.edit { content in
            let genuine = content.objects
            for id in genuine.keys { content.objects[id]?[150] ^= 1 }
            return genuine
        }
        #expect(await syncCode { try await manager.rejoin() } == .checkpointPending)
        #expect(try replica.state() == before && !manager.status().quarantined.isEmpty)
        fleet.remote.edit { $0.objects = genuine }
        try replica.write("UPDATE player SET score = 77 WHERE id = 6")
        #expect(await syncCode { try await manager.rejoin() } == .foreignWrites)
        try replica.repository.commitForeignWrites()
        #expect(try await manager.rejoin() != nil)
        #expect(try replica.strings("SELECT score FROM player WHERE id = 6") == ["77"])
        #expect(try manager.status().quarantined.isEmpty)
    }
}
