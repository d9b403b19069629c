import CipherDatabase
import Foundation
import StorePlatform
import TestKit
import Testing

/// Databases in memory: named ones, and copies of files.
@Suite struct MemoryQueueTests {
    let folder = TemporaryFolder()
    /// Tests run in one process, which is what shares named databases.
    private let name = "players \(UUID().uuidString) ?&%äö/"

    private func keyed(_ change: (inout Configuration) -> Void = { _ in }) -> Configuration {
        var config = Configuration()
        config.prepareDatabase { db in
            try db.useRawKey(Data(repeating: 7, count: 32))
            try db.execute(sql: "PRAGMA cipher_plaintext_header_size = 32")
        }
        change(&config)
        return config
    }

    @Test("queues of one name share one database until the last of them is closed")
    func named() throws {
        let (one, two) = (DatabaseQueue(named: name), DatabaseQueue(named: name))
        let other = DatabaseQueue(named: name + "2")
        try one.write { try $0.execute(sql: "CREATE TABLE t(a); INSERT INTO t VALUES (1)") }
        #expect(try two.read { try $0.rowCount() } == 1)
        try two.write { try $0.insert(2) }
        #expect(try one.read { try $0.rowCount() } == 2)
        #expect(try other.read { try $0.tableExists("t") } == false)
        try one.close()
        #expect(try two.read { try $0.rowCount() } == 2)
        try two.close()
        #expect(try DatabaseQueue(named: name).read { try $0.tableExists("t") } == false)
        #expect(try FileManager.default.contentsOfDirectory(atPath: ".").contains { $0.hasPrefix("file:") } == false)
    }

    @Test("a queue without a name has a database of its own")
    func withoutName() throws {
        let (one, two) = (DatabaseQueue(named: nil), DatabaseQueue(named: nil))
        try one.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        #expect(try two.read { try $0.tableExists("t") } == false)
        #expect(one.path == ":memory:")
    }

    @Test("a lock of another queue of the name is waited for as the configuration says")
    func namedLocks() throws {
        let one = DatabaseQueue(named: name)
        let two = DatabaseQueue(named: name)
        try one.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        try one.write { db in
            try db.insert(1)
            #expect(databaseError { try two.write { try $0.insert(2) } }?.resultCode == .SQLITE_BUSY)
        }
        try two.write { try $0.insert(2) }
        #expect(try one.read { try $0.rowCount() } == 2)
    }

    @Test("addresses of databases in memory make no file, and addresses of files are no way around a key")
    func addresses() throws {
        for address in ["file::memory:", "file::memory:?cache=shared", "file:x?mode=memory&cache=shared"] {
            let queue = try DatabaseQueue(path: address)
            try queue.write { try $0.execute(sql: "CREATE TABLE t(a)") }
            try queue.close()
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: ".").contains { $0.hasPrefix("file:") } == false)
        #expect(storeError { try DatabaseQueue(path: "file:\(folder.path("x.db"))") } != nil)
        #expect(!FileManager.default.fileExists(atPath: folder.path("x.db")))
        #expect(databaseError { _ = try DatabasePool(path: "file:x?mode=memory") } != nil)
    }

    @Test("a copy in memory has the rows of the file and changes nothing on disk", arguments: [false, true])
    func copies(temporary: Bool) throws {
        let path = folder.path("app.db")
        let pool = try DatabasePool(path: path, configuration: keyed())
        try pool.write { try $0.execute(sql: "CREATE TABLE t(a); INSERT INTO t VALUES (1)") }
        try pool.close()
        let before = FolderSnapshot(of: folder)
        let copy =
            temporary
            ? try DatabaseQueue.temporaryCopy(fromPath: path, configuration: keyed())
            : try DatabaseQueue.inMemoryCopy(fromPath: path, configuration: keyed())
        try copy.write { try $0.insert(2) }
        #expect(try copy.read { try $0.rowCount() } == 2)
        let changes = before.changes(until: FolderSnapshot(of: folder))
        #expect(changes.allSatisfy { $0.hasSuffix("-shm") || $0.hasSuffix("-wal") }, "\(changes)")
        #expect(try DatabaseQueue(path: path, configuration: keyed()).read { try $0.rowCount() } == 1)
        let error = databaseError { try copy.inDatabase { try $0.execute(sql: "ATTACH 'plain.db' AS plain") } }
        #expect(error?.resultCode == .SQLITE_AUTH)
    }

    @Test("a copy that is asked for reading alone cannot be changed; without the key there is none")
    func copiesForReading() throws {
        let path = folder.path("app.db")
        let queue = try DatabaseQueue(path: path, configuration: keyed())
        try queue.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        try queue.close()
        let copy = try DatabaseQueue.inMemoryCopy(fromPath: path, configuration: keyed { $0.readonly = true })
        #expect(try copy.read { try $0.rowCount() } == 0)
        #expect(databaseError { try copy.write { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        #expect(storeError { try DatabaseQueue.inMemoryCopy(fromPath: path) } == .keyMissing)
        #expect(throws: (any Error).self) { try DatabaseQueue.inMemoryCopy(fromPath: folder.path("none.db")) }
    }

    @Test("a database in memory without a key attaches no file")
    func attaching() throws {
        let plain = folder.path("plain.db")
        try DatabaseQueue().inDatabase { db throws in
            for sql in ["ATTACH '\(plain)' AS plain", "VACUUM INTO '\(plain)'"] {
                #expect(databaseError { try db.execute(sql: sql) }?.resultCode == .SQLITE_AUTH)
            }
            try db.execute(sql: "ATTACH ':memory:' AS scratch")
        }
        #expect(!FileManager.default.fileExists(atPath: plain))
    }
}
