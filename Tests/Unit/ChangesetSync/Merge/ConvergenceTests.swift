import CipherDatabase
import CipherSchema
import FormerSimulation
import TestKit
import Testing

@testable import ChangesetSync

/// Random replicas that commit, exchange, merge and pull in any order: they end with the same rows.
@Suite("Convergence")
struct ConvergenceTests {
    private static let schema = """
        CREATE TABLE p (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, v INT);
        CREATE TABLE c1 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE CASCADE, w);
        CREATE TABLE c2 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE SET NULL, w);
        CREATE TABLE c3 (id INTEGER PRIMARY KEY NOT NULL, p REFERENCES p(id) ON DELETE RESTRICT, w);
        CREATE TABLE c4 (id INTEGER PRIMARY KEY NOT NULL, p INT DEFAULT 2 REFERENCES p(id) ON DELETE SET DEFAULT, w);
        CREATE UNIQUE INDEX few ON c2 (w % 4) WHERE p IS NULL;
        CREATE UNIQUE INDEX odd ON c4 (w / 2);
        """

    private static let tables = ["p", "c1", "c2", "c3", "c4"]

    private struct Replicas {
        var numbers: RandomNumbers
        let replicas: [Replica]
        let clocks: [TestClock]

        init(_ index: Int, count: Int, policy: (Int) -> MergePolicy = { _ in MergePolicy() }) throws {
            numbers = Simulation.seed.numbers(index)
            clocks = (0..<count).map { TestClock(seconds: Double(1000 + $0)) }
            var replicas: [Replica] = []
            for (number, clock) in clocks.enumerated() {
                replicas.append(
                    try Replica(
                        ConvergenceTests.schema, tracking: ConvergenceTests.tables, key: replicas.first?.key(),
                        clock: clock, policy: policy(number)))
            }
            self.replicas = replicas
        }

        private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &numbers) }

        private mutating func statement() -> String {
            let (table, id) = (ConvergenceTests.tables[number(0...4)], number(1...5))
            let name = ["'a'", "'b'", "'c'", "'d'", "NULL"][number(0...4)]
            if table == "p" {
                switch number(0...4) {
                case 0: return "DELETE FROM p WHERE id = \(id)"
                case 1: return "UPDATE p SET name = \(name) WHERE id = \(id)"
                case 2: return "UPDATE p SET v = \(number(1...9)) WHERE id = \(id)"
                default: return "INSERT INTO p VALUES (\(id), \(name), \(number(1...9)))"
                }
            }
            let parent = number(0...5) == 0 ? "NULL" : String(number(1...5))
            switch number(0...4) {
            case 0: return "DELETE FROM \(table) WHERE id = \(id)"
            case 1: return "UPDATE \(table) SET p = \(parent) WHERE id = \(id)"
            case 2: return "UPDATE \(table) SET w = \(number(1...9)) WHERE id = \(id)"
            default: return "INSERT INTO \(table) VALUES (\(id), \(parent), \(number(1...9)))"
            }
        }

        mutating func step() throws {
            let index = number(0...replicas.count - 1)
            let replica = replicas[index]
            switch number(0...9) {
            case 0..<5:
                let advance = Double(number(0...3))
                clocks[index].seconds.withLock { $0 += advance }
                let statements = (0..<number(1...3)).map { _ in statement() }
                try replica.repository.commit { db in
                    for sql in statements { try? db.execute(sql: sql) }
                }
            case 5..<7:
                let other = replicas[number(0...replicas.count - 1)]
                try replica.fetch(other, atMost: number(0...2) == 0 ? number(0...5) : .max)
            case 7: try replica.repository.mergeAll()
            default:
                do { try replica.repository.pull() } catch let error as SyncError where error.code == .needsMerge {}
            }
        }

        /// Everybody gets everything, merges and pulls, until nothing is new.
        func quiesce() throws -> Int {
            for round in 1...6 {
                let before = try replicas.map { try $0.commitCount }
                for one in replicas { for other in replicas where other !== one { try one.fetch(other) } }
                for replica in replicas {
                    try replica.repository.mergeAll()
                    try replica.repository.pull()
                }
                let counts = try replicas.map { try $0.commitCount }
                if counts == before && Set(counts).count == 1 { return round - 1 }
            }
            return .max
        }
    }

    @Test(
        "equal heads, rows and digests after two rounds, no orphans, and every ordinary commit is under the head",
        arguments: [2, 3, 5])
    func convergence(count: Int) throws {
        try converge(count: count) { _ in MergePolicy() }
    }

    /// The same rules everywhere; then each replica by rules of its own, and a resolver that decides by chance.
    @Test(
        "the same with a policy, also where each replica has another one and resolvers decide by chance",
        arguments: [2, 3, 5], [true, false])
    func policies(count: Int, isShared: Bool) throws {
        try converge(count: count) { number in
            var policy = MergePolicy(tables: [
                "p": .init(deletion: .deleteWins, counters: ["v"]), "c2": .init(counters: ["w"]),
            ])
            policy.rename = { duplicate in
                duplicate.columns == ["name"] ? duplicate.adding("~\(duplicate.attempt)", to: "name") : nil
            }
            policy.resolve = { conflict in
                switch conflict.column {
                case "w"?: conflict.table == "c4" ? .delete : .row(["w": conflict.states.least("w", conflict)])
                case "v"?: .value(0.databaseValue)
                case nil: conflict.table == "c1" ? .delete : .automatic
                default: .automatic
                }
            }
            if isShared || number == 0 { return policy }
            if number % 2 == 1 { return MergePolicy() }
            policy.tables = [:]
            policy.resolve = { conflict in
                switch Int.random(in: 0...3) {
                case 0: .delete
                case 1: .row(conflict.table == "p" ? ["v": 3.databaseValue] : ["p": .null])
                case 2 where conflict.column != nil: .value(Int.random(in: 20...90).databaseValue)
                default: .automatic
                }
            }
            return policy
        }
    }

    private func converge(count: Int, policy: (Int) -> MergePolicy) throws {
        for index in 0..<max(1, Simulation.schedules / count) {
            var simulation = try Replicas(index * 10 + count, count: count, policy: policy)
            let name: Comment = "\(Simulation.seed), replicas \(count), simulation \(index)"
            do {
                for _ in 0..<60 { try simulation.step() }
                let rounds = try simulation.quiesce()
                #expect(rounds <= 2, name)
                let first = simulation.replicas[0]
                let state = try first.state()
                for replica in simulation.replicas {
                    #expect(try replica.head == first.head, name)
                    #expect(try replica.state() == state, name)
                    #expect(try replica.repository.verify().isEmpty, name)
                    #expect(try replica.queue.read { try $0.foreignKeyViolations().next() == nil }, name)
                }
                try expectEverything(first, name)
            } catch {
                Issue.record(error, name)
                return
            }
        }
    }

    private func expectEverything(_ replica: Replica, _ name: Comment) throws {
        try replica.queue.read { db in
            let store = CommitStore(db: db)
            let graph = CommitGraph(store)
            guard let head = try RepositoryState(db).head else { return }
            let under = try graph.ancestors(of: head, notBelow: 0)
            let all = try Int64.fetchAll(db, sql: "SELECT n FROM cipherstore_sync_commit WHERE kind = 0")
            #expect(Set(all).isSubset(of: under), name)
        }
    }
}

extension MergeStates {
    /// The least value of a column that a row of a side has.
    fileprivate func least(_ column: String, _ conflict: RowConflict) -> DatabaseValue {
        let all = [RowConflict.Side.ours, .theirs].flatMap { side in
            (try? rows(of: conflict.table, where: [:], on: side)) ?? []
        }
        return all.compactMap { $0[column].flatMap { Int.fromDatabaseValue($0) } }.min()?.databaseValue ?? .null
    }
}
