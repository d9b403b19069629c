import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite struct PoolCheckpointTests {
    let folder = TemporaryFolder()

    private func walBytes() -> Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: folder.path("app.db-wal"))
        return (attributes?[.size] as? Int) ?? 0
    }

    @Test("a checkpoint tells the frames of the log and those that it copied")
    func results() throws {
        let pool = try Databases.poolWithTable(folder)
        try pool.write { try $0.insert(1) }
        for mode in [Database.CheckpointMode.passive, .full, .restart, .truncate] {
            let result = try pool.checkpoint(mode)
            #expect(result.isComplete && result.walFrameCount > 0)
            try pool.write { try $0.insert(2) }
        }
        #expect(try pool.checkpoint().isComplete)
        #expect(try DatabaseQueue().checkpoint().walFrameCount == 0)
        let queue = try DatabaseQueue(path: folder.path("plain.db"), configuration: Databases.configuration())
        #expect(try queue.checkpoint(.full).walFrameCount == 0)
    }

    @Test("a write access checkpoints by its connection, outside of transactions")
    func ofConnection() throws {
        let pool = try Databases.poolWithTable(folder)
        try pool.writeWithoutTransaction { db throws in
            try db.insert(1)
            for mode in [Database.CheckpointMode.passive, .full, .restart, .truncate] {
                #expect(try db.checkpoint(mode).walFrameCount > 0)
            }
            for name in ["main", nil] {
                let (frames, checkpointed) = try db.checkpoint(.passive, on: name)
                #expect(frames > 0 && frames == checkpointed)
            }
            #expect(databaseError { try db.checkpoint(.passive, on: "other") }?.message == "unknown database: other")
            try db.inTransaction {
                #expect(databaseError { try db.checkpoint() }?.resultCode == .SQLITE_LOCKED)
                return .commit
            }
        }
        #expect(databaseError { try pool.read { try $0.checkpoint() } }?.resultCode == .SQLITE_READONLY)
        #expect(databaseError { try DatabaseQueue().read { try $0.checkpoint() } }?.resultCode == .SQLITE_READONLY)
        #expect(try DatabaseQueue().inDatabase { try $0.checkpoint() }.walFrameCount == 0)
    }

    @Test("a reader keeps the frames that came after its moment, and a full checkpoint says so")
    func longReader() throws {
        let pool = try Databases.poolWithTable(folder)
        try pool.checkpoint()
        try pool.read { db in
            #expect(try db.rowCount() == 0)
            for value in 0..<10 { try pool.write { try $0.insert(value) } }
            let result = try pool.checkpoint()
            #expect(!result.isComplete)
            #expect(databaseError { try pool.checkpoint(.full) }?.resultCode == .SQLITE_BUSY)
            #expect(databaseError { try pool.checkpoint(.truncate) }?.resultCode == .SQLITE_BUSY)
            #expect(try db.rowCount() == 0)
        }
        #expect(try pool.checkpoint(.full).isComplete)
        #expect(try pool.read { try $0.rowCount() } == 10)
    }

    @Test("a checkpoint while another program writes is SQLITE_BUSY, and leaves no transaction open")
    func foreignWriter() throws {
        let other = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder)
        try other.write { db in
            try db.insert(1)
            #expect(databaseError { try pool.checkpoint() }?.resultCode == .SQLITE_BUSY)
        }
        #expect(try pool.checkpoint().isComplete)
    }

    @Test("checkpoints that come by themselves keep the log bounded")
    func automaticCheckpoints() throws {
        let pool = try Databases.poolWithTable(folder)
        let text = String(repeating: "x", count: 3000)
        for _ in 0..<3000 { try pool.write { try $0.insert(text) } }
        // 1000 frames of 4 KiB with their headers, and what one commit adds.
        #expect(walBytes() < 1100 * 4120)
        #expect(walBytes() > 0)
        #expect(try pool.read { try $0.rowCount() } == 3000)
    }

    @Test("a long reader lets the log grow, and the next commits after it cut it back to its use")
    func logAfterLongReader() throws {
        let pool = try Databases.poolWithTable(folder)
        let text = String(repeating: "x", count: 3000)
        try pool.read { db in
            #expect(try db.rowCount() == 0)
            for _ in 0..<40 { try pool.write { db in for _ in 0..<100 { try db.insert(text) } } }
        }
        #expect(walBytes() > 3000 * 4120)
        for _ in 0..<12 { try pool.write { db in for _ in 0..<100 { try db.insert(text) } } }
        #expect(walBytes() <= 6 << 20)
        #expect(try pool.checkpoint(.full).isComplete)
    }

    @Test(
        "SQL may not checkpoint by itself",
        arguments: ["wal_checkpoint", "wal_autocheckpoint = 5", "locking_mode = EXCLUSIVE"])
    func refusedPragmas(pragma: String) throws {
        let pool = try Databases.poolWithTable(folder)
        let error = databaseError { try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA \(pragma)") } }
        #expect(error?.resultCode == .SQLITE_AUTH)
        // The reason of a refusal must not pass for that of the next error.
        #expect(databaseError { try pool.write { try $0.execute(sql: "nonsense") } }?.resultCode == .SQLITE_ERROR)
    }
}
