import CSQLCipher
import CipherDatabase
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Two databases on one file, as two programs have them: one holds the lock that the other needs.
@Suite struct BusyTests {
    let folder = TemporaryFolder()

    @Test("a pool that does not wait gets SQLITE_BUSY at once, and nothing stays open")
    func immediateError() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder)
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try pool.write { try $0.insert(2) } }?.resultCode == .SQLITE_BUSY)
            let later = databaseError { try pool.writeWithoutTransaction { try $0.insert(2) } }
            #expect(later?.resultCode == .SQLITE_BUSY)
            #expect(try pool.read { try $0.rowCount() } == 0)
        }
        try pool.write { try $0.insert(3) }
        #expect(try holder.read { try $0.rowCount() } == 2)
    }

    @Test("a pool that waits gets the lock when it is free, and SQLITE_BUSY when it is not in time")
    func timeout() throws {
        let holder = try Databases.poolWithTable(folder)
        let patient = try Databases.pool(folder) { $0.busyMode = .timeout(30) }
        let hasty = try Databases.pool(folder) { $0.busyMode = .timeout(0.02) }
        let threads = Threads()
        let isWaiting = Gate()
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try hasty.write { _ in } }?.resultCode == .SQLITE_BUSY)
            threads.start {
                isWaiting.open()
                try patient.write { try $0.insert(2) }
            }
            isWaiting.wait()
        }
        threads.join()
        #expect(try holder.read { try $0.rowCount() } == 2)
    }

    /// SQLite's own timed wait replaced the busy handler: writers of the queue were refused at once, and neither an
    /// interruption nor a suspension ended a wait for SQLite's lock.
    @Test("PRAGMA busy_timeout sets the wait, which an interruption still ends")
    func busyTimeoutPragma() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder)
        let set = try pool.writeWithoutTransaction { try Int.fetchOne($0, sql: "PRAGMA busy_timeout = 30000") }
        #expect(set == 30000)
        let stock = try Databases.pool(folder) { $0.usesWriterQueue = false }
        try stock.writeWithoutTransaction { try $0.execute(sql: "PRAGMA busy_timeout = 30000") }
        let threads = Threads()
        try holder.write { db in
            try db.insert(1)
            for waiting in [pool, stock] {
                let error = Mutex<DatabaseError?>(nil)
                let hasEnded = Flag()
                threads.start {
                    let found = databaseError { try waiting.write { try $0.insert(2) } }
                    error.withLock { $0 = found }
                    hasEnded.set()
                }
                #expect(!waitUntil(within: .milliseconds(300)) { hasEnded.isSet })
                let began = ContinuousClock.now
                #expect(
                    waitUntil {
                        waiting.interrupt()
                        return hasEnded.isSet
                    })
                #expect(ContinuousClock.now - began < .seconds(5))
                #expect(error.withLock { $0?.resultCode } == .SQLITE_INTERRUPT)
            }
        }
        threads.join()
        try pool.writeWithoutTransaction { try $0.execute(sql: "PRAGMA busy_timeout = 0") }
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try pool.write { try $0.insert(2) } }?.resultCode == .SQLITE_BUSY)
        }
    }

    @Test("a callback is asked with the number of tries until it gives up, or the lock is free")
    func callback() throws {
        let holder = try Databases.poolWithTable(folder)
        let tries = Mutex<[Int]>([])
        let pool = try Databases.pool(folder) { config in
            config.busyMode = .callback { number in
                tries.withLock { $0.append(number) }
                return number < 3
            }
        }
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try pool.write { _ in } }?.resultCode == .SQLITE_BUSY)
        }
        #expect(tries.withLock { $0 } == [0, 1, 2, 3])
        try pool.write { try $0.insert(2) }
        #expect(tries.withLock { $0.count } == 4)
    }

    @Test("readers wait as writers do: another program has the file to itself for a moment")
    func readersWait() throws {
        // Without WAL a writer that commits keeps readers out.
        let path = folder.path("plain.db")
        func queue(_ mode: Database.BusyMode, readonly: Bool) throws -> DatabaseQueue {
            try DatabaseQueue(
                path: path,
                configuration: Databases.configuration {
                    $0.busyMode = mode
                    $0.readonly = readonly
                })
        }
        let holder = try queue(.immediateError, readonly: false)
        try holder.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        let tries = Mutex(0)
        let hasty = try queue(.immediateError, readonly: true)
        let asking = try queue(
            .callback { number in
                tries.withLock { $0 = number }; return number < 5
            }, readonly: true)
        try holder.inTransaction(.exclusive) { db in
            try db.insert(1)
            #expect(databaseError { try hasty.read { try $0.rowCount() } }?.resultCode == .SQLITE_BUSY)
            #expect(databaseError { try asking.read { try $0.rowCount() } }?.resultCode == .SQLITE_BUSY)
            return .commit
        }
        #expect(tries.withLock { $0 } == 5)
        #expect(try hasty.read { try $0.rowCount() } == 1)
    }

    @Test("a reader of a pool has the pool's way of waiting")
    func poolReadersWait() throws {
        let tries = Mutex(0)
        let pool = try Databases.poolWithTable(folder) { config in
            config.busyMode = .callback { _ in
                tries.withLock { $0 += 1 }
                return false
            }
        }
        try pool.write { db in
            try db.insert(1)
            // A checkpoint that asks for the write lock is the one thing of a reader that a writer keeps waiting.
            try pool.unsafeRead { reader in
                _ = sqlite3_wal_checkpoint_v2(reader.sqliteConnection, nil, SQLITE_CHECKPOINT_FULL, nil, nil)
            }
        }
        #expect(tries.withLock { $0 } == 1)
    }

    @Test("an interruption ends the wait for a lock", arguments: [false, true])
    func interruption(byCallback: Bool) throws {
        let holder = try Databases.poolWithTable(folder)
        let isWaiting = Gate()
        let pool = try Databases.pool(folder) { config in
            config.busyMode =
                byCallback
                ? .callback { _ in
                    isWaiting.open(); return true
                } : .timeout(60)
        }
        let threads = Threads()
        let ended = Mutex<ResultCode?>(nil)
        try holder.write { db in
            try db.insert(1)
            threads.start {
                isWaiting.open()
                let error = databaseError { try pool.write { try $0.insert(2) } }
                ended.withLock { $0 = error?.resultCode }
            }
            isWaiting.wait()
            #expect(
                waitUntil {
                    pool.interrupt(); return ended.withLock { $0 != nil }
                })
        }
        threads.join()
        #expect(ended.withLock { $0 } == .SQLITE_INTERRUPT)
        try pool.write { try $0.insert(3) }
        #expect(try pool.read { try $0.rowCount() } == 2)
    }

    @Test("cancelling a task ends its wait for a lock")
    func cancellation() async throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(60) }
        let (isHeld, mayEnd) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            try holder.write { db in
                try db.insert(1)
                isHeld.open()
                mayEnd.wait()
            }
        }
        #expect(await isHeld.pass())
        let task = Task { try await pool.write { try $0.insert(2) } }
        for _ in 0..<20 { await Task.yield() }
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        mayEnd.open()
        threads.join()
        #expect(try await pool.read { try $0.rowCount() } == 1)
    }

    @Test("a wait for the turn takes nothing from the waits of later statements of its transaction")
    func spentDeadline() throws {
        // Story: without WAL a commit waits for readers. The deadline of the wait for the turn held for it as well, so a
        // transaction that had waited and then worked for longer than its timeout failed at its commit, at once.
        let path = folder.path("app.db")
        func queue(_ mode: Database.BusyMode) throws -> DatabaseQueue {
            try DatabaseQueue(path: path, configuration: Databases.configuration { $0.busyMode = mode })
        }
        let holder = try queue(.timeout(30))
        try holder.write { try $0.execute(sql: "CREATE TABLE t(a)") }
        let (writer, reader, looker) = try (queue(.timeout(2)), queue(.timeout(30)), queue(.immediateError))
        let threads = Threads()
        let (hasWorked, isReading, hasEnded) = (Gate(), Gate(), Shared(false))
        try holder.write { db in
            try db.insert(1)
            threads.start {
                defer { hasEnded.change { $0 = true } }
                try writer.write { db in
                    try db.insert(2)
                    let deadline = ContinuousClock.now + .seconds(2)
                    #expect(waitUntil { ContinuousClock.now > deadline })
                    hasWorked.open()
                    isReading.wait()
                }
            }
            #expect(try waitUntil { try StoreHolders(of: path).contains { $0.uses.contains(.waiting) } })
        }
        #expect(hasWorked.wait())
        try reader.read { db throws in
            #expect(try db.rowCount() == 1)
            isReading.open()
            // No reader begins while the commit waits for the readers.
            #expect(waitUntil { databaseError { try looker.read { try $0.rowCount() } } != nil || hasEnded.value })
        }
        threads.join()
        #expect(try looker.read { try $0.rowCount() } == 2)
    }
}
