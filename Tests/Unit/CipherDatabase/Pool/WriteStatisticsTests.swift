import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

@testable import CipherDatabase

/// The recorded facts about writes.
@Suite struct WriteStatisticsTests {
    let folder = TemporaryFolder()

    @Test("writes are counted, the longest is known by its label or its first statement, and reads are not writes")
    func counting() throws {
        let pool = try Databases.poolWithTable(folder)
        #expect(pool.writeStatistics.count == 1 && pool.writeStatistics.longestLabel == "CREATE TABLE t(a)")
        for number in 0..<10 { try pool.write { try $0.insert(number) } }
        _ = try pool.read { try $0.rowCount() }
        try pool.writeWithoutTransaction { _ = try $0.rowCount() }
        #expect(pool.writeStatistics.count == 11)
        let longest = pool.writeStatistics.longest
        try pool.write { db in
            db.writeLabel = "import"
            let start = ContinuousClock.now
            while ContinuousClock.now - start <= longest { try db.insert(1) }
        }
        let found = pool.writeStatistics
        #expect(found.longestLabel == "import" && found.longest > longest && found.count == 12)
        #expect(found.p50 <= found.p99 && found.p99 <= found.longest && found.p50 > .zero)
        #expect(found.waitCount == 0 && found.timeWaited == .zero && found.timeoutCount == 0 && found.usesWriterQueue)
        // A label is for one write, even should that one take longer still.
        try pool.write { try $0.insert(1) }
        let last = pool.writeStatistics
        #expect(last.longestLabel == (last.longest == found.longest ? "import" : "INSERT INTO t VALUES (?)"))
    }

    @Test("time that was waited is told, and stands in the table of holders for others")
    func waiting() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) {
            $0.busyMode = .timeout(60)
            $0.label = "late"
        }
        let path = folder.path("app.db")
        let threads = Threads()
        try holder.write { db in
            try db.insert(1)
            threads.start { try pool.write { try $0.insert(2) } }
            #expect(try waitUntil { try StoreHolders(of: path).contains { $0.waitingFor ?? .zero > .milliseconds(2) } })
        }
        threads.join()
        let found = pool.writeStatistics
        #expect(found.waitCount == 1 && found.timeWaited > .milliseconds(2) && found.longestWait == found.timeWaited)
        #expect(found.waitP99 == found.longestWait)
        let row = try #require(try StoreHolders(of: path).first { $0.label == "late" })
        #expect(row.writeCount == 1 && row.waitTime == found.timeWaited && row.longestWrite == found.longest)
        #expect(row.writeTime == found.longest)
    }

    @Test("long writes and all writes are told to those who asked, when others may write again")
    func events() throws {
        let events = Mutex<[WriteEvent]>([])
        let long = Mutex<[String]>([])
        let path = folder.path("app.db")
        let pool = try Databases.pool(folder) { config in
            config.label = "shop"
            config.longWriteLimit = .milliseconds(20)
            config.onWrite = { event in
                let writer = try? StoreHolders(of: path).writer
                events.withLock { $0.append(event) }
                #expect(writer == nil)
            }
            config.onLongWrite = { event in long.withLock { $0.append(event.label) } }
        }
        try pool.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        try pool.write { db in
            try db.insert(1)
            let start = ContinuousClock.now
            while ContinuousClock.now - start < .milliseconds(20) {}
        }
        let labels = events.withLock { $0.map(\.label) }
        #expect(labels == ["CREATE TABLE t(a)", "INSERT INTO t VALUES (?)"])
        #expect(long.withLock { $0.last } == "INSERT INTO t VALUES (?)")
        let last = try #require(events.withLock { $0.last })
        #expect(last.held >= .milliseconds(20) && last.waited == .zero && last.connection == "shop.writer")
    }

    @Test("a histogram tells percentiles within an eighth, over the whole range")
    func histogram() {
        var histogram = DurationHistogram()
        #expect(histogram.percentile(0.5) == 0)
        for value in [0, 1, 15, 16, 17, 1000, 1 << 40, UInt64.max] as [UInt64] {
            var one = DurationHistogram()
            one.add(value)
            let bound = one.percentile(1)
            #expect(bound >= value && bound - value <= value / 8, "\(value) \(bound)")
        }
        for value in 1...1000 { histogram.add(UInt64(value) * 1000) }
        #expect((500_000...563_000).contains(histogram.percentile(0.5)))
        #expect((990_000...1_125_000).contains(histogram.percentile(0.99)))
    }
}
