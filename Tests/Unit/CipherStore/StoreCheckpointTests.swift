import CipherStore
import Foundation
import TestKit
import Testing

/// Checkpoints that nobody asks for.
@Suite struct StoreCheckpointTests {
    // SQLite's own checkpoints are switched off by the call that also removes the hook by which commits are counted:
    // called in the wrong order, the log grew for as long as the store was open.
    @Test(
        "the log is copied into the database file as it grows, and does not grow without end",
        arguments: [Opening.sharedStore, .pool, .queue])
    func automatic(way: Opening) throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        // A queue without a setting keeps the journal mode of the file, and the others make it WAL.
        var config = Configuration()
        config.journalMode = .wal
        try way.open(path, .raw(1), config) { writer in
            try writer.write { try $0.execute(sql: "CREATE TABLE t (a BLOB)") }
            for _ in 0..<400 { try writer.write { try $0.execute(sql: "INSERT INTO t VALUES (randomblob(20000))") } }
            let main = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
            let log = try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int ?? 0
            #expect(main > 4 << 20, "\(main) bytes")
            #expect(log < 6 << 20, "\(log) bytes")
        }
    }

    // Story: reads that lasted longer than 20 ms and overlapped without a gap let the WAL grow without end, 212 MB in 6 s.
    @Test("the WAL is reset beside reads of 40 ms that always overlap")
    func overlappingReads() throws {
        let folder = TemporaryFolder()
        var config = Configuration()
        config.checkpointFrames = 10
        config.maximumReaderCount = 8
        let store = try SharedStore.open(
            at: folder.path("app.db"), unlockedBy: TestKeys.source("raw"), configuration: config)
        try store.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        let isOver = Flag()
        let readers = (0..<2).map { number in
            let thread = Thread {
                _ = waitUntil(within: .milliseconds(20 * number)) { isOver.isSet }
                while !isOver.isSet {
                    try? store.read { db in
                        _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t")
                        _ = waitUntil(within: .milliseconds(40)) { isOver.isSet }
                    }
                }
            }
            thread.start()
            return thread
        }
        // The number of the WAL's generation stands behind its page size. Each reset gives it the next one.
        func generation() throws -> Data {
            let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: folder.path("app.db-wal")))
            defer { try? file.close() }
            return try file.read(upToCount: 16)?.suffix(4) ?? Data()
        }
        var generations: Set<Data> = []
        let isReset = try waitUntil(within: .seconds(120)) {
            for _ in 0..<20 { try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") } }
            try generations.insert(generation())
            return generations.count > 1
        }
        isOver.set()
        #expect(waitUntil { readers.allSatisfy(\.isFinished) })
        #expect(isReset, "\(generations.count) generations")
        try store.close()
    }
}
