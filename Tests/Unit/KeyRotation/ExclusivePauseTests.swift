import CipherStore
import RotationCore
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import KeyRotation

/// The period in which no process uses a store. Another open file of this process represents another process.
@Suite struct ExclusivePauseTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    init() throws { try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw")).close() }

    private func begin(within budget: Duration = .seconds(20)) throws -> ExclusivePause? {
        try ExclusivePause.begin(StorePaths(path), insists: false, budget: budget, isCancelled: { false })
    }

    @Test("there is none while somebody has a lease, and everybody may go on then")
    func lease() throws {
        let locks = try LockFile(path: path + "-lock", likeFile: path)
        let lease = try #require(try locks.tryLock(.lease, .shared))
        #expect(try begin(within: .milliseconds(50)) == nil)
        for byte in [LockByte.intent, .opening] { #expect(try !locks.isHeld(byte)) }
        lease.release()
        let pause = try #require(try begin())
        #expect(try locks.tryLock(.lease, .shared) == nil)
        pause.end()
        #expect(try locks.tryLock(.lease, .shared) != nil)
    }

    // Story: the next connection took the index of the WAL that the switch had replaced for that of the new one.
    @Test("a database is locked only when nobody has the index of its WAL open")
    func index() throws {
        let index = try FileDescriptor(opening: path + "-shm", .readOnly)
        let bytes = WALLockByte.open..<WALLockByte.open + 1
        #expect(try index.tryLock(bytes, .shared))
        #expect(try LockedDatabase.lock(path) == nil)
        try index.unlock(bytes)
        let database = try #require(try LockedDatabase.lock(path))
        database.release()
    }

    @Test("a connection that no lease tells of shows by SQLite's own locks")
    func foreignConnection() throws {
        let file = try FileDescriptor(opening: path, .readWrite)
        #expect(try file.tryLock(SQLiteLockByte.all, .exclusive))
        let pause = try #require(try begin())
        #expect(try LockedDatabase.lock(path) == nil)
        try file.unlock(SQLiteLockByte.all)
        let database = try #require(try LockedDatabase.lock(path))
        #expect(try !file.tryLock(SQLiteLockByte.all, .exclusive))
        database.release()
        pause.end()
        #expect(try file.tryLock(SQLiteLockByte.all, .exclusive))
    }
}
