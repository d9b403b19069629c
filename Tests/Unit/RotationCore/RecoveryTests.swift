import CipherStore
import Foundation
import KeyCustody
import RotationCore
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// A rotation that was interrupted anywhere, and the next opening of the store.
@Suite("Recovery of a rotation", .serialized)
struct RecoveryTests {
    // MARK: Before the switch

    @Test(
        "a rotation that was cut while pages were copied is undone by the next opening, which says so",
        arguments: Rotated.allCases)
    func undone(kind: Rotated) throws {
        for copied in [0, 3] {
            let fixture = try RecoveryFixture(kind).begin()
            if copied > 0 { try fixture.write(Array(fixture.copy().prefix(copied))) }
            let (epoch, notices) = try fixture.check(0)
            #expect(epoch == 1)
            #expect(
                notices.contains {
                    $0.contains(
                        "An interrupted rotation to epoch 2 was undone; the store has its key of epoch 1.")
                })
            try fixture.checkUndone()
        }
    }

    @Test("a rotation that lives is left alone: the store opens with its present key", arguments: Rotated.allCases)
    func live(kind: Rotated) throws {
        let fixture = try RecoveryFixture(kind).begin()
        try fixture.write(fixture.copy())
        let admin = try #require(
            try LockFile(path: fixture.path + "-lock", likeFile: nil).tryLock(.admin, .exclusive))
        let store = try fixture.open(0)
        #expect(store.notices.isEmpty && fixture.state() == .rotating && Files.exists(fixture.copyPath))
        try store.close()
        admin.release()
        try fixture.checkUndone()
    }

    @Test(
        "the holder of a dropped slot undoes a rotation, and the holder of only the new key of a direct store does not")
    func otherKeysWhileRotating() throws {
        let compromised = try RecoveryFixture(.compromised).begin()
        #expect(try compromised.check(1).epoch == 1)
        let direct = try RecoveryFixture(.direct).begin()
        #expect(direct.code { _ = try direct.open(7) } == .rotationPending)
        try direct.checkUndone()
    }

    // MARK: After the switch

    @Test(
        "a rotation that was cut at the switch is completed by the next opening, which says so",
        arguments: Rotated.allCases)
    func completed(kind: Rotated) throws {
        let fixture = try RecoveryFixture(kind).announceSwitch()
        let (epoch, notices) = try fixture.check(kind.next)
        #expect(epoch == 2)
        #expect(notices.contains { $0.contains("was completed; the store has its key of epoch 2.") })
        try fixture.checkRotated()
    }

    @Test(
        "the copy that has taken the database's place is the database, whatever stands under its old name",
        arguments: Rotated.allCases)
    func renamed(kind: Rotated) throws {
        for leftover in [false, true] {
            let fixture = try RecoveryFixture(kind).announceSwitch()
            try fixture.rename()
            if leftover { try Data(count: 100).write(to: URL(filePath: fixture.copyPath)) }
            #expect(try fixture.check(kind.next).epoch == 2)
            try fixture.checkRotated()
        }
    }

    @Test("the old key of a direct store completes the switch, and then is not its key any more")
    func oldKeyAtSwitch() throws {
        let fixture = try RecoveryFixture(.direct).announceSwitch()
        let text = fixture.text { _ = try fixture.open(0) }
        #expect(text.contains("has just been completed") && text.contains("Give the new key."), "\(text)")
        #expect(fixture.state() == .ready)
        // Later the reason is unknown, but the error must not advise to restore an older sidecar.
        let later = fixture.text { _ = try fixture.open(0) }
        #expect(later.contains("it is at epoch 2") && !later.lowercased().contains("restore the sidecar"), "\(later)")
        try fixture.checkRotated()
    }

    @Test("the holder of a dropped slot can not complete a switch, and changes nothing")
    func droppedSlotAtSwitch() throws {
        let fixture = try RecoveryFixture(.compromised).announceSwitch()
        let before = FolderSnapshot(of: fixture.folder)
        #expect(fixture.code { _ = try fixture.open(1) } == .rotationPending)
        #expect(before.changes(until: FolderSnapshot(of: fixture.folder)).filter { !$0.hasSuffix("-lock") } == [])
        try fixture.checkRotated()
    }

    @Test(
        "a sidecar from before the switch that was put back does not bring the former key back",
        arguments: Rotated.allCases)
    func putBack(kind: Rotated) throws {
        let fixture = try RecoveryFixture(kind).begin()
        let files = SidecarFiles(databasePath: fixture.path)
        let rotating = try Data(contentsOf: URL(filePath: files.mainPath))
        try fixture.write(fixture.copy())
        try fixture.rename()
        for path in [files.mainPath, files.backupPath] { try rotating.write(to: URL(filePath: path)) }
        let (epoch, notices) = try fixture.check(kind.next == 7 ? 7 : 0)
        #expect(epoch == 2 && notices.contains { $0.contains("somebody had put it back") })
        try fixture.checkRotated()
    }

    @Test(
        "a connection of any program to the former file is waited for, and named; nothing is changed",
        arguments: [Rotated.newDataKey])
    func inUse(kind: Rotated) throws {
        let fixture = try RecoveryFixture(kind).announceSwitch()
        // The bytes that a connection locks; the descriptor of another open file represents another process.
        let file = try FileDescriptor(opening: fixture.path, .readWrite)
        #expect(try file.tryLock(SQLiteLockByte.all, .exclusive))
        let opening = try #require(
            try LockFile(path: fixture.path + "-lock", likeFile: nil).tryLock(.opening, .exclusive))
        let secret = try Rotated.secret(0)
        #expect(
            fixture.code {
                _ = try RotationRecovery.run(StorePaths(fixture.path), wait: .milliseconds(50)) {
                    try secret.unlock($0)
                }
            } == .storeInUse)
        #expect(fixture.state() == .switching && Files.exists(fixture.copyPath))
        try file.unlock(SQLiteLockByte.all)
        opening.release()
        try fixture.checkRotated()
    }

    @Test(
        "a store that gave its file up for a switch that was cut completes it itself, without asking its source",
        arguments: [Rotated.newDataKey, .compromised], [false, true])
    func peers(kind: Rotated, renamed: Bool) throws {
        let fixture = try RecoveryFixture(kind)
        let asked = Mutex(0)
        let source = KeySource.customRawKey("counted") {
            asked.withLock { $0 += 1 }
            return try RawKey(bytes: [UInt8](repeating: 0, count: 32))
        }
        let peer = try SharedStore.open(at: fixture.path, unlockedBy: source)
        let paths = StorePaths(fixture.path)
        let request = try #require(try YieldRequest.ask(paths, insists: false))
        let lease = try #require(try request.exclusiveLease(until: .now + .seconds(20), isCancelled: { false }))
        try fixture.announceSwitch()
        if renamed { try fixture.rename() }
        // The process of the rotation dies.
        lease.release()
        request.end()
        if kind == .compromised {
            // The keys in memory are the former ones: the source must be read again.
            #expect(
                fixture.code { _ = try peer.read { try Int.fetchOne($0, sql: "SELECT 1") } }
                    == .keyRotated(from: 1, to: 2))
            #expect(fixture.state() == .ready)
        } else {
            #expect(try peer.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == RecoveryFixture.rows)
            try peer.write { try $0.execute(sql: "CREATE TABLE mine (a); DROP TABLE mine") }
        }
        #expect(asked.withLock { $0 } == 1)
        try peer.close()
        try fixture.checkRotated()
    }

    // MARK: Ordinary openings

    @Test("a copy beside a store that is not being rotated is a leftover and removed; what is no file is not followed")
    func leftovers() throws {
        let fixture = try RecoveryFixture(.newDataKey)
        try Data("SQLite format 3\0 and some pages".utf8).write(to: URL(filePath: fixture.copyPath))
        let notices = try fixture.check(0).notices
        #expect(notices.contains { $0.contains("which a rotation had left, was removed") })
        #expect(!Files.exists(fixture.copyPath))
        let target = fixture.folder.path("target")
        try Data("keep".utf8).write(to: URL(filePath: target))
        try FileManager.default.createSymbolicLink(atPath: fixture.copyPath, withDestinationPath: target)
        #expect(try fixture.check(0).notices.contains { $0.contains("a link") })
        #expect(Files.exists(target) && FileManager.default.contents(atPath: fixture.copyPath) == Data("keep".utf8))
        try FileManager.default.removeItem(atPath: fixture.copyPath)
        try FileManager.default.createDirectory(atPath: fixture.copyPath, withIntermediateDirectories: false)
        _ = try fixture.check(0)
        #expect(Files.exists(fixture.copyPath))
    }

    // A recovery once removed any regular file of that name. A rotation removes only a file that it can have made.
    @Test("a file that no rotation made is left alone and told, also when one is undone", arguments: [false, true])
    func foreignFile(isRotating: Bool) throws {
        let fixture = try RecoveryFixture(.newDataKey)
        let second = fixture.folder.path("second name")
        let plants: [(String, () throws -> Void)] = [
            ("does not start", { try Data("a letter".utf8).write(to: URL(filePath: fixture.copyPath)) }),
            (
                "second name",
                {
                    try Data(count: 100).write(to: URL(filePath: second))
                    try FileManager.default.linkItem(atPath: second, toPath: fixture.copyPath)
                }
            ),
        ]
        for (why, plant) in plants {
            if isRotating { try fixture.begin() }
            try plant()
            let content = FileManager.default.contents(atPath: fixture.copyPath)
            let (epoch, notices) = try fixture.check(0)
            #expect(epoch == 1 && notices.contains { $0.contains("was not removed") && $0.contains(why) }, "\(notices)")
            #expect(fixture.state() == .ready)
            #expect(FileManager.default.contents(atPath: fixture.copyPath) == content)
            try FileManager.default.removeItem(atPath: fixture.copyPath)
        }
    }

    @Test("a copy is left alone while somebody has the lock of a rotation, whatever the sidecar says")
    func leftoverOfLiving() throws {
        let fixture = try RecoveryFixture(.newDataKey)
        try Data(count: 5000).write(to: URL(filePath: fixture.copyPath))
        let admin = try #require(
            try LockFile(path: fixture.path + "-lock", likeFile: nil).tryLock(.admin, .exclusive))
        try fixture.open(0).close()
        #expect(Files.exists(fixture.copyPath))
        admin.release()
    }

    @Test(
        "of several who open at once, one recovers, and all have the store",
        arguments: [Rotated.newDataKey, .compromised])
    func atOnce(kind: Rotated) throws {
        for isSwitching in [false, true] {
            let fixture = try isSwitching ? RecoveryFixture(kind).announceSwitch() : RecoveryFixture(kind).begin()
            let path = fixture.path
            let recovered = Mutex(0)
            DispatchQueue.concurrentPerform(iterations: 4) { _ in
                do {
                    let store = try SharedStore.open(at: path, unlockedBy: Rotated.source(0))
                    if store.notices.contains(where: { $0.contains("An interrupted rotation") }) {
                        recovered.withLock { $0 += 1 }
                    }
                    #expect(
                        try store.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") } == RecoveryFixture.rows)
                    try store.close()
                } catch {
                    Issue.record("\(error)")
                }
            }
            #expect(recovered.withLock { $0 } == 1)
            try isSwitching ? fixture.checkRotated() : fixture.checkUndone()
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
        let rotating = try RecoveryFixture(kind).begin()
        try rotating.open(0).close()
        let again = try RecoveryFixture(kind).begin()
        // The pool, which may write, creates the wal-index.
        let count = try withPool(again.path) { pool in
            try pool.read { try Int.fetchOne($0, sql: "SELECT count(*) FROM t") }
        }
        #expect(count == RecoveryFixture.rows && again.state() == .rotating)
        let switching = try RecoveryFixture(kind).announceSwitch()
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
