import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct CheckpointStatisticsTests {
    let folder = TemporaryFolder()

    private func walBytes() -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: folder.path("app.db-wal"))
        return (attributes?[.size] as? Int) ?? 0
    }

    private let page = String(repeating: "x", count: 3000)

    @Test("checkpoints come after as many frames as the configuration says, and are counted")
    func counting() throws {
        let pool = try Databases.poolWithTable(folder) { $0.checkpointFrames = 100 }
        #expect(pool.checkpointStatistics.count == 0)
        for _ in 0..<40 { try pool.write { db in for _ in 0..<10 { try db.insert(page) } } }
        let statistics = pool.checkpointStatistics
        #expect(statistics.count >= 3 && statistics.copiedFrames >= 400)
        #expect(statistics.longest > .zero && statistics.postponed == 0 && statistics.blockage == nil)
        #expect(statistics.walFrames == statistics.checkpointedFrames)
        #expect(walBytes() < 200 * 4120)
        let copied = statistics.copiedFrames
        try pool.checkpoint()
        try pool.checkpoint()
        // A page that is in the database file already is not copied, nor counted, again.
        #expect(pool.checkpointStatistics.copiedFrames - copied < 100)
        #expect(pool.checkpointStatistics.count == statistics.count + 2)
    }

    @Test("a reader that keeps the log from shrinking is named with its age, and reported once it is old")
    func oldReader() throws {
        let reports = Mutex<[WALBlockage]>([])
        let pool = try Databases.poolWithTable(folder) {
            $0.checkpointFrames = 50
            $0.readerAgeLimit = .zero
            $0.onOldReader = { report in reports.withLock { $0.append(report) } }
        }
        let snapshot = try pool.makeSnapshot()
        for _ in 0..<20 { try pool.write { db in for _ in 0..<10 { try db.insert(page) } } }
        let blockage = try #require(pool.checkpointStatistics.blockage)
        #expect(blockage.frames > 100)
        #expect(blockage.age > .zero)
        #expect(blockage.readers.map(\.processID) == [getpid()])
        #expect(walBytes() > 200 * 4096)
        #expect(try snapshot.read { try $0.rowCount() } == 0)
        #expect(waitUntil { reports.withLock { !$0.isEmpty } })
        #expect(reports.withLock { $0[0].description }.contains("this process"))

        try snapshot.close()
        try pool.checkpoint()
        #expect(pool.checkpointStatistics.blockage == nil)
    }

    @Test("what one has just checkpointed, or tried to, the others leave for another interval")
    func sharedInterval() throws {
        let pools =
            try [Databases.poolWithTable(folder) { $0.checkpointFrames = 100 }]
            + (0..<2).map { _ in try Databases.pool(folder) { $0.checkpointFrames = 100 } }
        // The log is not used anew, so every pool finds it longer than its interval.
        let snapshot = try pools[0].makeSnapshot()
        func counts() -> [Int] { pools.map(\.checkpointStatistics.count) }
        while pools[0].checkpointStatistics.count == 0 { try pools[0].write { try $0.insert(page) } }
        for pool in pools { try pool.write { try $0.insert(page) } }
        #expect(counts() == [1, 0, 0])
        while pools[1].checkpointStatistics.count == 0 { try pools[1].write { try $0.insert(page) } }
        for pool in pools { try pool.write { try $0.insert(page) } }
        #expect(counts() == [1, 1, 0])
        let frames = pools.map(\.checkpointStatistics.walFrames)
        #expect(frames[1] >= frames[0] + 100)
        try snapshot.close()
        // A new run of the log has checkpoints of its own, whatever the reports of the former one say.
        for _ in 0..<3 { try pools[2].write { db in for _ in 0..<300 { try db.insert(page) } } }
        #expect(pools[2].checkpointStatistics.count >= 2)
    }

    @Test("a due checkpoint that meets another writer is put off, and counted as such")
    func postponed() throws {
        let pool = try Databases.poolWithTable(folder) { $0.checkpointFrames = 5 }
        let other = try Databases.pool(folder) { $0.allowsUnsafeTransactions = true }
        try pool.writeWithoutTransaction { db in
            for _ in 0..<10 { try db.insert(page) }
            try other.writeWithoutTransaction { try $0.beginTransaction(.immediate) }
        }
        #expect(pool.checkpointStatistics.postponed == 1 && pool.checkpointStatistics.count == 0)
        try other.writeWithoutTransaction { try $0.rollback() }
        for _ in 0..<10 where pool.checkpointStatistics.count == 0 {
            try pool.write { db in for _ in 0..<10 { try db.insert(page) } }
        }
        #expect(pool.checkpointStatistics.count == 1)
        #expect(try pool.read { try $0.rowCount() } > 10)
    }

    @Test("reads that overlap without a gap do not let the log grow without end")
    func overlappingReads() throws {
        let pool = try Databases.poolWithTable(folder) { $0.checkpointFrames = 100 }
        let isDone = Atomic<Bool>(false)
        // A read ends only when the other one has begun again: at no moment does nobody read.
        let turns = [DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)]
        let readers = (0..<2).map { number in
            Thread {
                while !isDone.load(ordering: .acquiring) {
                    _ = try? pool.read { db in
                        _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema")
                        turns[1 - number].signal()
                        turns[number].wait()
                    }
                }
            }
        }
        for reader in readers { reader.start() }
        defer {
            isDone.store(true, ordering: .releasing)
            for reader in readers {
                while !reader.isFinished { for turn in turns { turn.signal() } }
            }
        }
        for _ in 0..<300 { try pool.write { db in for _ in 0..<20 { try db.insert(page) } } }
        // 6,000 frames were written; those of a few checkpoints may lie in the log.
        #expect(walBytes() < 1500 * 4120, "\(walBytes() / 4120) frames")
    }

    @Test("a checkpoint of a long log that nobody reads does not wait for readers")
    func waitForNobody() throws {
        // Story: the read mark of the writer itself kept the wait from ending, so that each checkpoint of a log of more
        // than four intervals stopped all writers for 20 ms.
        var quickest = Duration.seconds(3600)
        for number in 0..<20 {
            let folder = TemporaryFolder()
            let pool = try Databases.poolWithTable(folder) { $0.checkpointFrames = 10 }
            try pool.write { db in for _ in 0..<60 { try db.insert(page) } }
            let statistics = pool.checkpointStatistics
            try #require(statistics.count > 0 && statistics.walFrames >= 40, "\(number): \(statistics)")
            #expect(statistics.walFrames == statistics.checkpointedFrames)
            quickest = min(quickest, statistics.longest)
        }
        #expect(quickest < .milliseconds(15))
    }

    @Test("a reader that stays does not make every checkpoint wait for it")
    func vainWaits() throws {
        let pool = try Databases.poolWithTable(folder) { $0.checkpointFrames = 10 }
        let snapshot = try pool.makeSnapshot()
        let start = ContinuousClock.now
        for _ in 0..<500 { try pool.write { try $0.insert(page) } }
        let elapsed = ContinuousClock.now - start
        let statistics = pool.checkpointStatistics
        #expect(statistics.count >= 40)
        #expect(statistics.longest >= .milliseconds(20))
        // Nearly fifty of them would have waited, for 20 ms each.
        #expect(statistics.waitCount <= 6, "\(statistics.waitCount) waits in \(elapsed)")
        try snapshot.close()
        // With the next run of the log everything is as before.
        for _ in 0..<10 { try pool.write { db in for _ in 0..<60 { try db.insert(page) } } }
        #expect(walBytes() < 1200 * 4120)
    }

    @Test("a checkpoint that failed is tried again soon, by whoever commits")
    func retry() throws {
        // Story: the attempt was published before its outcome was known, so that everybody, this connection included,
        // left the log alone for another interval.
        for retriesElsewhere in [false, true] {
            let folder = TemporaryFolder()
            let failures = Mutex(1)
            let pool = try Databases.poolWithTable(folder) {
                $0.checkpointFrames = 1000
                $0.prepareDatabase { db in
                    guard db.description.hasSuffix(".checkpoint") else { return }
                    let fails = failures.withLock { left in
                        left -= 1
                        return left >= 0
                    }
                    if fails { throw DatabaseError(message: "the test wants it") }
                }
            }
            let other = try Databases.pool(folder)
            try pool.write { db in for _ in 0..<1001 { try db.insert(page) } }
            #expect(pool.checkpointStatistics.postponed == 1 && pool.checkpointStatistics.count == 0)
            if retriesElsewhere {
                try other.write { try $0.insert(1) }
                #expect(other.checkpointStatistics.count == 1)
            } else {
                for _ in 0..<60 { try pool.write { try $0.insert(1) } }
                #expect(pool.checkpointStatistics.count == 1)
            }
        }
    }

    /// A pool whose checkpoints fail, with a log that is long enough for one.
    private func failingPool(_ code: ResultCode) throws -> DatabasePool {
        let pool = try Databases.poolWithTable(folder) {
            $0.checkpointFrames = 1000
            $0.prepareDatabase { db in
                if db.description.hasSuffix(".checkpoint") { throw DatabaseError(resultCode: code) }
            }
        }
        try pool.write { db in for _ in 0..<1001 { try db.insert(page) } }
        #expect(pool.checkpointStatistics.postponed == 1 && pool.checkpointStatistics.count == 0)
        return pool
    }

    @Test(
        "a checkpoint that keeps failing is tried at growing distances",
        arguments: [ResultCode.SQLITE_BUSY, .SQLITE_FULL])
    func retryDistance(code: ResultCode) throws {
        // Story: it came every 50 frames, each time with an fsync and two waits for the turn on the committing thread.
        let pool = try failingPool(code)
        for _ in 0..<1600 { try pool.write { try $0.insert(1) } }
        // After 50, 100, 200, 400 and 800 frames.
        #expect((5...6).contains(pool.checkpointStatistics.postponed), "\(pool.checkpointStatistics.postponed)")
    }

    @Test("a checkpoint that a full disk prevented is not tried by everybody at once")
    func lastingFailure() throws {
        let pool = try failingPool(.SQLITE_FULL)
        let other = try Databases.pool(folder) { $0.checkpointFrames = 1000 }
        try other.write { try $0.insert(1) }
        #expect(other.checkpointStatistics.count == 0 && other.checkpointStatistics.postponed == 0)
        for _ in 0..<3 { try other.write { db in for _ in 0..<400 { try db.insert(page) } } }
        #expect(other.checkpointStatistics.count == 1)
        try pool.close()
    }
}
