@testable import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

/// The promises about what an access sees while others write.
@Suite struct IsolationTests {
    let folder = TemporaryFolder()
    let pool: DatabasePool

    init() throws {
        var config = Configuration()
        config.prepareDatabase { db in try db.useRawKey(Data(repeating: 1, count: 32)) }
        pool = try DatabasePool(path: folder.path("app.db"), configuration: config)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a INTEGER)") }
    }

    private func insert(_ db: Database) throws { try db.execute(sql: "INSERT INTO t VALUES (1)") }

    private static func count(_ db: Database) throws -> Int {
        try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t") ?? -1
    }

    @Test("a snapshot keeps seeing the moment at which it was made")
    func snapshot() throws {
        try pool.write(insert)
        let snapshot = try pool.makeSnapshot()
        try pool.write(insert)
        #expect(try snapshot.read(Self.count) == 1)
        #expect(try pool.read(Self.count) == 2)
        try pool.checkpoint()
        #expect(try snapshot.read(Self.count) == 1)
        try snapshot.close()
        #expect(try pool.makeSnapshot().read(Self.count) == 2)
    }

    @Test("a concurrent read sees exactly the writer's last commit, not what follows")
    func concurrentRead() throws {
        let seen = Mutex<Int?>(nil)
        let mayRead = DispatchSemaphore(value: 0)
        let hasRead = DispatchSemaphore(value: 0)
        try pool.writeWithoutTransaction { db in
            try insert(db)
            pool.spawnConcurrentRead { outcome in
                mayRead.wait()
                seen.withLock { $0 = try? Self.count(outcome.get()) }
                hasRead.signal()
            }
            try insert(db)
            try insert(db)
            mayRead.signal()
        }
        hasRead.wait()
        #expect(seen.withLock { $0 } == 1)
    }

    @Test("a read sees the database as of its beginning, not as of its first statement")
    func beginningOfRead() throws {
        // Story: the transaction of a read had no view of the database before its first statement, so that what was
        // committed in between was seen.
        let pool = pool
        try pool.read { db in
            try pool.write(insert)
            #expect(try Self.count(db) == 0)
        }
        let count = Mutex<Int?>(nil)
        let hasRead = DispatchSemaphore(value: 0)
        pool.asyncRead { outcome in
            try? pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            count.withLock { $0 = try? Self.count(outcome.get()) }
            hasRead.signal()
        }
        #expect(hasRead.wait(timeout: .now() + 30) == .success)
        #expect(count.withLock { $0 } == 1)
        #expect(try pool.read(Self.count) == 2)
    }

    @Test("a read of a task sees the database as of its beginning")
    func beginningOfTaskRead() async throws {
        let pool = pool
        let count = try await pool.read { db in
            try pool.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
            return try Self.count(db)
        }
        #expect(count == 0)
    }

    @Test("a barrier waits for the reads under way, and reads wait for it")
    func barrier() throws {
        let reading = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let events = Mutex<[String]>([])
        let group = DispatchGroup()
        DispatchQueue.global().async(group: group) { [pool] in
            try? pool.read { _ in
                reading.signal()
                mayEnd.wait()
                events.withLock { $0.append("read ended") }
            }
        }
        reading.wait()
        DispatchQueue.global().async(group: group) { [pool] in
            try? pool.barrierWriteWithoutTransaction { _ in events.withLock { $0.append("barrier") } }
        }
        #expect(waitUntil { pool.readers.hasBarrier })
        DispatchQueue.global().async(group: group) { [pool] in
            try? pool.read { _ in events.withLock { $0.append("later read") } }
        }
        mayEnd.signal()
        group.wait()
        #expect(events.withLock { $0 } == ["read ended", "barrier", "later read"])
    }

    @Test("a read from inside a write passes a barrier that waits for that write")
    func readInsideWrite() throws {
        // Reads once waited for the barrier, and the barrier for the write around them.
        let group = DispatchGroup()
        let seen = Mutex<[Int]>([])
        try pool.write { db in
            DispatchQueue.global().async(group: group) { [pool] in
                try? pool.barrierWriteWithoutTransaction { db in try insert(db) }
            }
            #expect(waitUntil { pool.readers.hasBarrier })
            let inside = try pool.read(Self.count)
            seen.withLock { $0.append(inside) }
        }
        group.wait()
        let behind = try pool.read(Self.count)
        #expect(seen.withLock { $0 } == [0])
        #expect(behind == 1)
    }

    @Test("writes that are not waited for run in the order of the calls")
    func orderedAsyncWrites() throws {
        let order = Mutex<[Int]>([])
        for number in 0..<20 {
            pool.asyncWrite(
                { _ in number },
                completion: { _, result in
                    order.withLock { $0.append((try? result.get()) ?? -1) }
                })
        }
        try pool.write { _ in }
        #expect(order.withLock { $0 } == Array(0..<20))
    }

    @Test("a reentrant read from a write sees the write's own changes, one from elsewhere does not")
    func reentrantAccesses() throws {
        try pool.write { db in
            try insert(db)
            #expect(try pool.unsafeReentrantRead(Self.count) == 1)
            #expect(try pool.read(Self.count) == 0)
            try pool.unsafeReentrantWrite(insert)
        }
        #expect(try pool.read(Self.count) == 2)
        let nested = try pool.read { _ in try pool.unsafeReentrantRead(Self.count) }
        #expect(nested == 2)
    }

    @Test("reads that are not waited for get a transaction, or the reason why there is none")
    func asyncReads() async throws {
        let count = await withCheckedContinuation { continuation in
            pool.asyncRead { outcome in continuation.resume(returning: try? Self.count(outcome.get())) }
        }
        #expect(count == 0)
        try pool.close()
        let message = await withCheckedContinuation { continuation in
            pool.asyncRead { outcome in
                if case .failure(let error as DatabaseError) = outcome {
                    continuation.resume(returning: error.message)
                } else {
                    continuation.resume(returning: nil)
                }
            }
        }
        #expect(message == "Connection is closed")
    }

    @Test("a reader keeps its view while the schema changes beside it")
    func schemaChange() throws {
        try pool.read { db in
            #expect(try Self.count(db) == 0)
            try pool.write { try $0.execute(sql: "ALTER TABLE t ADD COLUMN b; CREATE TABLE u (x)") }
            #expect(try Row.fetchAll(db, sql: "SELECT * FROM t").isEmpty)
            #expect(throws: DatabaseError.self) { try Row.fetchAll(db, sql: "SELECT * FROM u") }
        }
        #expect(try pool.read { try Row.fetchAll($0, sql: "SELECT * FROM u") }.isEmpty)
    }

    @Test("cancelling a barrier write ends its wait for the reads that the write before it has spawned")
    func cancelledBarrierWithConnection() async throws {
        // Story: the barrier had the connection by then, and its thread waited at a semaphore until the read ended.
        let pool = pool
        let (isWriting, maySpawn, mayEnd) = (Gate(), Gate(), Gate())
        let (writing, hasRun) = (Threads(), Shared(false))
        writing.start {
            pool.writeWithoutTransaction { _ in
                isWriting.open()
                maySpawn.wait()
                pool.asyncConcurrentRead { _ in mayEnd.wait() }
            }
        }
        #expect(await isWriting.pass())
        let task = Task {
            try await pool.barrierWriteWithoutTransaction { _ in hasRun.change { $0 = true } }
        }
        #expect(await eventually { pool.readers.hasBarrier })
        // Until the barrier stands behind the write.
        for _ in 0..<1000 { await Task.yield() }
        maySpawn.open()
        #expect(await eventually { writing.haveEnded })
        #expect(await eventually { pool.isWriterBusy })
        let hasEnded = Shared(false)
        Task {
            _ = await task.result
            hasEnded.change { $0 = true }
        }
        task.cancel()
        #expect(await eventually(within: .seconds(10)) { hasEnded.value })
        mayEnd.open()
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(!hasRun.value)
        try await pool.barrierWriteWithoutTransaction { try $0.insert(1) }
        #expect(try await pool.read { try $0.rowCount() } == 1)
    }
}
