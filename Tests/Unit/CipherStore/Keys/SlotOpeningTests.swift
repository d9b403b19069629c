import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestKit
import Testing

/// Stores with key slots, opened in every way.
@Suite struct SlotOpeningTests {
    private static let hexadecimal = "9f3c81d2e07b64a5f81e2d93c6b07a4f" + "15e8d3920b7c46fa8d21e59374c0b6af"

    @Test("a new store has one slot, of the kind of the source that created it")
    func firstSlot() throws {
        let folder = TemporaryFolder()
        try Data((Self.hexadecimal + "\n").utf8).write(to: URL(fileURLWithPath: folder.path("text")))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder.path("text"))
        let sources: [(KeySource, StoreKeys.Kind, StoreKeys.Derivation)] = [
            (.rawKey(TestKeys.rawKey), .keyFile, .hkdf),
            (.command(["cat", folder.path("text")]), .command, .hkdf),
            (.keyFile(path: folder.path("text")), .passphrase, .standard),
        ]
        for (index, (source, kind, derivation)) in sources.enumerated() {
            let store = try SharedStore.open(at: folder.path("\(index).db"), unlockedBy: source)
            let slots = try store.keys.list()
            #expect(slots.map(\.number) == [1] && slots.map(\.kind) == [kind])
            #expect(slots.map(\.derivation) == [derivation])
            #expect(try store.keys.summary().scheme == .slots)
            #expect(try !store.keys.summary().formerPassphraseOpensPages)
            try store.close()
            let again = try SharedStore.open(at: folder.path("\(index).db"), unlockedBy: source)
            #expect(again.storeID == store.storeID && again.notices.isEmpty)
            try again.close()
        }
    }

    @Test("a configuration may ask for a direct store, which any SQLCipher opens by its passphrase")
    func direct() throws {
        let folder = TemporaryFolder()
        var config = Configuration()
        config.keyScheme = .direct
        let store = try SharedStore.open(
            at: folder.path("app.db"), unlockedBy: .passphrase("secret"), configuration: config)
        #expect(try store.keys.summary().scheme == .direct && store.keys.list().isEmpty)
        #expect(storeError { try store.keys.add(.passphrase("other")) } == .slotNotFound)
        #expect(try store.keys.test(.passphrase("secret")) == nil)
        try store.close()
        let again = try SharedStore.open(at: folder.path("app.db"), unlockedBy: .passphrase("secret"))
        #expect(try again.keys.summary().scheme == .direct)
        try again.close()
    }

    @Test("a database made by hand is direct, whatever the configuration says")
    func byHand() throws {
        let folder = TemporaryFolder()
        try Opening.pool.open(folder.path("app.db"), .raw(7)) { _ in }
        let sidecar = SidecarFiles(databasePath: folder.path("app.db")).read().main.parsed?.claimed
        #expect(sidecar?.scheme == .direct && sidecar?.state == .ready)
    }

    @Test("each way of opening takes every key that opens a slot, and no other", arguments: Opening.allCases)
    func everyWay(_ opening: Opening) throws {
        let fixture = try KeyslotFixture()
        try fixture.add("first passphrase")
        try fixture.add("second passphrase")
        let keys = [KeyslotFixture.first, .passphrase("first passphrase"), .passphrase("second passphrase")]
        for key in keys { #expect(try fixture.read(opening, key) == "kept", "\(key)") }
        let before = FolderSnapshot(of: fixture.folder)
        for key in [TestKey.passphrase("third passphrase"), .raw(0x2b)] {
            #expect(storeError { try fixture.read(opening, key) } == .wrongKey, "\(key)")
        }
        #expect(Set(before.changes(until: FolderSnapshot(of: fixture.folder))).subtracting(["app.db-lock"]).isEmpty)
    }

    @Test("commands, credentials, key files and a printed recovery key open their slots, also for reading alone")
    func everyKind() throws {
        let fixture = try KeyslotFixture()
        try fixture.write(Self.hexadecimal, to: "text")
        let command = KeySource.command(["cat", fixture.folder.path("text")])
        try fixture.write(String(decoding: [UInt8](repeating: 0x41, count: 32), as: UTF8.self), to: "raw")
        let keyFile = KeySource.rawKeyFile(path: fixture.folder.path("raw"))
        var printed = ""
        try fixture.withStore { store in
            try store.keys.add(command, label: "vault")
            try store.keys.add(keyFile)
            let recovery = try store.keys.addRecoveryKey(label: "safe")
            #expect(recovery.slot.number == 4 && recovery.slot.kind == .recovery && recovery.slot.label == "safe")
            recovery.show { printed = String(decoding: $0, as: UTF8.self) }
        }
        #expect(printed.split(separator: "\n").count == 4)
        let typed = printed.lowercased().replacingOccurrences(of: "\n", with: " ")
        for (number, source) in [(2, command), (3, keyFile), (4, KeySource.passphrase(typed))] {
            #expect(try fixture.read(source) == "kept")
            let reader = try #require(try SharedStore.openReadOnly(at: fixture.path, unlockedBy: source))
            #expect(try reader.read { try String.fetchOne($0, sql: "SELECT text FROM note") } == "kept")
            #expect(try reader.keys.test(source)?.number == UInt64(number))
            #expect(throws: DatabaseError.self) { try reader.keys.remove(UInt64(number)) }
            try reader.close()
        }
    }

    @Test("by hand the data key that is revealed opens a store with slots, and no other raw key does")
    func dataKeyByHand() throws {
        let fixture = try KeyslotFixture()
        let key = try fixture.withStore { try $0.keys.reveal().withKey { Data($0) } }
        let before = FolderSnapshot(of: fixture.folder)
        for opening in [Opening.pool, .queue] {
            var config = Configuration()
            config.maximumReaderCount = 3
            config.prepareDatabase { try $0.useRawKey(key) }
            let found: String?
            switch opening {
            case .pool:
                let pool = try DatabasePool(path: fixture.path, configuration: config)
                found = try pool.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
                try pool.write { try $0.execute(sql: "UPDATE note SET text = 'kept'") }
                try pool.close()
            default:
                let queue = try DatabaseQueue(path: fixture.path, configuration: config)
                found = try queue.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
                try queue.close()
            }
            #expect(found == "kept")
        }
        let changed = before.changes(until: FolderSnapshot(of: fixture.folder))
        #expect(changed.filter { $0.contains("sidecar") }.isEmpty)
        // A shared store needs the master key.
        #expect(storeError { try fixture.read(.rawKey(Array(key))) } == .wrongKey)
        var damaged = try Data(contentsOf: URL(fileURLWithPath: fixture.path))
        damaged[2000] ^= 1
        try damaged.write(to: URL(fileURLWithPath: fixture.path))
        var config = Configuration()
        config.prepareDatabase { try $0.useRawKey(key) }
        #expect(storeError { try DatabaseQueue(path: fixture.path, configuration: config) } == .wrongKey)
    }

    @Test("settings asked for by hand that are not those of the store are refused")
    func otherSettings() throws {
        let fixture = try KeyslotFixture()
        var config = Configuration()
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 0x2a, count: 32))
            try db.execute(sql: "PRAGMA cipher_page_size = 8192")
        }
        #expect(storeError { try DatabasePool(path: fixture.path, configuration: config) } == .settingsConflict)
    }

    @Test("a slot that cannot be derived on this machine ends an opening that needs it, and no other")
    func unavailableDerivation() throws {
        let fixture = try KeyslotFixture()
        try fixture.add("passphrase")
        // Nobody can authenticate it then; but what a slot costs is looked at before.
        for ending in ["-sidecar", "-sidecar.bak"] {
            let text = try #require(fixture.contents(ending).map { String(decoding: $0, as: UTF8.self) })
            let changed = text.replacing(
                #""scrypt","log2_n":14,"r":8,"p":1"#, with: #""argon2id","memory_kib":16384,"iterations":1,"lanes":1"#)
            try #require(changed != text)
            try Data(changed.utf8).write(to: URL(fileURLWithPath: fixture.path + ending))
        }
        let code = storeError { try fixture.read(.sharedStore, .passphrase("passphrase")) }
        #expect(code == .unsupportedLibrary || code == .wrongKey)
        #expect(storeError { try fixture.read(.sharedStore, KeyslotFixture.first) } == .sidecarForged)
    }

    @Test("thirty-two slots open, and there is no thirty-third")
    func thirtyTwo() throws {
        let fixture = try KeyslotFixture()
        try fixture.withStore { store in
            for index in 2...32 {
                try store.keys.add(.rawKey([UInt8](repeating: UInt8(index), count: 32)))
            }
            #expect(storeError { try store.keys.add(.rawKey([UInt8](repeating: 99, count: 32))) } == .tooManySlots)
        }
        for index in [2, 17, 32] { #expect(try fixture.read(.sharedStore, .raw(UInt8(index))) == "kept") }
    }

    @Test("a copy by VACUUM INTO keeps the scheme, and opens with the key that opened the store")
    func vacuumInto() throws {
        let fixture = try KeyslotFixture()
        try fixture.add("another")
        try fixture.withStore { try $0.vacuum(into: fixture.folder.path("copy.db")) }
        let copy = try SharedStore.open(at: fixture.folder.path("copy.db"), unlockedBy: KeyslotFixture.first.source)
        #expect(try copy.keys.list().count == 1 && copy.keys.summary().scheme == .slots)
        #expect(try copy.storeID != fixture.withStore { $0.storeID })
        #expect(try copy.read { try String.fetchOne($0, sql: "SELECT text FROM note") } == "kept")
        try copy.close()
    }
}

extension KeyslotFixture {
    /// Writes a file that only its owner may read.
    func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: folder.path(name)))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: folder.path(name))
    }
}
