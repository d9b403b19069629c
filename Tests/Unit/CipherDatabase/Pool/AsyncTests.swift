import CipherDatabase
import Foundation
import TestKit
import Testing

@Suite struct AsyncTests {
    struct Failure: Error {}
    let folder = TemporaryFolder()

    /// Both kinds of database, with a table.
    private func databases() throws -> [any DatabaseWriter] {
        [try Databases.poolWithTable(folder), try Databases.queueWithTable()]
    }

    @Test("async accesses read, write, return values and throw errors as the others do")
    func accesses() async throws {
        for database in try databases() {
            try await database.write { try $0.insert(1) }
            await #expect(throws: Failure.self) {
                try await database.write { db in
                    try db.insert(2)
                    throw Failure()
                }
            }
            try await database.writeWithoutTransaction { db in
                #expect(!db.isInsideTransaction)
                try db.insert(3)
            }
            #expect(try await database.read { try $0.rowCount() } == 2)
            #expect(try await database.unsafeRead { try $0.rowCount() } == 2)
            await #expect(throws: DatabaseError.self) { try await database.read { try $0.insert(4) } }
        }
    }

    // MARK: Cancellation

    @Test("a task that was cancelled before does not run its access")
    func cancelledBefore() async throws {
        for database in try databases() {
            let hasRun = Shared(false)
            let task = Task {
                while !Task.isCancelled { await Task.yield() }
                try await database.write { _ in hasRun.change { $0 = true } }
            }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            let reading = Task {
                while !Task.isCancelled { await Task.yield() }
                try await database.read { _ in hasRun.change { $0 = true } }
            }
            reading.cancel()
            await #expect(throws: CancellationError.self) { try await reading.value }
            #expect(!hasRun.value)
        }
    }

    @Test("a task that is cancelled while it waits for its turn goes on at once")
    func cancelledWhileWaiting() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 1 }
        let (isBusy, mayEnd) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            try pool.write { _ in
                isBusy.open(); mayEnd.wait()
            }
        }
        threads.start {
            try pool.read { _ in
                isBusy.open(); mayEnd.wait()
            }
        }
        #expect(await isBusy.pass())
        #expect(await isBusy.pass())
        let writing = Task { try await pool.write { try $0.insert(1) } }
        let reading = Task { try await pool.read { try $0.rowCount() } }
        for _ in 0..<20 { await Task.yield() }
        writing.cancel()
        reading.cancel()
        // Both end while the accesses that they waited for still run.
        await #expect(throws: CancellationError.self) { try await writing.value }
        await #expect(throws: CancellationError.self) { _ = try await reading.value }
        mayEnd.open(2)
        threads.join()
        #expect(try await pool.read { try $0.rowCount() } == 0)
        try await pool.write { try $0.insert(2) }
    }

    @Test("cancelling interrupts the statement under way, and a write rolls back")
    func cancelledWhileRunning() async throws {
        for database in try databases() {
            let isRunning = Gate()
            let writing = Task {
                try await database.write { db in
                    try db.insert(1)
                    isRunning.open()
                    _ = try Int.fetchOne(db, sql: endlessSQL)
                }
            }
            #expect(await isRunning.pass())
            writing.cancel()
            await #expect(throws: CancellationError.self) { try await writing.value }
            let reading = Task {
                try await database.read { db in
                    isRunning.open()
                    _ = try Int.fetchOne(db, sql: endlessSQL)
                }
            }
            #expect(await isRunning.pass())
            reading.cancel()
            await #expect(throws: CancellationError.self) { try await reading.value }
            #expect(try await database.read { try $0.rowCount() } == 0)
            try await database.write { try $0.insert(2) }
        }
    }

    @Test("a cancellation between two statements ends the access at the second, even where the error is ignored")
    func cancelledBetweenStatements() async throws {
        for database in try databases() {
            let (isRunning, mayEnd) = (Gate(), Gate())
            let task = Task {
                try await database.write { db in
                    try db.insert(1)
                    isRunning.open()
                    mayEnd.wait()
                    try? db.insert(2)
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            mayEnd.open()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await database.read { try $0.rowCount() } == 0)
        }
    }

    @Test("a read that is cancelled behind its last statement ends its transaction")
    func cancelledBehindReading() async throws {
        // Story: the commit that ends a read was refused then, and the open transaction ended the program.
        for database in try databases() {
            let (isRunning, mayEnd) = (Gate(), Gate())
            let task = Task {
                try await database.read { db in
                    let count = try db.rowCount()
                    isRunning.open()
                    mayEnd.wait()
                    return count
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            mayEnd.open()
            #expect(try await task.value == 0)
            #expect(try await database.unsafeRead { !$0.isInsideTransaction })
        }
    }

    @Test("cancelling after the end changes nothing")
    func cancelledAfter() async throws {
        for database in try databases() {
            let task = Task { try await database.write { try $0.insert(1) } }
            try await task.value
            task.cancel()
            #expect(try await database.read { try $0.rowCount() } == 1)
        }
    }

    // MARK: Many at once

    @Test("tasks cancelled at any moment leave every connection in order, and hit no access but their own")
    func hammer() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 2 }
        let outcomes = Shared<[String: Int]>([:])
        let committed = Shared(0)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<600 {
                group.addTask {
                    let task = Task {
                        if number % 2 == 0 {
                            try await pool.write { db in
                                try db.insert(number)
                                _ = try db.rowCount()
                            }
                            committed.change { $0 += 1 }
                        } else {
                            _ = try await pool.read { db in try db.rowCount() + db.rowCount() }
                        }
                    }
                    for _ in 0..<number % 7 { await Task.yield() }
                    if number % 3 != 0 { task.cancel() }
                    let outcome: String
                    do {
                        try await task.value
                        outcome = "done"
                    } catch is CancellationError {
                        outcome = number % 3 != 0 ? "cancelled" : "hit by another's cancellation"
                    } catch {
                        outcome = "\(error)"
                    }
                    outcomes.change { $0[outcome, default: 0] += 1 }
                }
            }
        }
        #expect(Set(outcomes.value.keys).isSubset(of: ["done", "cancelled"]))
        #expect(outcomes.value["done"] ?? 0 >= 200)
        // A task may be cancelled between its commit and its own counting.
        #expect(try await pool.read { try $0.rowCount() } >= committed.value)
        for _ in 0..<5 { #expect(try await pool.unsafeRead { !$0.isInsideTransaction }) }
    }

    @Test("many more reads at once than there are readers, from tasks and threads, all end")
    func manyReads() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 2 }
        try await pool.write { try $0.insert(1) }
        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<300 {
                group.addTask {
                    // Those that block hold the threads on which the others' tasks go on.
                    number % 3 == 0
                        ? try readBlocking(pool)
                        : try await pool.read { db in
                            _ = try Int.fetchOne(db, sql: "SELECT COUNT(*) FROM sqlite_schema, sqlite_schema")
                            return try db.rowCount()
                        }
                }
            }
            return try await group.reduce(0, +)
        }
        #expect(sum == 300)
    }
}

/// A read that blocks the thread of its task.
private func readBlocking(_ pool: DatabasePool) throws -> Int { try pool.read { try $0.rowCount() } }
