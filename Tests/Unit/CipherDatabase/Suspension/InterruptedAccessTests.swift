import CSQLCipher
@testable import CipherDatabase
import Foundation
import TestHarness
import TestKit
import Testing

/// The effect of a suspension on accesses that are under way or wait.
@Suite(.serialized, .exclusive(.suspension)) struct InterruptedAccessTests {
    private typealias Fixture = SuspensionFixture
    private let fixture = SuspensionFixture()

    @Test(
        "a statement that runs throws SQLITE_INTERRUPT, and its transaction is gone",
        arguments: SuspensionFixture.Kind.allCases)
    func running(kind: SuspensionFixture.Kind) throws {
        let writer = try fixture.open(kind)
        let started = Gate()
        let threads = Threads()
        threads.start {
            let error = databaseError {
                try writer.write { db in
                    try db.insert(1)
                    // From inside the statement: between two statements the transaction would be rolled back instead.
                    db.add(
                        function: DatabaseFunction("started", argumentCount: 0) { _ in
                            started.open()
                            return 1
                        })
                    _ = try Int.fetchOne(db, sql: endlessSQL + " WHERE started()")
                }
            }
            #expect(error?.resultCode == .SQLITE_INTERRUPT)
            #expect(error?.message == "interrupted")
            #expect(error?.isInterruptionError == true)
        }
        #expect(started.wait())
        try Fixture.whileSuspended {
            threads.join()
            try fixture.expectWritable(kind)
        }
        #expect(try writer.read { try $0.rowCount() } == 1)
    }

    // An idle open transaction kept its lock through a suspension.
    @Test(
        "an open transaction is rolled back while its program is in code of its own",
        arguments: SuspensionFixture.Kind.allCases)
    func idle(kind: SuspensionFixture.Kind) throws {
        let writer = try fixture.open(kind)
        let (isOpen, isOver) = (Gate(), Gate())
        let endings = Shared<[String]>([])
        let threads = Threads()
        threads.start {
            let error = databaseError {
                try writer.write { db in
                    db.afterNextTransaction(onCommit: { _ in endings.change { $0.append("commit") } }) { _ in
                        endings.change { $0.append("rollback") }
                    }
                    try db.insert(1)
                    isOpen.open()
                    isOver.wait()
                    expectSuspended { try db.insert(2) }
                    #expect(endings.value == ["rollback"])
                    _ = try db.rowCount()
                }
            }
            #expect(error?.resultCode == .SQLITE_ABORT)
            #expect(error?.message == "Transaction was aborted")
        }
        #expect(isOpen.wait())
        try Fixture.whileSuspended { try fixture.expectWritable(kind) }
        isOver.open()
        threads.join()
        #expect(try writer.read { try $0.rowCount() } == 1)
    }

    // Binding values of several types went by the pointer that programs may ask for, and from then on the suspending
    // thread took the connection for one that the program uses by C code of its own.
    @Test("an open transaction is rolled back also after values of several types were bound")
    func idleAfterValues() throws {
        let writer = try fixture.open(.pool)
        let (isOpen, isOver) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            let error = databaseError {
                try writer.write { db in
                    let statement = try db.makeStatement(sql: "INSERT INTO t SELECT ? WHERE ? IS NOT NULL")
                    try statement.setArguments([1, "two"] as [(any DatabaseValueConvertible)?])
                    try statement.execute()
                    isOpen.open()
                    isOver.wait()
                    try db.insert(2)
                }
            }
            #expect(error?.resultCode == .SQLITE_ABORT)
        }
        #expect(isOpen.wait())
        try Fixture.whileSuspended { try fixture.expectWritable(.pool) }
        isOver.open()
        threads.join()
    }

    @Test("an open transaction is rolled back when its own thread posts, and its commit throws")
    func ownThread() throws {
        let pool = try fixture.open(.pool)
        expectSuspended {
            try pool.write { db in
                try db.insert(1)
                Fixture.suspend()
                try fixture.expectWritable(.pool)
                Fixture.resume()
            }
        }
        try pool.writeWithoutTransaction { db in
            try db.beginTransaction()
            try db.insert(1)
            Fixture.whileSuspended {}
            expectSuspended { try db.insert(2) }
            #expect(!db.isInsideTransaction)
            try db.rollback()
            try db.insert(3)
        }
        #expect(try pool.read { try Int.fetchAll($0, sql: "SELECT a FROM t WHERE a <> 'other'") } == [3])
    }

    @Test("a cursor that shows rows when its transaction is rolled back ends with an error")
    func cursor() throws {
        let pool = try fixture.open(.pool)
        try pool.write { db in for value in 0..<10 { try db.insert(value) } }
        expectSuspended {
            try pool.write { db in
                try db.insert(10)
                let rows = try Int.fetchCursor(db, sql: "SELECT a FROM t ORDER BY rowid")
                #expect(try rows.next() == 0)
                Fixture.whileSuspended {}
                _ = try rows.next()
            }
        }
        #expect(try pool.read { try $0.rowCount() } == 10)
    }

    // The first step after the rollback threw. The steps after it went past the gate, and showed rows from outside of the
    // transaction, some of them twice.
    @Test(
        "a cursor whose transaction was rolled back throws at each further step, and shows no row",
        arguments: SuspensionFixture.Kind.allCases)
    func endedCursor(kind: SuspensionFixture.Kind) throws {
        let writer = try fixture.open(kind)
        try writer.write { db in for value in 0..<10 { try db.insert(value) } }
        let error = databaseError {
            try writer.write { db in
                try db.insert(10)
                let values = try Int.fetchCursor(db, sql: "SELECT a FROM t ORDER BY rowid")
                let rows = try Row.fetchCursor(db, sql: "SELECT a FROM t ORDER BY rowid")
                #expect(try values.next() == 0)
                #expect(try rows.next() != nil)
                Fixture.whileSuspended {}
                for _ in 0..<3 { expectSuspended { try values.next() } }
                for _ in 0..<3 { expectSuspended { try rows.next() } }
                // It is in order for its next use.
                #expect(try Int.fetchAll(values.statement).count == 10)
            }
        }
        #expect(error?.resultCode == .SQLITE_ABORT)
        #expect(try writer.read { try $0.rowCount() } == 10)
    }

    // A write that waited in the busy handler took the lock 1.2 seconds later, and committed.
    @Test(
        "a write that waits for another connection's lock is woken", arguments: SuspensionFixture.Kind.allCases, [0, 1])
    func busy(kind: SuspensionFixture.Kind, way: Int) throws {
        let called = Gate()
        let writer = try fixture.open(kind) { config in
            config.busyMode =
                way == 0
                ? .timeout(60)
                : .callback { _ in
                    called.open(); return true
                }
        }
        let other = try fixture.plain(kind)
        let (isWriting, isOver) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            try other.write { db in
                try db.insert(1)
                isWriting.open()
                isOver.wait()
            }
        }
        #expect(isWriting.wait())
        let waiting = Threads()
        let isThere = Gate()
        waiting.start {
            let error = databaseError {
                try writer.writeWithoutTransaction { db in
                    isThere.open()
                    try db.insert(2)
                }
            }
            // Nothing tells that a timed wait has begun: the statement may still be on its way there.
            #expect(error?.isInterruptionError == true)
            if way == 1 { #expect(error?.message == "Database is suspended") }
        }
        #expect(isThere.wait())
        if way == 1 { #expect(called.wait()) }
        Fixture.whileSuspended { waiting.join() }
        isOver.open()
        threads.join()
        #expect(try writer.read { try $0.rowCount() } == 1)
    }

    // It waited until the last read had ended, and its BEGIN was refused only then.
    @Test("a barrier that waits for reads is woken")
    func barrier() throws {
        let pool = try fixture.open(.pool)
        let (isReading, isOver) = (Gate(), Gate())
        let (reading, waiting) = (Threads(), Threads())
        reading.start {
            _ = try? pool.read { _ in
                isReading.open()
                return isOver.wait()
            }
        }
        #expect(isReading.wait())
        waiting.start {
            expectSuspended { try pool.barrierWriteWithoutTransaction { try $0.insert(1) } }
        }
        let readers = (pool as? DatabasePool)?.readers
        #expect(waitUntil { readers?.hasBarrier == true })
        Fixture.whileSuspended { waiting.join() }
        #expect(try pool.read { try $0.rowCount() } == 0)
        isOver.open()
        reading.join()
        try pool.barrierWriteWithoutTransaction { try $0.insert(2) }
        #expect(try pool.read { try $0.rowCount() } == 1)
    }

    // The barrier had the connection by then, and waited until the read ended.
    @Test("a barrier that waits for what the write before it has spawned is woken")
    func barrierAfterWrite() throws {
        let pool = try #require(try fixture.open(.pool) as? DatabasePool)
        let (isWriting, maySpawn, isOver) = (Gate(), Gate(), Gate())
        let (writing, waiting) = (Threads(), Threads())
        writing.start {
            pool.writeWithoutTransaction { _ in
                isWriting.open()
                maySpawn.wait()
                pool.asyncConcurrentRead { _ in isOver.wait() }
            }
        }
        #expect(isWriting.wait())
        waiting.start { expectSuspended { try pool.barrierWriteWithoutTransaction { try $0.insert(1) } } }
        #expect(waitUntil { pool.readers.hasBarrier })
        maySpawn.open()
        writing.join()
        #expect(waitUntil { pool.writer.connection.isBusy || waiting.haveEnded })
        // Before the read gives up waiting by itself.
        Fixture.whileSuspended { waiting.join(within: 10) }
        isOver.open()
        #expect(try pool.read { try $0.rowCount() } == 0)
    }

    @Test(
        "a write that waits for the connection is woken, of a thread and of a task",
        arguments: SuspensionFixture.Kind.allCases)
    func queue(kind: SuspensionFixture.Kind) async throws {
        let writer = try fixture.open(kind)
        let (isHeld, isOver) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            writer.writeWithoutTransaction { _ in
                isHeld.open()
                isOver.wait()
            }
        }
        #expect(await isHeld.pass())
        let waiting = Threads()
        waiting.start { expectSuspended { try writer.write { try $0.insert(1) } } }
        let task = Task { try await writer.write { try $0.insert(2) } }
        // Until both wait: each suspension ends the waits that it finds.
        let ended = Shared(0)
        Task {
            _ = await task.result
            ended.change { $0 += 1 }
        }
        let taskEnds = await eventually {
            Fixture.whileSuspended {}
            return ended.value == 1
        }
        #expect(taskEnds)
        let error = await #expect(throws: DatabaseError.self) { try await task.value }
        #expect(error?.message == "Database is suspended")
        let threadEnds = await eventually {
            Fixture.whileSuspended {}
            return waiting.haveEnded
        }
        #expect(threadEnds)
        isOver.open()
        threads.join()
        #expect(try await writer.read { try $0.rowCount() } == 0)
    }

    @Test("a read of a queue that waits for the connection is not ended where reads go on")
    func queuedRead() throws {
        let queue = try fixture.open(.walQueue)
        let (isHeld, isOver) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            queue.writeWithoutTransaction { _ in
                isHeld.open()
                isOver.wait()
            }
        }
        #expect(isHeld.wait())
        threads.start {
            let count = try queue.read { try $0.rowCount() }
            #expect(count == 0)
        }
        Fixture.whileSuspended { isOver.open() }
        threads.join()
    }

    @Test("a backup into a suspended database is refused, one under way is taken back; from one it goes on")
    func backup() throws {
        let pool = try fixture.open(.pool)
        try pool.write { db in
            try db.execute(sql: "INSERT INTO t SELECT randomblob(4000) FROM (\(Self.thousandRows))")
        }
        let other = TemporaryFolder()
        let target = try Databases.pool(other) { $0.observesSuspensionNotifications = true }
        let plain = try DatabasePool(path: other.path("plain.db"), configuration: Databases.configuration())
        try Fixture.whileSuspended {
            expectSuspended { try pool.backup(to: target) }
            try pool.backup(to: plain)
        }
        #expect(try plain.read { try $0.rowCount() } == 1000)
        expectSuspended {
            try pool.backup(to: target, pagesPerStep: 5) { progress in
                if progress.completedPageCount == 5 { Fixture.suspend() }
            }
        }
        Fixture.resume()
        #expect(try target.read { try $0.tableExists("t") } == false)
        try pool.backup(to: target)
        #expect(try target.read { try $0.rowCount() } == 1000)
    }

    private static let thousandRows =
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) SELECT i FROM n"

    @Test("a write transaction that SQLite's own functions began is rolled back at the library's next call")
    func rawTransaction() throws {
        let pool = try fixture.open(.pool)
        try pool.writeWithoutTransaction { db in
            #expect(sqlite3_exec(db.sqliteConnection, "BEGIN IMMEDIATE; INSERT INTO t VALUES (1)", nil, nil, nil) == 0)
            try Fixture.whileSuspended {
                expectSuspended { try db.insert(2) }
                try fixture.expectWritable(.pool)
            }
        }
        #expect(try pool.read { try $0.rowCount() } == 1)
    }
}
