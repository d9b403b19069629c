import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite("Snapshot pools: several reads of one moment")
struct SnapshotPoolTests {
    let folder = TemporaryFolder()

    @Test("all connections see the commit of the start, also when they read at the same time")
    func moment() throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 3 }
        try pool.write { try $0.insert(1) }
        let snapshot = try pool.makeSnapshotPool()
        try pool.write { try $0.insert(2) }
        let (arrived, mayEnd) = (Shared<Set<String>>([]), Gate())
        let threads = Threads()
        for _ in 0..<3 {
            threads.start {
                try snapshot.read { db throws in
                    #expect(try db.rowCount() == 1)
                    // The last one lets all of them end: they run at the same time, on a connection each.
                    arrived.change { names in
                        names.insert("\(db)")
                        if names.count == 3 { mayEnd.open(3) }
                    }
                    #expect(mayEnd.wait())
                }
            }
        }
        threads.join()
        #expect(arrived.value.count == 3)
        #expect(try pool.read { try $0.rowCount() } == 2)
    }

    @Test("the connections agree beside a thread that commits all the time")
    func besideCommits() throws {
        let pool = try Databases.poolWithTable(folder)
        let isOver = Shared(false)
        let threads = Threads()
        threads.start {
            while !isOver.value { try pool.write { try $0.insert(1) } }
        }
        for _ in 0..<30 {
            let snapshot = try pool.makeSnapshotPool()
            let counts = Shared<[Int]>([])
            let readers = Threads()
            for _ in 0..<10 {
                readers.start {
                    let count = try snapshot.read { try $0.rowCount() }
                    counts.change { $0.append(count) }
                }
            }
            readers.join()
            #expect(Set(counts.value).count == 1 && counts.value.count == 10)
        }
        isOver.change { $0 = true }
        threads.join()
    }

    @Test("inside a write access it sees what was committed there; a reader within a read")
    func insideWrite() throws {
        let pool = try Databases.poolWithTable(folder)
        let snapshot = try pool.writeWithoutTransaction { db throws in
            try db.insert(1)
            return try pool.makeSnapshotPool()
        }
        try pool.write { try $0.insert(2) }
        #expect(try snapshot.read { try $0.rowCount() } == 1)
        let nested = try snapshot.read { db throws in
            try snapshot.reentrantRead { inner in
                #expect(inner === db)
                return try inner.rowCount()
            }
        }
        #expect(nested == 1)
    }

    @Test("tasks, functions, writes that are refused, and a reader by its path")
    func accesses() async throws {
        let pool = try Databases.poolWithTable(folder)
        try await pool.write { try $0.insert(1) }
        let snapshot = try DatabaseSnapshotPool(
            path: folder.path("app.db"), configuration: Databases.configuration { $0.maximumReaderCount = 2 })
        try await pool.write { try $0.insert(2) }
        let counts = try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<20 { group.addTask { try await snapshot.read { try $0.rowCount() } } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(counts == [1])
        let refused = await #expect(throws: DatabaseError.self) { try await snapshot.read { try $0.insert(3) } }
        #expect(refused?.resultCode == .SQLITE_READONLY)
        let later: Int = try await withCheckedThrowingContinuation { continuation in
            snapshot.asyncRead { outcome in continuation.resume(with: Result { try outcome.get().rowCount() }) }
        }
        #expect(later == 1)
        try snapshot.close()
        let closed = #expect(throws: DatabaseError.self) { try snapshot.read { try $0.rowCount() } }
        #expect(closed?.resultCode == .SQLITE_MISUSE)
    }

    @Test("an access that ends the transaction of its connection makes later ones fail, and none reads a later moment")
    func endedTransaction() throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 1 }
        let snapshot = try pool.makeSnapshotPool()
        try snapshot.read { try $0.execute(sql: "COMMIT") }
        try pool.write { try $0.insert(1) }
        let error = #expect(throws: DatabaseError.self) { try snapshot.read { try $0.rowCount() } }
        #expect(error?.resultCode == .SQLITE_ABORT)
    }
}
