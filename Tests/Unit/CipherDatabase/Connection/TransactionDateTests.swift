import CipherDatabase
import Foundation
import Synchronization
import TestKit
import Testing

@Suite struct TransactionDateTests {
    /// A clock that counts how often it is asked, and tells that number of seconds.
    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func next() -> Date {
            Date(
                timeIntervalSince1970: Double(
                    count.withLock {
                        $0 += 1; return $0
                    }))
        }
    }

    private let counter = Counter()

    private func queue() -> DatabaseQueue {
        var config = Configuration()
        config.transactionClock = .custom { [counter] _ in counter.next() }
        return DatabaseQueue(configuration: config)
    }

    private func seconds(_ db: Database) throws -> Int { try Int(db.transactionDate.timeIntervalSince1970) }

    @Test("the date stays the same in a transaction, and is another one in the next")
    func sameInTransaction() throws {
        let queue = queue()
        let asked = counter.value
        try queue.write { db throws in
            #expect(counter.value == asked + 1)
            #expect(try seconds(db) == asked + 1)
            try db.inSavepoint { () throws in
                #expect(try seconds(db) == asked + 1)
                return .rollback
            }
            #expect(try seconds(db) == asked + 1)
        }
        try queue.read { db throws in #expect(try seconds(db) == asked + 2) }
    }

    @Test("outside of transactions every question has its own date")
    func outside() throws {
        let queue = queue()
        try queue.writeWithoutTransaction { db throws in
            let first = try seconds(db)
            #expect(try seconds(db) == first + 1)
            try db.execute(sql: "BEGIN")
            let inside = try seconds(db)
            #expect(try seconds(db) == inside)
            try db.execute(sql: "SAVEPOINT s; ROLLBACK TO s; RELEASE s")
            #expect(try seconds(db) == inside)
            try db.execute(sql: "COMMIT; SAVEPOINT t")
            let later = try seconds(db)
            #expect(later > inside)
            #expect(try seconds(db) == later)
            try db.execute(sql: "RELEASE t")
            #expect(try seconds(db) > later)
        }
    }

    @Test("a transaction behind one that SQLite rolled back has its own date")
    func implicitRollback() throws {
        let queue = queue()
        try queue.writeWithoutTransaction { db throws in
            try db.execute(sql: "CREATE TABLE t (a UNIQUE); INSERT INTO t VALUES (1); BEGIN; INSERT INTO t VALUES (2)")
            let first = try seconds(db)
            #expect(databaseError { try db.execute(sql: "INSERT OR ROLLBACK INTO t VALUES (1)") } != nil)
            try db.execute(sql: "SAVEPOINT s")
            #expect(try seconds(db) > first)
            try db.execute(sql: "RELEASE s")
        }
    }

    @Test("an error of the clock surfaces where the date is asked, and nowhere else")
    func failure() throws {
        var config = Configuration()
        config.transactionClock = .custom { _ in throw PlannedFailure() }
        let queue = DatabaseQueue(configuration: config)
        try queue.write { db in
            try db.execute(sql: "CREATE TABLE t (a)")
            #expect(throws: PlannedFailure.self) { try db.transactionDate }
            #expect(throws: PlannedFailure.self) { try db.transactionDate }
        }
        #expect(try queue.read { try $0.tableExists("t") })
    }

    @Test("the default clock is the system's, and a transaction that writes has the date of its beginning")
    func defaultClock() throws {
        let queue = DatabaseQueue()
        let before = Date()
        try queue.write { db throws in
            let begun = Date()
            #expect(waitUntilPast(begun))
            let date = try db.transactionDate
            #expect(date >= before && date <= begun)
        }
        try queue.read { db throws in
            let date = try db.transactionDate
            #expect(waitUntilPast(date))
            #expect(try db.transactionDate == date)
        }
    }

    @Test("a transaction that asked for its date leaves none to the next one, however it ended")
    func noneLeft() throws {
        let queue = DatabaseQueue()
        func date(_ db: Database) throws -> Date {
            let date = try db.transactionDate
            #expect(waitUntilPast(date))
            return date
        }
        let first = try queue.read(date)
        let second = try queue.read(date)
        #expect(second > first)
        try queue.writeWithoutTransaction { db in
            try db.execute(
                sql: """
                    CREATE TABLE t (a UNIQUE); CREATE TABLE child (a REFERENCES t(a) DEFERRABLE INITIALLY DEFERRED);
                    BEGIN; INSERT INTO child VALUES (9)
                    """)
            let third = try date(db)
            #expect(databaseError { try db.commit() } != nil)
            #expect(try db.transactionDate == third)
            try db.rollback()
            try db.beginTransaction(.deferred)
            #expect(try db.transactionDate > third)
            try db.rollback()
        }
    }

    private func waitUntilPast(_ date: Date) -> Bool { waitUntil { Date() > date } }

    @Test("a clock may read the database")
    func reading() throws {
        var config = Configuration()
        config.transactionClock = .custom { db in
            Date(timeIntervalSince1970: try Double.fetchOne(db, sql: "SELECT 12.5") ?? 0)
        }
        let queue = DatabaseQueue(configuration: config)
        #expect(try queue.write { try $0.transactionDate.timeIntervalSince1970 } == 12.5)
        #expect(try queue.read { try $0.transactionDate.timeIntervalSince1970 } == 12.5)
    }
}
