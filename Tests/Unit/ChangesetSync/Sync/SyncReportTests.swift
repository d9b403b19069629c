import CipherDatabase
import Foundation
import FormerSimulation
import Synchronization
import Testing

@testable import ChangesetSync

/// What a status and a summary report of the last exchange and the last pull, also in another process.
@Suite("Reports of exchanges and pulls")
struct SyncReportTests {
    /// Sets the date since when a log stands still.
    private func move(_ replica: Replica, by seconds: Double) throws {
        try replica.queue.write { db in
            try db.changingHistory {
                try db.execute(sql: "UPDATE cipherstore_sync_stall SET since = since + ?", arguments: [seconds])
            }
        }
    }

    @Test("a log that stands still at a missing entry needs attention after an hour, and no longer when it goes on")
    func stalledLog() throws {
        let (one, two) = (try Replica(), try Replica())
        let stalls = [
            RemoteStall(position: LogPosition(author: Samples.author(1), sequence: 7), reason: .entryMissing),
            RemoteStall(position: LogPosition(author: Samples.author(2), sequence: 1), reason: .entryDamaged),
        ]
        for replica in [one, two] {
            // As in a store that an earlier version has set up.
            try replica.queue.write { db in
                try db.changingHistory {
                    try db.execute(sql: "DROP TABLE cipherstore_sync_stall; DROP TABLE cipherstore_sync_obstacle")
                }
            }
            #expect(try replica.read { try StalledLogs(db: $0).logs(of: 1) }.isEmpty)
            try replica.queue.write { try StalledLogs(db: $0).note(stalls, at: 1) }
            let logs = try replica.read { try StalledLogs(db: $0).logs(of: 1) }
            #expect(logs.map(\.position) == stalls.map(\.position) && logs.map(\.isDamaged) == [false, true])
            #expect(logs.map(\.needsAttention) == [false, true])
            #expect(try replica.read { try StalledLogs(db: $0).logs(of: 2) }.isEmpty)
        }
        try move(one, by: -Limits.stallSeconds)
        // Another fetch finds the same.
        try one.queue.write { try StalledLogs(db: $0).note(stalls, at: 1) }
        #expect(try one.read { try StalledLogs(db: $0).logs(of: 1) }.map(\.needsAttention) == [true, true])
        // The first one goes on, and stands at another entry; the second one is whole.
        let next = RemoteStall(position: LogPosition(author: Samples.author(1), sequence: 9), reason: .entryMissing)
        try one.queue.write { try StalledLogs(db: $0).note([next], at: 1) }
        let logs = try one.read { try StalledLogs(db: $0).logs(of: 1) }
        #expect(logs.map(\.position) == [next.position] && logs.map(\.needsAttention) == [false])
        try one.queue.write { try StalledLogs(db: $0).note([], at: 1) }
        #expect(try one.read { try StalledLogs(db: $0).logs(of: 1) }.isEmpty)
    }

    @Test("a log that was given up counts no more, until it stands at another entry")
    func givenUpLog() async throws {
        let replica = try Replica()
        let stalls = [
            RemoteStall(position: LogPosition(author: Samples.author(1), sequence: 7), reason: .entryMissing),
            RemoteStall(position: LogPosition(author: Samples.author(2), sequence: 1), reason: .entryDamaged),
        ]
        let remote = MemoryRemote(try replica.repository.id)
        let manager = SyncManager(replica.repository, remote: remote)
        try await manager.setup()
        remote.edit { $0.stalls = stalls }
        try await manager.fetch()
        #expect(
            try manager.status().stalled == 2 && manager.status().stalledLogs.map(\.needsAttention) == [false, true])
        // The one that is missing for a moment is still awaited.
        let givenUp = try await manager.giveUpStalledLogs()
        #expect(givenUp == 1)
        for _ in 0..<2 {
            let status = try manager.status()
            #expect(status.stalled == 1 && status.stalledLogs.map(\.needsAttention) == [false, false])
            #expect(status.stalledLogs.map(\.isGivenUp) == [false, true] && !status.isInSync)
            try await manager.fetch()
        }
        remote.edit { $0.stalls = [stalls[1]] }
        try await manager.fetch()
        #expect(try manager.status().stalled == 0 && manager.status().isInSync)
        let later = LogPosition(author: Samples.author(2), sequence: 3)
        remote.edit { $0.stalls = [RemoteStall(position: later, reason: .entryDamaged)] }
        try await manager.fetch()
        #expect(try manager.status().stalled == 1 && manager.status().stalledLogs.map(\.needsAttention) == [true])
        // A reset begins again, and so does a remote that was forgotten.
        try await manager.giveUpStalledLogs()
        try await manager.reset()
        #expect(try manager.status().stalledLogs.isEmpty)
        try await manager.fetch()
        #expect(try manager.status().stalledLogs.map(\.isGivenUp) == [false])
    }

    @Test("a remote that is forgotten leaves rows and commits, and no trace in the tables of the exchange")
    func forgotten() async throws {
        let one = try Replica()
        let (first, other) = (
            MemoryRemote(try one.repository.id), MemoryRemote(try one.repository.id, named: "memory:2")
        )
        let (manager, second) = (
            SyncManager(one.repository, remote: first), SyncManager(one.repository, remote: other)
        )
        for manager in [manager, second] { try await manager.setup() }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await manager.sync()
        let (state, commits) = (try one.state(), try one.repository.summary().commitCount)
        #expect(try one.repository.forgetRemote(named: "elsewhere") == nil)
        #expect(try one.repository.forgetRemote(named: second.remote.name) == 1)
        #expect(try one.repository.forgetRemote(named: second.remote.name) == nil)
        #expect(try manager.status().isInSync)
        #expect(code { try second.status() } == .notEnabled)
        #expect(try one.repository.forgetRemote(named: manager.remote.name) == 0)
        for table in ["outbox", "quarantine", "remote", "address", "stall", "replica"] {
            let count = try one.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM cipherstore_sync_\(table)") }
            #expect(count == 0, "\(table)")
        }
        #expect(try one.state() == state && one.repository.summary().commitCount == commits)
        // Named again, it is a remote like any other.
        try await manager.setup()
        #expect(try manager.status().ahead == 1)
        try await manager.sync()
        #expect(try manager.status().isInSync)
    }

    /// What had come from the forgotten remote waited for ever.
    @Test("a commit that waits for what a forgotten remote has damaged comes from another remote")
    func forgottenWithPending() async throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        let (bad, good) = (MemoryRemote(try one.repository.id), MemoryRemote(try one.repository.id, named: "memory:2"))
        for remote in [bad, good] {
            let manager = SyncManager(one.repository, remote: remote)
            try await manager.setup()
        }
        let id = try #require(try one.run("INSERT INTO player VALUES (1, 'Ann', 1)"))
        try one.run("UPDATE player SET score = 2")
        for remote in [bad, good] { try await SyncManager(one.repository, remote: remote).push() }
        bad.edit { content in content.objects[id]?[150] ^= 1 }
        let (first, second) = (SyncManager(two.repository, remote: bad), SyncManager(two.repository, remote: good))
        for manager in [first, second] { try await manager.setup() }
        try await first.fetch()
        #expect(try first.status().quarantined.count == 1 && first.status().pending == 1)
        try two.repository.forgetRemote(named: bad.name)
        #expect(try second.status().pending == 1)
        try await second.sync()
        #expect(try second.status().isInSync && one.state() == two.state())
    }

    /// All devices were "not in sync" for ten years.
    @Test("a clock that was ahead is named until its device has made a commit with the right time")
    func skew() async throws {
        let (right, wrong) = (TestClock(seconds: 1_800_000_000), TestClock(seconds: 1_800_000_000))
        let one = try Replica(clock: right)
        let two = try Replica(key: one.key(), clock: wrong)
        let remote = MemoryRemote(try one.repository.id)
        let (first, second) = (
            SyncManager(one.repository, remote: remote), SyncManager(two.repository, remote: remote)
        )
        for manager in [first, second] { try await manager.setup() }
        func exchange() async throws {
            for manager in [first, second, first] { try await manager.sync() }
        }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await exchange()
        #expect(try first.status().skew == nil)
        let year = 365 * 86_400.0
        wrong.seconds.withLock { $0 += 10 * year }
        try two.run("INSERT INTO player VALUES (2, 'Ben', 2)")
        wrong.seconds.withLock { $0 += 60 }
        try two.run("INSERT INTO player VALUES (3, 'Cleo', 3)")
        try await exchange()
        #expect(try first.status().skew == .seconds(10 * year + 60) && !first.status().isSettled)
        // As `in_sync` of the command line: a clock is no difference of rows.
        #expect(try first.status().isInSync)
        wrong.seconds.withLock { $0 -= 10 * year }
        // Of others whose clocks are right nothing is said, and does not end it.
        try one.run("UPDATE player SET score = 5 WHERE id = 2")
        try await exchange()
        #expect(try first.status().skew == .seconds(10 * year + 60))
        try two.run("UPDATE player SET score = 6 WHERE id = 2")
        try await exchange()
        #expect(try first.status().skew == nil && first.status().isInSync)
        #expect(try second.status().skew == nil && second.status().isInSync)
    }

    @Test("a name that nobody has is no error of the exchange")
    func retireUnknown() async throws {
        let replica = try Replica()
        let remote = MemoryRemote(try replica.repository.id, isCompacting: true)
        let manager = SyncManager(replica.repository, remote: remote)
        try await manager.setup()
        try await manager.sync()
        let own = try replica.repository.summary().author
        for author in [own, try AuthorID.random()] {
            let result = await Result(of: { try await manager.retire(author) })
            #expect(code { try result.get() } == .unknownReplica)
            #expect(try manager.status().lastError == nil)
        }
    }

    @Test("a schema that stops the next pull is named with its kind")
    func schemaObstacle() async throws {
        let one = try Replica()
        let two = try Replica(key: one.key())
        let remote = MemoryRemote(try one.repository.id)
        let (first, second) = (
            SyncManager(one.repository, remote: remote), SyncManager(two.repository, remote: remote)
        )
        for manager in [first, second] { try await manager.setup() }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await first.sync()
        try await second.sync()
        try one.write("ALTER TABLE player ADD COLUMN town TEXT")
        try one.run("UPDATE player SET town = 'Oslo'")
        try await first.push()
        try await second.fetch()
        #expect(try two.repository.summary().schemaObstacle?.code == .schemaAhead)
        #expect(try two.repository.summary().schemaObstacle?.table == "player")
        try two.write("ALTER TABLE player ADD COLUMN town TEXT")
        #expect(try two.repository.summary().schemaObstacle == nil)
        try await second.sync()
        try two.write("ALTER TABLE player DROP COLUMN town")
        try one.run("UPDATE player SET town = 'Bergen'")
        try await first.push()
        try await second.fetch()
        #expect(try two.repository.summary().schemaObstacle?.code == .columnRemoved)
    }

    /// It was refused until the next fetch, as one whose author has to rejoin.
    @Test("a commit whose parent was pushed after its log was read comes with it, in the same fetch")
    func lateParent() async throws {
        let fleet = try await CheckpointFleet(3)
        try fleet.insert(0, 1...2)
        try await fleet.settle()
        let made = try await fleet.managers[0].checkpoint()
        #expect(made != nil)
        try fleet.insert(0, 3...3)
        try await fleet.managers[0].push()
        let log = try fleet.replicas[0].read { try RemoteState.require("memory", $0).log($0) }
        let first = fleet.remote.edit { $0.logs[log] }
        try await fleet.managers[1].sync()
        try fleet.insert(1, 4...4)
        try await fleet.managers[1].push()
        // The log of the first store is read before its last entry is there.
        fleet.remote.edit { content in
            _ = content.logs[log]?.popLast()
            content.before = ("get", { $0.logs[log] = first })
        }
        try await fleet.managers[2].fetch()
        let status = try fleet.managers[2].status()
        #expect(status.quarantined.isEmpty && status.pending == 0 && status.behind == 2)
    }

    /// A store that was emptied meanwhile said that it was in sync.
    @Test("a fetch that ends after a reset of another process has not read the remote to its end")
    func resetMeanwhile() async throws {
        let replica = try Replica()
        let remote = MemoryRemote(try replica.repository.id)
        let manager = SyncManager(replica.repository, remote: remote)
        try await manager.setup()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await manager.sync()
        try replica.run("UPDATE player SET score = 2")
        remote.edit { content in content.before = ("list", { _ in try? replica.repository.reset() }) }
        try await manager.fetch()
        #expect(try !manager.status().hasFetched)
        try await manager.sync()
        #expect(try manager.status().isInSync && replica.strings("SELECT score FROM player") == ["1"])
    }

    @Test("the error of a pull is in the summary until a pull succeeds, whoever has pulled", arguments: [false, true])
    func pullObstacle(isSync: Bool) async throws {
        let one = try Replica()
        let strict = Replica.players.replacing("score INTEGER", with: "score INTEGER CHECK (score < 100)")
        let two = try Replica(strict, key: one.key())
        let remote = MemoryRemote(try one.repository.id)
        let first = SyncManager(one.repository, remote: remote)
        let second = SyncManager(two.repository, remote: remote)
        for manager in [first, second] { try await manager.setup() }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 100)")
        try await first.push()
        if isSync {
            await #expect(throws: SyncError.self) { try await second.sync() }
        } else {
            try await second.fetch()
            #expect(code { try two.repository.pull() } == .constraintViolation)
        }
        let found = try #require(try two.repository.summary().pullObstacle)
        #expect(found.code == .constraintViolation && found.table == "player")
        #expect(found.detail?.contains("CHECK") == true)
        #expect(try one.repository.summary().pullObstacle == nil)
        try one.run("UPDATE player SET score = 5")
        try await first.push()
        try await second.sync()
        #expect(try two.repository.summary().pullObstacle == nil && two.state() == one.state())
        // Nor when there is something to pull again.
        try one.run("UPDATE player SET score = 6")
        try await first.push()
        try await second.fetch()
        #expect(try two.repository.summary().behind == 1 && two.repository.summary().pullObstacle == nil)
    }

    private struct Refusal: Error {}

    /// Only seven errors of the library were kept: the status of a store whose pull had stopped for another reason said
    /// nothing.
    @Test(
        "an error of the database that stops a pull is in the summary with its extended code, until a pull succeeds",
        arguments: ["function", "collation", "full", "raise", "program"])
    func databaseObstacle(cause: String) throws {
        let isBroken = Mutex(true)
        let one = try Replica()
        let two = try Replica(Self.obstructed, key: one.key()) { db, _ in
            guard isBroken.withLock({ $0 }) else { return }
            if cause == "raise" { try db.execute(sql: "INSERT INTO other VALUES (NULL)") }
            if cause == "program" { throw Refusal() }
        }
        let function = DatabaseFunction("prog", argumentCount: 1, pure: true) { $0[0] }
        let collation = DatabaseCollation("prog") { $0.compare($1) }
        try one.run("INSERT INTO player VALUES (1, '\(String(repeating: "n", count: 200_000))', 1)")
        try two.fetch(one)
        try two.queue.writeWithoutTransaction { db in
            switch cause {
            case "function":
                db.add(function: function)
                try db.execute(sql: "CREATE INDEX by_prog ON player (prog(name))")
                db.remove(function: function)
            case "collation":
                db.add(collation: collation)
                try db.execute(sql: "CREATE INDEX by_prog ON player (name COLLATE prog)")
                db.remove(collation: collation)
            case "full":
                let pages = try Int.fetchOne(db, sql: "PRAGMA page_count") ?? 0
                try db.execute(sql: "PRAGMA max_page_count = \(pages + 2)")
            default: break
            }
        }
        #expect(throws: (any Error).self) { try two.repository.pull() }
        let found = try #require(try two.repository.summary().pullObstacle)
        let expected: [String: ResultCode] = [
            "function": .SQLITE_ERROR, "collation": .SQLITE_ERROR, "full": .SQLITE_FULL,
            "raise": .SQLITE_CONSTRAINT_TRIGGER,
        ]
        #expect(found.code == (cause == "program" ? .programError : .databaseError))
        #expect(found.resultCode?.primaryResultCode == expected[cause]?.primaryResultCode, "\(found)")
        if cause == "raise" { #expect(found.resultCode == .SQLITE_CONSTRAINT_TRIGGER) }
        #expect(!"\(found)".contains("secret"))
        #expect(try one.repository.summary().pullObstacle == nil)
        isBroken.withLock { $0 = false }
        try two.queue.writeWithoutTransaction { db in
            db.add(function: function)
            db.add(collation: collation)
            if cause == "full" { try db.execute(sql: "PRAGMA max_page_count = 1000000") }
        }
        try two.repository.pull()
        #expect(try two.repository.summary().pullObstacle == nil && two.state() == one.state())
    }

    private static let obstructed = """
        \(Replica.players); CREATE TABLE other (n);
        CREATE TRIGGER refuses BEFORE INSERT ON other BEGIN SELECT RAISE(ABORT, 'secret'); END
        """

    @Test("a store whose table for the error of a pull is of an earlier version keeps errors of the database as well")
    func obstacleOfEarlierVersion() throws {
        let one = try Replica()
        let two = try Replica(key: one.key()) { _, _ in throw DatabaseError(resultCode: .SQLITE_IOERR_WRITE) }
        try two.queue.write { db in
            try db.changingHistory {
                try db.execute(sql: "ALTER TABLE cipherstore_sync_obstacle DROP COLUMN result_code")
            }
        }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try two.fetch(one)
        #expect(try two.repository.summary().pullObstacle == nil)
        #expect(throws: DatabaseError.self) { try two.repository.pull() }
        #expect(try two.repository.summary().pullObstacle?.resultCode == .SQLITE_IOERR_WRITE)
    }

    @Test("an error that ends by itself is not kept")
    func passingErrors() throws {
        let errors: [any Error] = [
            DatabaseError(resultCode: .SQLITE_BUSY), DatabaseError(resultCode: .SQLITE_INTERRUPT),
            DatabaseError(resultCode: .SQLITE_ABORT), CancellationError(),
        ]
        for error in errors {
            let one = try Replica()
            let two = try Replica(key: one.key()) { _, _ in throw error }
            try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
            try two.fetch(one)
            #expect(throws: (any Error).self) { try two.repository.pull() }
            #expect(try two.repository.summary().pullObstacle == nil, "\(error)")
        }
    }

    /// Nothing but a number of commits to pull said that something was wrong.
    @Test("an error of a closure of the program is in the status until the next call")
    func errorOfClosure() async throws {
        struct Refusal: Error {}
        let one = try Replica()
        let two = try Replica(key: one.key()) { _, _ in throw Refusal() }
        let remote = MemoryRemote(try one.repository.id)
        let (first, second) = (
            SyncManager(one.repository, remote: remote), SyncManager(two.repository, remote: remote)
        )
        for manager in [first, second] { try await manager.setup() }
        try one.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        try await first.sync()
        await #expect(throws: Refusal.self) { try await second.sync() }
        #expect(try second.status().lastError?.contains("Refusal") == true)
        try await second.fetch()
        #expect(try second.status().lastError == nil && second.status().behind == 1)
    }

    @Test("a tracked table that is gone is in the summary and in the status, and everything else refuses to work")
    func missingTable() async throws {
        let replica = try Replica()
        try replica.run("INSERT INTO player VALUES (1, 'Ann', 1)")
        let manager = SyncManager(replica.repository, remote: MemoryRemote(try replica.repository.id))
        try await manager.setup()
        try replica.write("ALTER TABLE player RENAME TO players")
        let repository = replica.repository
        let summary = try repository.summary()
        #expect(summary.missingTables == ["player"] && summary.tables == ["player"] && summary.commitCount == 1)
        #expect(try manager.status().ahead == 1 && manager.status().isTableMissing && !manager.status().isInSync)
        #expect(code { try repository.pull() } == .tableMissing)
        #expect(code { try repository.mergeAll() } == .tableMissing)
        #expect(code { try repository.commitForeignWrites() } == .tableMissing)
        #expect(code { try repository.enable(["players"]) } == .tableMissing)
        #expect(try await manager.push() == 1)
        try replica.write("ALTER TABLE players RENAME TO player")
        #expect(try repository.summary().missingTables.isEmpty)
        try replica.run("UPDATE player SET score = 2")
        #expect(try repository.verify().isEmpty)
    }
}
