import CipherDatabase
import Foundation
import Testing

@testable import ChangesetSync

/// Measures the capture and the join; it only runs with CIPHERSTORE_MEASURE=1 in the environment.
@Suite("Speed of the join", .enabled(if: ProcessInfo.processInfo.environment["CIPHERSTORE_MEASURE"] != nil))
struct SpeedTests {
    private static let rows = 100_000

    private func seconds(_ body: () throws -> Void) rethrows -> Double {
        let start = ContinuousClock.now
        try body()
        let time = (ContinuousClock.now - start).components
        return Double(time.seconds) + Double(time.attoseconds) / 1e18
    }

    @Test("a bulk insertion, update and deletion are recorded and joined")
    func bulk() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, x INTEGER)"
        let statements = [
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < \(Self.rows))
            INSERT INTO t SELECT i, 'name of row ' || i, i * 7 FROM n
            """,
            "UPDATE t SET x = x + 1", "DELETE FROM t WHERE id % 2 = 0",
        ]
        let plain = DatabaseQueue()
        try plain.write { try $0.execute(sql: sql) }
        let stores = try ["a", "b"].map { try CaptureStore($0, sql, tracking: ["t"]) }
        for statement in statements {
            let written = try seconds { try plain.write { try $0.execute(sql: statement) } }
            var commit: EncodedCommit?
            let recorded = try seconds { commit = try stores[0].commit(statement) }
            let joined = try seconds { try stores[1].join(stores[0]) }
            let bytes = try #require(commit).bodyBytes
            print(
                """
                \(statement.suffix(30)): plain \(written) s, write and record \(recorded) s \
                (\(recorded / written) x), commit of \(bytes) bytes, join \(joined) s
                """)
        }
        #expect(try stores[1].texts("SELECT count(*) FROM t") == ["\(Self.rows / 2)"])
    }

    @Test("one-row commits are recorded and joined")
    func commits() throws {
        let sql = "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)"
        let plain = DatabaseQueue()
        try plain.write { try $0.execute(sql: sql) }
        let (a, b) = (try CaptureStore("a", sql, tracking: ["t"]), try CaptureStore("b", sql, tracking: ["t"]))
        let written = try seconds {
            for number in 1...1_000 {
                try plain.write { try $0.execute(sql: "INSERT INTO t VALUES (?, 'row')", arguments: [number]) }
            }
        }
        let recorded = try seconds {
            for number in 1...1_000 {
                _ = try a.commit { try $0.execute(sql: "INSERT INTO t VALUES (?, 'row')", arguments: [number]) }
            }
        }
        let joined = try seconds { try b.join(a) }
        let bytes = a.commits.map(\.bodyBytes).reduce(0, +) / a.commits.count
        print(
            """
            1000 commits in memory: plain \(written) s, recorded \(recorded) s (\(recorded / written) x), \
            joined \(joined) s, body of \(bytes) bytes each
            """)
    }
}
