import CipherDatabase
import TestKit
import Testing

@testable import ChangesetSync

@Suite("Updates of plain rows are recorded without the states of their keys")
struct UpdatedRowsTests {
    private static let sql = """
        CREATE TABLE t (
            id INTEGER PRIMARY KEY, a, b TEXT COLLATE NOCASE, c REAL, d INTEGER DEFAULT 1, e INTEGER DEFAULT 2,
            CHECK (d <> e), UNIQUE (a, b))
        """

    /// Stores with one name: the capture makes the commits of one, the changes of whole rows those of the other.
    private struct Pair {
        let captured: CaptureStore
        let given: TestReplica

        init() throws {
            captured = try CaptureStore("a", sql, tracking: ["t"])
            given = try TestReplica("a", sql, tracking: [TrackedTable("t")])
        }

        func write(_ sql: String) throws {
            try captured.commit(sql)
            try given.write(sql)
        }

        func expectEqual(_ comment: Comment? = nil) throws {
            #expect(captured.commits.map(\.hash) == given.commits.map(\.hash), comment)
            #expect(try base(captured.queue, captured.replica) == base(given.queue, given.replica), comment)
        }

        private func base(_ queue: DatabaseQueue, _ replica: Replica) throws -> [String] {
            try queue.writeWithoutTransaction { db in
                try replica.inspect(db, clock: HybridTime(rawValue: 3_000_000)) { inspection in
                    try inspection.rows().living.map { row in
                        let cells = row.cells.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
                        return "\(row.place) \(row.born) \(cells)"
                    }.sorted()
                }
            }
        }
    }

    private static let values = [
        "NULL", "0", "1", "-7", "2.5", "'x'", "'X'", "x'00ff'", "9223372036854775807", "'long text'",
    ]

    @Test(
        "random updates make the same commits and stamps as whole rows that were compared",
        arguments: Sweep.sample(Array(UInt64(1)...12), oneIn: 3))
    func random(seed: UInt64) throws {
        var dice = Dice(seed: seed)
        let pair = try Pair()
        try pair.write(
            """
            WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
            INSERT INTO t (id, a) SELECT i * \(dice.next(3) == 0 ? 1000 : 1), i FROM n
            """
        )
        for _ in 0..<12 {
            let count = 1 + dice.next(4)
            let statements = (0..<count).map { _ in
                let column = ["a", "b", "c", "d", "e"][dice.next(5)]
                let value =
                    column == "d" || column == "e" ? "\(dice.next(6))" : Self.values[dice.next(Self.values.count)]
                let condition = ["id % 3 = 0", "id < 20", "id > 35000", "1", "a IS NULL", "id = 7"][dice.next(6)]
                return "UPDATE OR IGNORE t SET \(column) = \(value) WHERE \(condition)"
            }
            try pair.write(statements.joined(separator: ";"))
        }
        try pair.expectEqual("seed \(seed)")
    }

    @Test("rows that were deleted, inserted or moved to another key in the same commit are recorded as before")
    func mixed() throws {
        let pair = try Pair()
        try pair.write("INSERT INTO t (id, a) VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
        try pair.write("UPDATE t SET c = 1; DELETE FROM t WHERE id = 2")
        try pair.write("UPDATE t SET c = 2; INSERT INTO t (id, a) VALUES (9, 9)")
        try pair.write("UPDATE t SET c = 3; UPDATE t SET id = 20 WHERE id = 3")
        try pair.write("UPDATE t SET c = 4; UPDATE t SET c = 3")
        try pair.write(
            "UPDATE t SET c = 5 WHERE id = 1; UPDATE t SET c = 3 WHERE id = 1; UPDATE t SET d = 7 WHERE id = 4")
        // Insertions come first in a commit that is captured.
        let writes = pair.captured.commits.map { Set($0.commit.writes) }
        #expect(writes == pair.given.commits.map { Set($0.commit.writes) })
        #expect(writes.count == 5)
    }

    @Test("an update is above a cell whose author's clock was far ahead")
    func era() throws {
        let far = try TestReplica("far", Self.sql, tracking: [TrackedTable("t")], clock: 200_000_000 << 16)
        try far.write("INSERT INTO t (id, a, c) VALUES (1, 1, 1), (2, 2, 2)")
        try far.write("UPDATE t SET c = 10 WHERE id = 1")
        let captured = try CaptureStore("a", Self.sql, tracking: ["t"])
        let carrier = try CaptureStore("b", Self.sql, tracking: ["t"])
        carrier.commits = far.commits
        try captured.join(carrier)
        let commit = try #require(try captured.commit("UPDATE t SET c = c + 100"))
        #expect(commit.commit.writes.map(\.era) == [1, 1])
        // Also where the far author's commits come again with it, in the other order.
        let other = try TestReplica("c", Self.sql, tracking: [TrackedTable("t")])
        try other.join([commit] + far.commits)
        #expect(try other.texts("SELECT id, c FROM t ORDER BY id") == ["1 110.0", "2 102.0"])
    }

    @Test("a row that another row hides is recorded by its state")
    func hidden() throws {
        let (a, b) = (
            try CaptureStore("a", Self.sql, tracking: ["t"]), try CaptureStore("b", Self.sql, tracking: ["t"])
        )
        try a.commit("INSERT INTO t (id, a, b) VALUES (1, 1, 'x')")
        try b.commit("INSERT INTO t (id, a, b) VALUES (2, 1, 'X')")
        try a.join(b)
        try b.join(a)
        #expect(try a.texts("SELECT id FROM t") == b.texts("SELECT id FROM t"))
        try a.commit("UPDATE t SET a = 5")
        try b.join(a)
        try a.join(b)
        #expect(try a.texts("SELECT id, a FROM t ORDER BY id") == b.texts("SELECT id, a FROM t ORDER BY id"))
        #expect(try a.texts("SELECT count(*) FROM t") == ["2"])
    }
}

/// Random numbers that a seed repeats.
private struct Dice {
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func next(_ bound: Int) -> Int {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return Int(state % UInt64(bound))
    }
}
