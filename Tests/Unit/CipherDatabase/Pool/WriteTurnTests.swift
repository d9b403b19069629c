import CipherDatabase
import Foundation
import StorePlatform
import StoreSharing
import Synchronization
import TestKit
import Testing

/// Writing in turn: two databases on one file, as two programs have them.
@Suite struct WriteTurnTests {
    let folder = TemporaryFolder()
    private var path: String { folder.path("app.db") }

    private func holders() throws -> StoreHolders { try StoreHolders(of: path) }
    private func hasWriteTurn() throws -> Bool { try holders().contains { $0.uses.contains(.writeTurn) } }

    /// Waits until a connection stands in the line.
    private func waitForWaiter() throws -> Bool {
        try waitUntil { try holders().contains { $0.uses.contains(.waiting) } }
    }

    @Test("the turn is taken by the first statement that writes and given back with the transaction")
    func span() throws {
        let pool = try Databases.poolWithTable(folder)
        try pool.writeWithoutTransaction { db in
            _ = try db.rowCount()
            #expect(try !hasWriteTurn())
            try db.execute(sql: "BEGIN")
            _ = try db.rowCount()
            #expect(try !hasWriteTurn())
            try db.insert(1)
            #expect(try hasWriteTurn())
            try db.execute(sql: "SAVEPOINT s; INSERT INTO t VALUES (2); ROLLBACK TO s")
            #expect(try hasWriteTurn())
            try db.execute(sql: "COMMIT")
            #expect(try !hasWriteTurn())
            try db.insert(3)
            #expect(try !hasWriteTurn())
            try db.beginTransaction(.immediate)
            #expect(try hasWriteTurn())
            try db.rollback()
            #expect(try !hasWriteTurn())
        }
        #expect(try pool.write { _ in try hasWriteTurn() })
        #expect(try !hasWriteTurn())
    }

    @Test("an error, a statement that failed and a cursor that is left alone give the turn back too")
    func endings() throws {
        let pool = try Databases.poolWithTable(folder)
        #expect(throws: CancellationError.self) { try pool.write { _ in throw CancellationError() } }
        #expect(try !hasWriteTurn())
        try pool.writeWithoutTransaction { db in
            try db.execute(sql: "CREATE UNIQUE INDEX i ON t(a); INSERT INTO t VALUES (1)")
            #expect(throws: DatabaseError.self) { try db.insert(1) }
            #expect(try !hasWriteTurn())
            do {
                let rows = try Row.fetchCursor(db, sql: "INSERT INTO t VALUES (2), (3) RETURNING a")
                #expect(try rows.next() != nil)
                #expect(try hasWriteTurn())
            }
            #expect(try !hasWriteTurn())
            try db.execute(sql: "BEGIN")
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT INTO t VALUES (4) ON CONFLICT NONE") }
            #expect(throws: DatabaseError.self) { try db.execute(sql: "INSERT OR ROLLBACK INTO t VALUES (1)") }
            #expect(try !hasWriteTurn())
        }
    }

    @Test("temporary tables, questions and databases in memory need no turn")
    func withoutWriteTurn() throws {
        let pool = try Databases.poolWithTable(folder)
        let other = try Databases.pool(folder)
        try pool.write { db in
            try db.insert(1)
            try other.writeWithoutTransaction { db in
                try db.execute(
                    sql: "CREATE TEMP TABLE x (a); INSERT INTO x VALUES (1); UPDATE x SET a = 2; DELETE FROM x")
                #expect(try String.fetchOne(db, sql: "PRAGMA journal_mode") == "wal")
                try db.inTransaction(.deferred) {
                    _ = try db.rowCount()
                    try db.execute(sql: "INSERT INTO x VALUES (1)")
                    return .commit
                }
            }
        }
        let queue = try Databases.queueWithTable()
        try queue.write { try $0.insert(1) }
        #expect(queue.writeStatistics == WriteStatistics())
    }

    @Test("who does not wait is told at once who has the turn")
    func immediateError() throws {
        let holder = try Databases.poolWithTable(folder) { $0.label = "holder" }
        let other = try Databases.pool(folder)
        try holder.write { db in
            try db.insert(1)
            let error = databaseError { try other.write { try $0.insert(2) } }
            #expect(error?.extendedResultCode == .SQLITE_BUSY)
            let holder = "process \(ProcessInspector.currentProcess) ("
            #expect(error?.message?.hasPrefix("database is locked: \(holder)") == true, "\(error?.message ?? "")")
            #expect(error?.message?.contains("running) is writing for 0") == true)
        }
        #expect(other.writeStatistics.timeoutCount == 1)
    }

    @Test("a program that takes no turns is named by SQLite's lock, and keeps writers out as ever")
    func stockWriter() throws {
        let pool = try Databases.poolWithTable(folder)
        let stock = try Databases.pool(folder) { $0.usesWriterQueue = false }
        try stock.write { db in
            try db.insert(1)
            let error = databaseError { try pool.write { try $0.insert(2) } }
            #expect(error?.resultCode == .SQLITE_BUSY)
            #expect(error?.message?.contains("process \(ProcessInspector.currentProcess) ") == true)
            #expect(error?.message?.hasSuffix("holds the write lock") == true, "\(error?.message ?? "")")
            #expect(try !hasWriteTurn())
        }
        #expect(stock.writeStatistics.count == 1 && !stock.writeStatistics.usesWriterQueue)
        #expect(pool.writeStatistics.usesWriterQueue)
    }

    @Test("a write that waited for its turn in vain takes nothing from the wait of the next one")
    func staleDeadline() throws {
        // Story: the deadline of the failed wait stayed, so that the next write did not wait at all when another program
        // held SQLite's lock for some milliseconds.
        let holder = try Databases.poolWithTable(folder)
        let stock = try Databases.pool(folder) { $0.usesWriterQueue = false }
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(1) }
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try pool.write { try $0.insert(2) } }?.resultCode == .SQLITE_BUSY)
        }
        let threads = Threads()
        let hasEnded = Shared(false)
        try stock.write { db in
            try db.insert(3)
            threads.start {
                defer { hasEnded.change { $0 = true } }
                try pool.write { try $0.insert(4) }
            }
            #expect(waitUntil { (try? hasWriteTurn()) == true || hasEnded.value })
        }
        threads.join()
        #expect(try pool.read { try $0.rowCount() } == 3)
    }

    @Test("a block that only reads does not take the turn, and a transaction of it that would write is refused")
    func readingBlocks() throws {
        // Story: inTransaction(.immediate) inside of a block that must not write kept all other writers waiting.
        let pool = try Databases.poolWithTable(folder)
        var config = Databases.configuration()
        config.journalMode = .wal
        let queue = try DatabaseQueue(path: path, configuration: config)
        func expectRefused(_ db: Database) {
            for kind in [Database.TransactionKind.immediate, .exclusive] {
                let error = databaseError {
                    try db.inTransaction(kind) {
                        Issue.record("the transaction began")
                        return .commit
                    }
                }
                #expect(error?.resultCode == .SQLITE_READONLY)
                #expect((try? hasWriteTurn()) == false)
            }
        }
        pool.writeWithoutTransaction { db in db.readOnly { expectRefused(db) } }
        queue.unsafeRead { expectRefused($0) }
        queue.unsafeReentrantRead { expectRefused($0) }
        try pool.unsafeRead { db throws in
            // A connection that cannot write begins a transaction that reads.
            try db.inTransaction(.immediate) { () throws in
                #expect(try !hasWriteTurn())
                return .commit
            }
        }
        #expect(databaseError { try queue.unsafeRead { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        #expect(databaseError { try queue.unsafeReentrantRead { try $0.insert(1) } }?.resultCode == .SQLITE_READONLY)
        try queue.unsafeReentrantWrite { db in
            try queue.unsafeReentrantRead { _ = try $0.rowCount() }
            try db.insert(1)
        }
        #expect(pool.writeStatistics.count == 1 && queue.writeStatistics.count == 1)
    }

    @Test("a statement that writes behind SQLite's back takes the turn, and is refused where nothing may be written")
    func hiddenWrites() throws {
        // Story: SQLite calls these statements read-only, so they wrote from reading blocks, and without a turn.
        let queue = try Databases.queueWithTable { $0.acceptsDoubleQuotedStringLiterals = true }
        let statements = [
            "PRAGMA optimize", "PRAGMA main.optimize(-1)", "SELECT * FROM pragma_optimize",
            "PRAGMA incremental_vacuum", "PRAGMA incremental_vacuum(5)",
        ]
        for sql in statements {
            try queue.read { db throws in
                #expect(databaseError { try db.execute(sql: sql) }?.resultCode == .SQLITE_READONLY, "\(sql)")
                #expect(try !db.makeStatement(sql: sql).isReadonly, "\(sql)")
            }
        }
        try queue.write { db in
            for index in 0..<300 { try db.insert(index) }
            try db.execute(sql: "CREATE INDEX i ON t (a)")
        }
        // Their own statements, compiled as they run, must not pass for what the next one does.
        try queue.writeWithoutTransaction { db throws in
            try db.execute(sql: "PRAGMA optimize(-1)")
            #expect(try db.makeStatement(sql: "SELECT 1").isReadonly)
            try db.execute(sql: "PRAGMA optimize")
        }
        let pool = try Databases.poolWithTable(folder)
        let other = try Databases.pool(folder)
        try pool.write { db in
            try db.insert(1)
            for sql in statements.prefix(5) {
                let error = databaseError { try other.writeWithoutTransaction { try $0.execute(sql: sql) } }
                #expect(error?.message?.contains("is writing") == true, "\(sql): \(error as Any)")
            }
        }
        try other.writeWithoutTransaction { db in try db.execute(sql: "PRAGMA optimize") }
        #expect(other.writeStatistics.count == 1)
    }

    @Test("where no turn can be had, SQLite's lock alone keeps writers apart, and a notice says so")
    func unusableLockFile() throws {
        try Databases.poolWithTable(folder).close()
        try FileManager.default.removeItem(atPath: path + "-lock")
        try FileManager.default.createDirectory(atPath: path + "-lock", withIntermediateDirectories: true)
        let notices = Shared<[String]>([])
        let holder = try Databases.pool(folder) {
            $0.onNotice = { text in notices.change { $0.append(text) } }
        }
        let other = try Databases.pool(folder)
        try holder.write { db in
            try db.insert(1)
            #expect(databaseError { try other.write { try $0.insert(2) } }?.resultCode == .SQLITE_BUSY)
        }
        try other.write { try $0.insert(3) }
        #expect(notices.value.count == 1 && notices.value[0].contains("does not use the writer queue"))
        #expect(holder.writeStatistics.count == 1 && !holder.writeStatistics.usesWriterQueue)
    }

    @Test("a deferred transaction that has read gets the lock at its first write, or an error at once")
    func deferred() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(3600) }
        func readThenWrite() throws {
            try pool.writeWithoutTransaction { db in
                try db.inTransaction(.deferred) {
                    _ = try db.rowCount()
                    try db.insert(2)
                    return .commit
                }
            }
        }
        try readThenWrite()
        try holder.write { db in
            try db.insert(1)
            let error = databaseError { try readThenWrite() }
            #expect(error?.extendedResultCode == .SQLITE_BUSY)
            #expect(error?.message?.contains("is writing") == true)
        }
        try readThenWrite()
        #expect(try pool.read { try $0.rowCount() } == 3)
    }

    @Test("a deferred transaction that has read nothing waits for its turn")
    func deferredWaits() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(3600) }
        let threads = Threads()
        try holder.write { db in
            try db.insert(1)
            threads.start {
                try pool.writeWithoutTransaction { db in
                    try db.inTransaction(.deferred) {
                        try db.insert(2)
                        return .commit
                    }
                }
            }
            #expect(try waitForWaiter())
        }
        threads.join()
        #expect(try pool.read { try $0.rowCount() } == 2)
    }

    @Test("closing ends the wait of the writes under way and of those behind them")
    func closing() throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(3600) }
        let threads = Threads()
        let codes = Shared<[ResultCode]>([])
        try holder.write { db in
            try db.insert(1)
            for _ in 0..<2 {
                threads.start {
                    let error = databaseError { try pool.write { try $0.insert(2) } }
                    codes.change { $0.append(error?.resultCode ?? .SQLITE_OK) }
                }
            }
            #expect(try waitForWaiter())
            try pool.close()
            threads.join()
        }
        #expect(codes.value == [.SQLITE_MISUSE, .SQLITE_MISUSE])
        #expect(try holders().count == 1)
    }

    @Test("cancelling a task ends its wait for the turn at once, whatever the timeout")
    func cancellation() async throws {
        let holder = try Databases.poolWithTable(folder)
        let pool = try Databases.pool(folder) { $0.busyMode = .timeout(3600) }
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
        let path = path
        #expect(
            await eventually {
                (try? StoreHolders(of: path))?.contains { $0.uses.contains(.waiting) } == true
            })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        mayEnd.open()
        threads.join()
        #expect(pool.writeStatistics.count == 0)
    }

    @Test("a backup takes the turn of its destination")
    func backup() throws {
        let source = try Databases.poolWithTable(folder)
        try source.write { try $0.insert(1) }
        let path = folder.path("copy.db")
        let copy = try DatabasePool(path: path, configuration: Databases.configuration())
        try source.backup(to: copy) { progress in
            let writer = try StoreHolders(of: path).writer
            #expect(writer?.uses.contains(.writeTurn) == true)
        }
        #expect(try StoreHolders(of: path).writer == nil)
        #expect(try copy.read { try $0.rowCount() } == 1)
    }

    @Test("the checkpoint behind a commit has the same turn, and others who write do not keep it from coming")
    func checkpoints() throws {
        let pools = try (0..<3).map { number in
            try number == 0
                ? Databases.poolWithTable(folder) { $0.busyMode = .timeout(60) }
                : Databases.pool(folder) { $0.busyMode = .timeout(60) }
        }
        let threads = Threads()
        for pool in pools {
            threads.start { for _ in 0..<1000 { try pool.write { try $0.insert(Data(count: 3000)) } } }
        }
        threads.join(within: 120)
        let bytes = try #require(try FileManager.default.attributesOfItem(atPath: path + "-wal")[.size] as? Int)
        // Without checkpoints 3000 commits would leave more than 24 MB.
        #expect(bytes < 15 << 20, "\(bytes)")
        #expect(try pools[0].read { try $0.rowCount() } == 3000)
    }
}
