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
struct BackupTests {
    @Test(
        "a backup holds what the store held, log included, and opens as a store where it is",
        arguments: KeyScheme.allCases)
    func content(scheme: KeyScheme) throws {
        let bench = try BackupBench(scheme)
        let store = try bench.open()
        // Part of it is in the file, part in the log.
        try store.checkpoint(.full)
        try store.write { try $0.execute(sql: "UPDATE note SET text = 'new' WHERE id % 3 = 0") }
        let report = try store.backup(toFolder: bench.bundle)
        try store.write { try $0.execute(sql: "DELETE FROM note") }
        try store.close()
        #expect(report.storeID == store.storeID && report.epoch == 1 && report.notices.isEmpty)
        #expect(try bench.bytes(bench.bundle + "/store.db").count == report.bytes)
        let names = try FileManager.default.contentsOfDirectory(atPath: bench.bundle)
        #expect(Set(names) == ["store.db", "store.db-sidecar", "manifest.json"])
        _ = try SharedStore.verifyBackup(at: bench.bundle, unlockedBy: bench.source)

        try bench.restore()
        let rows = try bench.content(bench.restored)
        #expect(rows.count == BackupBench.rows && rows[2] == "3new" && rows[3].hasPrefix("4note 4"))
        // A bundle copied elsewhere is a backup there; without its manifest it is a store.
        try FileManager.default.copyItem(atPath: bench.bundle, toPath: bench.folder.path("elsewhere"))
        try bench.expect(.backupReadOnly) { _ = try bench.open(bench.folder.path("elsewhere") + "/store.db") }
        try FileManager.default.removeItem(atPath: bench.folder.path("elsewhere") + "/manifest.json")
        #expect(try bench.content(bench.folder.path("elsewhere") + "/store.db") == rows)
        #expect(try bench.content(bench.path).isEmpty)
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
        let bench = try BackupBench()
        switch kind {
        case "folder": try FileManager.default.createDirectory(atPath: bench.bundle, withIntermediateDirectories: false)
        case "file": try bench.write([1], to: bench.bundle)
        default:
            try FileManager.default.createSymbolicLink(atPath: bench.bundle, withDestinationPath: "/nowhere/at/all")
        }
        let store = try bench.open()
        try bench.expect(.alreadyExists) { try store.backup(toFolder: bench.bundle) }
        try store.close()
    }

    @Test("a backup that is cancelled leaves nothing, and neither does one for which there is no folder")
    func cancelled() throws {
        let bench = try BackupBench()
        let store = try bench.open()
        let before = try bench.names()
        #expect(throws: CancellationError.self) {
            try store.backup(toFolder: bench.bundle, isCancelled: { true })
        }
        let isLate = Atomic(false)
        #expect(throws: CancellationError.self) {
            try store.backup(
                toFolder: bench.bundle,
                progress: { if $0.phase == .verifying { isLate.store(true, ordering: .relaxed) } },
                isCancelled: { isLate.load(ordering: .relaxed) })
        }
        #expect(throws: SystemError.self) { try store.backup(toFolder: bench.folder.path("none/backup")) }
        #expect(try bench.names() == before)
        try store.close()
    }

    @Test("progress reaches the end of both phases")
    func progress() throws {
        let bench = try BackupBench()
        let store = try bench.open()
        let most = Mutex<[BackupProgress.Phase: Int]>([:])
        let report = try store.backup(
            toFolder: bench.bundle,
            progress: { step in most.withLock { $0[step.phase] = max($0[step.phase] ?? 0, step.bytesDone) } })
        #expect(most.withLock { $0 } == [.copying: report.bytes, .verifying: report.bytes])
        try store.close()
    }

    @Test("a damaged store is not backed up: the page is named, and nothing is left")
    func damagedStore() throws {
        let bench = try BackupBench()
        var bytes = try bench.bytes(bench.path)
        bytes[5 * 4096 + 100] ^= 1
        try bench.write(bytes, to: bench.path)
        let store = try bench.open()
        let before = try bench.names()
        let error = #expect(throws: StoreError.self) { try store.backup(toFolder: bench.bundle) }
        #expect(error?.code == .pageDamaged(6))
        #expect(try bench.names() == before)
        try store.close()
    }

    @Test(
        "while a rotation is pending the backup has the present key, without a trace of the next",
        arguments: KeyScheme.allCases)
    func pendingRotation(scheme: KeyScheme) throws {
        let bench = try BackupBench(scheme)
        let material = Secret.rawKey(try RawKey(bytes: [UInt8](repeating: 7, count: 32)))
        let journal = RotationJournal(databasePath: bench.path) { try TestKeys.material("raw").unlock($0) }
        let file = try LockFile(path: bench.path + "-lock", likeFile: bench.path)
        // Held to the end: the rotation lives.
        let admin = try #require(try file.tryLock(.admin, .exclusive))
        defer { admin.release() }
        let opening = try #require(try file.tryLock(.opening, .exclusive))
        _ = try journal.begin(scheme == .direct ? .direct(material) : .newDataKey)
        opening.release()
        let store = try SharedStore.open(at: bench.path, unlockedBy: bench.source)
        try store.backup(toFolder: bench.bundle)
        try store.close()
        let sidecar = try UnauthenticatedSidecar.parse(bench.bytes(bench.bundle + "/store.db-sidecar")).claimed
        #expect(sidecar.state == .ready && sidecar.epoch == 1)
        try bench.restore()
        #expect(try bench.content(bench.restored).count == BackupBench.rows)
    }
}
