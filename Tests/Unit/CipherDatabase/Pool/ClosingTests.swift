import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct ClosingTests {
    let folder = TemporaryFolder()

    private func expectClosed(_ access: () throws -> Void, sourceLocation: SourceLocation = #_sourceLocation) {
        let error = databaseError(access)
        #expect(error?.resultCode == .SQLITE_MISUSE, sourceLocation: sourceLocation)
        #expect(error?.message == "Connection is closed", sourceLocation: sourceLocation)
    }

    /// A pool and a queue that were used, then closed twice.
    private func closedDatabases() throws -> [any DatabaseWriter] {
        let databases: [any DatabaseWriter] = [try Databases.poolWithTable(folder), DatabaseQueue()]
        for database in databases {
            try database.read { _ = try $0.cachedStatement(sql: "SELECT 1") }
            try database.write { _ = try $0.cachedStatement(sql: "SELECT 1") }
            try database.close()
            try database.close()
        }
        return databases
    }

    @Test("after close every access throws SQLITE_MISUSE, and closing again does nothing")
    func accessAfterClose() async throws {
        for database in try closedDatabases() {
            expectClosed { try database.read { _ in } }
            expectClosed { _ = try database.unsafeRead { try $0.rowCount() } }
            expectClosed { try database.write { _ in } }
            expectClosed { _ = try database.writeWithoutTransaction { try $0.rowCount() } }
            expectClosed { try database.checkpoint() }
            await #expect(throws: DatabaseError.self) { try await database.read { try $0.rowCount() } }
            await #expect(throws: DatabaseError.self) { try await database.write { try $0.rowCount() } }
            database.interrupt()
        }
    }

    @Test("close waits for the accesses under way, and refuses those that wait")
    func closeWaits() throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 1 }
        let (isReading, mayEnd) = (Gate(), Gate())
        let isClosed = Mutex(false)
        let counted = Mutex<Int?>(nil)
        let threads = Threads()
        threads.start {
            try pool.read { db in
                isReading.open()
                mayEnd.wait()
                let count = try db.rowCount()
                counted.withLock { $0 = isClosed.withLock { $0 } ? -1 : count }
            }
        }
        #expect(isReading.wait())
        let refused = Gate()
        threads.start {
            self.expectClosed { try pool.read { _ in } }
            refused.open()
        }
        threads.start {
            try pool.close()
            isClosed.withLock { $0 = true }
        }
        #expect(refused.wait(), "the waiting read learns at once that the pool closes")
        mayEnd.open()
        threads.join()
        #expect(counted.withLock { $0 } == 0)
    }

    @Test("close waits for readers that are being opened")
    func closeWaitsForOpening() throws {
        let (isOpening, mayEnd) = (Gate(), Gate())
        let isOpened = Mutex(false)
        let pool = try Databases.poolWithTable(folder) { config in
            config.maximumReaderCount = 1
            config.prepareDatabase { db in
                guard db.description.contains("reader") else { return }
                isOpening.open()
                mayEnd.wait()
                _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM t")
                isOpened.withLock { $0 = true }
            }
        }
        let threads = Threads()
        threads.start { self.expectClosed { try pool.read { _ in } } }
        #expect(isOpening.wait())
        threads.start {
            // It waits for the only place, and learns that the pool closes as soon as it does.
            self.expectClosed { try pool.read { _ in } }
            mayEnd.open()
        }
        threads.start {
            try pool.close()
            #expect(isOpened.withLock { $0 })
        }
        threads.join()
        #expect(isOpened.withLock { $0 })
    }

    @Test("a statement still in use keeps the database open and usable, and it closes later", arguments: [false, true])
    func busyStatement(ofWriter: Bool) throws {
        let pool = try Databases.poolWithTable(folder)
        try pool.read { _ in }
        var statement: Statement? =
            ofWriter
            ? try pool.write { try $0.makeStatement(sql: "SELECT 1") }
            : try pool.read { try $0.makeStatement(sql: "SELECT 1") }
        #expect(databaseError { try pool.close() }?.resultCode == .SQLITE_BUSY)
        #expect(statement != nil)
        try pool.write { try $0.insert(1) }
        for _ in 0..<10 { #expect(try pool.read { try $0.rowCount() } == 1) }
        statement = nil
        try pool.close()
        expectClosed { try pool.read { _ in } }
    }

    @Test("threads that close, interrupt and access at once meet no closed connection in use")
    func hammer() throws {
        for round in 0..<15 {
            let folder = TemporaryFolder()
            let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 3 }
            let threads = Threads()
            for thread in 0..<6 {
                threads.start {
                    do {
                        for step in 0..<50 {
                            switch (thread + step) % 3 {
                            case 0: try pool.write { try $0.insert(step) }
                            case 1: _ = try pool.read { try $0.rowCount() }
                            default: pool.interrupt()
                            }
                        }
                    } catch DatabaseError.SQLITE_MISUSE, DatabaseError.SQLITE_INTERRUPT {}
                }
            }
            threads.start {
                for _ in 0..<round { _ = try? pool.read { try $0.rowCount() } }
                for _ in 0..<2 { try pool.close() }
            }
            threads.join()
        }
    }
}
