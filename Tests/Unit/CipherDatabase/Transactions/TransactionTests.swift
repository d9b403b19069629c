import CipherDatabase
import Testing

@Suite struct TransactionTests {
    struct Failure: Error {}
    let queue: DatabaseQueue

    init() throws {
        queue = try Databases.queueWithTable()
        try queue.write { db in
            try db.execute(
                sql: """
                    CREATE TABLE parent(id INTEGER PRIMARY KEY);
                    CREATE TABLE child(id REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
                    CREATE TABLE harsh(a UNIQUE ON CONFLICT ROLLBACK);
                    INSERT INTO harsh VALUES (1);
                    """)
        }
    }

    private func rowCount() throws -> Int { try queue.read { try $0.rowCount() } }

    // MARK: Whole transactions

    @Test("write commits, returns the value of its block, and rolls back on an error")
    func write() throws {
        let value = try queue.write { db -> Int in
            #expect(db.isInsideTransaction)
            try db.insert(1)
            return 42
        }
        #expect(value == 42)
        #expect(throws: Failure.self) {
            try queue.write { db in
                try db.insert(2)
                throw Failure()
            }
        }
        #expect(try rowCount() == 1)
        #expect(queue.unsafeRead { !$0.isInsideTransaction })
    }

    @Test("a block chooses between commit and rollback")
    func completion() throws {
        try queue.inTransaction { db in
            try db.insert(1)
            return .rollback
        }
        #expect(try rowCount() == 0)
        try queue.inTransaction { db in
            try db.insert(1)
            return .commit
        }
        #expect(try rowCount() == 1)
    }

    @Test("transactions are begun and ended by hand, and a rollback that SQLite has done already does no harm")
    func byHand() throws {
        try queue.inDatabase { db in
            try db.beginTransaction()
            try db.insert(1)
            try db.commit()
            try db.beginTransaction(.deferred)
            try db.insert(2)
            try db.rollback()
            try db.rollback()
            #expect(databaseError { try db.commit() }?.resultCode == .SQLITE_ERROR)
            #expect(try db.rowCount() == 1)
        }
    }

    @Test("a transaction inside a transaction is an error that leaves the outer one as it is")
    func nestedTransaction() throws {
        try queue.write { db in
            try db.insert(1)
            let error = databaseError { try db.inTransaction { .commit } }
            #expect(error?.resultCode == .SQLITE_ERROR)
            #expect(db.isInsideTransaction)
            try db.insert(2)
        }
        #expect(try rowCount() == 2)
    }

    @Test("writers begin immediate transactions unless the configuration names another kind, readers deferred ones")
    func kinds() throws {
        func begins(_ change: (inout Configuration) -> Void) throws -> [String] {
            var begins: [String] = []
            let queue = try Databases.queueWithTable(change)
            queue.inDatabase { db in
                db.trace { if $0.description.hasPrefix("BEGIN") { begins.append($0.description) } }
            }
            try queue.write { _ in }
            try queue.read { _ in }
            try queue.inTransaction(.exclusive) { _ in .commit }
            try queue.inDatabase { db in
                db.trace()
                try db.inTransaction { .commit }
            }
            return begins.map { String($0.dropFirst(6).prefix { $0 != " " }) }
        }
        #expect(try begins { _ in } == ["IMMEDIATE", "DEFERRED", "EXCLUSIVE"])
        #expect(try begins { $0.defaultTransactionKind = .deferred } == ["DEFERRED", "DEFERRED", "EXCLUSIVE"])
    }

    // MARK: Transactions that SQLite ends

    @Test("after SQLite rolled back in the middle, the rest of the block does not run, even where the error is ignored")
    func rollbackInTheMiddle() throws {
        var later: DatabaseError?
        let error = databaseError {
            try queue.write { db in
                try db.insert(1)
                try? db.execute(sql: "INSERT INTO harsh VALUES (1)")
                #expect(!db.isInsideTransaction)
                later = databaseError { try db.insert(2) }
            }
        }
        #expect(later?.resultCode == .SQLITE_ABORT)
        #expect(later?.message == "Transaction was aborted")
        #expect(error?.message == "Transaction was aborted")
        #expect(try rowCount() == 0)
    }

    @Test("after SQLite rolled back, the block can begin no transaction of its own, nor a savepoint")
    func beginningAfterRollback() throws {
        _ = databaseError {
            try queue.write { db in
                try? db.execute(sql: "INSERT INTO harsh VALUES (1)")
                for kind in [Database.TransactionKind.deferred, .immediate, .exclusive] {
                    #expect(databaseError { try db.beginTransaction(kind) }?.message == "Transaction was aborted")
                }
                #expect(databaseError { try db.inSavepoint { .commit } }?.message == "Transaction was aborted")
                #expect(databaseError { try Row.fetchAll(db, sql: "SELECT 1") }?.message == "Transaction was aborted")
            }
        }
        #expect(try rowCount() == 0)
    }

    @Test("a commit that fails leaves no transaction open, and its changes are gone")
    func failingCommit() throws {
        let error = databaseError {
            try queue.write { db in
                try db.insert(1)
                try db.execute(sql: "INSERT INTO child VALUES (99)")
            }
        }
        #expect(error?.extendedResultCode == .SQLITE_CONSTRAINT_FOREIGNKEY)
        #expect(try rowCount() == 0)
        try queue.write { try $0.insert(2) }
        #expect(try rowCount() == 1)
    }

    @Test("an interruption in the middle rolls back, also while a cursor outside of the block is in its rows")
    func interruption() throws {
        for interruptsReading in [false, true] {
            var escaped: RowCursor?
            let error = databaseError {
                try queue.write { db in
                    try db.insert(1)
                    escaped = try Row.fetchCursor(db, sql: "VALUES (1), (2), (3)")
                    _ = try escaped?.next()
                    queue.interrupt()
                    if interruptsReading { _ = try escaped?.next() } else { try db.insert(2) }
                }
            }
            #expect(error?.resultCode == .SQLITE_INTERRUPT)
            #expect(queue.unsafeRead { !$0.isInsideTransaction })
            escaped = nil
            #expect(try rowCount() == 0)
        }
    }

    @Test("an interruption that nothing noticed does not leave the transaction open")
    func interruptionBehindTheLastStatement() throws {
        var escaped: RowCursor?
        let error = databaseError {
            try queue.write { db in
                try db.insert(1)
                escaped = try Row.fetchCursor(db, sql: "VALUES (1), (2), (3)")
                _ = try escaped?.next()
                queue.interrupt()
            }
        }
        #expect(error?.resultCode == .SQLITE_INTERRUPT)
        let value = try queue.read { db -> Int? in
            escaped = try Row.fetchCursor(db, sql: "VALUES (1), (2), (3)")
            _ = try escaped?.next()
            queue.interrupt()
            return 7
        }
        #expect(value == 7)
        escaped = nil
        #expect(try rowCount() == 0)
    }

    // MARK: Reading

    @Test("reading blocks refuse what writes, and allow it again when they end")
    func readOnlyBlocks() throws {
        let error = databaseError { try queue.read { try $0.insert(1) } }
        #expect(error?.resultCode == .SQLITE_READONLY)
        try queue.write { db in
            let inner = databaseError { try db.readOnly { try db.insert(1) } }
            #expect(inner?.resultCode == .SQLITE_READONLY)
            try db.readOnly { try db.readOnly { _ = try db.rowCount() } }
            try db.insert(2)
        }
        #expect(try rowCount() == 1)
        #expect(try queue.read { try String.fetchOne($0, sql: "PRAGMA main.journal_mode") } == "memory")
        let mode = databaseError { try queue.read { try $0.execute(sql: "PRAGMA journal_mode = OFF") } }
        #expect(mode?.resultCode == .SQLITE_READONLY)
        let schema = databaseError { try queue.read { try $0.execute(sql: "CREATE TEMP TABLE x(a)") } }
        #expect(schema?.resultCode == .SQLITE_READONLY)
    }

    @Test("what ends the transaction of a read ends the read")
    func endOfReadTransaction() throws {
        try queue.read { db in
            try db.execute(sql: "COMMIT")
            #expect(databaseError { try db.rowCount() }?.message == "Transaction was aborted")
        }
    }

    @Test("isolated reads are of one moment inside a transaction and outside of one")
    func isolated() throws {
        try queue.inDatabase { db in
            #expect(try db.isolated { db.isInsideTransaction })
            #expect(!db.isInsideTransaction)
            try db.inTransaction {
                let count = try db.isolated { try db.rowCount() }
                #expect(count == 0)
                #expect(db.isInsideTransaction)
                return .commit
            }
        }
    }

    @Test("changes and row ids are told")
    func changes() throws {
        try queue.write { db in
            let before = db.totalChangesCount
            try db.insert(1)
            try db.insert(2)
            #expect(db.lastInsertedRowID == 2)
            try db.execute(sql: "UPDATE t SET a = 5")
            #expect(db.changesCount == 2)
            #expect(db.totalChangesCount - before == 4)
            #expect(db.lastErrorCode == .SQLITE_OK || db.lastErrorCode == .SQLITE_DONE)
        }
    }
}
