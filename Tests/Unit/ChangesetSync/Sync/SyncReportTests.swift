import CipherDatabase
import Foundation
import SyncSimulation
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
        #expect(try manager.status().ahead == 1)
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
