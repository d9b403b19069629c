import CipherStore
import Foundation
import StorePlatform
import StoreSharing
import TestKit
import Testing

/// The WAL of a store that the last close has emptied, while a process that is ending still has its index open.
///
/// Another open file of this process represents that process: it has released its locks on the database already.
@Suite("A WAL that was emptied, and whose index stayed", .serialized)
struct EmptiedWALTests {
    private let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    init() throws {
        let store = try open()
        try store.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (0)") }
        try store.close()
    }

    private func open() throws -> SharedStore {
        try SharedStore.open(at: path, unlockedBy: TestKeys.source("raw"))
    }

    private func insert(_ row: Int) throws {
        let store = try open()
        defer { try? store.close() }
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (?)", arguments: [row]) }
    }

    private func rows() throws -> [Int] {
        let store = try open()
        defer { try? store.close() }
        return try store.read { db in
            #expect(try String.fetchAll(db, sql: "PRAGMA integrity_check") == ["ok"])
            return try Int.fetchAll(db, sql: "SELECT a FROM t ORDER BY a")
        }
    }

    private static let index = WALLockByte.open..<WALLockByte.open + 1
    private static let mark = WALLockByte.readMark(1)..<WALLockByte.readMark(1) + 1

    // Story: of 980 writes beside killed rotations one was refused: the WAL "was cut or removed while the store was open".
    @Test("every process writes while one that is ending has the index open")
    func dying() throws {
        let dying = try FileDescriptor(opening: path + "-shm", .readOnly)
        #expect(try dying.tryLock(Self.index, .shared))
        for row in 1...3 { try insert(row) }
        let (one, other) = (try open(), try open())
        try one.write { try $0.execute(sql: "INSERT INTO t VALUES (4)") }
        try other.write { try $0.execute(sql: "INSERT INTO t VALUES (5)") }
        try one.close()
        try other.close()
        try dying.unlock(Self.index)
        #expect(try rows() == Array(0...5))
    }

    // SQLite would append to the empty WAL, behind a gap: after a kill of all processes the commit would be gone.
    @Test("while it holds a read mark, too, writes are refused and lose nothing")
    func dyingReader() throws {
        let dying = try FileDescriptor(opening: path + "-shm", .readOnly)
        #expect(try dying.tryLock(Self.index, .shared) && dying.tryLock(Self.mark, .shared))
        let error = #expect(throws: StoreError.self) { try insert(1) }
        #expect(error?.code == .walDamaged && error?.why.contains("all of which the database has") == true)
        #expect(try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int == 0)
        try dying.unlock(Self.mark)
        try insert(2)
        try dying.unlock(Self.index)
        #expect(try rows() == [0, 2])
    }

    @Test("a WAL that was removed is not taken for an emptied one: its process has another file")
    func removed() throws {
        let store = try open()
        try store.write { try $0.execute(sql: "INSERT INTO t VALUES (1)") }
        #expect(try store.checkpoint(.passive).isComplete)
        try FileManager.default.removeItem(atPath: path + "-wal")
        let other = try open()
        let error = #expect(throws: StoreError.self) {
            try other.write { try $0.execute(sql: "INSERT INTO t VALUES (2)") }
        }
        #expect(error?.code == .walDamaged, "\(error as Any)")
        try other.close()
        try store.close()
        #expect(try rows() == [0, 1])
    }
}
