import CipherStore
import Foundation
import KeyCustody
import StorePlatform
import TestHarness
import TestKit
import Testing

/// A former sidecar that was put back: a store from which a key was taken away remembers the newest.
@Suite struct PutBackSidecarTests {
    private let fixture: KeyslotFixture
    private let removed = TestKey.raw(0x2b)
    private let kept = TestKey.raw(0x2c)

    /// A store with three slots, each of a raw key.
    init() throws {
        fixture = try KeyslotFixture()
        try fixture.withStore { store in
            try store.keys.add(removed.source)
            try store.keys.add(kept.source)
        }
    }

    private var remembered: UInt64? {
        get throws {
            try fixture.withStore(kept) { try row(of: $0) }
        }
    }

    /// The generation that an open store remembers.
    private func row(of store: SharedStore) throws -> UInt64? {
        try store.read { try RollbackTable.generation(of: store.storeID, in: $0) }
    }

    private func text(_ reader: some DatabaseReader) throws -> String? {
        try reader.read { try String.fetchOne($0, sql: "SELECT text FROM note") }
    }

    private var hasTable: Bool {
        get throws { try fixture.withStore(kept) { try $0.read { try $0.tableExists(RollbackTable.name) } } }
    }

    private func removeSlot() throws { try fixture.withStore { try $0.keys.remove(2) } }

    /// Makes the store remember one generation less, as a crash behind the sidecar leaves it.
    private func forgetLast() throws {
        try fixture.withStore(kept) { store in
            try store.write { db in
                try db.changingHistory {
                    try db.execute(sql: "UPDATE cipherstore_custody SET generation = generation - 1")
                }
            }
        }
    }

    // MARK: What is remembered

    @Test(
        "a store whose keys never lost a secret has no table for that; the first loss makes it, later changes raise it")
    func table() throws {
        try fixture.withStore { try $0.keys.label(2, "second") }
        #expect(try !hasTable)
        try removeSlot()
        #expect(try hasTable && remembered == fixture.sidecar().generation)
        try fixture.withStore { store in
            try store.keys.label(3, "third")
            #expect(
                try row(of: store) == fixture.sidecar().generation)
            try store.keys.add(removed.source)
            try store.keys.change(4, to: .rawKey([UInt8](repeating: 0x2d, count: 32)))
        }
        #expect(try remembered == fixture.sidecar().generation)
    }

    @Test(
        "a row that is no generation refuses nobody, and the next change of keys makes it one",
        arguments: ["999999999999999999", "-1", "0", "1.5e300", "'text'", "NULL"])
    func nonsense(value: String) throws {
        try removeSlot()
        try fixture.withStore(kept) { store in
            try store.write { db in
                // Without the table's constraints, as pages that somebody wrote are.
                let row = try Row.fetchOne(db, sql: "SELECT id, store FROM cipherstore_custody")
                db.mayChangeStoreTables = true
                defer { db.mayChangeStoreTables = false }
                try db.execute(sql: "DROP TABLE cipherstore_custody")
                try db.execute(sql: "CREATE TABLE cipherstore_custody (id INTEGER PRIMARY KEY, store, generation)")
                try db.execute(
                    sql: "INSERT INTO cipherstore_custody VALUES (?, ?, \(value))",
                    arguments: [row?["id"] as Int?, row?["store"] as Data?])
            }
        }
        // It is no silent end of the protection: the next opening for writing says so, and writes the row again.
        try fixture.withStore(kept) { store in
            #expect(store.notices.contains { $0.contains("no valid generation") }, "\(store.notices)")
        }
        #expect(try remembered == nil || remembered == fixture.sidecar().generation)
        try fixture.withStore(kept) { try $0.keys.remove(1) }
        #expect(try remembered == fixture.sidecar().generation)
    }

    @Test("a row that is behind refuses nobody, and the next opening for writing raises it, but not one for reading")
    func behind() throws {
        try removeSlot()
        let newest = try fixture.sidecar().generation
        try forgetLast()
        let reader = try #require(try SharedStore.openReadOnly(at: fixture.path, unlockedBy: kept.source))
        #expect(try row(of: reader) == newest - 1)
        try reader.close()
        #expect(try fixture.read(.pool, kept) == "kept")
        #expect(try fixture.withStore { _ in try remembered } == newest)
    }

    @Test("while the copies of the sidecar are not the same, the newer one is not remembered")
    func oneCopy() throws {
        let former = try #require(fixture.contents("-sidecar.bak"))
        try removeSlot()
        try forgetLast()
        let expected = try fixture.sidecar().generation - 1
        // A copy that cannot be written anew.
        let backup = fixture.path + "-sidecar.bak"
        try FileManager.default.removeItem(atPath: backup)
        try FileManager.default.createDirectory(atPath: backup, withIntermediateDirectories: false)
        try former.write(to: URL(fileURLWithPath: backup + "/content"))
        try fixture.withStore { store in
            let found = try row(of: store)
            #expect(found == expected)
        }
    }

    // MARK: What is refused

    @Test("both former copies put back are refused to every key by every way of opening, and nothing is changed")
    func everyWay() throws {
        let former = try FormerCopies(fixture)
        try removeSlot()
        try former.putBack()
        for key in [KeyslotFixture.first, removed, kept] {
            for way in Opening.allCases {
                #expect(storeError { try fixture.read(way, key) } == .sidecarRolledBack, "\(way), \(key)")
                var config = Configuration()
                config.readonly = true
                let code = storeError { try way.open(fixture.path, key, config) { try $0.read { _ in } } }
                #expect(code == .sidecarRolledBack, "\(way), \(key), read-only")
            }
            let code = storeError { try SharedStore.openReadOnly(at: fixture.path, unlockedBy: key.source) }
            #expect(code == .sidecarRolledBack)
        }
        #expect(former.arePresent)
        let error = #expect(throws: StoreError.self) { try fixture.read(.sharedStore, kept) }
        let text = "\(try #require(error))"
        for part in [fixture.path, "generation 4", "generation 5", "key accept"] {
            #expect(text.contains(part), "\(text)")
        }
    }

    @Test("one former copy put back alone is mended from the other, and the removed key opens nothing")
    func oneOfTwo() throws {
        for ending in ["-sidecar", "-sidecar.bak"] {
            let lost = TestKey.raw(0x30)
            let slot = try fixture.withStore { try $0.keys.add(lost.source) }
            let former = try FormerCopies(fixture)
            try fixture.withStore { try $0.keys.remove(slot.number) }
            try former.putBack([ending])
            for way in Opening.allCases { #expect(storeError { try fixture.read(way, lost) } == .wrongKey, "\(way)") }
            #expect(try fixture.read(.sharedStore, kept) == "kept")
            #expect(fixture.contents("-sidecar") == fixture.contents("-sidecar.bak"))
            #expect(storeError { try fixture.read(.sharedStore, lost) } == .wrongKey)
        }
    }

    @Test("the former secret of a changed slot, and all slots of a store that is direct now, are noticed as well")
    func otherLosses() throws {
        let first = try FormerCopies(fixture)
        try fixture.withStore { try $0.keys.change(2, to: .rawKey([UInt8](repeating: 0x2e, count: 32))) }
        let second = try FormerCopies(fixture)
        try first.putBack()
        #expect(storeError { try fixture.read(.sharedStore, removed) } == .sidecarRolledBack)
        try second.putBack()
        let dataKey = try fixture.withStore { try $0.keys.reveal().withKey { Array($0) } }
        try fixture.withStore { try $0.keys.convertToDirect(provedBy: .rawKey(dataKey)) }
        let direct = try FormerCopies(fixture)
        try second.putBack()
        for way in Opening.allCases {
            #expect(storeError { try fixture.read(way, kept) } == .sidecarRolledBack, "\(way)")
        }
        try direct.putBack()
        #expect(try fixture.read(.rawKey(dataKey)) == "kept")
    }

    @Test("a sidecar from when the store was being created is refused like any other former one")
    func creating() throws {
        try removeSlot()
        let made = try SharedStore.open(at: fixture.path, unlockedBy: kept.source)
        let (keys, sidecar) = try made.requireRotationKeys()
        try made.close()
        var creating = sidecar
        creating.state = .creating
        creating.generation = 1
        try SidecarFiles(databasePath: fixture.path).write(creating, keys: keys)
        for way in Opening.allCases {
            #expect(storeError { try fixture.read(way, kept) } == .sidecarRolledBack, "\(way)")
        }
    }

    @Test("an open store notices it when it opens its connections again, and before it changes a key")
    func openStore() async throws {
        let former = try FormerCopies(fixture)
        let store = try SharedStore.open(at: fixture.path, unlockedBy: kept.source)
        try store.keys.remove(2)
        let newest = try FormerCopies(fixture)
        try former.putBack()
        #expect(storeError { try store.keys.label(3, "label") } == .sidecarRolledBack)
        #expect(storeError { try store.keys.remove(1) } == .sidecarRolledBack)
        #expect(former.arePresent)
        await store.suspend()
        #expect(storeError { try text(store) } == .sidecarRolledBack)
        try newest.putBack()
        store.resume()
        #expect(try text(store) == "kept")
        try store.close()
    }

    // A reader has read the sidecar when another process changes the keys; the row that it then finds is newer.
    @Test("a change of keys between an opener's look at the sidecar and at the row is no sidecar that was put back")
    func changeMeanwhile() throws {
        try removeSlot()
        let (path, key) = (fixture.path, kept)
        var config = Configuration()
        config.readonly = true
        config.prepareDatabase { db in
            try key.use(on: db)
            let other = try SharedStore.open(at: path, unlockedBy: key.source)
            defer { try? other.close() }
            let slot = try other.keys.add(.rawKey([UInt8](repeating: 0x31, count: 32)))
            try other.keys.remove(slot.number)
        }
        let queue = try DatabaseQueue(path: path, configuration: config)
        #expect(try text(queue) == "kept")
        try queue.close()
    }

    // MARK: Accepting

    @Test("a sidecar that is accepted counts again: its keys open, the key log tells, and they can be removed anew")
    func accepting() throws {
        let former = try FormerCopies(fixture)
        try removeSlot()
        let lost = try fixture.sidecar().generation
        try former.putBack()
        let accepted = try StoreKeys.acceptSidecar(at: fixture.path, unlockedBy: kept.source)
        #expect(accepted.found == lost - 1 && accepted.remembered == lost && accepted.generation == lost + 1)
        #expect(accepted.wasRolledBack && accepted.summary.slots.map(\.number) == [1, 2, 3])
        for key in [KeyslotFixture.first, removed, kept] { #expect(try fixture.read(.sharedStore, key) == "kept") }
        #expect(try remembered == lost + 1 && fixture.contents("-sidecar") == fixture.contents("-sidecar.bak"))
        let log = try String(contentsOfFile: fixture.path + "-keylog", encoding: .utf8)
        #expect(log.contains(#""event":"sidecar-accepted","generation":\#(lost - 1),"remembered":\#(lost),"#), "\(log)")
        try removeSlot()
        #expect(storeError { try fixture.read(.sharedStore, removed) } == .wrongKey)
        try former.putBack()
        #expect(storeError { try fixture.read(.sharedStore, removed) } == .sidecarRolledBack)
    }

    @Test("accepting the newest sidecar changes nothing of it, and makes a store remember it that does not")
    func acceptingNewest() throws {
        let newest = try FormerCopies(fixture)
        let generation = try fixture.sidecar().generation
        let accepted = try StoreKeys.acceptSidecar(at: fixture.path, unlockedBy: kept.source)
        #expect(!accepted.wasRolledBack && accepted.remembered == nil && accepted.generation == generation)
        #expect(newest.arePresent)
        #expect(try remembered == generation)
        #expect(try !String(contentsOfFile: fixture.path + "-keylog", encoding: .utf8).contains("sidecar-accepted"))
    }

    // MARK: Where the row cannot be written

    @Test("a change whose row cannot be written happens all the same and says so; accepting it makes up for that")
    func lockedDatabase() throws {
        let former = try FormerCopies(fixture)
        var config = Configuration()
        config.busyMode = .immediateError
        let store = try SharedStore.open(at: fixture.path, unlockedBy: kept.source, configuration: config)
        let other = try SharedStore.open(at: fixture.path, unlockedBy: kept.source)
        try other.write { db in
            try db.execute(sql: "INSERT INTO note VALUES ('more')")
            try store.keys.remove(2)
        }
        try other.close()
        #expect(
            store.notices.contains { $0.contains("SQLite error 5") && $0.contains("key accept") }, "\(store.notices)")
        try store.close()
        #expect(try !hasTable)
        try StoreKeys.acceptSidecar(at: fixture.path, unlockedBy: kept.source)
        try former.putBack()
        #expect(storeError { try fixture.read(.sharedStore, removed) } == .sidecarRolledBack)
    }

    @Test("an opening whose row cannot be raised opens all the same, and says so")
    func lockedOpening() throws {
        try removeSlot()
        try forgetLast()
        let expected = try fixture.sidecar().generation - 1
        let other = try DatabasePool(path: fixture.path, configuration: configuration(of: kept))
        try other.write { db in
            try db.execute(sql: "INSERT INTO note VALUES ('more')")
            var config = Configuration()
            config.busyMode = .immediateError
            let store = try SharedStore.open(at: fixture.path, unlockedBy: kept.source, configuration: config)
            #expect(
                store.notices.contains { $0.contains("the next opening for writing records it") }, "\(store.notices)")
            let found = try row(of: store)
            #expect(found == expected)
            try store.close()
        }
        try other.close()
    }

    @Test(
        "a suspended store writes no row, not when it is opened and not when its keys change; the next opening does",
        .exclusive(.suspension))
    func suspended() throws {
        try removeSlot()
        try forgetLast()
        let expected = try fixture.sidecar().generation - 1
        var config = Configuration()
        config.observesSuspensionNotifications = true
        NotificationCenter.default.post(name: Database.suspendNotification, object: nil)
        let store = try SharedStore.open(at: fixture.path, unlockedBy: kept.source, configuration: config)
        #expect(store.isSuspended && store.notices.isEmpty)
        #expect(try row(of: store) == expected)
        // It is made nevertheless: the locks that it needs are free.
        try store.keys.remove(1)
        #expect(store.notices.contains { $0.contains("the next opening for writing records it") }, "\(store.notices)")
        #expect(try row(of: store) == expected)
        NotificationCenter.default.post(name: Database.resumeNotification, object: nil)
        try store.close()
        #expect(try remembered == fixture.sidecar().generation)
    }

    @Test("a change of keys inside of a write access is remembered with its transaction")
    func insideWrite() throws {
        let former = try FormerCopies(fixture)
        try fixture.withStore { store in
            try store.write { db in
                try store.keys.remove(2)
                try db.execute(sql: "INSERT INTO note VALUES ('more')")
            }
        }
        #expect(try remembered == fixture.sidecar().generation)
        try former.putBack()
        #expect(storeError { try fixture.read(.sharedStore, removed) } == .sidecarRolledBack)
    }

    private func configuration(of key: TestKey) -> Configuration {
        var config = Configuration()
        config.prepareDatabase { try key.use(on: $0) }
        return config
    }

    // MARK: What the table is to others

    @Test("erasing keeps the table, comparing schemas and dumping pass it by")
    func harmless() throws {
        try removeSlot()
        let row = try fixture.sidecar().generation
        var migrator = DatabaseMigrator()
        migrator.registerMigration("first") { try $0.execute(sql: "CREATE TABLE item (name TEXT)") }
        try fixture.withStore { store in
            try store.erase()
            try migrator.migrate(store)
            try store.read { db in
                #expect(try !migrator.hasSchemaChanges(db) && !migrator.hasBeenSuperseded(db))
                #expect(try RollbackTable.generation(of: store.storeID, in: db) == row)
                let dump = Lines()
                try db.dumpContent(to: dump)
                #expect(dump.text.contains("item") && !dump.text.contains("cipherstore"))
            }
        }
    }

    @Test("a copy that is another store carries the row along, and it tells nothing there")
    func anotherStore() throws {
        try removeSlot()
        for _ in 0..<3 { try fixture.withStore { try $0.keys.label(3, "another") } }
        try fixture.withStore { try $0.vacuum(into: fixture.folder.path("copy.db")) }
        let copy = try SharedStore.open(at: fixture.folder.path("copy.db"), unlockedBy: KeyslotFixture.first.source)
        defer { try? copy.close() }
        func row() throws -> UInt64? { try copy.read { try RollbackTable.generation(of: copy.storeID, in: $0) } }
        #expect(try copy.read { try $0.tableExists(RollbackTable.name) } && row() == nil)
        try copy.keys.add(kept.source)
        try copy.keys.remove(1)
        #expect(try row() == 4)
    }

    @Test("a backup from before the loss of a key is restored and opens with the keys of its time")
    func restoring() throws {
        let bundle = fixture.folder.path("backup")
        try fixture.withStore { _ = try $0.backup(toFolder: bundle) }
        try removeSlot()
        let later = fixture.folder.path("later")
        try fixture.withStore { _ = try $0.backup(toFolder: later) }
        for (folder, opens) in [(bundle, true), (later, false), (bundle, true)] {
            try SharedStore.restore(from: folder, to: fixture.path, unlockedBy: kept.source, replacing: true)
            #expect(try fixture.read(.sharedStore, kept) == "kept")
            #expect(storeError { try fixture.read(.sharedStore, removed) } == (opens ? nil : .wrongKey))
        }
    }
}

/// The output of the dump.
private final class Lines: TextOutputStream {
    private(set) var text = ""
    func write(_ string: String) { text += string }
}
