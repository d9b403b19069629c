import CipherStore
import Foundation
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// A rotation that ended anywhere, and the next one who opens the store.
@Suite("Recovery of a rotation", .serialized)
struct RecoveryTests {
    // MARK: Before the switch

    @Test(
        "a rotation that was cut while pages were copied is undone by the next opening, which says so",
        arguments: Rotated.allCases)
    func undone(kind: Rotated) throws {
        for copied in [0, 3] {
            let bench = try RecoveryBench(kind).begin()
            if copied > 0 { try bench.write(Array(bench.copy().prefix(copied))) }
            let (epoch, notices) = try bench.check(0)
            #expect(epoch == 1)
            #expect(
                notices.contains {
                    $0.contains(
                        "An interrupted rotation to epoch 2 was undone; the store has its key of epoch 1.")
                })
            try bench.checkUndone()
        }
    }

    @Test("a rotation that lives is left alone: the store opens with its present key", arguments: Rotated.allCases)
    func live(kind: Rotated) throws {
        let bench = try RecoveryBench(kind).begin()
        try bench.write(bench.copy())
        let admin = try #require(
            try LockFile(path: bench.path + "-lock", likeFile: nil).tryLock(.admin, .exclusive))
        let store = try bench.open(0)
        #expect(store.notices.isEmpty && bench.state() == .rotating && Files.exists(bench.copyPath))
        try store.close()
        admin.release()
        try bench.checkUndone()
    }

    @Test(
        "the holder of a dropped slot undoes a rotation, and the holder of only the new key of a direct store does not")
    func otherKeysWhileRotating() throws {
        let compromised = try RecoveryBench(.compromised).begin()
        #expect(try compromised.check(1).epoch == 1)
        let direct = try RecoveryBench(.direct).begin()
        #expect(direct.code { _ = try direct.open(7) } == .rotationPending)
        try direct.checkUndone()
    }

    // MARK: Behind it

    @Test(
        "a rotation that was cut at the switch is completed by the next opening, which says so",
        arguments: Rotated.allCases)
    func completed(kind: Rotated) throws {
        let bench = try RecoveryBench(kind).announce()
        let (epoch, notices) = try bench.check(kind.next)
        #expect(epoch == 2)
        #expect(notices.contains { $0.contains("was completed; the store has its key of epoch 2.") })
        try bench.checkRotated()
    }

    @Test(
        "the copy that has taken the database's place is the database, whatever stands under its old name",
        arguments: Rotated.allCases)
    func renamed(kind: Rotated) throws {
        for leftover in [false, true] {
            let bench = try RecoveryBench(kind).announce()
            try bench.rename()
            if leftover { try Data(count: 100).write(to: URL(filePath: bench.copyPath)) }
            #expect(try bench.check(kind.next).epoch == 2)
            try bench.checkRotated()
        }
    }

    @Test("the old key of a direct store completes the switch, and then is not its key any more")
    func oldKeyAtSwitch() throws {
        let bench = try RecoveryBench(.direct).announce()
        let text = bench.text { _ = try bench.open(0) }
        #expect(text.contains("has just been completed") && text.contains("Give the new key."), "\(text)")
        #expect(bench.state() == .ready)
        // Later nobody knows: but it is not told to put an older sidecar back.
        let later = bench.text { _ = try bench.open(0) }
        #expect(later.contains("it is at epoch 2") && !later.lowercased().contains("restore the sidecar"), "\(later)")
        try bench.checkRotated()
    }

    @Test("the holder of a dropped slot can not complete a switch, and changes nothing")
    func droppedSlotAtSwitch() throws {
        let bench = try RecoveryBench(.compromised).announce()
        let before = FolderSnapshot(of: bench.folder)
        #expect(bench.code { _ = try bench.open(1) } == .rotationPending)
        #expect(before.changes(until: FolderSnapshot(of: bench.folder)).filter { !$0.hasSuffix("-lock") } == [])
        try bench.checkRotated()
    }

    @Test(
        "a sidecar from before the switch that was put back does not bring the former key back",
        arguments: Rotated.allCases)
    func putBack(kind: Rotated) throws {
        let bench = try RecoveryBench(kind).begin()
        let files = SidecarFiles(databasePath: bench.path)
        let rotating = try Data(contentsOf: URL(filePath: files.mainPath))
        try bench.write(bench.copy())
        try bench.rename()
        for path in [files.mainPath, files.backupPath] { try rotating.write(to: URL(filePath: path)) }
        let (epoch, notices) = try bench.check(kind.next == 7 ? 7 : 0)
        #expect(epoch == 2 && notices.contains { $0.contains("somebody had put it back") })
        try bench.checkRotated()
    }

    @Test(
        "a connection of any program to the former file is waited for, and named; nothing is changed",
        arguments: [Rotated.newDataKey])
    func inUse(kind: Rotated) throws {
        let bench = try RecoveryBench(kind).announce()
        // The bytes that a connection locks; the descriptor of another open file stands for another process.
        let file = try FileDescriptor(opening: bench.path, .readWrite)
        #expect(try file.tryLock(SQLiteLockByte.all, .exclusive))
        let opening = try #require(
            try LockFile(path: bench.path + "-lock", likeFile: nil).tryLock(.opening, .exclusive))
        let secret = try Rotated.secret(0)
        #expect(
            bench.code {
                _ = try RotationRecovery.run(StorePaths(bench.path), wait: .milliseconds(50)) {
                    try secret.unlock($0)
                }
            } == .storeInUse)
        #expect(bench.state() == .switching && Files.exists(bench.copyPath))
        try file.unlock(SQLiteLockByte.all)
        opening.release()
        try bench.checkRotated()
    }

    @Test(
        "a store that gave its file up for a switch that was cut completes it itself, without asking its source",
        arguments: [Rotated.newDataKey, .compromised], [false, true])
    func peers(kind: Rotated, renamed: Bool) throws {
        let bench = try RecoveryBench(kind)
        let asked = Mutex(0)
        let source = KeySource.customRawKey("counted") {
            asked.withLock { $0 += 1 }
            return try RawKey(bytes: [UInt8](repeating: 0, count: 32))
        }
        let peer = try SharedStore.open(at: bench.path, unlockedBy: source)
        let paths = StorePaths(bench.path)
        let request = try #require(try YieldRequest.ask(paths, insists: false))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20), isCancelled: { false }))
        try bench.announce()
        if renamed { try bench.rename() }
        // The process of the rotation dies.
        lease.release()
        request.end()
        if kind == .compromised {
            // The keys in memory are the former ones: the source has to be asked again.
            #expect(
                bench.code { _ = try peer.read { try Int.fetchOne($0, sql: "SELECT 1") } }
                    == .keyRotated(from: 1, to: 2))
            #expect(bench.state() == .ready)
        } else {
            #expect(try peer.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == RecoveryBench.rows)
            try peer.write { try $0.execute(sql: "CREATE TABLE mine (a); DROP TABLE mine") }
        }
        #expect(asked.withLock { $0 } == 1)
        try peer.close()
        try bench.checkRotated()
    }

    // MARK: Everyday

    @Test("a copy beside a store that is not being rotated is a leftover and removed; what is no file is not followed")
    func leftovers() throws {
        let bench = try RecoveryBench(.newDataKey)
        try Data("SQLite format 3\0 and some pages".utf8).write(to: URL(filePath: bench.copyPath))
        let notices = try bench.check(0).notices
        #expect(notices.contains { $0.contains("which a rotation had left, was removed") })
        #expect(!Files.exists(bench.copyPath))
        let target = bench.folder.path("target")
        try Data("keep".utf8).write(to: URL(filePath: target))
        try FileManager.default.createSymbolicLink(atPath: bench.copyPath, withDestinationPath: target)
        #expect(try bench.check(0).notices.contains { $0.contains("a link") })
        #expect(Files.exists(target) && FileManager.default.contents(atPath: bench.copyPath) == Data("keep".utf8))
        try FileManager.default.removeItem(atPath: bench.copyPath)
        try FileManager.default.createDirectory(atPath: bench.copyPath, withIntermediateDirectories: false)
        _ = try bench.check(0)
        #expect(Files.exists(bench.copyPath))
    }

    // Recovery once removed any regular file of that name, and a rotation only what it can have made itself.
    @Test("a file that no rotation made is left alone and told, also when one is undone", arguments: [false, true])
    func foreignFile(isRotating: Bool) throws {
        let bench = try RecoveryBench(.newDataKey)
        let second = bench.folder.path("second name")
        let plants: [(String, () throws -> Void)] = [
            ("does not start", { try Data("a letter".utf8).write(to: URL(filePath: bench.copyPath)) }),
            (
                "second name",
                {
                    try Data(count: 100).write(to: URL(filePath: second))
                    try FileManager.default.linkItem(atPath: second, toPath: bench.copyPath)
                }
            ),
        ]
        for (why, plant) in plants {
            if isRotating { try bench.begin() }
            try plant()
            let content = FileManager.default.contents(atPath: bench.copyPath)
            let (epoch, notices) = try bench.check(0)
            #expect(epoch == 1 && notices.contains { $0.contains("was not removed") && $0.contains(why) }, "\(notices)")
            #expect(bench.state() == .ready)
            #expect(FileManager.default.contents(atPath: bench.copyPath) == content)
            try FileManager.default.removeItem(atPath: bench.copyPath)
        }
    }

    @Test("a copy is left alone while somebody has the lock of a rotation, whatever the sidecar says")
    func leftoverOfLiving() throws {
        let bench = try RecoveryBench(.newDataKey)
        try Data(count: 5000).write(to: URL(filePath: bench.copyPath))
        let admin = try #require(
            try LockFile(path: bench.path + "-lock", likeFile: nil).tryLock(.admin, .exclusive))
        try bench.open(0).close()
        #expect(Files.exists(bench.copyPath))
        admin.release()
    }

    @Test(
        "of several who open at once, one recovers, and all have the store",
        arguments: [Rotated.newDataKey, .compromised])
    func atOnce(kind: Rotated) throws {
        for isSwitching in [false, true] {
            let bench = try isSwitching ? RecoveryBench(kind).announce() : RecoveryBench(kind).begin()
            let path = bench.path
            let recovered = Mutex(0)
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                do {
                    let store = try SharedStore.open(at: path, unlockedBy: Rotated.source(0))
                    if store.notices.contains(where: { $0.contains("An interrupted rotation") }) {
                        recovered.withLock { $0 += 1 }
                    }
                    #expect(
                        try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == RecoveryBench.rows)
                    try store.close()
                } catch {
                    Issue.record("\(error)")
                }
            }
            #expect(recovered.withLock { $0 } == 1)
            try isSwitching ? bench.checkRotated() : bench.checkUndone()
        }
    }

    /// A pool that is opened without `SharedStore`.
    private func withPool<T>(_ path: String, _ body: (DatabasePool) throws -> T) throws -> T {
        var configuration = Configuration()
        configuration.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        let pool = try DatabasePool(path: path, configuration: configuration)
        defer { try? pool.close() }
        return try body(pool)
    }

    @Test(
        "who opens by hand or for reading alone uses the present key while pages are copied, and is told at the switch",
        arguments: Rotated.allCases)
    func otherOpeners(kind: Rotated) throws {
        let rotating = try RecoveryBench(kind).begin()
        try rotating.open(0).close()
        let again = try RecoveryBench(kind).begin()
        // The index of the log is made by the pool, which may write.
        let count = try withPool(again.path) { pool in
            try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
        }
        #expect(count == RecoveryBench.rows && again.state() == .rotating)
        let switching = try RecoveryBench(kind).announce()
        let before = FolderSnapshot(of: switching.folder)
        #expect(switching.code { try withPool(switching.path) { _ in } } == .rotationPending)
        #expect(
            switching.code { _ = try SharedStore.openReadOnly(at: switching.path, unlockedBy: Rotated.source(0)) }
                == .rotationPending)
        let changes = before.changes(until: FolderSnapshot(of: switching.folder))
        #expect(changes.filter { !$0.hasSuffix("-lock") && !$0.hasSuffix("-shm") } == [])
        try switching.checkRotated()
    }
}
