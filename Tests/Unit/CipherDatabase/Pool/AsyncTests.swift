import Foundation
import StorePlatform
import TestKit
import Testing

@testable import CipherDatabase

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

    @Test("an access that is cancelled after its last statement returns its value, and ends its transaction")
    func cancelledBehindReading() async throws {
        // Story: the commit that ends a read was refused then, and the open transaction ended the program. Later the
        // access threw, although its block had succeeded and what it had written was committed.
        for database in try databases() {
            for form in Self.forms(of: database) {
                let (isRunning, mayEnd) = (Gate(), Gate())
                let task = Task {
                    try await form.run { db in
                        _ = try db.rowCount()
                        isRunning.open()
                        mayEnd.wait()
                    }
                }
                #expect(await isRunning.pass())
                task.cancel()
                mayEnd.open()
                try await form.finish(task)
                #expect(try await database.unsafeRead { !$0.isInsideTransaction })
            }
        }
    }

    @Test("a write without a transaction that is cancelled after its statement returns its value")
    func cancelledBehindWriting() async throws {
        for database in try databases() {
            for (number, isBarrier) in [(1, false), (2, true)] {
                let (isWritten, mayEnd) = (Gate(), Gate())
                let task = Task {
                    let block: @Sendable (Database) throws -> Int = { db in
                        try db.insert(number)
                        isWritten.open()
                        mayEnd.wait()
                        return number
                    }
                    return try await isBarrier
                        ? database.barrierWriteWithoutTransaction(block) : database.writeWithoutTransaction(block)
                }
                #expect(await isWritten.pass())
                task.cancel()
                mayEnd.open()
                #expect(try await task.value == number)
                #expect(try await database.read { try $0.rowCount() } == number)
            }
        }
    }

    @Test("a write that was committed counts, although its task is cancelled before it has the result")
    func cancelledBehindCommit() async throws {
        for database in try databases() {
            let (isCommitted, mayEnd) = (Gate(), Gate())
            let task = Task {
                try await database.write { db in
                    try db.insert(1)
                    db.afterNextTransaction { _ in
                        isCommitted.open()
                        mayEnd.wait()
                    }
                }
            }
            #expect(await isCommitted.pass())
            task.cancel()
            mayEnd.open()
            try await task.value
            #expect(try await database.read { try $0.rowCount() } == 1)
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

    // MARK: The task of the access

    private typealias Block = @Sendable (Database) throws -> Void

    /// An async access.
    private struct Form {
        /// Whether its transaction is committed after the block.
        var commits = false
        let run: @Sendable (@escaping Block) async throws -> Void

        /// Ends a task whose block succeeded after its cancellation. The commit is a statement that is refused then.
        func finish(_ task: Task<Void, any Error>) async throws {
            if commits {
                await #expect(throws: CancellationError.self) { try await task.value }
            } else {
                try await task.value
            }
        }
    }

    /// The async accesses of a database.
    private static func forms(of database: any DatabaseWriter) -> [Form] {
        [
            Form { try await database.read($0) },
            Form { try await database.unsafeRead($0) },
            Form(commits: true) { try await database.write($0) },
            Form { try await database.writeWithoutTransaction($0) },
            Form { try await database.barrierWriteWithoutTransaction($0) },
        ]
    }

    @Test("the block of an async access runs in its task, with task-local values and Task.isCancelled")
    func taskOfAccess() async throws {
        // Story: blocks ran on the queue of the connection without their task. Task-local values were lost, and
        // Task.isCancelled was false for ever.
        var forms = try databases().flatMap(Self.forms)
        let snapshot = try Databases.pool(folder).makeSnapshot()
        forms += [Form { try await snapshot.read($0) }, Form { try await snapshot.unsafeRead($0) }]
        for form in forms {
            let seen = Shared<[Int]>([])
            try await TaskLocals.$number.withValue(7) {
                try await form.run { _ in
                    seen.change { $0 = [TaskLocals.number, withUnsafeCurrentTask { $0 == nil ? 0 : 1 }] }
                }
            }
            #expect(seen.value == [7, 1])
            let (isRunning, isCancelled) = (Gate(), Shared(false))
            let task = Task {
                try await form.run { _ in
                    isRunning.open()
                    isCancelled.change { $0 = waitUntil { Task.isCancelled } }
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            try await form.finish(task)
            #expect(isCancelled.value)
        }
    }

    @Test("an actor may run accesses, and goes on where it was")
    func accessesOfActor() async throws {
        let pool = try Databases.poolWithTable(folder)
        #expect(try await Inserter(pool).insertTwice() == 2)
        let task = Task { @MainActor in
            try await pool.write { try $0.insert(3) }
            MainActor.preconditionIsolated()
            return try await pool.read { try $0.rowCount() }
        }
        #expect(try await task.value == 3)
    }

    @Test("a barrier write of a cancelled task does not run, and one that waits for reads ends its wait at once")
    func cancelledBarrier() async throws {
        // Story: barrier writes ignored cancellation: the cancelled task still waited for the reads, and committed.
        let pool = try Databases.poolWithTable(folder)
        let (isReading, mayEnd) = (Gate(), Gate())
        let threads = Threads()
        threads.start {
            try pool.read { _ in
                isReading.open()
                mayEnd.wait()
            }
        }
        #expect(await isReading.pass())
        let hasRun = Shared(false)
        for isCancelledBefore in [true, false] {
            let task = Task {
                while isCancelledBefore && !Task.isCancelled { await Task.yield() }
                try await pool.barrierWriteWithoutTransaction { db in
                    hasRun.change { $0 = true }
                    try db.insert(1)
                }
            }
            if !isCancelledBefore { for _ in 0..<20 { await Task.yield() } }
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
        }
        // Nobody waits for the barrier that is gone, not even a new read.
        #expect(try await pool.read { try $0.rowCount() } == 0)
        mayEnd.open()
        threads.join()
        try await pool.barrierWriteWithoutTransaction { try $0.insert(2) }
        #expect(!hasRun.value)
        #expect(try await pool.read { try $0.rowCount() } == 1)
    }

    @Test("an access whose task is cancelled and ends while its wait begins lives until the wait has begun")
    func cancelledAsItBegins() async throws {
        // Story: the cancelled task went on while another thread still registered its wait, whose memory was freed.
        let (isBeginning, hasEnded, hasBegun) = (Gate(), Gate(), Gate())
        let isAlive = Shared(false)
        let task = Task.detached {
            try await AsyncAccess.run(on: { access in
                weak let begun = access
                isBeginning.open()
                hasEnded.wait()
                isAlive.change { $0 = begun != nil }
                hasBegun.open()
            }) { _ in }
        }
        #expect(await isBeginning.pass())
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        hasEnded.open()
        #expect(await hasBegun.pass())
        #expect(isAlive.value)
    }

    @Test("an access that has nothing to wait for runs on the thread of its task, and ends as every other one")
    func directAccesses() async throws {
        // The tasks of tests have an executor of their own, detached ones have none.
        for database in try databases() {
            let direct = try await Task.detached {
                var (reads, writes) = (0, 0)
                for number in 1...200 {
                    let thread = CurrentThread.id
                    let read = try await database.read { db in (try db.rowCount(), CurrentThread.id) }
                    #expect(read.0 == number - 1)
                    if read.1 == thread { reads += 1 }
                    let former = CurrentThread.id
                    let written = try await database.write { db in
                        try db.insert(number)
                        return CurrentThread.id
                    }
                    if written == former { writes += 1 }
                }
                return (reads: reads, writes: writes)
            }.value
            if ProcessInfo.processInfo.activeProcessorCount > 1 {
                #expect(direct.reads > 0 || database is DatabaseQueue)
                #expect(direct.writes > 0)
            }
            let failed = Task.detached {
                try await database.write { db in
                    try db.insert(1000)
                    throw Failure()
                }
            }
            await #expect(throws: Failure.self) { try await failed.value }
            for round in 0..<50 {
                let long = Task.detached {
                    try await database.write { db in
                        try db.insert(2000 + round)
                        let numbers = "SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000"
                        _ = try Int.fetchOne(db, sql: "WITH RECURSIVE n(i) AS (\(numbers)) SELECT count(*) FROM n")
                    }
                }
                for _ in 0..<round { await Task.yield() }
                long.cancel()
                await #expect(throws: CancellationError.self) { try await long.value }
            }
            #expect(try await database.read { try $0.rowCount() } == 200)
        }
    }

    @Test("cancelling interrupts the statement of a barrier write, and reads go on")
    func cancelledRunningBarrier() async throws {
        for database in try databases() {
            let isRunning = Gate()
            let task = Task {
                try await database.barrierWriteWithoutTransaction { db in
                    isRunning.open()
                    _ = try Int.fetchOne(db, sql: endlessSQL)
                }
            }
            #expect(await isRunning.pass())
            task.cancel()
            await #expect(throws: CancellationError.self) { try await task.value }
            #expect(try await database.read { try $0.rowCount() } == 0)
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

    @Test("a write that would wait for a lock goes to its queue, runs once, and its block sees the lock")
    func writeThatWaits() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.busyMode = .timeout(30) }
        let other = try Databases.pool(folder)
        try await pool.write { try $0.insert(1) }
        for number in 2...6 {
            let (isHeld, mayEnd) = (Gate(), Gate())
            let hasEnded = Gate()
            // A thread: a task might take the place of the write below.
            Thread.detachNewThread {
                try? other.write { db in
                    try db.insert(100 + number)
                    isHeld.open()
                    mayEnd.wait()
                }
                hasEnded.open()
            }
            #expect(await isHeld.pass())
            let runs = Shared(0)
            let writer = Task {
                try await pool.write { db in
                    runs.change { $0 += 1 }
                    try db.insert(number)
                }
            }
            // Reads go on meanwhile.
            #expect(try await pool.read { try $0.rowCount() } == 2 * number - 3)
            mayEnd.open()
            #expect(await hasEnded.pass())
            try await writer.value
            #expect(runs.value == 1)
        }
        #expect(try await pool.read { try $0.rowCount() } == 11)
    }

    @Test("many more reads at once than there are readers, from tasks and threads, all end")
    func manyReads() async throws {
        let pool = try Databases.poolWithTable(folder) { $0.maximumReaderCount = 2 }
        try await pool.write { try $0.insert(1) }
        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 0..<300 {
                group.addTask {
                    // The blocking ones hold the threads on which the others' tasks continue.
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

private enum TaskLocals {
    @TaskLocal static var number = 0
}

private actor Inserter {
    private let pool: DatabasePool
    private var count = 0

    init(_ pool: DatabasePool) { self.pool = pool }

    func insertTwice() async throws -> Int {
        for _ in 0..<2 {
            try await pool.write { try $0.insert(1) }
            preconditionIsolated()
            count = try await pool.read { try $0.rowCount() }
        }
        return count
    }
}
