import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// `store.keys`, on an open store.
@Suite struct StoreKeysTests {
    let fixture: KeyslotFixture

    init() throws { fixture = try KeyslotFixture() }

    @Test("slots are listed with number, kind, label, date and derivation, and can be labelled anew")
    func listing() throws {
        let before = Date(timeIntervalSinceNow: -1)
        try fixture.withStore { store in
            let added = try store.keys.add(.passphrase("second"), label: "Anna, laptop", derivation: TestKeys.cheap)
            #expect(added.number == 2 && added.kind == .passphrase && added.label == "Anna, laptop")
            #expect(added.derivation == TestKeys.cheap && "\(added.derivation)" == "scrypt N=2^14 r=8 p=1")
            #expect(added.created >= before && added.created <= Date())
            try store.keys.label(2, "Anna")
            let slots = try store.keys.list()
            #expect(slots.map(\.label) == ["", "Anna"] && slots.map(\.number) == [1, 2])
            #expect(slots[1].created == added.created)
            #expect(storeError { try store.keys.label(3, "nobody") } == .slotNotFound)
            #expect(storeError { try store.keys.label(2, "\"") } == .invalidKey)
        }
    }

    // Story: both sidecars were deleted under an open store, and nothing could write them again.
    @Test("both lost copies of the sidecar are written again by a store that is open")
    func lostSidecar() throws {
        try fixture.add("second")
        let files = SidecarFiles(databasePath: fixture.path)
        let former = try Files.contents(of: files.mainPath, limitBytes: 1 << 16)
        try fixture.withStore { store in
            #expect(storeError { try store.keys.restoreSidecar() } == .alreadyExists)
            for path in [files.mainPath, files.backupPath] { try Files.remove(path) }
            #expect(throws: StoreError.self) { try store.keys.list() }
            let summary = try store.keys.restoreSidecar()
            #expect(summary.slots.count == 2)
            #expect(try Files.contents(of: files.mainPath, limitBytes: 1 << 16) != former)
            #expect(try store.keys.list() == summary.slots)
            #expect(try store.keys.test(.passphrase("second"))?.number == 2)
            // A copy that comes back does not count.
            try Data(former).write(to: URL(fileURLWithPath: files.mainPath))
            #expect(try store.keys.list() == summary.slots)
            try store.write { try $0.execute(sql: "INSERT INTO note VALUES ('more')") }
        }
        try fixture.withStore { store in
            #expect(try store.keys.list().count == 2)
            try store.keys.label(2, "Anna")
        }
    }

    // Story: behind a suspension every access and the restoration itself said that the salt is missing: the keys were lost.
    @Test("both lost copies of the sidecar are written again behind a suspension")
    func lostSidecarBehindSuspension() async throws {
        let files = SidecarFiles(databasePath: fixture.path)
        let store = try SharedStore.open(at: fixture.path, unlockedBy: KeyslotFixture.first.source)
        defer { try? store.close() }
        for path in [files.mainPath, files.backupPath] { try Files.remove(path) }
        _ = await store.suspend(deadline: .seconds(5))
        store.resume()
        try await store.write { try $0.execute(sql: "INSERT INTO note VALUES ('more')") }
        #expect(files.read().areAbsent)
        #expect(store.notices.contains { $0.contains("restoreSidecar") })
        #expect(try store.keys.restoreSidecar().slots.count == 1)
        try store.close()
        #expect(try fixture.withStore { try $0.keys.list().count } == 1)
    }

    @Test("a sidecar that another process has changed since is not written again")
    func lostNewerSidecar() throws {
        try fixture.add("second")
        let files = SidecarFiles(databasePath: fixture.path)
        try fixture.withStore { store in
            try fixture.withStore { other in try other.keys.remove(2) }
            for path in [files.mainPath, files.backupPath] { try Files.remove(path) }
            #expect(storeError { try store.keys.restoreSidecar() } == .sidecarRolledBack)
            #expect(files.read().areAbsent)
        }
    }

    @Test("a changed passphrase opens from then on, the former one nothing that is left beside the store")
    func changed() throws {
        try fixture.add("former")
        let generation = try fixture.sidecar().generation
        try fixture.withStore { store in
            try store.keys.change(2, to: .passphrase("new"), derivation: TestKeys.cheap)
            #expect(try store.keys.test(.passphrase("new"))?.number == 2)
            #expect(storeError { try store.keys.test(.passphrase("former")) } == .wrongKey)
            // The store that made the change goes on.
            try store.write { try $0.execute(sql: "INSERT INTO note VALUES ('more')") }
            #expect(try fixture.filesOpened(by: .passphrase("former")) == [])
            #expect(try fixture.filesOpened(by: .passphrase("new")) == ["app.db-sidecar", "app.db-sidecar.bak"])
        }
        #expect(try fixture.sidecar().generation == generation + 1)
        #expect(fixture.contents("-sidecar") == fixture.contents("-sidecar.bak"))
        #expect(try fixture.read(.sharedStore, .passphrase("new")) == "kept")
        for opening in Opening.allCases {
            #expect(storeError { try fixture.read(opening, .passphrase("former")) } == .wrongKey)
        }
    }

    @Test("who comes with a key that was removed is told how to see which slots there are, and not to restore anything")
    func remedy() throws {
        try fixture.add("second")
        try fixture.withStore { try $0.keys.remove(2) }
        do {
            _ = try fixture.read(.passphrase("second"))
            Issue.record("it opens")
        } catch let error as StoreError {
            #expect(error.code == .wrongKey)
            #expect(error.remedy.contains("removed its slot") && error.remedy.contains("`cipherctl key list`"))
            #expect(!error.remedy.contains("restore"), "\(error.remedy)")
        }
    }

    @Test("a removed key opens nothing that is left beside the store; the last one is never removed")
    func removed() throws {
        try fixture.add("second")
        // The leftover of a former version goes as well.
        try FileManager.default.copyItem(atPath: fixture.path + "-sidecar", toPath: fixture.path + "-sidecar.damaged")
        #expect(try fixture.filesOpened(by: KeyslotFixture.first).count == 3)
        try fixture.withStore { store in
            try store.keys.remove(1)
            #expect(try fixture.filesOpened(by: KeyslotFixture.first) == [])
            #expect(storeError { try store.keys.remove(2) } == .lastSlot)
            #expect(storeError { try store.keys.remove(1) } == .slotNotFound)
        }
        #expect(storeError { try fixture.read(.sharedStore, KeyslotFixture.first) } == .wrongKey)
        #expect(try fixture.read(.sharedStore, .passphrase("second")) == "kept")
        // Its number is not given again.
        try fixture.withStore(.passphrase("second")) { store in
            let added = try store.keys.add(.rawKey(TestKeys.rawKey))
            #expect(added.number == 3)
        }
    }

    @Test("the backup of the sidecar alone opens the store after each change")
    func backupAlone() throws {
        func expectBackupOpens(_ key: TestKey, _ what: String) throws {
            let folder = TemporaryFolder()
            for ending in ["", "-sidecar.bak"] {
                try FileManager.default.copyItem(atPath: fixture.path + ending, toPath: folder.path("app.db" + ending))
            }
            let store = try SharedStore.open(at: folder.path("app.db"), unlockedBy: key.source)
            #expect(try store.read { try String.fetchOne($0, sql: "SELECT text FROM note") } == "kept", "\(what)")
            try store.close()
            #expect(FileManager.default.fileExists(atPath: folder.path("app.db-sidecar")))
        }
        try expectBackupOpens(KeyslotFixture.first, "created")
        try fixture.add("second")
        try expectBackupOpens(.passphrase("second"), "added")
        try fixture.withStore { _ = try $0.keys.change(2, to: .passphrase("third"), derivation: TestKeys.cheap) }
        try expectBackupOpens(.passphrase("third"), "changed")
        try fixture.withStore(.passphrase("third")) { try $0.keys.remove(1) }
        try expectBackupOpens(.passphrase("third"), "removed")
    }

    @Test("what is revealed is the key of the pages, and does not print itself")
    func revealed() throws {
        try fixture.withStore { store in
            let revealed = try store.keys.reveal()
            let key = revealed.withKey { Array($0) }
            let text = revealed.withKeyspec { String(decoding: $0, as: UTF8.self) }
            #expect(text == "x'\(TestKeys.hex(key))\(TestKeys.hex(revealed.salt.bytes))'")
            #expect(revealed.salt == (try fixture.sidecar().salt))
            #expect(revealed.pageBytes == 4096 && revealed.plaintextHeaderBytes == 32)
            #expect(revealed.hmacHash == .sha512 && revealed.kdfHash == .sha512)
            #expect(revealed.describe() == "RevealedKey(32 bytes)")
        }
    }

    @Test("a direct store gets slots while it is open, says that its former passphrase still opens it, and goes back")
    func conversion() throws {
        let folder = TemporaryFolder()
        let path = folder.path("app.db")
        var config = Configuration()
        config.keyScheme = .direct
        let direct = TestKey.raw(9)
        let store = try SharedStore.open(at: path, unlockedBy: direct.source, configuration: config)
        try store.write { try $0.execute(sql: "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('kept')") }
        try store.keys.convertToSlots(.passphrase("slot"), derivation: TestKeys.cheap)
        let summary = try store.keys.summary()
        #expect(summary.scheme == .slots && summary.formerPassphraseOpensPages && summary.slots.count == 1)
        #expect(storeError { try SharedStore.open(at: path, unlockedBy: direct.source) } == .wrongKey)
        // By hand the former key is the data key.
        let read: (any DatabaseWriter) throws -> String? = { writer in
            try writer.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
        }
        #expect(try Opening.pool.open(path, direct, body: read) == "kept")
        #expect(try Opening.sharedStore.open(path, .passphrase("slot"), body: read) == "kept")
        // The same store object continues with the keys that the conversion made.
        try store.keys.add(.rawKey(TestKeys.rawKey))
        #expect(storeError { try store.keys.convertToDirect(provedBy: .passphrase("slot")) } == .wrongKey)
        try store.keys.convertToDirect(provedBy: direct.source)
        #expect(try store.keys.summary().scheme == .direct)
        #expect(storeError { try SharedStore.open(at: path, unlockedBy: .passphrase("slot")) } == .wrongKey)
        try store.write { try $0.execute(sql: "INSERT INTO note VALUES ('more')") }
        try store.close()
        #expect(try Opening.sharedStore.open(path, direct, body: read) == "kept")
    }

    @Test("a new passphrase that is typed differently the second time changes nothing")
    func confirmation() throws {
        let before = fixture.contents("-sidecar")
        try fixture.withStore { store in
            #expect(throws: StoreError.self) { try store.keys.add(.custom("closure") { try Passphrase("") }) }
            #expect(throws: StoreError.self) { try store.keys.add(.rawKey([1, 2, 3])) }
        }
        #expect(fixture.contents("-sidecar") == before)
    }

    @Test("a closed store has no keys to change")
    func closed() throws {
        let store = try SharedStore.open(at: fixture.path, unlockedBy: KeyslotFixture.first.source)
        try store.close()
        #expect(storeError { try store.keys.list() } == .storeClosed)
        #expect(storeError { try store.keys.add(.rawKey(TestKeys.rawKey)) } == .storeClosed)
    }

    @Test("changing the passphrase of a connection is refused, naming what does it")
    func changePassphrase() throws {
        try fixture.withStore { store in
            let error = #expect(throws: DatabaseError.self) { try store.write { try $0.changePassphrase("new") } }
            #expect(error?.message?.contains("store.keys.change") == true)
        }
    }

    /// The copy had the former key alone.
    @Test("a store whose key was changed is not copied under the former key, until it is opened again")
    func copyAfterChange() throws {
        let fixture = try KeyslotFixture()
        let other = TestKey.raw(0x2b)
        try fixture.withStore { store in
            try store.vacuum(into: fixture.folder.path("before.db"))
            try store.keys.change(1, to: other.source)
            #expect(storeError { try store.vacuum(into: fixture.folder.path("after.db")) } == .wrongKey)
            #expect(!Files.exists(fixture.folder.path("after.db")))
        }
        try fixture.withStore(other) { try $0.vacuum(into: fixture.folder.path("after.db")) }
        let copy = try SharedStore.open(at: fixture.folder.path("after.db"), unlockedBy: other.source)
        #expect(try copy.read { try String.fetchOne($0, sql: "SELECT text FROM note") } == "kept")
        try copy.close()
    }
}
