import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

@testable import KeyRotation

/// Obstacles to a rotation, and conditions that only resemble one.
@Suite(.serialized) struct RotationObstacleTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func open() throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
    }

    private var quick: KeyRotation.Options {
        var options = KeyRotation.Options()
        options.checksIntegrity = false
        return options
    }

    // SQLite's own SQLITE_BUSY was once the only report.
    @Test("a process that keeps the write lock ends a rotation by its name, be it a shell", arguments: [false, true])
    func writeLock(isShell: Bool) throws {
        let holder = try ActorProcess()
        #expect(holder.ask("open \(path) raw 30")?.hasPrefix("ok") == true)
        if isShell { #expect(holder.ask("stock-key") == "ok") }
        let store = try open()
        #expect(holder.ask(isShell ? "stock-hold \(path)" : "hold-write")?.hasPrefix("ok") == true)
        var options = quick
        options.busyWait = .milliseconds(200)
        let error = #expect(throws: StoreError.self) { try KeyRotation(store, options: options).run() }
        #expect(error?.code == .storeInUse, "\(error as Any)")
        #expect(error?.why.contains("\(holder.processIdentifier)") == true, "\(error as Any)")
        #expect(holder.ask("stock-close") != nil)
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        try store.close()
    }

    // Story: the keys of the new store were wrong for the old one, and the error spoke of a changed keyslot.
    @Test("a rotation of a store that was removed, or replaced by another one, says that it was moved")
    func replaced() throws {
        let store = try open()
        defer { try? store.close() }
        for ending in ["", "-wal", "-shm", "-sidecar", "-sidecar.bak", "-lock", "-keylog"] {
            try? FileManager.default.removeItem(atPath: path + ending)
        }
        func rotate() -> StoreError? {
            #expect(throws: StoreError.self) { try KeyRotation(store, options: quick).run() }
        }
        #expect(rotate()?.code == .storeMoved)
        let other = try ActorProcess()
        #expect(other.ask("open \(path) raw")?.hasPrefix("ok") == true)
        let error = rotate()
        #expect(error?.code == .storeMoved, "\(error as Any)")
        #expect(other.ask("close") == "ok")
    }

    // Story: the rotation read the names, found a WAL of another process, and called a sound page not authentic.
    @Test("a rotation of a store whose WAL was removed or replaced says so before it copies", arguments: [false, true])
    func removedWAL(isReplaced: Bool) throws {
        let store = try open()
        try store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        #expect(rename(path + "-wal", path + ".away") == 0)
        if isReplaced { try Data(repeating: 7, count: 4096).write(to: URL(fileURLWithPath: path + "-wal")) }
        let error = #expect(throws: StoreError.self) { try KeyRotation(store, options: quick).run() }
        #expect(error?.code == .storeMoved && error?.what.contains("-wal") == true, "\(error as Any)")
        #expect(rename(path + ".away", path + "-wal") == 0)
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        #expect(try store.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 1)
        try store.close()
    }

    // Story: a member of the group held the lock, and each error spoke of a rotation that did not run.
    @Test("an error about a held lock names the process, and speaks of no rotation that does not run")
    func heldLocks() throws {
        let store = try open()
        defer { try? store.close() }
        let file = try LockFile(path: store.paths.lock, likeFile: path)
        let intent = try #require(try file.tryLock(.intent, .exclusive))
        let lease = StoreError.leaseTimeout(store.paths)
        #expect(lease.why == "Another thread of this process holds the lock of a switch to a new key.", "\(lease)")
        intent.release()
        let admin = try #require(try file.tryLock(.admin, .exclusive))
        defer { admin.release() }
        let error = #expect(throws: StoreError.self) { try KeyRotation(store, options: quick).run() }
        #expect(error?.code == .storeInUse && error?.what.contains("did not become free") == true, "\(error as Any)")
        #expect(error?.why == "Another thread of this process holds it.", "\(error as Any)")
    }

    /// Raises the page count of the database to a length that it has as a hole.
    private func stretch(to bytes: Int) throws {
        let file = try FileHandle(forUpdating: URL(fileURLWithPath: path))
        try file.seek(toOffset: 28)
        try file.write(contentsOf: withUnsafeBytes(of: UInt32(bytes / 4096).bigEndian) { Data($0) })
        try file.truncate(atOffset: UInt64(bytes))
        try file.close()
    }

    // Story: a rotation and a backup read gigabytes of holes, and the plan of the rotation said that it could begin.
    @Test("a database that is mostly holes is refused by a plan, a rotation and a backup before it is read")
    func holes() throws {
        try open().close()
        try stretch(to: 1 << 28)
        let store = try open()
        defer { try? store.close() }
        let works: [() throws -> Void] = [
            { _ = try KeyRotation(store, options: KeyRotation.Options()).preflight() },
            { _ = try KeyRotation(store, options: KeyRotation.Options()).run() },
            { _ = try KeyRotation(store, options: quick).run() },
            { try store.backup(toFolder: folder.path("backup")) },
        ]
        for work in works {
            var error: StoreError?
            let time = ContinuousClock().measure { error = #expect(throws: StoreError.self) { try work() } }
            #expect(error?.code == .headerDamaged && error?.why.contains("holes") == true, "\(error as Any)")
            #expect(time < .seconds(2))
        }
        #expect(!Files.exists(folder.path("backup")))
    }

    // Story: a member of the group wrote the number of another process into its row of the table of holders.
    @Test("a rotation does not advise to end a process that may not be the one that holds the write lock")
    func foreignNumber() throws {
        let store = try open()
        defer { try? store.close() }
        let row = try #require(try HolderRow.take(path: path + "-lock", label: "nightly-import", roles: .writer))
        let lock = try FileDescriptor(opening: path + "-lock", .readWrite)
        let start = 8192 + 128 * row.number
        let generation = try lock.read(at: start, byteCount: 4).withUnsafeBytes { $0.loadUnaligned(as: UInt32.self) }
        let word = UInt32(row.number + 1) | generation << 12
        try lock.write(withUnsafeBytes(of: Int32(1), Array.init), at: start + 24)
        try lock.write(withUnsafeBytes(of: word, Array.init), at: 4096 + 64)
        var options = quick
        options.busyWait = .milliseconds(200)
        let error = #expect(throws: StoreError.self) { try KeyRotation(store, options: options).run() }
        #expect(error?.code == .storeInUse, "\(error as Any)")
        let saysNumber = error?.why.contains("process 1 ") == true || error?.why.contains("process 1.") == true
        #expect(!saysNumber, "\(error as Any)")
        if error?.why.contains("says to be 1") == true {
            #expect(error?.remedy.contains("or that process") == false, "\(error as Any)")
        }
        row.release()
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
    }

    // Story: the rotation replaced the link, and the file that it led to kept the former keys.
    @Test("a link in the place of a sidecar is refused and left as it is", arguments: ["-sidecar", "-sidecar.bak"])
    func linkedSidecar(ending: String) throws {
        let store = try open()
        let kept = folder.path("kept")
        #expect(rename(path + ending, kept) == 0)
        #expect(symlink(kept, path + ending) == 0)
        let former = FileManager.default.contents(atPath: kept)
        let error = #expect(throws: StoreError.self) { try KeyRotation(store, options: quick).run() }
        #expect(error?.code == .alreadyExists && error?.what.contains(path + ending) == true, "\(error as Any)")
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: path + ending) == kept)
        #expect(FileManager.default.contents(atPath: kept) == former)
        #expect(remove(path + ending) == 0)
        #expect(rename(kept, path + ending) == 0)
        #expect(try KeyRotation(store, options: quick).run().toEpoch == 2)
        try store.close()
    }

    // It once waited for 30 seconds despite a cancellation.
    @Test("a rotation that waits for the lock of openings names who holds it, and is ended by a cancellation")
    func openingLock() throws {
        let store = try open()
        let opening = try #require(try LockFile(path: path + "-lock", likeFile: path).tryLock(.opening, .exclusive))
        let reports = Mutex(0)
        var options = quick
        options.onLongOpeningWait = { _ in reports.withLock { $0 += 1 } }
        let rotation = KeyRotation(store, options: options)
        let begin = ContinuousClock.now
        #expect(throws: CancellationError.self) {
            try rotation.run(isCancelled: { reports.withLock { $0 > 0 } })
        }
        #expect(reports.withLock { $0 } == 1)
        #expect(ContinuousClock.now - begin < .seconds(10))
        opening.release()
        #expect(try KeyRotation.status(of: path).state == .none)
        #expect(try rotation.run(isCancelled: { false }).toEpoch == 2)
        try store.close()
    }

    // The key log decides nothing, but once prevented a rotation.
    @Test(
        "something else in the place of the key log is told, and keeps nobody from rotating",
        arguments: ["folder", "pipe"])
    func keyLogInTheWay(kind: String) throws {
        let store = try open()
        let log = path + "-keylog"
        try? FileManager.default.removeItem(atPath: log)
        if kind == "folder" {
            try FileManager.default.createDirectory(atPath: log, withIntermediateDirectories: false)
        } else {
            #expect(mkfifo(log, 0o600) == 0)
        }
        let plan = try KeyRotation(store, options: quick).preflight()
        #expect(plan.canBegin && plan.warnings.contains { $0.what.hasPrefix("The key log cannot be read") })
        let report = try KeyRotation(store, options: quick).run()
        #expect(report.toEpoch == 2 && report.notices.contains { $0.contains("the key log") }, "\(report.notices)")
        try store.close()
    }

    @Test("a filesystem without room is told with what is needed and what is free, before anything is written")
    func noRoom() throws {
        let error = Files.noSpace(at: "/data", freeBytes: 14_000_000, neededBytes: 16_830_464)
        #expect(error.isNoSpace)
        #expect("\(error)".hasSuffix(": 16830464 bytes are needed, 14000000 are free; nothing was written"), "\(error)")
    }
}
