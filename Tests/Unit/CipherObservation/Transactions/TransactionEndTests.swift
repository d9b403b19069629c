import CipherDatabase
import CipherObservation
import Foundation
import Testing

/// How transactions end, for observers.
@Suite struct TransactionEndTests {
    private let queue: DatabaseQueue
    private let recorder = Recorder()

    init() throws { queue = try .pantry() }

    @Test(
        "transactions of every form end once, for observers that come before or in between",
        arguments: [
            ("", "CREATE TABLE t (a)", true), ("BEGIN", "COMMIT", true), ("BEGIN IMMEDIATE", "END", true),
            ("BEGIN; CREATE TABLE t (a)", "COMMIT", true), ("BEGIN EXCLUSIVE; CREATE TABLE t (a)", "COMMIT", true),
            ("SAVEPOINT s", "COMMIT", true), ("SAVEPOINT s", "RELEASE s", true),
            ("SAVEPOINT s; CREATE TABLE t (a)", "RELEASE s", true),
            ("SAVEPOINT s; CREATE TABLE t (a); ROLLBACK TO s", "RELEASE s", true),
            ("BEGIN", "ROLLBACK", false), ("BEGIN; CREATE TABLE t (a)", "ROLLBACK", false),
            ("SAVEPOINT s; CREATE TABLE t (a)", "ROLLBACK", false), ("SAVEPOINT s", "ROLLBACK", false),
        ])
    func forms(start: String, end: String, commits: Bool) throws {
        for isBefore in [true, false] {
            let queue = try DatabaseQueue.pantry()
            let recorder = Recorder()
            recorder.observes = { _ in false }
            try queue.writeWithoutTransaction { db in
                if isBefore { db.add(transactionObserver: recorder) }
                try db.execute(sql: start)
                if !isBefore { db.add(transactionObserver: recorder) }
                try db.execute(sql: end)
            }
            #expect(recorder.take() == (commits ? ["will", "commit"] : ["rollback"]), "\(start); \(end)")
        }
    }

    @Test("reads are not reported, and do not end an observation of the next transaction")
    func reads() throws {
        queue.add(transactionObserver: recorder, extent: .nextTransaction)
        _ = try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM shelf") }
        _ = try? queue.read { _ in throw PlannedFailure() }
        _ = try queue.unsafeRead { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM shelf") }
        #expect(recorder.take() == [])
        try queue.write { _ in }
        #expect(recorder.take() == ["will", "commit"])
    }

    // MARK: Veto

    @Test("the error of an observer becomes that of the commit, whatever form it has, and all hear of the rollback")
    func veto() throws {
        let second = Recorder()
        queue.add(transactionObserver: recorder)
        queue.add(transactionObserver: second)
        recorder.veto = PlannedFailure()
        #expect(throws: PlannedFailure.self) {
            try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        }
        #expect(recorder.take() == ["+shelf 1", "will", "rollback"])
        #expect(second.take() == ["+shelf 1", "rollback"])
        for sql in ["INSERT INTO shelf DEFAULT VALUES", "SAVEPOINT s; INSERT INTO shelf DEFAULT VALUES; RELEASE s"] {
            queue.writeWithoutTransaction { db in
                #expect(throws: PlannedFailure.self) { try db.execute(sql: sql) }
                #expect(!db.isInsideTransaction)
            }
            #expect(recorder.take() == ["+shelf 1", "will", "rollback"])
        }
        recorder.veto = nil
        #expect(try queue.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM shelf") } == 0)
    }

    @Test("a veto of a transaction without changes is thrown too")
    func emptyVeto() throws {
        queue.add(transactionObserver: recorder)
        recorder.veto = PlannedFailure()
        #expect(throws: PlannedFailure.self) { try queue.write { _ in } }
        #expect(recorder.take() == ["will", "rollback"])
        queue.writeWithoutTransaction { db in
            #expect(throws: PlannedFailure.self) { try db.execute(sql: "SAVEPOINT s; RELEASE s") }
            #expect(throws: PlannedFailure.self) { try db.execute(sql: "BEGIN; COMMIT") }
        }
        #expect(recorder.take() == ["will", "rollback", "will", "rollback"])
    }

    @Test("a veto is not taken for the error of a later statement")
    func vetoIsOver() throws {
        queue.add(transactionObserver: recorder)
        recorder.veto = PlannedFailure()
        _ = try? queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        recorder.veto = nil
        try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        let error = databaseError { try queue.write { try $0.execute(sql: "INSERT INTO jar (content) VALUES (NULL)") } }
        #expect(error?.resultCode == .SQLITE_CONSTRAINT)
    }

    @Test("functions that wait for the end of a transaction hear of a veto as a rollback")
    func completions() throws {
        queue.add(transactionObserver: recorder)
        recorder.veto = PlannedFailure()
        var calls: [String] = []
        _ = try? queue.write { db in
            db.afterNextTransaction(onCommit: { _ in calls.append("c") }, onRollback: { _ in calls.append("r") })
            try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
        }
        #expect(calls == ["r"])
    }

    @Test("functions that wait for a commit and observers share SQLite's hooks: neither ends the other")
    func sharedHooks() throws {
        var calls = 0
        queue.add(transactionObserver: recorder)
        for _ in 1...2 {
            try queue.write { db in
                db.afterNextTransaction { _ in calls += 1 }
                try db.execute(sql: "INSERT INTO shelf DEFAULT VALUES")
            }
        }
        #expect(calls == 2)
        #expect(recorder.take() == ["+shelf 1", "will", "commit", "+shelf 2", "will", "commit"])
        try queue.write { db in
            db.afterNextTransaction { _ in calls += 1 }
            db.remove(transactionObserver: recorder)
        }
        #expect(calls == 3)
    }

    // MARK: Failures

    @Test("a statement that fails by itself is no rollback; one that had reported rows is")
    func implicitFailure() throws {
        queue.add(transactionObserver: recorder)
        queue.writeWithoutTransaction { db in
            #expect(databaseError { try db.execute(sql: "INSERT INTO jar (content) VALUES (NULL)") } != nil)
            #expect(recorder.take() == [])
            #expect(databaseError { try db.execute(sql: "INSERT INTO jar (content) VALUES ('a'), (NULL)") } != nil)
            #expect(recorder.take() == ["+jar 1", "rollback"])
        }
    }

    @Test("an error in a transaction rolls it back, and so does a conflict clause")
    func explicitFailures() throws {
        queue.add(transactionObserver: recorder)
        _ = try? queue.write { try $0.execute(sql: "INSERT INTO jar (content) VALUES (NULL)") }
        #expect(recorder.take() == ["rollback"])
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1)")
            recorder.calls = []
            try db.execute(sql: "BEGIN; INSERT INTO shelf (id) VALUES (2)")
            #expect(databaseError { try db.execute(sql: "INSERT OR ROLLBACK INTO shelf (id) VALUES (1)") } != nil)
        }
        #expect(recorder.take() == ["+shelf 2", "rollback"])
    }

    @Test("a cancelled task rolls back, and observers hear of it")
    func cancellation() async {
        queue.add(transactionObserver: recorder)
        let queue = queue
        let task = Task {
            try await queue.write { db in
                try db.execute(sql: "INSERT INTO shelf (id) VALUES (1)")
                withUnsafeCurrentTask { $0?.cancel() }
                try db.execute(sql: "INSERT INTO shelf (id) VALUES (2)")
            }
        }
        _ = await task.result
        #expect(recorder.take() == ["+shelf 1", "rollback"])
    }

    @Test("observers hear nothing of a commit that fails, and hear the rollback that follows")
    func failedCommit() throws {
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE child (a REFERENCES shelf(id) DEFERRABLE INITIALLY DEFERRED);
                    BEGIN; INSERT INTO child VALUES (9)
                    """)
            recorder.calls = []
            #expect(databaseError { try db.commit() }?.resultCode == .SQLITE_CONSTRAINT)
            #expect(recorder.take() == [])
            try db.rollback()
        }
        #expect(recorder.take() == ["rollback"])
    }

    @Test("closing rolls an open transaction back, and observers hear of it")
    func closing() throws {
        var config = Configuration()
        config.allowsUnsafeTransactions = true
        let queue = DatabaseQueue(configuration: config)
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { try $0.execute(sql: "BEGIN; CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        try queue.close()
        #expect(recorder.take() == ["+t 1", "rollback"])
        queue.add(transactionObserver: recorder)
        #expect(databaseError { try queue.write { _ in } } != nil)
        #expect(recorder.take() == [])
    }

    @Test("a database that could not be closed keeps its observers")
    func failedClose() throws {
        queue.add(transactionObserver: recorder)
        let statement = try queue.inDatabase { try $0.makeStatement(sql: "SELECT 1") }
        #expect(databaseError { try queue.close() }?.resultCode == .SQLITE_BUSY)
        try queue.write { try $0.execute(sql: "INSERT INTO shelf DEFAULT VALUES") }
        #expect(recorder.take() == ["+shelf 1", "will", "commit"])
        withExtendedLifetime(statement) {}
    }

    @Test("a checkpoint, which takes the write lock, is no transaction")
    func checkpoints() throws {
        let file = TemporaryFile()
        let pool = try file.pool()
        pool.add(transactionObserver: recorder)
        try pool.write { try $0.execute(sql: "CREATE TABLE t (a)") }
        recorder.calls = []
        try pool.checkpoint()
        #expect(recorder.take() == [])
    }

    @Test("on a pool the writer is observed, by synchronous and asynchronous writes")
    func pools() async throws {
        let file = TemporaryFile()
        let pool = try file.pool()
        pool.add(transactionObserver: recorder)
        try await pool.write { try $0.execute(sql: "CREATE TABLE t (a); INSERT INTO t VALUES (1)") }
        #expect(recorder.take() == ["+t 1", "will", "commit"])
        _ = try await pool.read { try Int.fetchOne($0, sql: "SELECT COUNT(*) FROM t") }
        #expect(recorder.take() == [])
    }

    // MARK: Savepoints

    @Test("inside savepoints events wait for the outermost one, and are dropped with the one that is rolled back")
    func savepoints() throws {
        queue.add(transactionObserver: recorder)
        try queue.write { db in
            func add(_ id: Int) throws { try db.execute(sql: "INSERT INTO shelf (id) VALUES (\(id))") }
            try add(1)
            #expect(recorder.take() == ["+shelf 1"])
            try db.execute(sql: "SAVEPOINT a")
            try add(2)
            try db.execute(sql: "SAVEPOINT b")
            try add(3)
            try db.execute(sql: "ROLLBACK TO B")
            try add(4)
            try db.execute(sql: "RELEASE b")
            #expect(recorder.take() == [])
            try db.execute(sql: "RELEASE SAVEPOINT A")
            #expect(recorder.take() == ["+shelf 2", "+shelf 4"])
            try db.execute(sql: "SAVEPOINT a")
            try add(5)
            try db.execute(sql: "ROLLBACK TO a; ROLLBACK TO a")
            try add(6)
        }
        #expect(recorder.take() == ["+shelf 6", "will", "commit"])
    }

    @Test("savepoints of one name are nested; releasing an outer one releases the inner ones")
    func sameNames() throws {
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "SAVEPOINT a; INSERT INTO shelf (id) VALUES (1); SAVEPOINT a")
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (2); RELEASE a")
            #expect(recorder.take() == [])
            try db.execute(sql: "SAVEPOINT b; INSERT INTO shelf (id) VALUES (3); RELEASE a")
        }
        #expect(recorder.take() == ["+shelf 1", "+shelf 2", "+shelf 3", "will", "commit"])
    }

    @Test("a savepoint that was open before the observer came holds its events back as well")
    func earlierSavepoint() throws {
        try queue.write { db in
            try db.execute(sql: "SAVEPOINT a")
            db.add(transactionObserver: recorder)
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1); ROLLBACK TO a; RELEASE a")
        }
        #expect(recorder.take() == ["will", "commit"])
    }

    @Test("a rolled back transaction drops the events of its savepoints")
    func savepointsOfRollback() throws {
        queue.add(transactionObserver: recorder)
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "BEGIN; SAVEPOINT a; INSERT INTO shelf (id) VALUES (1); ROLLBACK")
            #expect(recorder.take() == ["rollback"])
            try db.execute(sql: "INSERT INTO shelf (id) VALUES (1)")
            #expect(recorder.take() == ["+shelf 1", "will", "commit"])
            try db.inSavepoint {
                try db.execute(sql: "INSERT INTO shelf (id) VALUES (2)")
                return .commit
            }
        }
        #expect(recorder.take() == ["+shelf 2", "will", "commit"])
    }
}
