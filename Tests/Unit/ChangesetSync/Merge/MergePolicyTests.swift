import CipherDatabase
import CipherRecords
import FormerSimulation
import Synchronization
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Merge policies")
struct MergePolicyTests {
    private static let items = "CREATE TABLE item (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, stock INT, note)"

    /// Two replicas with the same rows and policy; the second one's clock is later.
    private func pair(
        _ policy: MergePolicy, _ others: MergePolicy? = nil, schema: String = items, tables: [String] = ["item"],
        rows: String
    ) throws -> (Replica, Replica) {
        let one = try Replica(schema, tracking: tables, clock: TestClock(seconds: 1000), policy: policy)
        try one.run(rows)
        let two = try Replica(
            schema, tracking: tables, key: one.key(), clock: TestClock(seconds: 2000), policy: others ?? policy)
        try two.fetch(one)
        try two.repository.pull()
        return (one, two)
    }

    private func exchange(_ one: Replica, _ other: Replica) throws {
        for _ in 0..<2 {
            try one.fetch(other)
            try other.fetch(one)
            for replica in [one, other] {
                try replica.repository.mergeAll()
                try replica.repository.pull()
            }
        }
        try expectEqual(one, other)
    }

    private func expectEqual(_ one: Replica, _ other: Replica, _ name: Comment = "") throws {
        #expect(try one.head == other.head, name)
        #expect(try one.state() == other.state(), name)
        #expect(try one.repository.verify().isEmpty && other.repository.verify().isEmpty, name)
    }

    private struct Refusal: Error {}

    @Test(
        "a text that is not UTF-8, and a number of the other storage class, stay as they are where a resolver takes them"
    )
    func exactValues() throws {
        var policy = MergePolicy()
        policy.resolve = { conflict in
            let earlier = conflict.later == .theirs ? conflict.ours : conflict.theirs
            return .value(earlier?[conflict.column ?? ""] ?? .null)
        }
        let (one, two) = try pair(policy, rows: "INSERT INTO item VALUES (1, 'a', 1, 0)")
        try one.run("UPDATE item SET name = CAST(x'66ff' AS TEXT), note = 1.0")
        try two.run("UPDATE item SET name = 'later', note = 1")
        try exchange(one, two)
        #expect(try one.strings("SELECT hex(name), typeof(name), typeof(note) FROM item") == ["'66FF','text','real'"])
    }

    // MARK: Deletions

    @Test("of a deletion and a concurrent update the one wins that the policy names for the table")
    func deletions() throws {
        let schema = """
            CREATE TABLE a (id INTEGER PRIMARY KEY NOT NULL, v);
            CREATE TABLE b (id INTEGER PRIMARY KEY NOT NULL, v);
            """
        let (one, two) = try pair(
            MergePolicy(tables: ["A": .init(deletion: .deleteWins)]), schema: schema, tables: ["a", "b"],
            rows: "INSERT INTO a VALUES (1, 1), (2, 2); INSERT INTO b VALUES (1, 1)")
        try one.run("DELETE FROM a WHERE id = 1; DELETE FROM b; UPDATE a SET v = 7 WHERE id = 2")
        try two.run("UPDATE a SET v = 5 WHERE id = 1; UPDATE b SET v = 5")
        try exchange(one, two)
        #expect(try one.strings("SELECT * FROM a") == ["2,7"] && one.strings("SELECT * FROM b") == ["1,5"])
        let conflicts = try one.repository.conflicts()
        #expect(conflicts.map(\.reason) == [.deletedAndChanged, .deletedAndChanged])
        #expect(conflicts.first { $0.table == "a" }?.chosen.isEmpty == true)
    }

    @Test("a policy that names what the tables do not have is refused")
    func unsuitablePolicies() throws {
        for (table, column) in [("item", "missing"), ("item", "id"), ("other", "stock")] {
            let (one, two) = try pair(
                MergePolicy(tables: [table: .init(counters: [column])]), rows: "INSERT INTO item VALUES (1, 'a', 1, 1)")
            try one.run("UPDATE item SET stock = 2")
            try two.run("UPDATE item SET note = 2")
            try one.fetch(two)
            #expect(code { try one.repository.mergeAll() } == .unsuitableTable)
        }
    }

    // MARK: Counters

    @Test("a counter has the changes of both sides, equal ones too; nothing of that is a conflict")
    func counters() throws {
        let (one, two) = try pair(
            MergePolicy(tables: ["item": .init(counters: ["STOCK"])]),
            rows: "INSERT INTO item VALUES (1, 'a', 10, 0), (2, 'b', 10, 0), (3, 'c', NULL, 0), (4, 'd', 1, 0)")
        try one.run(
            """
            UPDATE item SET stock = stock + 1; UPDATE item SET stock = 4 WHERE id = 3;
            UPDATE item SET stock = NULL WHERE id = 4; INSERT INTO item VALUES (5, 'e', 2, 0)
            """)
        try two.run(
            """
            UPDATE item SET stock = stock + 1 WHERE id = 1; UPDATE item SET stock = stock - 3 WHERE id = 2;
            UPDATE item SET note = 5; INSERT INTO item VALUES (5, 'e', 3, 0)
            """)
        try exchange(one, two)
        #expect(
            try one.strings("SELECT id, stock, note FROM item ORDER BY id")
                == ["1,12,5", "2,8,5", "3,4,5", "4,NULL,5", "5,5,0"])
        #expect(try one.repository.conflicts().isEmpty)
    }

    @Test("a sum that is no 64-bit integer, and values that are no integers, are conflicts: the later write wins")
    func overflow() throws {
        let (one, two) = try pair(
            MergePolicy(tables: ["item": .init(counters: ["stock", "note"])]),
            rows: "INSERT INTO item VALUES (1, 'a', 9223372036854775800, 0)")
        try one.run("UPDATE item SET stock = stock + 5, note = 'x'")
        try two.run("UPDATE item SET stock = stock + 6, note = 2.5")
        try exchange(one, two)
        #expect(try one.strings("SELECT stock, note FROM item") == ["9223372036854775806,2.5"])
        #expect(try Set(one.repository.conflicts().map(\.reason)) == [.overflow, .cell])
    }

    /// What both sides have counted beyond the base, after merges that crossed, was added twice.
    @Test("random replicas whose merges cross count everything exactly once", arguments: [2, 3, 4])
    func countedOnce(count: Int) throws {
        for index in 0..<max(1, Simulation.schedules / count) {
            var numbers = Simulation.seed.numbers(index * 10 + count)
            let policy = MergePolicy(tables: ["item": .init(counters: ["stock"])])
            let first = try Replica(Self.items, tracking: ["item"], policy: policy)
            try first.run("INSERT INTO item VALUES (1, 'a', 0, 0), (2, 'b', 0, 0)")
            var replicas = [first]
            while replicas.count < count {
                replicas.append(try Replica(Self.items, tracking: ["item"], key: first.key(), policy: policy))
            }
            for replica in replicas.dropFirst() {
                try replica.fetch(first)
                try replica.repository.pull()
            }
            var sums = [0, 0, 0]
            func takeEverything() throws {
                for replica in replicas {
                    for other in replicas where other !== replica { try replica.fetch(other) }
                    try replica.repository.mergeAll()
                    try replica.repository.pull()
                }
            }
            for _ in 0..<30 {
                let replica = replicas[Int.random(in: 0..<count, using: &numbers)]
                let other = replicas[Int.random(in: 0..<count, using: &numbers)]
                let (id, step) = (Int.random(in: 1...2, using: &numbers), Int.random(in: -1...3, using: &numbers))
                switch Int.random(in: 0..<5, using: &numbers) {
                case 0..<2:
                    try replica.run("UPDATE item SET stock = stock + \(step) WHERE id = \(id)")
                    sums[id] += step
                case 2: try replica.fetch(other, atMost: Int.random(in: 1...4, using: &numbers))
                default:
                    _ = try? replica.repository.mergeAll()
                    _ = try? replica.repository.pull()
                }
            }
            for _ in 0..<3 { try takeEverything() }
            for replica in replicas {
                #expect(
                    try replica.strings("SELECT stock FROM item ORDER BY id") == ["\(sums[1])", "\(sums[2])"],
                    "\(Simulation.seed), replicas \(count), simulation \(index)")
            }
        }
    }

    // MARK: The resolver

    @Test("a resolver gets the row on both sides and at the base, and gives a value, a row, a deletion or nothing")
    func resolutions() throws {
        let asked = Mutex<[String]>([])
        var policy = MergePolicy()
        policy.resolve = { conflict in
            asked.withLock { $0.append("\(conflict.key["id"] ?? .null) \(conflict.column ?? "-") \(conflict.columns)") }
            switch conflict.key["id"] {
            case 1.databaseValue:
                let texts = [conflict.base, conflict.ours, conflict.theirs].compactMap { $0?["note"].map { "\($0)" } }
                return .value(texts.sorted().joined(separator: "+").databaseValue)
            case 2.databaseValue: return .row(["name": "chosen".databaseValue, "id": 2.databaseValue])
            case 3.databaseValue, 4.databaseValue: return .delete
            case 5.databaseValue: return .row(["stock": "12".databaseValue])
            default: return .automatic
            }
        }
        let (one, two) = try pair(
            policy,
            rows: """
                INSERT INTO item VALUES (1, 'a', 1, 'n'), (2, 'b', 1, 'n'), (3, 'c', 1, 'n'), (4, 'd', 1, 'n'),
                    (5, 'e', 1, 'n'), (6, 'f', 1, 'n')
                """)
        try one.run("UPDATE item SET note = 'one', stock = id; DELETE FROM item WHERE id IN (4, 5)")
        try two.run("UPDATE item SET note = 'two' WHERE id <> 2; UPDATE item SET note = 'two', stock = 9 WHERE id = 2")
        try exchange(one, two)
        #expect(
            try one.strings("SELECT * FROM item ORDER BY id") == [
                "1,'a',1,'''n''+''one''+''two'''", "2,'chosen',9,'two'", "5,'e',12,'two'", "6,'f',6,'two'",
            ])
        let calls = asked.withLock { $0 }
        // Both replicas have asked, once for each conflict; a row that is decided as a whole once.
        #expect(
            calls.filter { $0.hasPrefix("2") } == Array(repeating: "2 stock [\"stock\", \"note\"]", count: 2))
        #expect(calls.filter { $0.hasPrefix("4") } == Array(repeating: "4 - [\"note\"]", count: 2))
        #expect(calls.count == 12)
        #expect(try one.repository.conflicts().count == 6)
    }

    @Test("a resolver that throws, or returns what no row can be, ends the merge, and nothing is changed")
    func refusals() throws {
        let schema = """
            CREATE TABLE item (id INTEGER PRIMARY KEY NOT NULL, name TEXT NOT NULL DEFAULT 'd', stock INT CHECK (stock < 100))
            """
        let answer = Mutex<MergePolicy.Resolution?>(nil)
        var policy = MergePolicy()
        policy.resolve = { _ in
            guard let answer = answer.withLock({ $0 }) else { throw Refusal() }
            return answer
        }
        let (one, two) = try pair(policy, schema: schema, rows: "INSERT INTO item VALUES (1, 'a', 1), (2, 'b', 1)")
        try one.run("UPDATE item SET stock = 2 WHERE id = 1; DELETE FROM item WHERE id = 2")
        try two.run("UPDATE item SET stock = 3")
        try one.fetch(two)
        let (head, count, state) = try (one.head, one.commitCount, one.state())
        #expect(throws: Refusal.self) { try one.repository.mergeAll() }
        let impossible: [MergePolicy.Resolution] = [
            .value(100.databaseValue), .row(["name": .null]), .row(["id": 7.databaseValue]),
            .row(["missing": 7.databaseValue]), .value(3.databaseValue),
        ]
        for resolution in impossible {
            answer.withLock { $0 = resolution }
            // The last one is a value for the row that one side has deleted.
            #expect(code { try one.repository.mergeAll() } == .resolverFailed, "\(resolution)")
            #expect(try one.head == head && one.commitCount == count && one.state() == state)
            #expect(try one.repository.conflicts().isEmpty)
        }
        answer.withLock { $0 = .automatic }
        #expect(try one.repository.mergeAll().count == 1)
    }

    @Test("a resolver reads the rows of both sides, but not after the merge")
    func states() throws {
        let kept = Mutex<[Kept]>([])
        var policy = MergePolicy()
        policy.resolve = { conflict in
            kept.withLock { $0.append(Kept(states: conflict.states)) }
            let notes = try [RowConflict.Side.ours, .theirs].map { side in
                try conflict.states.rows(of: "ITEM", where: ["id": 2.databaseValue], on: side)[0]["note"] ?? .null
            }
            #expect(try conflict.states.rows(of: "item", where: ["stock": .null], on: .ours).isEmpty)
            #expect(code { try conflict.states.rows(of: "item", where: ["no": .null], on: .ours) } == .unsuitableTable)
            return .value(notes.map { "\($0)" }.sorted().joined().databaseValue)
        }
        let (one, two) = try pair(policy, rows: "INSERT INTO item VALUES (1, 'a', 1, 1), (2, 'b', 1, 1)")
        try one.run("UPDATE item SET note = 2")
        try two.run("UPDATE item SET note = 3 WHERE id = 1")
        try exchange(one, two)
        #expect(try one.strings("SELECT note FROM item WHERE id = 1") == ["'12'"])
        let states = try #require(kept.withLock { $0.first?.states })
        #expect(code { try states.rows(of: "item", where: [:], on: .ours) } == .resolverFailed)
    }

    // Safe because: one thread at a time uses it.
    private struct Kept: @unchecked Sendable {
        let states: MergeStates
    }

    /// Two devices with different programs.
    @Test("replicas whose resolvers differ end with the rows of the merge that has the lesser identifier")
    func differentResolvers() throws {
        func policy(_ value: Int) -> MergePolicy { MergePolicy(resolve: { _ in .value(value.databaseValue) }) }
        let (one, two) = try pair(policy(100), policy(200), rows: "INSERT INTO item VALUES (1, 'a', 1, 1)")
        try one.run("UPDATE item SET stock = 2")
        try two.run("UPDATE item SET stock = 3")
        try one.fetch(two)
        try two.fetch(one)
        let merges = try (one.repository.mergeAll(), two.repository.mergeAll())
        let (first, second) = try (#require(merges.0.first), #require(merges.1.first))
        #expect(first.uuid != second.uuid)
        for replica in [one, two] { try replica.repository.pull() }
        #expect(try one.strings("SELECT stock FROM item") == ["100"])
        #expect(try two.strings("SELECT stock FROM item") == ["200"])
        try exchange(one, two)
        #expect(try one.head?.description == min(first.uuid, second.uuid))
        #expect(try one.commitCount == 5 && two.commitCount == 5)
        // What is written after it stays, whatever is merged later.
        try one.run("UPDATE item SET stock = 7")
        try exchange(one, two)
        #expect(try two.strings("SELECT stock FROM item") == ["7"])
    }

    @Test(
        "a resolver is asked as often as brute force finds concurrent writes, whatever was merged before",
        arguments: 0..<max(1, Simulation.schedules / 5))
    func questions(index: Int) throws {
        var numbers = Simulation.seed.numbers(index)
        let asked = Mutex<[String]>([])
        var policy = MergePolicy()
        policy.resolve = { conflict in
            asked.withLock { $0.append("\(conflict.key["id"] ?? .null) \(conflict.column ?? "-")") }
            return .automatic
        }
        let schema = "CREATE TABLE item (id INTEGER PRIMARY KEY NOT NULL, a, b)"
        var replicas: [(replica: Replica, clock: TestClock)] = []
        for number in 0..<3 {
            let clock = TestClock(seconds: Double(1000 + number))
            let key = try replicas.first?.replica.key()
            replicas.append((try Replica(schema, tracking: ["item"], key: key, clock: clock, policy: policy), clock))
        }
        var count = 0
        for _ in 0..<200 {
            let (replica, clock) = replicas[Int.random(in: 0..<3, using: &numbers)]
            let (id, value) = (Int.random(in: 1...3, using: &numbers), Int.random(in: 1...9, using: &numbers))
            let step = Double(Int.random(in: 0...3, using: &numbers))
            clock.seconds.withLock { $0 += step }
            switch Int.random(in: 0..<7, using: &numbers) {
            case 0: try replica.run("DELETE FROM item WHERE id = \(id)")
            case 1: try replica.run("INSERT OR IGNORE INTO item VALUES (\(id), \(value), \(value))")
            case 2: try replica.run("UPDATE item SET a = \(value) WHERE id = \(id)")
            case 3: try replica.run("UPDATE item SET b = \(value) WHERE id = \(id)")
            case 4: try replica.fetch(replicas[Int.random(in: 0..<3, using: &numbers)].replica)
            default:
                let model = try ConflictModel(replica)
                while let (one, other) = try model.nextLeaves(replica) {
                    asked.withLock { $0 = [] }
                    let expected = try model.conflicts(one, other)
                    try replica.repository.merge(one, other)
                    #expect(asked.withLock { $0 }.sorted() == expected.sorted(), "\(Simulation.seed), \(index)")
                    count += expected.count
                    try model.read(replica)
                }
                try replica.repository.pull()
            }
        }
        #expect(count > 0, "\(Simulation.seed), \(index)")
    }

    // MARK: Renaming

    @Test("a row that loses its unique value is renamed, until its value is free")
    func renaming() throws {
        let calls = Mutex<[String]>([])
        var policy = MergePolicy()
        policy.rename = { duplicate in
            calls.withLock { $0.append("\(duplicate.key["id"] ?? .null) \(duplicate.columns) \(duplicate.attempt)") }
            return duplicate.adding(" \(duplicate.attempt + 2)", to: "name")
        }
        let (one, two) = try pair(policy, rows: "INSERT INTO item VALUES (1, 'a', 1, 1)")
        try one.run("INSERT INTO item VALUES (2, 'new', 1, 1)")
        try two.run("INSERT INTO item VALUES (3, 'new', 1, 1), (4, 'new 2', 1, 1)")
        try exchange(one, two)
        #expect(
            try one.strings("SELECT id, name FROM item ORDER BY id")
                == ["1,'a'", "2,'new'", "3,'new 3'", "4,'new 2'"])
        #expect(calls.withLock { Set($0) } == ["3 [\"name\"] 0", "3 [\"name\"] 1"])
        #expect(try one.repository.conflicts().map(\.reason) == [.unique])
        #expect(try one.repository.conflicts().first?.chosen.contains("new 3".databaseValue) == true)
    }

    @Test("the same under an index of an expression; a row that is not renamed is removed")
    func renamingUnderExpressions() throws {
        let schema = """
            CREATE TABLE item (id INTEGER PRIMARY KEY NOT NULL, name TEXT);
            CREATE UNIQUE INDEX lower ON item (lower(name));
            """
        var policy = MergePolicy()
        policy.rename = { duplicate in
            if duplicate.key["id"] == 5.databaseValue { return nil }
            let rows = try duplicate.states.rows(of: "item", where: ["id": 1.databaseValue], on: .ours)
            #expect(rows.map { $0["name"] } == ["a".databaseValue])
            return duplicate.adding(" \(duplicate.attempt + 2)", to: "name")
        }
        let (one, two) = try pair(policy, schema: schema, rows: "INSERT INTO item VALUES (1, 'a')")
        try one.run("INSERT INTO item VALUES (2, 'new'), (6, 'other')")
        try two.run("INSERT INTO item VALUES (3, 'NEW'), (4, 'New 2'), (5, 'OTHER')")
        try exchange(one, two)
        #expect(
            try one.strings("SELECT id, name FROM item ORDER BY id")
                == ["1,'a'", "2,'new'", "3,'NEW 3'", "4,'New 2'", "6,'other'"])
        #expect(try one.repository.conflicts().map(\.reason) == [.unique, .unique])
    }

    /// They ended every merge on every device.
    @Test("a row whose names are never free is removed, as without a policy")
    func noFreeName() throws {
        let calls = Mutex(0)
        var policy = MergePolicy()
        policy.rename = { _ in
            calls.withLock { $0 += 1 }
            return ["name": "a".databaseValue]
        }
        let (one, two) = try pair(policy, rows: "INSERT INTO item VALUES (1, 'a', 1, 1)")
        try one.run("INSERT INTO item VALUES (2, 'new', 1, 1)")
        try two.run("INSERT INTO item VALUES (3, 'new', 1, 1)")
        try exchange(one, two)
        #expect(try one.strings("SELECT id, name FROM item ORDER BY id") == ["1,'a'", "2,'new'"])
        #expect(calls.withLock { $0 } == 2 * Limits.renames)
        #expect(try one.repository.conflicts().map(\.reason) == [.unique])
    }

    private static let twoKeys = """
        CREATE TABLE item (id INTEGER PRIMARY KEY NOT NULL, name TEXT UNIQUE, sku TEXT UNIQUE);
        CREATE TABLE code (id INTEGER PRIMARY KEY NOT NULL, text TEXT UNIQUE)
        """

    /// A policy for one column stopped at the other key, and in every table without that column.
    @Test(
        "a row that has two values of another row is renamed under each key; a policy for one column leaves the others")
    func renamingUnderTwoKeys() throws {
        for isForEach in [true, false] {
            var policy = MergePolicy()
            policy.rename = { duplicate in
                duplicate.adding(" 2", to: isForEach ? duplicate.columns[0] : "name")
            }
            let (one, two) = try pair(
                policy, schema: Self.twoKeys, tables: ["item", "code"], rows: "INSERT INTO item VALUES (1, 'a', 'x')")
            try one.run("INSERT INTO item VALUES (2, 'b', 'y'); INSERT INTO code VALUES (1, 'c')")
            try two.run("INSERT INTO item VALUES (3, 'b', 'y'), (4, 'd', 'z'); INSERT INTO code VALUES (2, 'c')")
            try exchange(one, two)
            let renamed = isForEach ? ["3,'b 2','y 2'"] : []
            #expect(
                try one.strings("SELECT * FROM item ORDER BY id")
                    == ["1,'a','x'", "2,'b','y'"] + renamed + ["4,'d','z'"])
            #expect(try one.strings("SELECT * FROM code ORDER BY id") == ["1,'c'"] + (isForEach ? ["2,'c 2'"] : []))
        }
    }
}
