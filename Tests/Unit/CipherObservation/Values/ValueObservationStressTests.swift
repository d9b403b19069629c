import CipherDatabase
import CipherObservation
import CipherRecords
import Dispatch
import Synchronization
import Testing

/// Observations while several threads write.
@Suite struct ValueObservationStressTests {
    private let file = TemporaryFile()
    private let delivery = DispatchQueue(label: "delivery")

    private static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") ?? -1
    }

    private func pool(_ change: @escaping (inout Configuration) -> Void = { _ in }) throws -> DatabasePool {
        try file.pool { config in
            change(&config)
            config.prepareDatabase { try $0.execute(sql: "PRAGMA synchronous = OFF") }
        }
    }

    private static func start(
        _ kind: Int, in pool: DatabasePool, on delivery: DispatchQueue, _ values: Collected<Int>
    ) -> AnyDatabaseCancellable {
        let observations = [
            ValueObservation.tracking { try count($0) },
            ValueObservation.trackingConstantRegion { try count($0) },
            ValueObservation.tracking(region: Table("t")) { try count($0) },
        ]
        var observation = observations[kind % 3]
        observation.requiresWriteAccess = kind % 7 == 0
        return observation.start(
            in: pool, scheduling: .async(onQueue: delivery), onError: { _ in values.add(-1) }, onChange: values.add)
    }

    @Test("whoever starts while others write gets the last value, in order, and no first value twice")
    func startsAmongWrites() throws {
        let pool = try pool { $0.maximumReaderCount = 3 }
        try pool.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, v)") }
        let delivery = delivery
        for round in 1...2_000 {
            let values = Collected<Int>()
            let cancellable = Mutex<AnyDatabaseCancellable?>(nil)
            DispatchQueue.concurrentPerform(iterations: 3) { thread in
                if thread == 0 {
                    let started = Self.start(round, in: pool, on: delivery, values)
                    cancellable.withLock { $0 = started }
                    return
                }
                for _ in 0..<Int.random(in: 0...2) {
                    try? pool.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") }
                }
            }
            let last = try pool.read { try Self.count($0) }
            values.wait { $0.last == last }
            cancellable.withLock { $0 }?.cancel()
            let all = values.all
            #expect(all.last == last && all == all.sorted(), "round \(round)")
            #expect(all.count < 2 || all[0] < all[1], "round \(round): a first value twice")
            if round.isMultiple(of: 100) { try pool.write { try $0.execute(sql: "DELETE FROM t") } }
        }
    }

    @Test("an observation among inserts, updates, deletions and rollbacks ends with what is there")
    func longRun() throws {
        let pool = try pool()
        try pool.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY, v)") }
        let lists = (0..<4).map { _ in Collected<[Int]>() }
        let cancellables = lists.enumerated().map { index, list in
            let fetch: @Sendable (Database) throws -> [Int] = { db in
                try Int.fetchAll(db, sql: "SELECT v FROM t WHERE id % 4 = ?", arguments: [index])
            }
            let observation =
                index.isMultiple(of: 2) ? ValueObservation.tracking(fetch) : .trackingConstantRegion(fetch)
            return observation.start(
                in: pool, scheduling: .async(onQueue: delivery), onError: { _ in }, onChange: list.add)
        }
        DispatchQueue.concurrentPerform(iterations: 4) { _ in
            for step in 1...250 {
                let id = Int.random(in: 1...20)
                try? pool.write { db in
                    switch step % 5 {
                    case 0: try db.execute(sql: "DELETE FROM t WHERE id = ?", arguments: [id])
                    case 1: try db.execute(sql: "REPLACE INTO t VALUES (?, ?)", arguments: [id, step])
                    case 2: try db.execute(sql: "UPDATE t SET id = id + 100, v = v + 1 WHERE id = ?", arguments: [id])
                    case 3: try db.execute(sql: "UPDATE t SET v = v + 1 WHERE id % 4 = ?", arguments: [id % 4])
                    default:
                        try db.execute(sql: "DELETE FROM t WHERE id > 50; UPDATE t SET v = 0")
                        throw PlannedFailure()
                    }
                }
            }
        }
        for (index, list) in lists.enumerated() {
            let expected = try pool.read { db in
                try Int.fetchAll(db, sql: "SELECT v FROM t WHERE id % 4 = ?", arguments: [index])
            }
            list.wait { $0.last == expected }
            #expect(list.all.last == expected)
        }
        cancellables.forEach { $0.cancel() }
    }

    @Test("a slow reader of a sequence that keeps the newest sees few values, and the last")
    func backPressure() async throws {
        let pool = try pool()
        try await pool.write { try $0.execute(sql: "CREATE TABLE t (id INTEGER PRIMARY KEY)") }
        let observation = ValueObservation.trackingConstantRegion { try Self.count($0) }
        var (seen, isFirst) = ([Int](), true)
        for try await value in observation.values(in: pool, bufferingPolicy: .bufferingNewest(1)) {
            seen.append(value)
            if isFirst {
                isFirst = false
                for _ in 1...300 { try await pool.write { try $0.execute(sql: "INSERT INTO t DEFAULT VALUES") } }
            }
            if value == 300 { break }
        }
        #expect(seen.last == 300 && seen == seen.sorted())
        #expect(seen.count < 50)
    }
}
