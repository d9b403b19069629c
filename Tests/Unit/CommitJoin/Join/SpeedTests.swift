import CipherDatabase
import Foundation
import Testing

@testable import CommitJoin

/// Measures the join; it only runs with CIPHERSTORE_MEASURE=1 in the environment.
@Suite("Speed of the join", .enabled(if: ProcessInfo.processInfo.environment["CIPHERSTORE_MEASURE"] != nil))
struct SpeedTests {
    private static let rows = 100_000

    private func seconds(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        try body()
        let time = (ContinuousClock.now - start).components
        return Double(time.seconds) + Double(time.attoseconds) / 1e18
    }

    @Test("a bulk insertion is recorded, joined and joined as a snapshot")
    func bulk() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, x INTEGER)"
        let stores = try ["a", "b", "c"].map {
            try TestReplica($0, sql, tracking: [TrackedTable("t")], sliceRows: 50_000)
        }
        let fill = """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO t SELECT i, 'name of row ' || i, i * 7 FROM n
            """
        let changes = (1...Self.rows).map { number in
            let values: [CellValue] = [
                .integer(Int64(number)), .string("name of row \(number)"), .integer(Int64(number * 7)),
            ]
            return ProgramChange(table: "t", old: nil, new: values)
        }
        let plain = DatabaseQueue()
        try plain.write { try $0.execute(sql: sql) }
        let written = try seconds { try plain.write { try $0.execute(sql: fill) } }
        let recorded = try seconds { try stores[0].record(fill, changes) }
        let commit = try #require(stores[0].commits.first)
        let joined = try seconds { try stores[1].join([commit]) }
        #expect(try stores[1].texts("SELECT lo, hi FROM cipherstore_sync2_range_1") == ["1 \(Self.rows)"])
        var snapshot: Snapshot?
        let made = try seconds { snapshot = try stores[0].snapshot() }
        let copied = try seconds { try stores[2].join(try #require(snapshot)) }
        #expect(try stores[2].texts("SELECT count(*) FROM t") == ["\(Self.rows)"])
        print(
            """
            \(Self.rows) rows: plain write \(written) s, write and record \(recorded) s, \
            commit of \(commit.bodyBytes) bytes, join \(joined) s, snapshot made \(made) s and joined \(copied) s
            """)
    }

    @Test("one-row commits are recorded and joined")
    func commits() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"
        let a = try TestReplica("a", sql, tracking: [TrackedTable("t")])
        let b = try TestReplica("b", sql, tracking: [TrackedTable("t")])
        let recorded = try seconds {
            for number in 1...1_000 {
                let values: [CellValue] = [.integer(Int64(number)), .string("row")]
                try a.record(
                    "INSERT INTO t VALUES (\(number), 'row')", [ProgramChange(table: "t", old: nil, new: values)])
            }
        }
        let joined = try seconds { try b.join(a.commits) }
        let bytes = a.commits.map(\.bodyBytes).reduce(0, +) / a.commits.count
        print("1000 commits: recorded \(recorded) s, joined \(joined) s, body of \(bytes) bytes each")
    }
}
