import CipherDatabase
import CipherRecords
import FormerSimulation
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Checkpoints")
struct HistoryCheckpointTests {
    @Test("a checkpoint replaces the history, here and at the remote; a new store begins with it, and all go on")
    func replacement() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...20)
        try await fleet.settle()
        try fleet.replicas[1].run("DELETE FROM player WHERE id = 3")
        try fleet.replicas[0].run("UPDATE player SET score = 9 WHERE id = 4")
        try await fleet.settle()
        let before = fleet.objects
        let head = try fleet.replicas[0].head
        let made = try #require(try await fleet.managers[0].checkpoint())
        #expect(made.commit == head && made.rowCount == 19 && made.commitCount >= 21)
        #expect(before.isDisjoint(with: fleet.objects) && fleet.objects.count == 2)
        #expect(try fleet.replicas[0].commitCount == 1 && fleet.replicas[0].head == head)
        try await fleet.join()
        try await fleet.managers[2].sync()
        try fleet.expectEqual()
        #expect(try fleet.replicas[2].commitCount == 1)
        #expect(try fleet.managers[2].status().isInSync)
        // What it has says so at the remote, so the next one is made with it.
        for place in 0..<3 { try fleet.insert(place, (100 + place)...(100 + place)) }
        try fleet.replicas[2].run("UPDATE player SET name = 'new' WHERE id = 1")
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.replicas[0].strings("SELECT count(*) FROM player") == ["22"])
        #expect(try await fleet.managers[2].checkpoint() != nil)
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
        for manager in fleet.managers { #expect(try manager.status().isInSync) }
    }

    /// The commit of the first checkpoint was still taken for the one that stands for the history: what was between the
    /// two stayed, and a third checkpoint did not know whose commits the first one has.
    @Test("a later checkpoint of the same store replaces the one before, and has the numbers of all authors")
    func laterCheckpoints() async throws {
        let fleet = try await CheckpointFleet(2)
        var authors: [AuthorID] = []
        for round in 0..<3 {
            try fleet.insert(round % 2, (10 * round + 1)...(10 * round + 3))
            try await fleet.settle()
            let head = try #require(try fleet.replicas[0].head)
            let made = try #require(try await fleet.managers[0].checkpoint())
            #expect(made.commit == head && made.rowCount == 3 * (round + 1))
            #expect(try fleet.replicas[0].commitCount == 1)
            authors = try fleet.replicas[0].read { db in
                try #require(try CheckpointStore(db: db).checkpoint(ofCommit: head)).manifest.authors.keys.sorted()
            }
            #expect(fleet.objects.count == 2)
        }
        let own = try fleet.replicas.map { try $0.read { try RepositoryState($0).author } }
        #expect(authors == own.sorted())
        try fleet.expectEqual()
    }

    @Test("it waits for every replica that is not retired, and says for whom")
    func acknowledgements() async throws {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...3)
        try await fleet.settle()
        try fleet.insert(0, 4...6)
        try await fleet.settle([0, 1])
        // The latest commit that all three have.
        let made = try await fleet.managers[0].checkpoint()
        let first = try #require(made)
        #expect(first.rowCount == 3)
        let again = try await fleet.managers[0].checkpoint()
        #expect(again == nil)
        let replicas = try fleet.managers[0].status().replicas
        let head = try fleet.replicas[0].head
        #expect(replicas.count == 3 && replicas.filter { $0.commit == head }.count == 2)
        let late = try #require(replicas.first { $0.commit != head })
        #expect(late.commit == first.commit && !late.isThisStore && late.date != nil)
        try await fleet.managers[0].retire(late.author)
        let second = try await fleet.managers[0].checkpoint()
        #expect(second?.rowCount == 6)
        #expect(try fleet.managers[0].status().replicas.filter(\.isRetired).map(\.author) == [late.author])
        // The others learn of it.
        try await fleet.managers[1].sync()
        #expect(try fleet.managers[1].status().replicas.filter(\.isRetired).map(\.author) == [late.author])
        let refusal = await syncCode { try await fleet.managers[0].retire(AuthorID.random()) }
        #expect(refusal == .unknownReplica)
    }

    @Test("an acknowledgement that is lost, or its answer, is repeated; nothing is removed before")
    func lostAcknowledgement() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...3)
        try await fleet.settle([0])
        try await fleet.settle([1])
        try await fleet.settle([0])
        try fleet.insert(0, 4...5)
        try await fleet.managers[0].sync()
        fleet.remote.edit { $0.before = ("acknowledge", { $0.failures = 1 }) }
        // The failure comes with the next call of the kind.
        fleet.remote.edit { $0.lostAcknowledgements = 0 }
        await #expect(throws: MemoryRemote.Fault.self) { try await fleet.managers[1].sync() }
        #expect(try await fleet.managers[0].checkpoint()?.rowCount == 3)
        fleet.remote.edit { $0.before = ("acknowledge", { $0.lostAcknowledgements = 1 }) }
        await #expect(throws: MemoryRemote.Fault.self) { try await fleet.managers[1].sync() }
        #expect(try await fleet.managers[0].checkpoint()?.rowCount == 5)
        try await fleet.settle()
        try fleet.expectEqual()
    }

    @Test("equal checkpoints have equal bytes, whoever makes them; two may do so at once")
    func determinism() async throws {
        var fleet = try await CheckpointFleet(3)
        for place in 0..<3 { try fleet.insert(place, (10 * place)...(10 * place + 5)) }
        try await fleet.settle()
        // Whatever the order in which the rows were stored.
        let made = try fleet.replicas.map { replica in
            try replica.repository.makeParts(at: #require(try replica.repository.planCheckpoint()).place)
        }
        #expect(!made[0].parts.isEmpty && made[0] == made[1] && made[0] == made[2])
        let managers = fleet.managers
        try await withThrowingTaskGroup(of: Void.self) { group in
            for manager in managers { group.addTask { _ = try await manager.checkpoint() } }
            try await group.waitForAll()
        }
        #expect(fleet.objects.count == 2)
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// The place of the first one stayed in the graph, under that of the second one, and was taken for the latest.
    @Test("a store makes one checkpoint after another, and keeps the last one alone")
    func oneAfterAnother() async throws {
        var fleet = try await CheckpointFleet(2)
        for round in 0..<4 {
            try fleet.insert(round % 2, (10 * round)...(10 * round + 2))
            try await fleet.settle()
            let made = try await fleet.managers[0].checkpoint()
            #expect(made?.rowCount == 3 * (round + 1), "\(round)")
            #expect(try fleet.replicas[0].commitCount == 1 && fleet.objects.count == 2, "\(round)")
        }
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
    }

    /// The parts of a checkpoint, made with few keys at once; something happens after each step.
    private func parts(
        _ replica: Replica, at node: CommitNode, keysAtOnce: Int, _ after: () throws -> Void = {}
    ) throws -> [[UInt8]] {
        var maker = try replica.read {
            try CheckpointParts(RepositoryTransaction($0), at: node, keysAtOnce: keysAtOnce)
        }
        var bytes: [[UInt8]] = []
        while true {
            let next = try replica.read { try maker.next(RepositoryTransaction($0)) }
            if next.isEmpty { return bytes }
            #expect(next.map(\.number) == Array(bytes.count..<(bytes.count + next.count)))
            bytes += next.map(\.bytes)
            try after()
        }
    }

    @Test("all rows are in a checkpoint, in order, however few keys are in memory, whatever is committed meanwhile")
    func steps() throws {
        let replica = try Replica(
            """
            CREATE TABLE number (k INTEGER PRIMARY KEY NOT NULL, v);
            CREATE TABLE text (k TEXT NOT NULL PRIMARY KEY, v);
            CREATE TABLE mixed (a NOT NULL, b NOT NULL, v, PRIMARY KEY (b, a)) WITHOUT ROWID;
            CREATE TABLE vacant (k INTEGER PRIMARY KEY NOT NULL);
            """, tracking: ["number", "text", "mixed", "vacant"])
        // Rows of half a part, so that the parts are made in several steps.
        try replica.run(
            """
            INSERT INTO number VALUES (0, zeroblob(300000)), (-1, 1), (\(Int64.min), 2), (\(Int64.max), 3);
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 24)
            INSERT INTO number SELECT (i - 12) * 1000, zeroblob(300000) FROM n WHERE i <> 12;
            INSERT INTO text VALUES ('', 1), ('b', 2), ('aa', zeroblob(300000)), ('a', 3), (printf('%20000c', 'x'), 4);
            INSERT INTO mixed VALUES (1, 'a', 1), ('a', 1, 2), (1.5, x'00', zeroblob(300000)), (2, 'a', 3);
            """)
        let node = try #require(try replica.read { try RepositoryTransaction($0).head() })
        let state = try replica.state()
        let whole = try parts(replica, at: node, keysAtOnce: Limits.checkpointKeys)
        var rows: [String: [RowKey]] = [:]
        for entry in try whole.flatMap({ try CheckpointPart(encoded: $0[...]).rows.tables }) {
            for change in entry.changes {
                let key = entry.table.key(of: change.keyRecord)
                rows[entry.table.name, default: []].append(key)
                #expect(state[entry.table.name]?[key] == change.new)
            }
        }
        #expect(rows == state.mapValues { $0.keys.sorted() })
        #expect(whole.count > 2 * Limits.checkpointPartsAtOnce)
        var number = 0
        for keysAtOnce in [1, 2, 3, 7] {
            let again = try parts(replica, at: node, keysAtOnce: keysAtOnce) {
                number += 1
                try replica.run(
                    """
                    INSERT INTO number VALUES (\(number), 'new'), (-\(number) - 1, 'new'), (\(number) + 5000, 'new');
                    UPDATE number SET v = v || 'x' WHERE k % 1000 = 0 AND abs(k / 1000) % 5 = \(number % 5);
                    DELETE FROM number WHERE k = (\(number) - 8) * 1000; DELETE FROM text WHERE k = 'a';
                    INSERT INTO text VALUES ('new \(number)', 1); UPDATE mixed SET a = a || 'x' WHERE v = 2;
                    """)
            }
            #expect(again == whole, "\(keysAtOnce) keys at once")
        }
        try replica.write("UPDATE number SET v = 5 WHERE k = -1")
        #expect(code { try parts(replica, at: node, keysAtOnce: 5) } == .digestMismatch)
    }

    @Test("parts have a bounded size; where one is damaged or missing nothing is taken up")
    func parts() async throws {
        var fleet = try await CheckpointFleet(1)
        try fleet.replicas[0].run(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
            INSERT INTO player SELECT i, hex(randomblob(40)), i FROM n
            """)
        try fleet.replicas[0].run("INSERT INTO player VALUES (0, hex(randomblob(400000)), 0)")
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        let sizes = fleet.remote.edit { $0.objects.values.map(\.count) }
        #expect(sizes.count >= 6 && sizes.allSatisfy { $0 <= Limits.envelopeBytes })
        // One part is damaged, one missing.
        let manifest = try #require(try fleet.announced(by: 0)).manifest
        let parts = fleet.objects.subtracting([manifest]).sorted()
        let genuine = fleet.remote.edit { content in
            let genuine = content.objects
            // Its last byte: a part can be short.
            content.objects[parts[0]] = genuine[parts[0]].map { $0.dropLast() + [($0.last ?? 0) ^ 1] }
            content.objects[parts[1]] = nil
            return genuine
        }
        try await fleet.join()
        #expect(try await fleet.managers[1].sync() == nil)
        let status = try fleet.managers[1].status()
        #expect(!status.quarantined.isEmpty && !status.isInSync)
        #expect(try fleet.replicas[1].state().isEmpty && fleet.replicas[1].commitCount == 0)
        fleet.remote.edit { $0.objects = genuine }
        // A commit beside the checkpoint could not be merged with it.
        #expect(try await fleet.managers[1].fetch() == 0)
        #expect(code { try fleet.replicas[1].run("INSERT INTO player VALUES (-1, 'x', 1)") } == .checkpointPending)
        #expect(try fleet.replicas[1].repository.pull() != nil)
        try fleet.expectEqual()
        #expect(try fleet.managers[1].status().quarantined.isEmpty)
    }

    @Test("an error at any call of the remote loses nothing, and the next calls complete the checkpoint")
    func faults() async throws {
        // `make test` takes one call in so many.
        for failing in stride(from: Sweep.first(oneIn: 4), to: 24, by: Sweep.stride(4)) {
            var fleet = try await CheckpointFleet(2)
            try fleet.insert(0, 1...4)
            try await fleet.settle()
            try fleet.insert(1, 5...6)
            try await fleet.settle()
            fleet.remote.edit { content in
                content.before = nil
                content.failAt = content.calls + failing + 1
            }
            _ = try? await fleet.managers[0].checkpoint()
            // Meanwhile the other one works, and a new one comes.
            try fleet.insert(1, 7...7)
            _ = try? await fleet.managers[1].sync()
            try await fleet.join()
            try fleet.replicas[0].run("UPDATE player SET score = 5 WHERE id = 1")
            fleet.remote.edit { $0.failAt = nil }
            try await fleet.settle()
            _ = try await fleet.managers[0].checkpoint()
            try await fleet.join()
            try await fleet.settle()
            try fleet.expectEqual(nil, "\(failing)")
            for manager in fleet.managers {
                let status = try manager.status()
                #expect(status.quarantined.isEmpty && status.pending == 0 && status.ahead == 0, "\(failing)")
            }
        }
    }

    @Test("a store that came while a checkpoint was made is waited for")
    func race() async throws {
        var fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        // It registers between the look of the maker and its announcement.
        let late = Acknowledgement(author: try AuthorID.random(), pusher: .nobody)
        let object = try late.sealed(with: fleet.replicas[0].key())
        try await fleet.join()
        let before = fleet.objects
        fleet.remote.edit { $0.before = ("put", { $0.acknowledgements[object.author] = object.bytes }) }
        #expect(try await fleet.managers[0].checkpoint() == nil)
        #expect(try before.isSubset(of: fleet.objects) && fleet.replicas[0].commitCount > 1)
        #expect(try fleet.announced(by: 0) == nil)
    }

    @Test("writes outside of commits are found after the history was replaced, and the checkpoint is not reverted")
    func foreignWrites() async throws {
        let fleet = try await CheckpointFleet(1)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        let made = try #require(try await fleet.managers[0].checkpoint())
        let replica = fleet.replicas[0]
        try replica.write("UPDATE player SET score = 7 WHERE id = 2")
        try replica.repository.commitForeignWrites()
        let delta = try replica.delta(#require(try replica.head))
        #expect(delta.changeCount == 1)
        #expect(try replica.repository.verify().isEmpty)
        #expect(try replica.repository.diff(from: nil, to: #require(try replica.head)).count == 4)
        #expect(code { try replica.repository.revert(made.commit) } == .unknownCommit)
        try replica.repository.reset()
        try await fleet.settle()
        #expect(try replica.strings("SELECT count(*) FROM player") == ["4"])
        // Nobody waits for its former name.
        try replica.run("DELETE FROM player WHERE id = 1")
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint()?.rowCount == 3)
    }

    @Test("a store that begins with a checkpoint brings it to another remote, and to one that was emptied")
    func otherRemote() async throws {
        var fleet = try await CheckpointFleet(1)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try fleet.insert(0, 5...5)
        try await fleet.settle()
        fleet.remote.edit { ($0.objects, $0.logs, $0.acknowledgements, $0.removed) = ([:], [:], [:], [:]) }
        try await fleet.managers[0].reset()
        try await fleet.settle()
        try await fleet.join()
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.replicas[1].strings("SELECT count(*) FROM player") == ["5"])
        let plain = SyncManager(fleet.replicas[0].repository, remote: PlainRemote(fleet.remote))
        #expect(await syncCode { try await plain.setup() } == .checkpointUnsupported)
        #expect(await syncCode { try await plain.checkpoint() } == .checkpointUnsupported)
    }

    /// It refused them, said for ever that it was not in sync, and no checkpoint could be made any more.
    @Test(
        "a store that begins with a checkpoint passes over the history that another remote still has",
        arguments: [false, true])
    func historyOfOtherRemote(isLaterAnnounced: Bool) async throws {
        var fleet = try await CheckpointFleet(2)
        let other = MemoryRemote(fleet.remote.repository, named: "other", isCompacting: true)
        func managers() async throws -> [SyncManager] {
            let managers = fleet.replicas.map { SyncManager($0.repository, remote: other) }
            for manager in managers { try await manager.setup() }
            return managers
        }
        let before = try await managers()
        try fleet.insert(0, 1...2)
        try fleet.insert(1, 3...4)
        for _ in 0..<2 {
            try await fleet.settle()
            for manager in before { try await manager.sync() }
        }
        #expect(other.edit { $0.objects.count } > 2)
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await fleet.join()
        try await fleet.managers[2].sync()
        if isLaterAnnounced {
            try fleet.insert(0, 7...8)
            try await fleet.settle()
            for manager in before { try await manager.sync() }
            #expect(try await fleet.managers[1].checkpoint() != nil)
            try await fleet.managers[2].sync()
        }
        for _ in 0..<2 {
            for manager in try await managers() { try await manager.sync() }
            try await fleet.settle()
        }
        try fleet.expectEqual()
        for manager in try await fleet.managers + managers() {
            #expect(try manager.status().quarantined.isEmpty && manager.status().pending == 0)
        }
        // The other remote is read on from there.
        try fleet.insert(1, 5...6)
        for manager in try await managers() + managers() { try await manager.sync() }
        try fleet.expectEqual()
        try await fleet.settle()
        #expect(try await fleet.managers[2].checkpoint() != nil)
    }

    /// It got `baseTooOld` from the other remote, though it was ahead of that, and could not push there any more.
    @Test("a store that has made a later checkpoint than another remote has goes on with both, and so do new stores")
    func laterCheckpointThanOtherRemote() async throws {
        let fleet = try await CheckpointFleet(2)
        let other = MemoryRemote(fleet.remote.repository, named: "other", isCompacting: true)
        func settle() async throws {
            for _ in 0..<2 {
                try await fleet.settle()
                for replica in fleet.replicas {
                    let manager = SyncManager(replica.repository, remote: other)
                    try await manager.setup()
                    try await manager.sync()
                }
            }
        }
        for round in 0..<3 {
            try fleet.insert(0, (10 * round)...(10 * round + 1))
            try fleet.insert(1, (10 * round + 2)...(10 * round + 3))
            try await settle()
            #expect(try await fleet.managers[round % 2].checkpoint() != nil)
        }
        // The checkpoints of the other remote too.
        let manager = SyncManager(fleet.replicas[0].repository, remote: other)
        try fleet.insert(0, 40...41)
        try await settle()
        #expect(try await manager.checkpoint() != nil)
        try fleet.insert(0, 50...51)
        try await settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await manager.sync()
        let newcomer = try Replica(key: fleet.replicas[0].key())
        let third = SyncManager(newcomer.repository, remote: other)
        try await third.setup()
        try fleet.insert(0, 60...61)
        try await settle()
        try await third.sync()
        #expect(try newcomer.state() == fleet.replicas[0].state())
        try fleet.expectEqual()
        for replica in fleet.replicas {
            #expect(try SyncManager(replica.repository, remote: other).status().isInSync)
        }
    }

    /// The rows of the checkpoint waited for the writes to be undone, and the commit of the writes for the rows.
    @Test(
        "rows that were written before those of the checkpoint came stay, and are the next commit",
        arguments: [false, true])
    func writesBeforeRows(isUnique: Bool) async throws {
        let unique = isUnique ? "UNIQUE" : ""
        var fleet = try await CheckpointFleet(
            2, "CREATE TABLE player (id INTEGER PRIMARY KEY NOT NULL, name TEXT \(unique), score)")
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint() != nil)
        try await fleet.join()
        let newcomer = fleet.replicas[2]
        try await fleet.managers[2].fetch()
        try newcomer.write("INSERT INTO player VALUES (2, 'own', 9), (30, 'p3', 1)")
        #expect(code { try newcomer.repository.commitForeignWrites() } == .checkpointPending)
        try await fleet.managers[2].sync()
        #expect(try fleet.managers[2].status().foreignWrites == ["player"])
        #expect(code { try newcomer.run("DELETE FROM player") } == .foreignWrites)
        #expect(try newcomer.repository.commitForeignWrites() != nil)
        try await fleet.settle()
        try fleet.expectEqual()
        #expect(try fleet.managers[2].status().isInSync)
        let rows = try fleet.replicas[0].strings("SELECT id, name FROM player ORDER BY id")
        #expect(rows == ["1,'p1'", "2,'own'"] + (isUnique ? [] : ["3,'p3'"]) + ["4,'p4'", "30,'p3'"])
    }

    /// The error advised to begin anew, which loses the writes.
    @Test("rows that were written outside of commits are named, and no checkpoint is made before they are committed")
    func writesOutsideOfCommits() async throws {
        let fleet = try await CheckpointFleet(2)
        try fleet.insert(0, 1...4)
        try await fleet.settle()
        try fleet.replicas[0].write("UPDATE player SET score = 9 WHERE id = 1")
        #expect(await syncCode { try await fleet.managers[0].checkpoint() } == .foreignWrites)
        #expect(try fleet.replicas[0].repository.commitForeignWrites() != nil)
        try await fleet.settle()
        #expect(try await fleet.managers[0].checkpoint()?.rowCount == 4)
        try fleet.expectEqual()
    }

    @Test("what is forged is no acknowledgement")
    func forgery() async throws {
        let fleet = try await CheckpointFleet(2)
        let key = try fleet.replicas[0].key()
        var genuine = Acknowledgement(author: try AuthorID.random(), pusher: .nobody)
        genuine.retired = [try AuthorID.random()]
        genuine.checkpoint = .init(
            manifest: Samples.id(1), commit: Samples.id(2), generation: 3, replaced: RemoteCursor())
        let object = try genuine.sealed(with: key)
        #expect(try Acknowledgement(object, with: key) == genuine)
        for index in object.bytes.indices {
            var bytes = object.bytes
            bytes[index] ^= 1
            #expect(try Acknowledgement(.init(author: object.author, bytes: bytes), with: key) == nil)
        }
        #expect(try Acknowledgement(.init(author: .nobody, bytes: object.bytes), with: key) == nil)
        #expect(try Acknowledgement(object, with: RepositoryKey.random()) == nil)
        for count in 0..<genuine.encoded().count {
            #expect(throws: CheckpointError.self) {
                try Acknowledgement(encoded: Array(genuine.encoded().prefix(count)))
            }
        }
    }
}

/// A remote that keeps all history.
private struct PlainRemote: SyncRemote {
    let base: MemoryRemote
    let name = "plain"
    var repository: RepositoryID { base.repository }

    init(_ base: MemoryRemote) { self.base = base }

    func put(_ objects: [RemoteObject]) async throws -> [PutResult] { try await base.put(objects) }
    func list(after cursor: RemoteCursor, limit: Int) async throws -> RemotePage {
        try await base.list(after: cursor, limit: limit)
    }
    func get(_ ids: [ObjectID]) async throws -> [RemoteObject] { try await base.get(ids) }
}
