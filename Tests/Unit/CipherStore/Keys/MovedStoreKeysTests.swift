import CipherStore
import Foundation
import TestKit
import Testing

/// Changes of keys, and connections, of an open store whose path leads to another file by now.
@Suite struct MovedStoreKeysTests {
    private let fixture: KeyslotFixture
    private let link: String
    private let copy: String
    private static let second = TestKey.raw(0x2b)

    /// A store with two slots in a folder, a copy of the folder, and a link to the first one.
    init() throws {
        fixture = try KeyslotFixture()
        let folder = fixture.folder
        try fixture.withStore { _ = try $0.keys.add(Self.second.source) }
        (link, copy) = (folder.path("link"), folder.path("copy"))
        try FileManager.default.createDirectory(atPath: copy, withIntermediateDirectories: false)
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.url.path) where name.hasPrefix("app.db")
        {
            try FileManager.default.copyItem(atPath: folder.path(name), toPath: copy + "/" + name)
        }
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.url.path)
    }

    private func lead(to place: String) throws {
        try FileManager.default.removeItem(atPath: link)
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: place)
    }

    private func slots(_ path: String) throws -> Int {
        let store = try SharedStore.open(at: path, unlockedBy: KeyslotFixture.first.source)
        defer { try? store.close() }
        return try store.keys.list().count
    }

    // Story: the slot was removed from the copy, and still opened the store in use.
    @Test("a key is removed from the store that is open, wherever a link in its path leads meanwhile")
    func changedLink() throws {
        let store = try SharedStore.open(at: link + "/app.db", unlockedBy: KeyslotFixture.first.source)
        try lead(to: copy)
        try store.keys.remove(2)
        try store.close()
        #expect(try slots(fixture.path) == 1 && slots(copy + "/app.db") == 2)
    }

    @Test("a new reader of a pool reads the file that is open, wherever a link in its path leads meanwhile")
    func readerBehindLink() throws {
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.useRawKey(Data(repeating: 7, count: 32)) }
        let folder = fixture.folder
        for (name, count) in [("one", 1), ("two", 2)] {
            try FileManager.default.createDirectory(atPath: folder.path(name), withIntermediateDirectories: false)
            let pool = try DatabasePool(path: folder.path(name) + "/p.db", configuration: configuration)
            try pool.write { db in
                try db.execute(sql: "CREATE TABLE t (a)")
                for _ in 0..<count { try db.execute(sql: "INSERT INTO t VALUES (1)") }
            }
            try pool.close()
        }
        try lead(to: folder.path("one"))
        let pool = try DatabasePool(path: link + "/p.db", configuration: configuration)
        try lead(to: folder.path("two"))
        #expect(try pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
        #expect(try pool.makeSnapshot().read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") } == 1)
        try pool.close()
    }

    @Test("keys, backups and the like are refused where a copy of the store has taken its name")
    func replaced() throws {
        let path = fixture.path
        let store = try SharedStore.open(at: path, unlockedBy: KeyslotFixture.first.source)
        defer { try? store.close() }
        #expect(rename(copy + "/app.db", path) == 0)
        #expect(storeError { _ = try store.keys.list() } == .storeMoved)
        #expect(storeError { try store.keys.remove(2) } == .storeMoved)
        #expect(storeError { _ = try store.keys.add(TestKey.raw(1).source) } == .storeMoved)
        #expect(storeError { _ = try store.keys.test(Self.second.source) } == .storeMoved)
        #expect(storeError { _ = try store.requireRotationKeys() } == .storeMoved)
        #expect(storeError { _ = try store.backup(toFolder: fixture.folder.path("backup")) } == .storeMoved)
    }
}
