import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Backups of a store that nobody else uses, and what they hold.
@Suite("Backups")
struct StoreBackupTests {
    @Test(
        "a backup holds what the store held, log included, and opens as a store where it is",
        arguments: KeyScheme.allCases)
    func content(scheme: KeyScheme) throws {
        let fixture = try BackupFixture(scheme)
        let store = try fixture.open()
        // Part of it is in the file, part in the log.
        try store.checkpoint(.full)
        try store.write { try $0.execute(sql: "UPDATE note SET text = 'new' WHERE id % 3 = 0") }
        let report = try store.backup(toFolder: fixture.bundle)
        try store.write { try $0.execute(sql: "DELETE FROM note") }
        try store.close()
        #expect(report.storeID == store.storeID && report.epoch == 1 && report.notices.isEmpty)
        #expect(try fixture.bytes(fixture.bundle + "/store.db").count == report.bytes)
        let names = try FileManager.default.contentsOfDirectory(atPath: fixture.bundle)
        #expect(Set(names) == ["store.db", "store.db-sidecar", "manifest.json"])
        _ = try SharedStore.verifyBackup(at: fixture.bundle, unlockedBy: fixture.source)

        try fixture.restore()
        let rows = try fixture.content(fixture.restored)
        #expect(rows.count == BackupFixture.rows && rows[2] == "3new" && rows[3].hasPrefix("4note 4"))
        // A bundle copied elsewhere is a backup there; without its manifest it is a store.
        try FileManager.default.copyItem(atPath: fixture.bundle, toPath: fixture.folder.path("elsewhere"))
        try fixture.expect(.backupReadOnly) { _ = try fixture.open(fixture.folder.path("elsewhere") + "/store.db") }
        try FileManager.default.removeItem(atPath: fixture.folder.path("elsewhere") + "/manifest.json")
        #expect(try fixture.content(fixture.folder.path("elsewhere") + "/store.db") == rows)
        #expect(try fixture.content(fixture.path).isEmpty)
    }

    @Test("a store with a passphrase is backed up and restored, and its backup opens with the passphrase of its time")
    func passphrases() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        let store = try SharedStore.open(at: path, unlockedBy: .passphrase("first"))
        try store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        try store.backup(toFolder: folder.path("backup"))
        try store.close()
        try SharedStore.restore(from: folder.path("backup"), to: folder.path("r.db"), unlockedBy: .passphrase("first"))
        let restored = try SharedStore.open(at: folder.path("r.db"), unlockedBy: .passphrase("first"))
        #expect(restored.storeID == store.storeID)
        #expect(try restored.read { try Int.fetchOne($0, sql: "SELECT a FROM t") } == 1)
        try restored.close()
        let error = #expect(throws: StoreError.self) {
            try SharedStore.verifyBackup(at: folder.path("backup"), unlockedBy: .passphrase("second"))
        }
        #expect(error?.code == .wrongKey)
    }

    @Test("a folder, a file and a link that leads nowhere are not written over", arguments: ["folder", "file", "link"])
    func occupied(kind: String) throws {
        let fixture = try BackupFixture()
        switch kind {
        case "folder":
            try FileManager.default.createDirectory(atPath: fixture.bundle, withIntermediateDirectories: false)
        case "file": try fixture.write([1], to: fixture.bundle)
        default:
            try FileManager.default.createSymbolicLink(atPath: fixture.bundle, withDestinationPath: "/nowhere/at/all")
        }
        let store = try fixture.open()
        try fixture.expect(.alreadyExists) { try store.backup(toFolder: fixture.bundle) }
        try store.close()
    }

    @Test("a backup that is cancelled leaves nothing, and neither does one for which there is no folder")
    func cancelled() throws {
        let fixture = try BackupFixture()
        let store = try fixture.open()
        let before = try fixture.names()
        #expect(throws: CancellationError.self) {
            try store.backup(toFolder: fixture.bundle, isCancelled: { true })
        }
        let isLate = Atomic(false)
        #expect(throws: CancellationError.self) {
            try store.backup(
                toFolder: fixture.bundle,
                progress: { if $0.phase == .verifying { isLate.store(true, ordering: .relaxed) } },
                isCancelled: { isLate.load(ordering: .relaxed) })
        }
        #expect(throws: SystemError.self) { try store.backup(toFolder: fixture.folder.path("none/backup")) }
        #expect(try fixture.names() == before)
        try store.close()
    }

    @Test("progress reaches the end of both phases")
    func progress() throws {
        let fixture = try BackupFixture()
        let store = try fixture.open()
        let most = Mutex<[BackupProgress.Phase: Int]>([:])
        let report = try store.backup(
            toFolder: fixture.bundle,
            progress: { step in most.withLock { $0[step.phase] = max($0[step.phase] ?? 0, step.bytesDone) } })
        #expect(most.withLock { $0 } == [.copying: report.bytes, .verifying: report.bytes])
        try store.close()
    }

    @Test("a damaged store is not backed up: the page is named, and nothing is left")
    func damagedStore() throws {
        let fixture = try BackupFixture()
        var bytes = try fixture.bytes(fixture.path)
        bytes[5 * 4096 + 100] ^= 1
        try fixture.write(bytes, to: fixture.path)
        let store = try fixture.open()
        let before = try fixture.names()
        let error = #expect(throws: StoreError.self) { try store.backup(toFolder: fixture.bundle) }
        #expect(error?.code == .pageDamaged(6))
        #expect(try fixture.names() == before)
        try store.close()
    }

    @Test(
        "while a rotation is pending the backup has the present key, without a trace of the next",
        arguments: KeyScheme.allCases)
    func pendingRotation(scheme: KeyScheme) throws {
        let fixture = try BackupFixture(scheme)
        let material = Secret.rawKey(try RawKey(bytes: [UInt8](repeating: 7, count: 32)))
        let journal = RotationJournal(databasePath: fixture.path) { try TestKeys.material("raw").unlock($0) }
        let file = try LockFile(path: fixture.path + "-lock", likeFile: fixture.path)
        // Held to the end: the rotation lives.
        let admin = try #require(try file.tryLock(.admin, .exclusive))
        defer { admin.release() }
        let opening = try #require(try file.tryLock(.opening, .exclusive))
        _ = try journal.begin(scheme == .direct ? .direct(material) : .newDataKey)
        opening.release()
        let store = try SharedStore.open(at: fixture.path, unlockedBy: fixture.source)
        try store.backup(toFolder: fixture.bundle)
        try store.close()
        let sidecar = try UnauthenticatedSidecar.parse(fixture.bytes(fixture.bundle + "/store.db-sidecar")).claimed
        #expect(sidecar.state == .ready && sidecar.epoch == 1)
        try fixture.restore()
        #expect(try fixture.content(fixture.restored).count == BackupFixture.rows)
    }
}
