import CSQLCipher
import CipherDatabase
import CipherSchema
import Foundation
import TestHarness
import TestKit
import Testing

/// The calls that a suspended database answers, and those that it refuses.
@Suite(.serialized, .exclusive(.suspension)) struct SuspendedAccessTests {
    private typealias Fixture = SuspensionFixture
    private let fixture = SuspensionFixture()

    @Test(
        "writes are refused with SQLITE_ABORT, and go on after the resumption",
        arguments: SuspensionFixture.Kind.allCases
    )
    func writes(kind: SuspensionFixture.Kind) throws {
        let writer = try fixture.open(kind)
        try Fixture.whileSuspended {
            expectSuspended { try writer.write { try $0.insert(1) } }
            expectSuspended { try writer.writeWithoutTransaction { try $0.insert(1) } }
            expectSuspended { try writer.writeWithoutTransaction { try $0.execute(sql: "BEGIN IMMEDIATE") } }
            expectSuspended { try writer.writeWithoutTransaction { try $0.execute(sql: "PRAGMA user_version = 5") } }
            expectSuspended { try writer.vacuum() }
            expectSuspended { try writer.checkpoint() }
            var migrator = DatabaseMigrator()
            migrator.registerMigration("one") { try $0.execute(sql: "CREATE TABLE one (a)") }
            expectSuspended { try migrator.migrate(writer) }
            try fixture.expectWritable(kind)
        }
        try writer.write { try $0.insert(1) }
        #expect(try writer.read { try $0.rowCount() } == 2)
    }

    @Test(
        "reads, BEGIN DEFERRED, SAVEPOINT, COMMIT and ROLLBACK go on in WAL mode",
        arguments: [SuspensionFixture.Kind.pool, .walQueue])
    func reads(kind: SuspensionFixture.Kind) throws {
        let writer = try fixture.open(kind)
        try Fixture.whileSuspended {
            #expect(try writer.read { try $0.rowCount() } == 0)
            #expect(try writer.unsafeRead { try $0.rowCount() } == 0)
            try writer.writeWithoutTransaction { db in
                #expect(try db.rowCount() == 0)
                for end in ["COMMIT", "ROLLBACK"] {
                    try db.execute(sql: "BEGIN DEFERRED")
                    try db.execute(sql: "SAVEPOINT s")
                    #expect(try db.rowCount() == 0)
                    try db.execute(sql: "ROLLBACK TO s; RELEASE s; \(end)")
                }
                try db.inTransaction(.deferred) {
                    let count = try db.rowCount()
                    #expect(count == 0)
                    return .commit
                }
            }
        }
    }

    @Test("without WAL reads are refused too, in files and in memory")
    func readsWithoutWAL() throws {
        let queue = try fixture.open(.rollbackQueue)
        let memory = try Databases.queueWithTable { $0.observesSuspensionNotifications = true }
        for queue in [queue, memory] {
            Fixture.whileSuspended {
                expectSuspended { try queue.read { try $0.rowCount() } }
                expectSuspended { try queue.unsafeRead { try $0.rowCount() } }
            }
            #expect(try queue.read { try $0.rowCount() } == 0)
        }
    }

    @Test("a queue that switches to WAL reads while it is suspended")
    func switchedToWAL() throws {
        let queue = try fixture.open(.rollbackQueue)
        try queue.writeWithoutTransaction { try $0.execute(sql: "PRAGMA journal_mode = WAL") }
        let count = try Fixture.whileSuspended { try queue.read { try $0.rowCount() } }
        #expect(count == 0)
    }

    @Test("the first refused statement of a block rolls back, and the later ones are of an aborted transaction")
    func blockInDeferredTransaction() throws {
        let pool = try fixture.open(.pool)
        try pool.writeWithoutTransaction { db in
            try Fixture.whileSuspended {
                try db.inTransaction(.deferred) {
                    let count = try db.rowCount()
                    #expect(count == 0)
                    expectSuspended { try db.insert(1) }
                    return .rollback
                }
            }
            #expect(!db.isInsideTransaction)
        }
        let error = databaseError {
            try pool.write { db in
                try db.insert(1)
                Fixture.whileSuspended { expectSuspended { try db.insert(2) } }
                let later = databaseError { try db.insert(3) }
                #expect(later?.resultCode == .SQLITE_ABORT)
                #expect(later?.message == "Transaction was aborted")
                _ = try db.rowCount()
            }
        }
        #expect(error?.message == "Transaction was aborted")
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    @Test(
        "a statement on a table that a suspension rolled back is of an aborted transaction",
        arguments: SuspensionFixture.Kind.allCases)
    func rolledBackTable(kind: SuspensionFixture.Kind) throws {
        // Story: the table was gone with the transaction, so that compiling failed with "no such table".
        let writer = try fixture.open(kind)
        let error = databaseError {
            try writer.write { db in
                try db.execute(sql: "CREATE TABLE made (a)")
                Fixture.whileSuspended {
                    let first = databaseError { try db.execute(sql: "INSERT INTO made DEFAULT VALUES") }
                    #expect(first?.resultCode == .SQLITE_ABORT)
                    #expect(first?.message == "Database is suspended")
                    #expect(first?.sql == "INSERT INTO made DEFAULT VALUES")
                    #expect(!db.isInsideTransaction)
                    let second = databaseError { try db.execute(sql: "SELECT * FROM made") }
                    #expect(second?.resultCode == .SQLITE_ABORT)
                    #expect(second?.message == "Transaction was aborted")
                }
            }
        }
        #expect(error?.resultCode == .SQLITE_ABORT)
        #expect(error?.message == "Transaction was aborted")
        // Outside of transactions the reason is the plain one.
        let later = databaseError { try writer.writeWithoutTransaction { try $0.execute(sql: "SELECT * FROM made") } }
        #expect(later?.message == "no such table: made")
    }

    @Test("writes that the program sends past the library are refused too")
    func rawWrites() throws {
        let pool = try fixture.open(.pool)
        pool.writeWithoutTransaction { db in
            let connection = db.sqliteConnection
            Fixture.whileSuspended {
                for sql in [
                    "INSERT INTO t VALUES (1)", "BEGIN IMMEDIATE", "CREATE TABLE u (a)", "PRAGMA user_version = 9",
                    "VACUUM",
                    "DELETE FROM t", "UPDATE t SET a = 1", "ANALYZE",
                ] {
                    #expect(sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_AUTH, "\(sql)")
                }
                #expect(sqlite3_exec(connection, "SELECT * FROM t", nil, nil, nil) == SQLITE_OK)
            }
            #expect(sqlite3_exec(connection, "INSERT INTO t VALUES (1)", nil, nil, nil) == SQLITE_OK)
        }
        #expect(try pool.read { try $0.rowCount() } == 1)
    }

    // A pool that was opened while the process was suspended wrote.
    @Test(
        "a database that is opened while the process is suspended is suspended",
        arguments: SuspensionFixture.Kind.allCases)
    func openedWhileSuspended(kind: SuspensionFixture.Kind) throws {
        try fixture.open(kind).close()
        try Fixture.whileSuspended {
            let writer = try fixture.plain(kind) { $0.observesSuspensionNotifications = true }
            expectSuspended { try writer.write { try $0.insert(1) } }
            try fixture.expectWritable(kind)
            Fixture.resume()
            try writer.write { try $0.insert(1) }
        }
        // One that would have to be created is refused, and leaves the file to the next one.
        Fixture.whileSuspended {
            expectSuspended {
                try DatabasePool(
                    path: fixture.folder.path("new.db"),
                    configuration: Databases.configuration {
                        $0.observesSuspensionNotifications = true
                    })
            }
        }
        let new = try DatabasePool(path: fixture.folder.path("new.db"), configuration: Databases.configuration())
        try new.write { try $0.execute(sql: "CREATE TABLE t(a)") }
    }

    @Test("databases that do not observe the notifications go on; the old name of the setting is the same setting")
    func observing() throws {
        try fixture.open(.pool).close()
        let plain = try fixture.plain(.pool)
        let old = try fixture.plain(.pool) { $0.suspendsOnBackgroundTimeExpiration = true }
        #expect(old.configuration.observesSuspensionNotifications)
        try Fixture.whileSuspended {
            try plain.write { try $0.insert(1) }
            expectSuspended { try old.write { try $0.insert(1) } }
        }
    }

    @Test("posts from any object and repeated ones count as one; posts from many threads end as the last one says")
    func posts() throws {
        let pool = try fixture.open(.pool) { $0.busyMode = .timeout(5) }
        for object in [nil, fixture.folder, "text" as NSString] as [Any?] {
            for _ in 0..<3 { NotificationCenter.default.post(name: Database.suspendNotification, object: object) }
            expectSuspended { try pool.write { try $0.insert(1) } }
            for _ in 0..<2 { NotificationCenter.default.post(name: Database.resumeNotification, object: object) }
            try pool.write { try $0.insert(1) }
        }
        let threads = Threads()
        for thread in 0..<8 {
            threads.start {
                for round in 0..<100 {
                    if (round + thread).isMultiple(of: 2) { Fixture.suspend() } else { Fixture.resume() }
                    _ = try? pool.write { try $0.insert(thread) }
                }
            }
        }
        threads.join()
        Fixture.suspend()
        expectSuspended { try pool.write { try $0.insert(1) } }
        Fixture.resume()
        try pool.write { try $0.insert(1) }
    }
}
