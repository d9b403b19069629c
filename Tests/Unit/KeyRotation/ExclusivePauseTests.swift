import CipherStore
import Foundation
import RotationCore
import StorePlatform
import StoreSharing
import TestKit
import Testing

@testable import KeyRotation

/// The period in which no process uses a store. Another open file of this process represents another process.
@Suite struct ExclusivePauseTests {
    private static let python = "/usr/bin/python3"

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

    private var obstacle: StoreError {
        OtherConnections(StorePaths(path)).withheld(.milliseconds(250), after: .seconds(60))
    }

    // Story: if a lock that the system does not attribute was held, a rotation named its own process as the one that cannot
    // be asked to pause.
    @Test("the own process is never named as the one that is in the way")
    func ownProcess() throws {
        let store = try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
        defer { try? store.close() }
        for error in [OtherConnections(StorePaths(path)).any(), obstacle] {
            #expect(error.code == .storeInUse)
            #expect(!"\(error)".contains("process \(ProcessInspector.currentProcess)"), "\(error)")
        }
        #expect(OtherConnections(StorePaths(path)).any().why.contains("only read the file"))
    }

    // Story: after the lock file was cut, a rotation said that its own process needs longer to close its connections.
    @Test("the error says that the lock file was cut if a process has lost its row")
    func lostRow() throws {
        let file = try FileDescriptor(opening: path + "-lock", .readWrite)
        let reader = try FileDescriptor(opening: path + "-lock", .readOnly)
        // The lock of row 5. A reader can hold a shared one alone, which is no row.
        let row: Range<Int64> = 1029..<1030
        #expect(try reader.tryLock(row, .shared))
        #expect(!StoreHolders.hasLostRow(of: path))
        try reader.unlock(row)
        #expect(try file.tryLock(row, .exclusive))
        #expect(StoreHolders.hasLostRow(of: path))
        #expect(obstacle.what.contains("was cut") && obstacle.remedy.contains("open it again"), "\(obstacle)")
        try file.truncate(toByteCount: 0)
        #expect(obstacle.what.contains("was cut"), "\(obstacle)")
        try file.unlock(row)
        #expect(!obstacle.what.contains("was cut"), "\(obstacle)")
    }

    // Story: a reader's lock on the byte of the request had the same sentence.
    @Test(
        "the error names a process that holds the lock of the request for a pause",
        .enabled(if: FileManager.default.isExecutableFile(atPath: Self.python), "there is no python3"))
    func requestLocked() throws {
        let script =
            "import fcntl, sys; f = open(sys.argv[1]); fcntl.lockf(f, fcntl.LOCK_SH, 1, 17); "
            + "print('locked', flush=True); sys.stdin.read()"
        let (process, input, output) = (Process(), Pipe(), Pipe())
        process.executableURL = URL(fileURLWithPath: Self.python)
        process.arguments = ["-c", script, path + "-lock"]
        (process.standardInput, process.standardOutput) = (input, output)
        try process.run()
        defer { process.waitUntilExit() }
        defer { try? input.fileHandleForWriting.close() }
        #expect(try output.fileHandleForReading.read(upToCount: 6) == Data("locked".utf8))
        #expect(try begin(within: .milliseconds(50)) == nil)
        #expect(obstacle.why.contains("intent") && obstacle.why.contains("\(process.processIdentifier)"), "\(obstacle)")
    }
}
