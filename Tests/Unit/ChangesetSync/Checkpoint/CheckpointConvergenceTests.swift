import CipherDatabase
import CipherSchema
import TestKit
import Testing

@testable import ChangesetSync

/// Random replicas, of which some make checkpoints, some keep all history, and some begin with a checkpoint: merges above
/// a checkpoint are the same on all of them.
@Suite("Convergence across checkpoints")
struct CheckpointConvergenceTests {
    private static let schema = """
        CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, v INT);
        CREATE TABLE c (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE SET NULL, w);
        CREATE TABLE r (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE RESTRICT, w);
        """

    private static func statement(_ numbers: inout RandomNumbers) -> String {
        func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &numbers) }
        let (table, id) = (["p", "c", "r"][number(0...2)], number(1...5))
        let parent = number(0...5) == 0 ? "NULL" : String(number(1...5))
        let name = ["'a'", "'b'", "'c'", "'d'", "NULL"][number(0...4)]
        switch (table, number(0...3)) {
        case (_, 0): return "DELETE FROM \(table) WHERE id = \(id)"
        case ("p", 1): return "UPDATE p SET name = \(name) WHERE id = \(id)"
        case ("p", _):
            return "INSERT INTO p VALUES (\(id), \(name), 1) ON CONFLICT (id) DO UPDATE SET v = \(number(1...9))"
        default: return "INSERT OR REPLACE INTO \(table) VALUES (\(id), \(parent), \(number(1...9)))"
        }
    }

    @Test(
        "equal heads and rows, whoever has which history", arguments: 0..<max(1, Simulation.schedules / 6))
    func convergence(index: Int) async throws {
        var numbers = Simulation.seed.numbers(500 + index)
        let name: Comment = "\(Simulation.seed), simulation \(index)"
        var fleet = try await CheckpointFleet(3, Self.schema, tracking: ["p", "c", "r"])
        // A replica counts from its first push on.
        try await fleet.settle()
        var checkpoints = 0
        for step in 0..<90 {
            let place = Int.random(in: 0..<fleet.managers.count, using: &numbers)
            do {
                try await self.step(&fleet, place, &numbers, step, &checkpoints)
            } catch let error as SyncError where error.code == .baseTooOld && place > 2 {
                // It has made commits before it has begun with the checkpoint.
                try await fleet.managers[place].rejoin()
            }
        }
        try await fleet.settle(newcomer: 3)
        for (replica, manager) in zip(fleet.replicas, fleet.managers) {
            let status = try manager.status()
            #expect(status.quarantined.isEmpty && status.pending == 0 && status.ahead == 0, name)
            #expect(try replica.read { try $0.foreignKeyViolations().next() == nil }, name)
        }
        try fleet.expectEqual(nil, name)
        if try await fleet.managers[0].checkpoint() != nil { checkpoints += 1 }
        #expect(checkpoints > 0, name)
        try await sameMerges(&fleet, &numbers, name)
    }

    private func step(
        _ fleet: inout CheckpointFleet, _ place: Int, _ numbers: inout RandomNumbers, _ step: Int,
        _ checkpoints: inout Int
    ) async throws {
        switch Int.random(in: 0..<20, using: &numbers) {
        case 0..<9:
            let statements = (0..<2).map { _ in Self.statement(&numbers) }
            do {
                try fleet.replicas[place].repository.commit { db in
                    for sql in statements { try? db.execute(sql: sql) }
                }
            } catch let error as SyncError where error.code == .checkpointPending {}
        case 9..<11: try await fleet.managers[place].fetch()
        case 11: try await fleet.managers[place].push()
        // The second one keeps its history.
        case 12 where place != 1:
            if try await fleet.managers[place].checkpoint() != nil { checkpoints += 1 }
        case 13 where step > 30 && fleet.managers.count < 5: try await fleet.join()
        case 14: try await fleet.settle(newcomer: 3)
        default: try await fleet.managers[place].sync()
        }
    }

    /// All make the merge of the same two commits on their own, some without the history.
    private func sameMerges(
        _ fleet: inout CheckpointFleet, _ numbers: inout RandomNumbers, _ name: Comment
    ) async throws {
        try await fleet.join()
        try await fleet.settle()
        for place in 0..<2 {
            for _ in 0..<4 {
                let sql = Self.statement(&numbers)
                try fleet.replicas[place].repository.commit { db in try? db.execute(sql: sql) }
            }
            try await fleet.managers[place].push()
        }
        for manager in fleet.managers { try await manager.fetch() }
        for replica in fleet.replicas {
            try replica.repository.mergeAll()
            try replica.repository.pull()
        }
        try fleet.expectEqual(nil, name)
    }
}
