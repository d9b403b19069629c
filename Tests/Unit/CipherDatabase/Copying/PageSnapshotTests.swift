import CSQLCipher
import Foundation
import PageFormat
import StoreSharing
import Synchronization
import TestKit
import Testing

@testable import CipherDatabase
@testable import StorePlatform

/// The pages of one moment, while connections of the same process write and checkpoint.
@Suite("A page snapshot")
struct PageSnapshotTests {
    let folder = TemporaryFolder()
    var path: String { folder.path("app.db") }

    private func view(_ pool: DatabasePool) throws -> PageSnapshot {
        try pool.makePageSnapshot()
    }

    private func fill(_ pool: DatabasePool, rows: Int = 30) throws {
        try pool.write { db in
            for _ in 0..<rows { try db.execute(sql: "INSERT INTO t VALUES (randomblob(3000))") }
        }
    }

    @Test("its pages are those of the moment, through writes and checkpoints", arguments: [true, false])
    func pages(checkpointed: Bool) throws {
        let pool = try Databases.poolWithTable(folder)
        try fill(pool)
        if checkpointed {
            #expect(try pool.checkpoint(.full).isComplete)
        } else {
            try pool.checkpoint(.full)
            try fill(pool, rows: 5)
        }
        let view = try view(pool)
        let expected = try FoldedFiles.fold(path)
        #expect(try FoldedFiles.pages(of: view) == expected)
        for _ in 0..<5 {
            try fill(pool, rows: 20)
            try pool.write { try $0.execute(sql: "UPDATE t SET a = randomblob(3000)") }
            try pool.checkpoint(.passive)
            #expect(try FoldedFiles.pages(of: view) == expected)
        }
        try view.close()
        try pool.close()
    }

    // The wait for the turn lasted a minute without a message, and nobody could end it.
    @Test("its wait for the turn is reported with who has it, and ends when it is cancelled")
    func watchedWait() throws {
        let pool = try Databases.poolWithTable(folder)
        let holder = Mutex<StoreHolder?>(nil)
        let watch = LockWaitWatch(
            isCancelled: { holder.withLock { $0 != nil } }, onLongWait: { found in holder.withLock { $0 = found } })
        let begin = ContinuousClock.now
        try pool.write { db in
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            #expect(throws: CancellationError.self) { try pool.makePageSnapshot(watch) }
        }
        #expect(ContinuousClock.now - begin >= .seconds(2) && ContinuousClock.now - begin < .seconds(20))
        let found = try #require(holder.withLock { $0 })
        #expect(found.process == getpid() && found.uses.contains(.writeTurn))
        try pool.makePageSnapshot(watch).close()
        try pool.close()
    }

    @Test("deltas lead from the moment to the present, also when the log was begun anew", arguments: [true, false])
    func deltas(checkpointed: Bool) throws {
        let pool = try Databases.poolWithTable(folder)
        try fill(pool)
        if checkpointed { #expect(try pool.checkpoint(.full).isComplete) }
        let view = try view(pool)
        var pages = try FoldedFiles.pages(of: view)
        var position = view.position
        #expect(try view.delta(since: position).pages.isEmpty)
        for round in 0..<4 {
            try fill(pool, rows: 3 + round)
            if round == 2 { try pool.write { try $0.execute(sql: "DELETE FROM t WHERE rowid % 2 = 0") } }
            try pool.checkpoint(.passive)
            let delta = try view.delta(since: position)
            #expect(!delta.pages.isEmpty && delta.walBytes > 0)
            pages = try FoldedFiles.apply(delta, of: view, to: pages)
            #expect(try pages == FoldedFiles.fold(path))
            position = delta.position
        }
        if checkpointed { #expect(position.salts != view.position.salts) }
        try view.close()
        try pool.close()
    }

    // Each truncation gives the empty log other salts.
    @Test("a log that stock checkpoints truncate again and again tells every change all the same")
    func truncatedAgain() throws {
        let pool = try Databases.poolWithTable(folder)
        try fill(pool)
        #expect(try pool.checkpoint(.full).isComplete)
        let view = try view(pool)
        var position = view.position
        for _ in 0..<3 {
            pool.writeWithoutTransaction { db in
                let code = sqlite3_wal_checkpoint_v2(
                    db.sqliteConnection, "main", SQLITE_CHECKPOINT_TRUNCATE, nil, nil)
                #expect(code == SQLITE_OK)
            }
            let delta = try view.delta(since: position)
            #expect(delta.pages.isEmpty && delta.position.salts != position.salts)
            position = delta.position
        }
        try fill(pool, rows: 2)
        let delta = try view.delta(since: position)
        let pages = try FoldedFiles.apply(delta, of: view, to: FoldedFiles.pages(of: view))
        #expect(try pages == FoldedFiles.fold(path))
        try view.close()
        try pool.close()
    }

    @Test("a database that shrinks loses the pages behind its new end")
    func shrinking() throws {
        let pool = try Databases.poolWithTable(folder)
        try fill(pool, rows: 200)
        let view = try view(pool)
        var pages = try FoldedFiles.pages(of: view)
        try pool.write { try $0.execute(sql: "DELETE FROM t") }
        try pool.writeWithoutTransaction { try $0.execute(sql: "VACUUM") }
        let delta = try view.delta(since: view.position)
        #expect(delta.databasePages < view.databasePages)
        #expect(delta.pages.allSatisfy { $0.page <= delta.databasePages })
        pages = try FoldedFiles.apply(delta, of: view, to: pages)
        #expect(try pages == FoldedFiles.fold(path))
        try view.close()
        try pool.close()
    }

    @Test("a frame that was written and not published never happened")
    func unpublished() throws {
        let pool = try Databases.poolWithTable(folder)
        try fill(pool, rows: 2)
        let view = try view(pool)
        try fill(pool, rows: 1)
        let before = try view.delta(since: view.position)
        // The WAL of a writer that is killed between writing a commit frame and the wal-index: a frame that is valid in
        // everything. Only the index tells that it was never committed.
        let log = try FileDescriptor(opening: path + "-wal", .readWrite)
        let size = Int(try log.status().byteCount)
        let header = try log.read(at: 0, byteCount: WALHeader.headerBytes).withUnsafeBytes { WALHeader($0) }
        let isBigEndian = try #require(header).checksumsAreBigEndian
        let stride = WALFrameHeader.headerBytes + view.pageBytes
        var frame = try log.read(at: size - stride, byteCount: stride)
        var checksum = try #require(frame.withUnsafeBytes { WALFrameHeader($0) }).checksum
        frame.withUnsafeBytes { checksum.add(frame: $0, bigEndian: isBigEndian) }
        for (offset, half) in [
            (WALFrameHeader.Offset.checksum1, checksum.first), (WALFrameHeader.Offset.checksum2, checksum.second),
        ] {
            withUnsafeBytes(of: half.bigEndian) { frame.replaceSubrange(offset..<offset + 4, with: $0) }
        }
        try log.write(frame, at: size)
        let after = try view.delta(since: view.position)
        #expect(after.position == before.position && after.pages.map(\.frame) == before.pages.map(\.frame))
        try view.close()
        try pool.close()
    }

    @Test("a committed frame that was changed is found by its checksum")
    func changedFrame() throws {
        let pool = try Databases.poolWithTable(folder)
        let view = try view(pool)
        try fill(pool, rows: 2)
        let log = try FileDescriptor(opening: path + "-wal", .readWrite)
        let size = Int(try log.status().byteCount)
        let byte = try log.read(at: size - 100, byteCount: 1)
        try log.write([byte[0] ^ 1], at: size - 100)
        #expect(throws: StoreError(.walDamaged, what: "", why: "", remedy: "")) {
            try view.delta(since: view.position)
        }
        try view.close()
    }

    @Test("closing it leaves the log as it is")
    func closing() throws {
        var pool: DatabasePool? = try Databases.poolWithTable(folder) { $0.persistentWAL = true }
        try fill(try #require(pool))
        let view = try view(try #require(pool))
        try fill(try #require(pool))
        let log = try Files.byteCount(path + "-wal")
        try view.close()
        #expect(try Files.byteCount(path + "-wal") == log)
        try pool?.close()
        pool = nil
    }

    @Test("others are kept from writing while the write lock is held, and get it behind it")
    func writeLock() throws {
        let pool = try Databases.poolWithTable(folder)
        let view = try view(pool)
        try view.withWriteLock(until: .now + .seconds(5)) { () throws in
            #expect(throws: DatabaseError.self) { try pool.write { try $0.insert(1) } }
            #expect(try view.delta(since: view.position).pages.isEmpty)
        }
        try pool.write { try $0.insert(1) }
        #expect(try view.delta(since: view.position).pages.count >= 1)
        try view.close()
        try pool.close()
    }
}
