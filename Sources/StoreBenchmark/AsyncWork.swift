import CipherStore
import Dispatch
import Foundation
import Synchronization

/// Accesses by tasks, beside the same accesses by a thread that waits: there is no C in these rows.
enum AsyncWork {
    private static let count = 10_000
    private static let select = "SELECT c0 FROM t WHERE id = ?"

    static func reads(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                try TaskWait.run {
                    for index in 0..<count { _ = try await pool.read { try readOne($0, index) } }
                }
            },
            baseline: { for index in 0..<count { _ = try pool.read { try readOne($0, index) } } })
    }

    /// The way to a queue and back alone, beside whole reads.
    static func hops(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let pool = try fixture.pool(at: fixture.path)
        let queue = DispatchQueue(label: "hop")
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count,
            library: {
                try TaskWait.run {
                    for _ in 0..<count {
                        await withCheckedContinuation { continuation in queue.async { continuation.resume() } }
                    }
                }
            },
            baseline: { for index in 0..<count { _ = try pool.read { try readOne($0, index) } } })
    }

    static func writes(_ work: Work, _ comparison: Comparison, _ fixture: Fixture) throws -> Measurement {
        let count = 2000
        let stores = try WritingStores(fixture, createTable: WritingWork.createTable) { try fixture.pool(at: $0) }
        let writer = stores.writer
        return try comparison.measure(
            work.name, goal: work.goal, repetitions: count, prepare: stores.empty,
            library: {
                try TaskWait.run {
                    for row in 0..<count { try await writer.write { try WritingWork.insertOne($0, row) } }
                }
            },
            baseline: { for row in 0..<count { try writer.write { try WritingWork.insertOne($0, row) } } })
    }

    @Sendable
    private static func readOne(_ db: Database, _ index: Int) throws -> Int64 {
        try Int64.fetchOne(db.cachedStatement(sql: select), arguments: [1 + index * 7 % count]) ?? 0
    }
}
