import CSQLCipher
import CipherDatabase
import Foundation
import StorePlatform
import Synchronization
import TestKit
import Testing

@Suite struct AfterTransactionTests {
    /// The calls, in order.
    private final class Calls: Sendable {
        private let names = Mutex<[String]>([])
        func add(_ name: String) { names.withLock { $0.append(name) } }
        var all: [String] { names.withLock { $0 } }
    }

    private let calls = Calls()
    let queue = DatabaseQueue()

    init() throws {
        try queue.write { try $0.execute(sql: "CREATE TABLE t (a UNIQUE)") }
    }

    private func watch(_ db: Database, _ name: String = "") {
        db.afterNextTransaction(
            onCommit: { [calls] _ in calls.add("commit\(name)") },
            onRollback: { [calls] _ in calls.add("rollback\(name)") })
    }

    @Test("a commit calls the one function, a rollback the other, each once")
    func both() throws {
        try queue.write { db in
            watch(db, " 1")
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            watch(db, " 2")
            #expect(calls.all == [])
        }
        #expect(calls.all == ["commit 1", "commit 2"])
        try queue.inTransaction { db in
            watch(db, " 3")
            return .rollback
        }
        #expect(calls.all == ["commit 1", "commit 2", "rollback 3"])
        try queue.write { try $0.execute(sql: "DELETE FROM t") }
        #expect(calls.all.count == 3)
    }

    @Test("an error that ends a transaction rolls back, and so does a cancelled task")
    func errors() async throws {
        #expect(throws: PlannedFailure.self) {
            try queue.write { db in
                watch(db)
                throw PlannedFailure()
            }
        }
        #expect(calls.all == ["rollback"])
        let task = Task { [queue, calls] in
            try await queue.write { db in
                db.afterNextTransaction(
                    onCommit: { _ in calls.add("commit") }, onRollback: { _ in calls.add("cancelled") })
                withUnsafeCurrentTask { $0?.cancel() }
                throw CancellationError()
            }
        }
        _ = await task.result
        #expect(calls.all == ["rollback", "cancelled"])
    }

    @Test("outside of a transaction the next one counts, be it one statement")
    func implicit() throws {
        try queue.writeWithoutTransaction { db in
            watch(db)
            _ = try Int.fetchOne(db, sql: "SELECT 1")
            #expect(calls.all == [])
            try db.execute(sql: "INSERT INTO t VALUES (1)")
            #expect(calls.all == ["commit"])
            watch(db)
            #expect(databaseError { try db.execute(sql: "INSERT INTO t VALUES (1)") } != nil)
            #expect(calls.all == ["commit", "rollback"])
        }
    }

    @Test(
        "transactions by SQL text count, of every form",
        arguments: [
            ("BEGIN; INSERT INTO t VALUES (1); COMMIT", "commit"), ("BEGIN; END", "commit"),
            ("BEGIN; INSERT INTO t VALUES (1); ROLLBACK", "rollback"), ("BEGIN; ROLLBACK", "rollback"),
            ("SAVEPOINT s; INSERT INTO t VALUES (1); RELEASE s", "commit"),
            ("SAVEPOINT s; INSERT INTO t VALUES (1); ROLLBACK TO s; RELEASE s", "commit"),
        ])
    func text(sql: String, call: String) throws {
        try queue.writeWithoutTransaction { db in
            watch(db)
            try db.execute(sql: sql)
        }
        #expect(calls.all == [call])
    }

    @Test("a savepoint decides nothing: the transaction does")
    func savepoints() throws {
        try queue.write { db in
            try db.inSavepoint {
                watch(db)
                try db.execute(sql: "INSERT INTO t VALUES (1)")
                return .rollback
            }
            #expect(calls.all == [])
        }
        #expect(calls.all == ["commit"])
        try queue.writeWithoutTransaction { db in
            try db.inSavepoint {
                watch(db)
                return .commit
            }
        }
        #expect(calls.all == ["commit", "commit"])
    }

    @Test("a rollback by SQLite itself counts")
    func implicitRollback() throws {
        try queue.writeWithoutTransaction { db in
            try db.execute(sql: "INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2)")
            watch(db)
            #expect(databaseError { try db.execute(sql: "INSERT OR ROLLBACK INTO t VALUES (1)") } != nil)
            #expect(!db.isInsideTransaction)
            #expect(calls.all == ["rollback"])
        }
    }

    @Test("a commit that fails calls no block; the rollback that follows does")
    func failedCommit() throws {
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql:
                    "CREATE TABLE child (a REFERENCES t(a) DEFERRABLE INITIALLY DEFERRED); BEGIN; INSERT INTO child VALUES (9)"
            )
            watch(db)
            #expect(databaseError { try db.commit() }?.resultCode == .SQLITE_CONSTRAINT)
            #expect(calls.all == [] && db.isInsideTransaction)
            try db.rollback()
            #expect(calls.all == ["rollback"])
        }
    }

    @Test("the function may write, begin transactions, and wait for the next one")
    func nested() throws {
        try queue.write { db in
            db.afterNextTransaction { db in
                #expect(!db.isInsideTransaction)
                watch(db, " later")
                #expect(throws: Never.self) {
                    try db.inTransaction {
                        try db.execute(sql: "INSERT INTO t VALUES (5)")
                        return .commit
                    }
                }
                #expect(calls.all == ["commit later"])
            }
            try db.execute(sql: "INSERT INTO t VALUES (4)")
        }
        #expect(try queue.read { try Int.fetchAll($0, sql: "SELECT a FROM t ORDER BY a") } == [4, 5])
    }

    @Test("a transaction that C code ends counts when the access ends")
    func byC() throws {
        queue.writeWithoutTransaction { db in
            watch(db)
            _ = sqlite3_exec(db.sqliteConnection, "BEGIN; INSERT INTO t VALUES (1); COMMIT", nil, nil, nil)
        }
        #expect(calls.all == ["commit"])
    }

    @Test("a read that ends counts as committed")
    func reads() throws {
        try queue.read { watch($0) }
        #expect(calls.all == ["commit"])
    }

    @Test("closing rolls an open transaction back and says so; who waits for one to begin is forgotten")
    func closing() throws {
        var config = Configuration()
        config.allowsUnsafeTransactions = true
        for closes in [true, false] {
            let (open, idle) = (DatabaseQueue(configuration: config), DatabaseQueue(configuration: config))
            try open.writeWithoutTransaction { db in
                try db.execute(sql: "BEGIN; CREATE TABLE t (a)")
                watch(db, " \(closes)")
            }
            idle.writeWithoutTransaction { watch($0, " never") }
            if closes {
                try open.close()
                try idle.close()
            }
        }
        #expect(calls.all == ["rollback true", "rollback false"])
    }
}
